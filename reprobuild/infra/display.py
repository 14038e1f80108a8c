"""Untrusted text made safe for display.

It has no terminal escapes and no secrets, one line, and a bounded length.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from reprobuild.infra.escape import UNSEEN as UNSEEN
from reprobuild.infra.escape import escape_text as escape_text
from reprobuild_portable import secrets

_SHOWN = 1000
_LONGEST = 20_000

_PLACE = re.compile(r" - at `[^`\n]{1,300}`\Z")  # as msgspec names it


def display_text(text: str) -> str:
    """Return `text` safe to print, in one bounded line.

    It has no terminal escapes and no secrets.
    """
    if len(text) > _LONGEST:  # cutting it first could turn a secret into a text that no rule matches
        return f"({len(text)} characters: too long to show)"
    plain = escape_text(secrets.redact(text))
    return plain if len(plain) <= _SHOWN else plain[:_SHOWN] + "…"


def display_message(text: str) -> str:
    """Return a message safe to print, whole but for secrets and logins.

    `display_text` cuts more: it would cut the words after the name of a secret.
    """
    return escape_text(secrets.cut_secrets(text))


def display_document(value: Any, read: Collection[str] = ()) -> Any:
    """Return a JSON document without secrets in its keys and strings.

    Args:
        value: of dicts, lists and plain values.
        read: keys whose values stay, because they were searched before.
    """
    if isinstance(value, str):
        return secrets.cut_secrets(value) if len(value) <= _LONGEST else display_text(value)
    if isinstance(value, dict):
        return {
            display_document(key): inner if key in read else display_document(inner, read)
            for key, inner in value.items()
        }
    return [display_document(inner, read) for inner in value] if isinstance(value, (list, tuple)) else value


def display_path(path: str) -> str:
    """Return a path safe to print, whole unless it holds a secret."""
    shown = secrets.redact(path)
    if secrets.find(shown.encode("utf-8", "surrogateescape"), most=1):
        shown = secrets.GONE
    return escape_text(shown)


def display_error(err: Exception) -> str:
    """Return a decoding error safe to print, in one bounded line that keeps the place it names."""
    text = str(err)
    shown, place = display_text(text), _PLACE.search(text)
    return shown + escape_text(place[0]) if place and place[0] not in shown else shown
