"""Hints for command lines that click refuses: the corrected command."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import click

from reprobuild_portable import secrets

_QUOTE = "quote the whole command: "
_FROZEN, _HERE = "frozen", "here"  # the usual output directory; the running environment


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
    correction = find(err, err.ctx, list(arguments[1:])) if find else ""
    return correction or _show_example(err, err.ctx)


def _show_example(err: click.UsageError, ctx: click.Context) -> str:
    """Return the first example of a command's help if an argument or an option is missing."""
    if not isinstance(err, click.MissingParameter):
        return ""
    examples = (ctx.command.help or "").partition("Example:\n")[2].splitlines()
    return f"for example `{examples[0].strip()}`" if examples else ""


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
    """Return the command with the output directory, and `--` before the command to run."""
    if isinstance(err, click.NoSuchOption) and err.option_name in _GPU_FLAGS:
        words.remove(err.option_name)
        return f"`--gpu auto` gives the command all GPUs, and is the default: `{_join('run', *words)}`"
    if type(err) is not click.UsageError:
        return ""
    if "--" in words:
        end = words.index("--")
        options, arguments = words[:end], words[end + 1 :]
        return _with_output(options, arguments) if arguments and not _count_names(ctx, options) else ""
    first = _find_name(ctx, words, 1)
    if first is not None and _is_program(words[first]):
        return _with_output(words[:first], words[first:])
    at = _find_name(ctx, words, 2)
    return "" if at is None else f"`{_join('run', *words[:at], '--', *words[at:])}`"


def _with_output(options: Sequence[str], arguments: Sequence[str]) -> str:
    """Return the hint on a command of `run` that lacks its output directory."""
    out = _FROZEN if Path(_FROZEN).is_dir() else "OUT"
    return f"name the output directory of the image: `{_join('run', *options, out, '--', *arguments)}`"


def _is_program(word: str) -> bool:
    """Return whether a word is a program's name, and no path here."""
    return not os.path.lexists(word) and "/" not in word and shutil.which(word) is not None


def _correct_bisect(err: click.UsageError, ctx: click.Context, words: list[str]) -> str:
    """Return the command with both sides, and `--` before the command to run."""
    if type(err) is not click.UsageError:
        return ""
    end = words.index("--") if "--" in words else len(words)
    # With --since, two empty names stand for the sides.
    since = any(word.partition("=")[0] == "--since" for word in words[:end])
    lead, needed = (["", ""], 0) if since else ([], 2)
    count = _count_names(ctx, [*lead, *words[:end]]) - len(lead)
    if "--" in words:
        return (
            f"name both: `{_join('bisect', *words[:end], 'B', *words[end:])}`" if needed > count == 1 else ""
        )
    at = _find_name(ctx, [*lead, *words], len(lead) + needed + 1)
    if at is not None:
        at -= len(lead)
        return f"`{_join('bisect', *words[:at], '--', *words[at:])}`"
    if count < 0 or (count < needed and not count and any(word.startswith("-") for word in words)):
        return ""  # an option may be unknown
    missing = ("A", "B")[count:needed]
    begin = "name both, and the command: " if missing else ""
    return f"{begin}`{_join('bisect', *words, *missing)} -- COMMAND`"


def _count_names(ctx: click.Context, words: Sequence[str]) -> int:
    """Return the number of arguments that are no options and no values of options; 0 if it is unknown."""
    try:
        values, _, _ = ctx.command.make_parser(ctx).parse_args(list(words))
    except click.UsageError:
        return 0
    names = [param.name for param in ctx.command.params if isinstance(param, click.Argument)]
    return sum(_count_values(values.get(name)) for name in names if name)


def _count_values(value: object) -> int:
    if isinstance(value, tuple):
        return len(value)
    return int(isinstance(value, str))


def _find_name(ctx: click.Context, words: Sequence[str], number: int) -> int | None:
    """Return the place of the argument of this number, from 1, that is no option and no value of one."""
    for end in range(1, len(words) + 1):
        if _count_names(ctx, words[:end]) >= number:
            return end - 1
    return None


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
    if not isinstance(err, click.MissingParameter) or len(words) > 1:
        return ""
    if words in ([], [_HERE]):
        other = next((name for name in (_FROZEN, "snapshot") if Path(name).is_dir()), "SNAPSHOT")
        return f"name what the running environment is compared with: `{_join('compare', other, _HERE)}`"
    return f"to compare it with the running environment: `{_join('compare', *words, _HERE)}`"


def _correct_show(err: click.UsageError, ctx: click.Context, words: list[str]) -> str:
    if not isinstance(err, click.NoSuchOption) or err.option_name != "--verbose":
        return ""
    words.remove("--verbose")
    return f"every line is in the JSON document: `{_join('show', *words, '--json')}`"


def _join(*words: str) -> str:
    return shlex.join(("reprobuild", *words))


_GPU_FLAGS = ("--nv", "--nvccli", "--rocm")  # of Apptainer
_BY_COMMAND = {
    "bisect": _correct_bisect,
    "capture": _correct_capture,
    "run": _correct_run,
    "verify": _correct_verify,
    "compare": _correct_compare,
    "show": _correct_show,
}
