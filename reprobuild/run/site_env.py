"""Selection of this machine's variables for a container.

The site's variables of the job are passed, but never override a frozen one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files

from msgspec import Struct

from reprobuild.infra.untrusted.decode import decode_toml
from reprobuild_portable import secrets
from reprobuild_portable.launchers import JOB, LAUNCHERS, NAMESPACE, WORKER_OF_TORCHRUN

# Frozen, and different on every machine by nature: a difference is not reported.
_OWN = re.compile(
    r"PATH|PYTHONPATH|LD_LIBRARY_PATH|LD_PRELOAD|LANG|LC_.*|TZ|HOME|PWD|USER|HOSTNAME|REPROBUILD_.*"
)
DEVICE = "device"
SUMS = "sums"  # not a site setting: another order of additions gives other numbers


class SiteRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the table: patterns of names, their kind, and source."""

    kind: str
    names: tuple[str, ...]
    source: str


class SiteEnv(Struct, frozen=True, kw_only=True):
    """The site variables for a container, and messages.

    The messages are about variables that are left out or have two values.
    """

    values: dict[str, str]
    conflicts: tuple[str, ...]


@cache
def read_rules() -> tuple[tuple[re.Pattern[str], SiteRule], ...]:
    """Return the table, each rule with one compiled pattern."""
    raw = files("reprobuild.run").joinpath("site.toml").read_bytes()
    table = decode_toml(raw, dict[str, tuple[SiteRule, ...]])["rule"]
    return tuple((re.compile("|".join(f"(?:{name})" for name in rule.names)), rule) for rule in table)


def kind_of(name: str) -> str:
    """Return the kind of a variable, empty if unknown."""
    return next((rule.kind for pattern, rule in read_rules() if pattern.fullmatch(name)), "")


def select_site_env(
    env: Mapping[str, str], frozen: Mapping[str, str], user_variables: Mapping[str, str], *, named_gpus: bool
) -> SiteEnv:  # fmt: skip
    """Choose the variables of this machine for a container.

    Args:
        env: this machine's.
        frozen: the image's own.
        user_variables: the user's variables; they override both.
        named_gpus: the user named GPUs, which a container then counts from 0, or chose `none`.
    """
    values: dict[str, str] = {}
    messages: list[str] = []
    for name in sorted(env.keys() - user_variables.keys()):
        value, kind = env[name], kind_of(name)
        if name in frozen:
            if value != frozen[name] and not _OWN.fullmatch(name):
                both = f"here {display_value(name, value)}, in the image {display_value(name, frozen[name])}"
                messages.append(
                    f"{name}: the frozen value is kept ({both}); --env {shlex.quote(name)} takes this machine's"
                )
        elif not kind:
            continue
        elif secrets.secret_variable(name, value):
            messages.append(
                f"{name}: looks like a secret, and stays outside; --secret {shlex.quote(name)} hands it on"
            )
        elif kind == SUMS:
            messages.append(
                f"{name}: decides the order of sums, and stays outside; --env {shlex.quote(name)} hands it on"
            )
        elif kind == DEVICE and named_gpus:
            messages.append(f"{name}: stays outside; the GPUs are those that --gpu names")
        else:
            values[name] = value
    for name in sorted(user_variables.keys() & frozen.keys()):
        if user_variables[name] != frozen[name]:
            messages.append(
                f"{name}: the given value is used, and not the frozen one ({display_value(name, frozen[name])})"
            )
    return SiteEnv(values=values, conflicts=tuple(messages))


def display_value(name: str, value: str) -> str:
    """Return a value for display, in one line and without secrets."""
    if secrets.secret_variable(name, value):
        return "a secret"
    text = secrets.redact(value).encode("unicode_escape").decode()
    return text if len(text) <= 80 else text[:80] + "..."


def count_processes(env: Mapping[str, str]) -> int:
    """Return the number of processes in this process's job.

    It is 1 if no variable states more, and 2 if there are several but the number is unknown.
    """
    counts = [
        number for number in (_parse_process_count(env.get(size, "")) for _, size in LAUNCHERS) if number
    ]
    if counts:
        return (
            counts[0] if env.get(WORKER_OF_TORCHRUN) else next((number for number in counts if number > 1), 1)
        )
    index = env.get("JOB_COMPLETION_INDEX", "")
    indexed = index.isdigit() and env.get("HOSTNAME", "").endswith(f"-{index}")
    return 2 if indexed or env.get(NAMESPACE) or env.get(JOB) else 1


def is_first(env: Mapping[str, str]) -> bool:
    """Return whether this process logs for its whole job.

    It does if no variable states another rank.
    """
    ranks = [
        (int(env[rank][:20]), _parse_process_count(env.get(size, "")) > 1)
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


def _parse_process_count(text: str) -> int:
    """Return a launcher's number of processes, or 0 if not given."""
    if _is_number(text):
        return max(1, int(text[:20]))
    return 2 if ":" in text else 0  # torchrun's MIN:MAX


def find_hidden_variables(values: Mapping[str, str], secret: Collection[str]) -> frozenset[str]:
    """Return the variables whose values a command line must not show."""
    return frozenset(
        {*secret, *(name for name, value in values.items() if secrets.secret_variable(name, value))}
    )
