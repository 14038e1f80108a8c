"""The command of the job, as `capture.json` has it: evidence of the programs that the environment calls."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from reprobuild.infra.untrusted.regular_files import open_within
from reprobuild.infra.untrusted.strings import Value
from reprobuild.snapshot.parsers.capture_json import FILE

_LARGEST = 64 << 20  # bytes of capture.json, as it is read whole
# Programs in which a person works, above the command: they are no part of the job.
_SHELLS = ("bash", "dash", "fish", "ksh", "sh", "tcsh", "zsh")
_LOGINS = ("login", "ssh", "sshd", "su", "sudo")
_WINDOWS = ("code", "emacs", "nano", "node", "screen", "tmux", "vim")

_Words = Annotated[tuple[Value, ...], Meta(max_length=100_000)]


class _Process(Struct, frozen=True):
    arguments: _Words = ()


class _Command(Struct, frozen=True):
    argv: _Words = ()
    processes: Annotated[tuple[_Process, ...], Meta(max_length=1000)] = ()


class _Document(Struct, frozen=True):
    command: _Command | None = None


def read_captured_commands(folder: Path) -> tuple[str, ...]:
    """Return the command lines of the job and of the processes that started it; none where the snapshot has none.

    They may hold secrets, so they are searched and never shown.

    Args:
        folder: of the snapshot.
    """
    try:
        stream, _ = open_within(folder, FILE)
        with stream:
            command = msgspec.json.decode(stream.read(_LARGEST), type=_Document).command
    except (OSError, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ()
    lines = [command.argv, *(process.arguments for process in command.processes)] if command else []
    return tuple(" ".join(_strip_shell(words)) for words in lines if words)


def _strip_shell(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command line without the shell or terminal that it begins with."""
    first = words[0].lstrip("-").partition(":")[0].rpartition("/")[2]
    return words[1:] if first in (*_SHELLS, *_LOGINS, *_WINDOWS) else words
