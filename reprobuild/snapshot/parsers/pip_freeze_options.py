"""Options among the lines of a freeze.

Most say where pip looked. Those that name another list add lines to this one, and that list is not in the snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from reprobuild_portable import secrets

OPTION = "an option: where pip looked"
OTHER_LIST = (
    "it names another list, whose lines are not read: write them here, or import this list where the other one is, "
    "with `reprobuild import FILE -o DIR`"
)
CONSTRAINTS = (
    "it names constraints, which are not read: write each that counts as a requirement here, as in NAME<2"
)
_OPTION = re.compile(r"--?[a-z][a-z-]*(\s.*|=.*)?")
# pip takes `-rbase.txt`, and a long option that is cut where no other one begins so.
_OTHER_LIST = re.compile(r"(?:-r|--requirem[a-z]*(?=[\s=]|$)).*")
_CONSTRAINTS = re.compile(r"(?:-c|--cons[a-z]*(?=[\s=]|$)).*")
# `pip freeze -r` repeats the options of the list, and adds all that the list lacks below this line.
_DIVIDER = "## The following requirements were added by pip freeze:"


def adds_all(rows: Iterable[str]) -> bool:
    """Return whether the rows are of `pip freeze -r`, so that no list that they name adds a line."""
    return any(row.strip() == _DIVIDER for row in rows)


def describe_option(line: str, *, whole: bool) -> tuple[str, bool] | None:
    """Return what an option means and whether it is understood; None for another line.

    Args:
        line: without a comment.
        whole: whether the list has all lines of those that it names.
    """
    of_list = _OTHER_LIST.fullmatch(line)
    if not whole and (of_list or _CONSTRAINTS.fullmatch(line)):
        return (OTHER_LIST if of_list else CONSTRAINTS), False
    if not _OPTION.fullmatch(line):
        return None
    _, credential = secrets.strip_credentials(line)
    return OPTION + "; its address held a credential, removed" * credential, True
