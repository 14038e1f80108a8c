"""The standard streams as they are given: closed, or of an encoding that cannot say every name."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path


def mend() -> None:
    """Make each stream one that can be used; what nobody wants to hear goes nowhere.

    The number of a closed one would be that of the next file that is opened, and other programs would write into it.
    What an encoding cannot say is escaped, and so are bytes of names that are no text.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            _fill(number)
            setattr(sys, name, Path(os.devnull).open("w" if number else "r"))  # noqa: SIM115  # open for as long as the program
        elif number and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fill(number: int) -> None:
    """Open a descriptor for nothing, unless something has taken it."""
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
