"""Names of people and machines in what a tracker recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_PERSONAL = re.compile(
    r"(?:SUDO_|SLURM_JOB_|PBS_O_)?(?:USER|USERNAME|LOGNAME|HOST|HOSTNAME|MAIL|EMAIL)"
    r"|GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL)|SSH_.*"
    r"|SLURM(?:D_NODENAME|_SUBMIT_HOST|_LAUNCH_NODE_IPADDR|_TOPOLOGY_ADDR|_(?:JOB_|STEP_)?NODELIST)"
)
_EMAIL = re.compile(r"[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}")
_HOME = re.compile(r"(?<![\w.-])/(?P<top>home|Users)/[^/\s:,;\"'@#]+")
# Names that are words of many paths: they say nothing about a person.
_COMMON = {
    "root", "user", "users", "home", "local", "localhost", "lib", "bin", "usr", "opt", "data", "python",
}  # fmt: skip


def is_personal(name: str) -> bool:
    """Return whether a variable of this name has the name of a person or a machine."""
    return _PERSONAL.fullmatch(name) is not None


def find_people(variables: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of users and machines that variables state."""
    stated = (str(value) for name, value in variables.items() if is_personal(str(name)))
    words = (value.partition(".")[0] for value in stated if len(value) <= 64)
    return frozenset(word for word in words if len(word) > 2 and word not in _COMMON)


def names_people(value: str, people: frozenset[str]) -> bool:
    """Return whether a text has an e-mail address, or one of some names as a word; home directories do not count."""
    words = set(re.split(r"[^\w-]+", _HOME.sub("", value)))
    return _EMAIL.search(value) is not None or not words.isdisjoint(people)


def without_home(text: str) -> str:
    """Return a text with `user` in place of the name in each path of a home directory."""
    return _HOME.sub(r"/\g<top>/user", text)
