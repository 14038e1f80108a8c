"""Decisions that are stated beside a lock: the lock holds its own, and others would be ignored."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from reprobuild.config.overrides import Decisions
from reprobuild.errors import LockError, UsageError
from reprobuild.infra.display import display_text
from reprobuild.infra.shell_words import quote_path
from reprobuild.lock.model import Lock
from reprobuild.resolve.as_of_moment import parse_moment
from reprobuild.resolve.override_secrets import refuse_secrets
from reprobuild_portable.secrets import redact

_UNORDERED = ("accept", "drop", "packages")  # lists of words: each is compared alone
_BY_PROJECT = ("indexes", "build")  # maps by the name of a project, in any spelling
_UNRECORDED = ("services", "debs")  # addresses and paths of one machine, which a lock leaves out
_SHOWN = 10  # decisions in one error


def refuse_other_decisions(
    lock: Lock, decisions: Decisions, path: Path, captured: Path, say: Callable[[str], None]
) -> None:
    """Refuse decisions that a given lock does not have.

    A lock may have more than those that are stated. Sources are no such decisions: they are places, and the lock has
    the digests. A lock records no services and no `.deb` files, so that they cannot be compared.

    Args:
        lock: the given lock.
        decisions: those of the file and of the options.
        path: of the lock.
        captured: the directory of the snapshot.
        say: logs what is not compared.

    Raises:
        LockError: a decision differs; the message names each.
        UsageError: a decision holds a secret.
    """
    refuse_secrets(decisions)  # before they are printed
    stated, recorded = decisions.lock_document(), lock.decisions.as_dict()
    places, known_places = stated.pop("sources", {}), recorded.pop("sources", {})
    if other := [name for name, place in places.items() if known_places.get(name) != place]:
        say(
            f"lock: sources ({', '.join(map(_show, other))}): these places are only used for sources that the store "
            "lacks, and they must give the bytes of the lock"
        )
    if unrecorded := [name for name in _UNRECORDED if getattr(decisions, name)]:
        say(
            f"lock: {' and '.join(unrecorded)}: a lock does not record them, so they are not compared or used"
        )
    known = {**dict(_flatten(_effects(lock))), **dict(_flatten(recorded))}
    texts = [
        _describe(name, value, known.get(name))
        for name, value in _flatten(stated)
        if (name not in known or known[name] != value) and not _fits_python(name, value, lock)
    ]
    if texts:
        more = [f"and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
        raise LockError(
            f"{path} does not have the decisions that you state:\n"
            + "\n".join(f"  {text}" for text in [*texts[:_SHOWN], *more]),
            hint="leave them out to follow the lock, or make a new lock with them: "
            f"`reprobuild lock {quote_path(captured)} -o {quote_path(path)}` and the same options",
        )


def _effects(lock: Lock) -> dict[str, Any]:
    """Return what a lock has, whether it was decided by the user or by evidence."""
    facts = {"python": lock.interpreter.version, "platform": lock.platform, "profile": lock.profile}
    if lock.base.image is None:
        facts["base"] = f"{lock.base.distribution}/{lock.base.release}"
    return {**facts, **({} if lock.seed is None else {"seed": lock.seed})}


def _flatten(document: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each decision by its name in full; a word of an unordered list is a part of the name."""
    for name, value in document.items():
        name = str(canonicalize_name(name)) if above in _BY_PROJECT else name
        full = f"{above}.{name}" if above else name
        if isinstance(value, dict):
            yield from _flatten(value, full)
        elif full in _UNORDERED:
            yield from ((f"{full}: {word}", True) for word in value)
        else:
            yield full, _moment(value) if full == "as_of" else value


def _moment(text: str) -> str:
    """Return a moment in one spelling."""
    try:
        return parse_moment(text)
    except UsageError:
        return text


def _fits_python(name: str, value: Any, lock: Lock) -> bool:
    """Tell whether `X.Y` is stated and the lock has an `X.Y.Z`."""
    return name == "python" and f"{lock.interpreter.version}.".startswith(f"{value}.")


def _describe(name: str, value: Any, known: Any) -> str:
    if name.startswith("bake."):  # a value may be a secret
        return _show(name)
    if value is True:
        return f"{_show(name)} (not in the lock)"
    return f"{_show(name)} = {_show(value)} (the lock: {'nothing' if known is None else _show(known)})"


def _show(value: Any) -> str:
    text = shlex.join(value) if isinstance(value, list) and all(isinstance(v, str) for v in value) else value
    return display_text(redact(str(text)))
