"""Another time of day for reprobuild and its sandbox.

It comes from libfaketime, of Debian's package.

It replaces `clock_gettime(2)` and its like in every program that the dynamic linker starts. The file system's own time
stamps stay those of the machine, so a mistake that shows in them needs another machine's clock.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reprobuild.infra.sandbox.command import run_in_root
from reprobuild.infra.sandbox.model import Bind, Root
from reprobuild.realise import base, bytecode, wheels

ROOT = Path(__file__).parent.parent
DAYS, LIBRARY = "PROOF_CLOCK_DAYS", "PROOF_CLOCK_LIBRARY"
_INSIDE = "/run/clock.so"


def find_library(folder: Path) -> Path:
    """Return libfaketime, unpacked below a directory the first time.

    Raises:
        RuntimeError: the package cannot be had; the text gives the reason.
    """
    if not (found := sorted(folder.rglob("libfaketime.so.1"))):
        argv = [
            sys.executable,
            str(ROOT / "dev" / "private_engine.py"),
            "unpack",
            str(folder),
            "libfaketime",
        ]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        found = sorted(folder.rglob("libfaketime.so.1"))
    return found[0]


def variables(library: Path, days: int) -> dict[str, str]:
    """Return the variables for a process some days later.

    They hold for the sandboxes of `live_later` in it, too.
    """
    return {
        "LD_PRELOAD": str(library), **_settings(days),
        LIBRARY: str(library), DAYS: str(days),
    }  # fmt: skip


def _settings(days: int) -> dict[str, str]:
    # Times of files are the file system's, or each would seem to have been changed days later, too.
    return {"FAKETIME": f"+{days}d", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}


def live_later() -> None:
    """Give every sandbox of this process another clock.

    The process's own variables set the clock.
    """
    vars(time)["sleep"] = _sleep
    library, days = Path(os.environ[LIBRARY]), int(os.environ[DAYS])
    inside = {**_settings(days), "LD_PRELOAD": _INSIDE}

    def shifted(
        root: Root,
        argv: Sequence[str],
        *,
        binds: Sequence[Bind] = (),
        env: Mapping[str, str] | None = None,
        **more: Any,
    ) -> bytes:
        clock = Bind(source=library, target=_INSIDE)
        return run_in_root(root, argv, binds=[*binds, clock], env={**(env or {}), **inside}, **more)

    for module in (base, bytecode, wheels):
        vars(module)["run_in_root"] = shifted
    started = base._START.replace('LD_PRELOAD="$library"', f'LD_PRELOAD="$library:{_INSIDE}"')
    if started == base._START:
        raise RuntimeError("the sandbox of the base sets no LD_PRELOAD any more: mend proof/clock.py")
    vars(base)["_START"] = started


def _sleep(seconds: float) -> None:
    """Wait for some seconds.

    Below libfaketime 0.9.10, `clock_nanosleep` until a moment fails now and then with EINVAL.
    """
    select.select([], [], [], seconds)
