"""Forecasts for the inputs of a lock.

They state how long the inputs can be expected to stay fetchable, and how many the store already has.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Literal

import msgspec
from msgspec import Struct

from reprobuild.lock.lock import Artefact, Lock
from reprobuild.store.store import Store

Of = Literal["deb", "wheel", "source", "image"]
_HERE = "made from a captured repository, so that it stands at no address"
_YANKED = "withdrawn by its publisher; indexes still serve it to those who name the version"


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule of `halflife.toml`, which documents the fields."""

    of: Of
    name: str
    why: str
    source: str
    pattern: str = ""
    days: int | None = None
    kept: bool = False


class Forecast(Struct, frozen=True, kw_only=True):
    """The inputs of one class: number, size, and missing files.

    `lost` is the earliest expected loss: a date, "any day", "no promise", "" for inputs that are kept, or "not there"
    for inputs without an address. `at_risk` covers all but those that are kept.
    """

    name: str
    files: int
    bytes: int
    missing: int
    lost: str
    why: str
    source: str

    @property
    def at_risk(self) -> bool:
        """Whether the inputs may become unavailable."""
        return bool(self.lost)


class _Rules(Struct, frozen=True):
    rule: tuple[Rule, ...]


def read_rules() -> tuple[Rule, ...]:
    """Return the shipped rules."""
    content = files("reprobuild.store").joinpath("availability.toml").read_bytes()
    return msgspec.toml.decode(content, type=_Rules).rule


def forecast(lock: Lock, store: Store, today: datetime.date) -> tuple[Forecast, ...]:
    """Return a forecast for each class of inputs.

    The first expected loss comes first.
    """
    rules = read_rules()
    classes: dict[str, list[tuple[Artefact, Forecast]]] = {}
    for artefact, one in _each(lock, rules, today):
        classes.setdefault(one.name, []).append((artefact, one))
    found = []
    for pairs in classes.values():
        artefacts = {artefact.sha256: artefact for artefact, _ in pairs}.values()
        found.append(
            msgspec.structs.replace(
                min((one for _, one in pairs), key=_order),
                files=len(artefacts),
                bytes=sum(artefact.size for artefact in artefacts),
                missing=sum(not store.has(artefact.sha256) for artefact in artefacts),
            )
        )
    return tuple(sorted(found, key=_order))


def _each(lock: Lock, rules: tuple[Rule, ...], today: datetime.date) -> Iterator[tuple[Artefact, Forecast]]:
    for base in (lock.base, *([lock.devel] if lock.devel else [])):
        for deb in (*base.packages, *base.tools):
            yield deb.file, _judge(rules, "deb", deb.file.url, deb.file.url, today)
        if base.image:
            reference = base.image.reference
            for file in (base.image.config, *(layer.file for layer in base.image.layers)):
                yield file, _judge(rules, "image", reference, reference, today)
    for wheel in lock.wheels:
        one = _judge(rules, "wheel", f"{wheel.version} {wheel.file.url}", wheel.file.url, today)
        if wheel.yanked and not one.at_risk:
            one = _one("withdrawn wheel", "no promise", _YANKED, "PEP 592")
        yield wheel.file, one
    for sdist in lock.sdists:
        yield sdist.file, _judge(rules, "wheel", f"{sdist.version} {sdist.file.url}", sdist.file.url, today)
    for source in lock.sources:
        if source.patch is None and source.url:
            yield source.file, _judge(rules, "source", source.url, source.url, today)
        else:
            yield source.file, _one("captured source", "not there", _HERE, "")


def _judge(rules: tuple[Rule, ...], of: Of, text: str, url: str, today: datetime.date) -> Forecast:
    if not url:
        return _one(f"{of} made here", "not there", _HERE, "")
    for rule in rules:
        found = re.search(rule.pattern, text) if rule.of == of else None
        if found is not None:
            return _one(rule.name, _lost(rule, found, today), rule.why, rule.source)
    raise AssertionError(f"there is no last rule for {of}")


def _lost(rule: Rule, found: re.Match[str], today: datetime.date) -> str:
    if rule.kept:
        return ""
    if rule.days is None:
        return "no promise"
    begun = today
    if found.re.groups and found[1]:
        try:
            begun = (
                datetime.datetime.strptime(found[1], "%Y%m%d").replace(tzinfo=datetime.timezone.utc).date()
            )
        except ValueError:  # digits that are not a date
            return "any day"
    last = begun + datetime.timedelta(days=rule.days)
    return last.isoformat() if last > today else "any day"


def _one(name: str, lost: str, why: str, source: str) -> Forecast:
    return Forecast(name=name, files=1, bytes=0, missing=0, lost=lost, why=why, source=source)


def _order(one: Forecast) -> tuple[int, str, str]:
    """Return a key that sorts the first loss first."""
    ranks = {"not there": 0, "any day": 1, "no promise": 3, "": 4}
    return ranks.get(one.lost, 2), one.lost, one.name
