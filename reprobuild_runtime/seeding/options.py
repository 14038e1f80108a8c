"""Interpreter options that keep out the seeding hook, or parts of it."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Sequence

_WITH_VALUE = "WXQ"  # options with a following value; -c and -m end the options
_COLLECT = "/reprobuild_runtime/artefacts/collect.py"  # starts a workload, after `--`
# https://docs.python.org/3/using/cmdline.html#miscellaneous-options


def user_command(command: "Sequence[str]") -> "Sequence[str]":
    """Return the command of the user: a check starts it by a program that collects its files."""
    if any(word.endswith(_COLLECT) for word in command[:4]) and "--" in command:
        return command[list(command).index("--") + 1 :]
    return command


def uncovered(command: "Sequence[str]") -> "List[str]":
    """Return the unseeded parts of a command's Python, in words.

    The list is empty for other programs.
    """
    if not command or not _is_python(os.path.basename(command[0])):
        return []
    letters = _option_letters(command[1:])
    if "S" in letters:
        return ["-S keeps the seeding hook out of this interpreter: nothing is seeded in it"]
    if "E" in letters or "I" in letters:
        return ["PYTHONHASHSEED is ignored under -E and -I; hash order is not seeded"]
    return []


def _is_python(name: str) -> bool:
    return name.startswith("python") and not name[len("python") :].strip("0123456789.t")


def _option_letters(arguments: "Sequence[str]") -> str:
    """Return the letters of the options before the program.

    `-BS -W error x.py -I` has B, S and W.
    """
    letters = ""
    rest = iter(arguments)
    for argument in rest:
        if argument.startswith("--") or not argument.startswith("-") or argument == "-":
            return letters
        for place, letter in enumerate(argument[1:], 1):
            if letter in "cm":
                return letters
            letters += letter
            if letter in _WITH_VALUE:
                if place == len(argument) - 1:
                    next(rest, "")
                break
    return letters
