"""The standard streams of the process.

One may be closed, or of an encoding that lacks characters of names.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path


def repair_streams() -> None:
    """Make each standard stream usable.

    The output of a closed stream is dropped. Its number would be that of the next file that is opened, and
    other programs would write into it. Characters that an encoding lacks are escaped, and so are bytes of
    names that are not text.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            _open_null_device(number)
            setattr(sys, name, Path(os.devnull).open("w" if number else "r"))  # noqa: SIM115  # open for as long as the program
        elif number and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _open_null_device(number: int) -> None:
    """Open the null device as a descriptor, unless taken."""
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
