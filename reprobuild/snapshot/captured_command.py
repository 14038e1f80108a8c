"""The command of the job, as `capture.json` has it: evidence of the programs that the environment calls."""

from __future__ import annotations

from reprobuild.snapshot.capture_document import CaptureDocument

# Programs in which a person works, above the command: they are no part of the job.
_SHELLS = ("bash", "dash", "fish", "ksh", "sh", "tcsh", "zsh")
_LOGINS = ("login", "ssh", "sshd", "su", "sudo")
_WINDOWS = ("code", "emacs", "nano", "node", "screen", "tmux", "vim")


def list_captured_commands(document: CaptureDocument) -> tuple[str, ...]:
    """Return the command lines of the job and of the processes that started it.

    They may hold secrets, so they are searched and never shown.
    """
    command = document.command
    lines = [command.argv, *(process.arguments for process in command.processes)] if command else []
    return tuple(" ".join(_strip_shell(words)) for words in lines if words)


def _strip_shell(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command line without the shell or terminal that it begins with."""
    first = words[0].lstrip("-").partition(":")[0].rpartition("/")[2]
    return words[1:] if first in (*_SHELLS, *_LOGINS, *_WINDOWS) else words
