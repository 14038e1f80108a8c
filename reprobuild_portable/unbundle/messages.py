"""Messages about a bundle, for people."""

from __future__ import annotations

import sys
from typing import Callable, Sequence

from reprobuild_portable.unbundle.format import MOST_NAMED
from reprobuild_portable.unbundle.manifest import escape_lines, escape_text


def origin(source: str, signed: bool, signer: str) -> str:
    """Return the message about the origin of a lock.

    It names the signer, as far as known, and the consequence of using the lock.
    """
    whom = (
        "signed by %s" % escape_text(signer)
        if signer
        else "signed, but the signer was not checked"
        if signed
        else "not signed"
    )
    return "the lock is from %s, %s: a build of it, and a run of its image, executes the packages that it names" % (
        escape_text(source), whom,
    )  # fmt: skip


def say_strangers(paths: Sequence[str], say: Callable[[str], None]) -> None:
    """Print the files of a directory from outside the bundle."""
    if paths:
        say(
            "not of the bundle, and were not compared: %s%s; if you did not make them, unpack into a new directory (-o)"
            % (", ".join(escape_text(path) for path in paths), ", ..." if len(paths) == MOST_NAMED else "")
        )


def print_line(text: str) -> None:
    """Print a message; a name in it may hold anything."""
    print(escape_lines(text), file=sys.stderr)
