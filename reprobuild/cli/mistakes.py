"""Hints for command lines that click refuses: the corrected command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from reprobuild_portable import secrets

_QUOTE = "quote the whole command: "


def find_correction(err: click.UsageError, arguments: Sequence[str]) -> str:
    """Return a hint with the corrected command, or an empty text.

    A command line with a secret is not repeated.

    Args:
        err: the error of click.
        arguments: the command line after the name of the program.
    """
    if err.ctx is None or any(map(is_secret, arguments)):
        return ""
    find = _BY_COMMAND.get(arguments[0] if arguments else "")
    return find(err, err.ctx, list(arguments[1:])) if find else ""


def is_secret(word: str) -> bool:
    """Return whether a word, or the value in NAME=VALUE, looks like a secret."""
    return secrets.secret_value(word) is not None or secrets.redact(word) != word


def _correct_capture(err: click.UsageError, ctx: click.Context, words: list[str]) -> str:
    """Return the command with the directory as the value of -o."""
    if type(err) is not click.UsageError:
        return ""
    values, extra, _ = ctx.command.make_parser(ctx).parse_args(list(words))
    if len(extra) != 1 or "out" in values:
        return ""
    words.remove(extra[0])
    return f"name the directory with -o: `{_join('capture', *words, '-o', extra[0])}`"


def _correct_run(err: click.UsageError, ctx: click.Context, words: list[str]) -> str:
    """Return the command with `--` before the command to run."""
    if type(err) is not click.UsageError or "--" in words:
        return ""
    for end in range(1, len(words) + 1):
        try:
            values, _, _ = ctx.command.make_parser(ctx).parse_args(words[:end])
        except click.UsageError:  # the value of an option is the next word
            continue
        if isinstance(values.get("arguments"), tuple) and values["arguments"]:
            return f"`{_join('run', *words[: end - 1], '--', *words[end - 1 :])}`"
    return ""


def _correct_verify(err: click.UsageError, ctx: click.Context, words: list[str]) -> str:
    """Return the command of a workload in quotes, if its words stand alone."""
    if "--workload" not in words or isinstance(err, click.MissingParameter):
        return ""
    begin = words.index("--workload") + 1
    known = {
        name for option in ctx.command.get_params(ctx) for name in (*option.opts, *option.secondary_opts)
    }
    end = next((at for at in range(begin + 1, len(words)) if words[at] in known), len(words))
    if end - begin < 2:
        return ""
    return f"{_QUOTE}--workload {shlex.quote(shlex.join(words[begin:end]))}"


def _correct_compare(err: click.UsageError, ctx: click.Context, words: list[str]) -> str:
    """Return the command with the running environment as the second side."""
    if not isinstance(err, click.MissingParameter) or len(words) != 1:
        return ""
    return f"to compare it with the running environment: `{_join('compare', *words, 'here')}`"


def _correct_show(err: click.UsageError, ctx: click.Context, words: list[str]) -> str:
    if not isinstance(err, click.NoSuchOption) or err.option_name != "--verbose":
        return ""
    words.remove("--verbose")
    return f"every line is in the JSON document: `{_join('show', *words, '--json')}`"


def _join(*words: str) -> str:
    return shlex.join(("reprobuild", *words))


_BY_COMMAND = {
    "capture": _correct_capture,
    "run": _correct_run,
    "verify": _correct_verify,
    "compare": _correct_compare,
    "show": _correct_show,
}
