"""Lines without secrets, also without those behind percent-encoding: `%67hp_` is `ghp_`."""

from __future__ import annotations

import re
from urllib.parse import unquote

from reprobuild.infra.display import display_text
from reprobuild.snapshot import text
from reprobuild.snapshot.importers.requirement_rows import LONGEST
from reprobuild_portable import secrets

A_LOGIN = "its address holds a login, in a form that no program reads"
LONGEST_ROW = text.LONGEST_ROW  # characters of a line with its login, and of a text that is searched for one
ROUNDS = 4  # a text without a secret can read otherwise than before, and show the next one


def clean_row(row: str) -> str:
    """Return a row without secrets, in whatever form its address has them: `%67` is `g`."""
    clean = secrets.redact(secrets.without_logins(row))
    plain = clean
    for _ in range(ROUNDS):
        plain, coded = unquote(plain), plain
        if plain == coded:
            return clean
        if secrets.redact(plain) != plain:
            return _shorten(clean)
    return secrets.GONE  # it hides something


def _shorten(row: str) -> str:
    """Return a row with each of its parts cut out that hides a secret; the whole row if no part does alone."""
    parts = re.split(r"([/\s?&#=]+)", row)
    short = "".join(secrets.GONE if hides_secret(part) else part for part in parts)
    return secrets.GONE if hides_secret(short) else short


def hides_secret(value: str) -> bool:
    """Return whether a text shows a secret once it is decoded, or needs more than `ROUNDS` rounds to decode."""
    for _ in range(ROUNDS):
        value = unquote(value)
        if secrets.redact(value) != value and value != secrets.GONE:
            return True
    return unquote(value) != value


def clean_line(line: str) -> tuple[str, str]:
    """Return a line of a list without logins, and the reason why it stays out, which is "" if it does not."""
    stripped = secrets.strip_credentials(line)[0] if len(line) <= LONGEST_ROW else line
    if len(stripped) > LONGEST:
        return "", f"it has more than {LONGEST} characters"
    if secrets.without_logins(stripped) != stripped:
        return "", A_LOGIN
    clean = display_text(stripped)
    is_secret = secrets.secret_value(clean) is not None or hides_secret(clean)
    return clean, "it looks like a secret" if is_secret else ""
