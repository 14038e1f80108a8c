"""A small image whose lock and store the faults work on: `python -m tests.fault_injection.subject FOLDER`."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import msgspec

from reprobuild.lock.file import write_lock
from reprobuild.recipe.payload import pack_runtime
from tests.image.made import Made, file


def make(folder: Path) -> Path:
    """Write `reprobuild.lock` and `store` into an empty directory: six wheels of 3 MiB, a source, a tiny base."""
    made = Made(folder)
    for number in range(6):
        content = random.Random(number).randbytes(3 << 20)
        made.wheel(f"pkg{number}", {f"pkg{number}/data": content, f"pkg{number}/__init__.py": b""})
    made.wheels = [
        msgspec.structs.replace(w, file=msgspec.structs.replace(w.file, url="https://index.invalid/x"))
        for w in made.wheels
    ]
    made.source("proj", [file("proj.py", b"x = 1\n")])
    lock = made.lock()
    realised = msgspec.structs.replace(lock.realised, runtime=pack_runtime(made.store))
    write_lock(msgspec.structs.replace(lock, realised=realised), folder / "reprobuild.lock")
    return folder


if __name__ == "__main__":
    make(Path(sys.argv[1]))
