"""Hints with options, as whole commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from reprobuild.cli.mistakes import is_secret

_TAKING = ("lock", "from-snapshot")  # the commands with the options of overrides
_ACCEPT = "--accept"
_SINGLE = ("--python", "--as-of", "--base")  # options of hints with one value: the last one counts


def write_commands(
    hint: str, options: Iterable[str], arguments: Sequence[str], omitted: Sequence[str] = ()
) -> str:
    """Return a hint with the running command before each text of options that ends a line.

    A command line with a secret is not repeated.

    Args:
        hint: of an error.
        options: texts of the hint, each of quoted options.
        arguments: the command line after the name of the program.
        omitted: words of `--accept` that the command leaves out.
    """
    command = next((word for word in arguments if not word.startswith("-")), "")
    if command not in _TAKING or "--" in arguments or not all(map(_is_repeatable, arguments)):
        return hint
    texts = sorted(options, key=len, reverse=True)  # a text may be the end of another
    if not texts:
        return hint

    def complete(match: re.Match[str]) -> str:
        words = shlex.join(["reprobuild", *_without_values(_without_words(arguments, omitted), match[0])])
        return f"{words} {match[0]}"

    return re.sub(rf"(?m)(?<=[ `])(?:{'|'.join(map(re.escape, texts))})(?=`?$)", complete, hint)


def _is_repeatable(word: str) -> bool:
    return word.isprintable() and not is_secret(word)


def _without_words(arguments: Sequence[str], omitted: Sequence[str]) -> list[str]:
    """Return the command line without `--accept` of some words."""
    words: list[str] = []
    for word in arguments:
        if words[-1:] == [_ACCEPT] and word in omitted:
            words.pop()
        elif word.removeprefix(f"{_ACCEPT}=") not in omitted or not word.startswith(f"{_ACCEPT}="):
            words.append(word)
    return words


def _without_values(arguments: Sequence[str], text: str) -> list[str]:
    """Return the command line without the options whose one value the text replaces."""
    replaced = [name for name in _SINGLE if f"{name} " in text]
    words: list[str] = []
    for number, word in enumerate(arguments):
        is_value = number > 0 and arguments[number - 1] in replaced
        if not (is_value or word in replaced or word.partition("=")[0] in replaced):
            words.append(word)
    return words
