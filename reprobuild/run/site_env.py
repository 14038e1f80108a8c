"""Which variables of this machine a container is given: what the site says of the job, and never over a frozen one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from reprobuild_portable import secrets
from reprobuild_portable.launchers import JOB, LAUNCHERS, NAMESPACE, WORKER_OF_TORCHRUN

# Frozen, and other on every machine by their nature: that they differ is no news.
_OWN = re.compile(
    r"PATH|PYTHONPATH|LD_LIBRARY_PATH|LD_PRELOAD|LANG|LC_.*|TZ|HOME|PWD|USER|HOSTNAME|REPROBUILD_.*"
)
DEVICE = "device"
SUMS = "sums"  # no matter of the site: another order of additions gives other numbers


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the table: patterns of names, what they speak of, and where they are documented."""

    kind: str
    names: tuple[str, ...]
    source: str


class Let(Struct, frozen=True, kw_only=True):
    """What a container is given of the site, and in words what it is not given, or what has two values."""

    values: dict[str, str]
    conflicts: tuple[str, ...]


@cache
def rules() -> tuple[tuple[re.Pattern[str], Rule], ...]:
    """Return the table, each rule with one compiled pattern for its names."""
    raw = files("reprobuild.run").joinpath("site.toml").read_bytes()
    table = msgspec.toml.decode(raw, type=dict[str, tuple[Rule, ...]])["rule"]
    return tuple((re.compile("|".join(f"(?:{name})" for name in rule.names)), rule) for rule in table)


def kind_of(name: str) -> str:
    """Return what a variable speaks of, empty where the table does not know it."""
    return next((rule.kind for pattern, rule in rules() if pattern.fullmatch(name)), "")


def let_in(
    env: Mapping[str, str], frozen: Mapping[str, str], given: Mapping[str, str], *, named_gpus: bool
) -> Let:  # fmt: skip
    """Choose what of this machine's variables a container is given.

    Args:
        env: this machine's.
        frozen: the image's own.
        given: what the user named; it comes before both.
        named_gpus: the user named GPUs, which a container then counts from 0, or none.
    """
    values: dict[str, str] = {}
    said: list[str] = []
    for name in sorted(env.keys() - given.keys()):
        value, kind = env[name], kind_of(name)
        if name in frozen:
            if value != frozen[name] and not _OWN.fullmatch(name):
                both = f"here {shown(name, value)}, in the image {shown(name, frozen[name])}"
                said.append(
                    f"{name}: the frozen value is kept ({both}); --env {shlex.quote(name)} takes this machine's"
                )
        elif not kind:
            continue
        elif secrets.secret_variable(name, value):
            said.append(
                f"{name}: looks like a secret, and stays outside; --secret {shlex.quote(name)} hands it on"
            )
        elif kind == SUMS:
            said.append(
                f"{name}: decides the order of sums, and stays outside; --env {shlex.quote(name)} hands it on"
            )
        elif kind == DEVICE and named_gpus:
            said.append(f"{name}: stays outside; the GPUs are those that --gpu names")
        else:
            values[name] = value
    for name in sorted(given.keys() & frozen.keys()):
        if given[name] != frozen[name]:
            said.append(
                f"{name}: the given value is used, and not the frozen one ({shown(name, frozen[name])})"
            )
    return Let(values=values, conflicts=tuple(said))


def shown(name: str, value: str) -> str:
    """Return a value as it may be printed: in one line, not of a secret."""
    if secrets.secret_variable(name, value):
        return "a secret"
    text = secrets.redact(value).encode("unicode_escape").decode()
    return text if len(text) <= 80 else text[:80] + "..."


def processes(env: Mapping[str, str]) -> int:
    """Return how many processes the job has that this one is of; 1 where nothing says more, 2 for several."""
    told = [number for number in (_told(env.get(size, "")) for _, size in LAUNCHERS) if number]
    if told:
        return told[0] if env.get(WORKER_OF_TORCHRUN) else next((number for number in told if number > 1), 1)
    index = env.get("JOB_COMPLETION_INDEX", "")
    indexed = index.isdigit() and env.get("HOSTNAME", "").endswith(f"-{index}")
    return 2 if indexed or env.get(NAMESPACE) or env.get(JOB) else 1


def is_first(env: Mapping[str, str]) -> bool:
    """Tell whether this is the process of its job that speaks for all; it is where nothing says another rank."""
    ranks = [
        (int(env[rank][:20]), _told(env.get(size, "")) > 1)
        for rank, size in LAUNCHERS
        if _is_number(env.get(rank, ""))
    ]
    if not ranks:
        return True
    if env.get(WORKER_OF_TORCHRUN):
        return ranks[0][0] == 0
    return next((rank for rank, several in ranks if several), ranks[0][0]) == 0


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _told(text: str) -> int:
    """Return the number that a launcher tells of its processes; 0 where it tells none."""
    if _is_number(text):
        return max(1, int(text[:20]))
    return 2 if ":" in text else 0  # torchrun's MIN:MAX


def hidden(values: Mapping[str, str], secret: Collection[str]) -> frozenset[str]:
    """Return the names of variables whose values no command line may show."""
    return frozenset(
        {*secret, *(name for name, value in values.items() if secrets.secret_variable(name, value))}
    )
