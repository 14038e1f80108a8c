"""Environment variables of a job, without secrets and without names of people and machines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from reprobuild.snapshot.importers.draft import Draft
from reprobuild_portable import secrets

ENVIRONMENT = "env.txt"
_LARGEST = 1 << 17  # bytes of a variable that Linux passes to a process: MAX_ARG_STRLEN, linux/binfmts.h
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_PERSONAL = re.compile(
    r"(?:SUDO_|SLURM_JOB_|PBS_O_)?(?:USER|USERNAME|LOGNAME|HOST|HOSTNAME|MAIL|EMAIL)"
    r"|GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL)|SSH_.*"
    r"|SLURM(?:D_NODENAME|_SUBMIT_HOST|_LAUNCH_NODE_IPADDR|_TOPOLOGY_ADDR|_(?:JOB_|STEP_)?NODELIST)"
)
_EMAIL = re.compile(r"[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}")
_HOME = re.compile(r"(?<![^\s:=,;\"'])/(?P<top>home|Users)/[^/\s:,;\"']+")
# Names that are words of many paths: they say nothing about a person.
_COMMON = {
    "root",
    "user",
    "users",
    "home",
    "local",
    "localhost",
    "lib",
    "bin",
    "usr",
    "opt",
    "data",
    "python",
}


def add_variables(draft: Draft, variables: Mapping[str, Any], field: str) -> None:
    """Add environment variables as lines of `env.txt`.

    Args:
        draft: the snapshot.
        variables: values by name, as the tracker recorded them.
        field: their place in the imported file.
    """
    people = find_people(variables)
    for name, value in variables.items():
        place = f"{field}.{name}"
        if reason := _refusal(name, str(value), people):
            draft.leave(place, reason)
        else:
            neutral = _HOME.sub(r"/\g<top>/user", str(value))
            draft.add_exact(ENVIRONMENT, f"{name}={neutral}", place)


def find_people(variables: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of users and machines that variables state."""
    stated = (str(value) for name, value in variables.items() if _PERSONAL.fullmatch(str(name)))
    words = (value.partition(".")[0] for value in stated if len(value) <= 64)
    return frozenset(word for word in words if len(word) > 2 and word not in _COMMON)


def _refusal(name: str, value: str, people: Iterable[str]) -> str:
    """Return why a variable stays out; empty if it may be imported."""
    if not _NAME.fullmatch(name):
        return "it has no name of a variable"
    if len(value) > _LARGEST:
        return f"it has more than {_LARGEST} characters"
    if secrets.holds_secret(name, value):
        return "a secret"
    if _PERSONAL.fullmatch(name):
        return "it names a person or a machine"
    if not value.isprintable():
        return "its value has line breaks or control characters"
    words = set(re.split(r"[^\w-]+", _HOME.sub("", value)))
    if _EMAIL.search(value) or not words.isdisjoint(people):
        return "its value names a person or a machine"
    return ""
