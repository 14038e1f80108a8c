"""Overrides as text for people, and those that a file beside a snapshot must not decide."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.config.overrides import Decisions
from reprobuild.infra.git.addresses import read_origin, without_login
from reprobuild_portable.secrets import redact
from reprobuild_portable.secrets.redact import strip_credentials

_LONGEST_SHOWN = 2000  # characters of an override that a person reads
# Fields that only the user may set, whatever the value.
_CONFIRMED = frozenset({"services", "archives", "debs", "indexes", "channels", "accept"})


def list_unconfirmed(decisions: Decisions) -> tuple[str, ...]:
    """Return the overrides that need the user's confirmation, as text.

    A file beside a snapshot may be untrusted. It must not make the program read files of the user, trust keys
    and servers, or accept a deviation: each source must be an address of a server, and not a path. Nobody reads a
    long list, which could hide a name.

    Args:
        decisions: those of one file.
    """
    described = describe_decisions(decisions)
    texts = [text for text in described if re.split(r"[. ]", text)[0] in _CONFIRMED]
    texts += [
        shorten_decision(text) for text in described if len(text) > _LONGEST_SHOWN and text not in texts
    ]
    texts += [
        f"sources.{name} = {without_login(place)}"
        for name, place in decisions.sources.items()
        if not read_origin(place, Path()).is_remote
    ]
    return tuple(texts)


def describe_decisions(decisions: Decisions) -> tuple[str, ...]:
    """Return each override as one line of text, without credentials.

    For example `sources.mylib = mylib.bundle`.
    """
    defaults = Decisions()
    return tuple(
        redact(text)
        for name in Decisions.__struct_fields__
        if getattr(decisions, name) != getattr(defaults, name)
        for text in _describe_decision(name, msgspec.to_builtins(getattr(decisions, name)))
    )


def shorten_decision(text: str) -> str:
    """Return the begin of a long override for a message, and its length."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:200]}... ({len(text)} characters)"


def _describe_decision(name: str, value: Any) -> Iterator[str]:
    if name == "bake":  # a value may be a secret
        yield f"bake = {', '.join(value)}"
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _describe_decision(f"{name}.{key}", item)
    elif isinstance(value, (list, tuple)) and any(isinstance(item, dict) for item in value):
        for item in value:
            yield f"{name} = {' '.join(_format_value(part) for part in item.values())}"
    else:
        yield f"{name} = {without_login(value) if name.startswith('sources.') else _format_value(value)}"


def _format_value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_format_value, value))
    return strip_credentials(str(value))[0]
