"""A registry on loopback for tests on Debian.

It is Debian's own, and nothing is installed.

    python dev/private_registry.py prepare --folder DIR

`prepare` downloads the package `docker-registry` from the Debian mirror that the machine's own apt sources name, and
unpacks it into the directory. `Registry` of this module starts the program with storage of its own and a login.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from private_apt import EngineError, say, unpack_packages

PACKAGE = "docker-registry"
PROGRAM = "usr/bin/docker-registry"
SECONDS = 30


def prepare(folder: Path) -> Path:
    """Return the program, unpacked once.

    Processes wait for each other.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "root" / PROGRAM
    with (folder / "private-registry.lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        if not program.is_file():
            say(f"fetching {PACKAGE} from the machine's own apt sources")
            partial = folder / "root.partial"
            shutil.rmtree(partial, ignore_errors=True)
            unpack_packages(partial, [PACKAGE])
            partial.rename(folder / "root")
    return program


class Registry:
    """A running registry: its address `host` and its directory `storage`.

    Args:
        program: the path that `prepare` returned.
        folder: for its configuration and storage.
        login: a line of an htpasswd file (bcrypt), or an empty one for a registry without a login.
    """

    def __init__(self, program: Path, folder: Path, login: str = "") -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.host = f"127.0.0.1:{free.getsockname()[1]}"
        self.storage = folder / "storage"
        self.storage.mkdir(parents=True)
        (folder / "htpasswd").write_text(login + "\n")
        auth = f"auth: {{htpasswd: {{realm: tests, path: {folder}/htpasswd}}}}\n" if login else ""
        (folder / "config.yml").write_text(
            "version: 0.1\nlog: {level: warn}\n"
            f"storage: {{filesystem: {{rootdirectory: {self.storage}}}, delete: {{enabled: true}}}}\n"
            f"http: {{addr: '{self.host}', secret: tests}}\n{auth}"
        )
        self._log = folder / "registry.log"
        self._argv = [str(program), "serve", str(folder / "config.yml")]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Registry:
        # Its traces would go to a collector on this machine.
        env = {**os.environ, "OTEL_TRACES_EXPORTER": "none"}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            with contextlib.suppress(OSError):
                try:
                    urllib.request.urlopen(f"http://{self.host}/v2/", timeout=5).close()
                except urllib.error.HTTPError as err:
                    err.close()
                return self
            time.sleep(0.1)
        self.stop()
        raise EngineError(f"the registry did not start: {self._log.read_text()[-500:]}", "look at its log")

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the registry.

        Its content stays in its directory.
        """
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["prepare"])
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args(arguments)
    print(prepare(options.folder))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except EngineError as error:
        sys.exit(str(error))
