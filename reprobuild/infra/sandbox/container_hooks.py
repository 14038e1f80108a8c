"""Hooks of a container's devices: programs of this machine that finish its root.

A description of a GPU (CDI) names them, for example to make links or the cache of the dynamic linker.
https://github.com/opencontainers/runtime-spec/blob/main/config.md#createcontainer-hooks
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import time
from typing import Any

LAST_ERROR = 4096  # bytes of a hook's standard error


def run_hook(hook: dict[str, Any], bundle: str) -> None:
    """Run a hook; its standard input has the state of the container.

    It runs in the namespaces of the container, before the root is entered: its path is one of the machine.

    Args:
        hook: `path`, `args` with the name first, `env` and `timeout` in seconds.
        bundle: a directory of the machine whose `config.json` names the root.

    Raises:
        OSError: it is absent, fails, or does not end in time.
    """
    state = {
        "ociVersion": "1.0.2", "id": "reprobuild", "status": "creating", "pid": os.getpid(), "bundle": bundle,
    }  # fmt: skip
    stdin, stderr = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        _become_hook(hook, stdin[0], stderr[1])
    os.close(stdin[0])
    os.close(stderr[1])
    with contextlib.suppress(BrokenPipeError):
        os.write(stdin[1], json.dumps(state).encode())  # far below the size of a pipe
    os.close(stdin[1])
    try:
        complaint = _read_until_end(stderr[0], hook["timeout"])
    except TimeoutError:
        os.kill(child, signal.SIGKILL)
        complaint = f"it did not end within {hook['timeout']} s"
    finally:
        os.close(stderr[0])
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(errno.EIO, complaint or f"exit code {code}", f"run the hook {hook['path']}")


def _become_hook(hook: dict[str, Any], stdin: int, stderr: int) -> None:
    try:
        null = os.open("/dev/null", os.O_WRONLY)
        for source, target in ((stdin, 0), (null, 1), (stderr, 2)):
            os.dup2(source, target)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.execve(hook["path"], hook["args"] or [hook["path"]], hook["env"])
    except OSError as err:
        os.write(stderr, str(err.strerror).encode())
    finally:
        os._exit(127)


def _read_until_end(descriptor: int, seconds: float) -> str:
    """Return the last line that a hook writes until it closes the descriptor."""
    content, deadline = b"", time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        piece = os.read(descriptor, LAST_ERROR)
        if not piece:
            lines = content.decode(errors="replace").strip().splitlines()
            return lines[-1] if lines else ""
        content = (content + piece)[-LAST_ERROR:]
