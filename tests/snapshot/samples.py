"""Made-up secrets, put together here so that no scanner takes this file for a leak; and what a line becomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from reprobuild.errors import SnapshotError
from reprobuild.snapshot import text
from reprobuild.snapshot.model import ParseNote

ALNUM = "a1B2c3D4e5F6g7H8i9J0"
SECRETS = {
    "aws-access-key": "AKIA" + "QWERTYUIOP234567",
    "aws-secret-key": "aws_secret_access_key = " + ALNUM * 2,
    "huggingface": "hf_" + "abcdefGHIJ" * 3 + "klmn",
    "github": "ghp_" + ALNUM * 2,
    "gitlab": "glpat-" + ALNUM,
    "slack": "xoxb-" + "1234567890-abcdef",
    "anthropic": "sk-" + "ant-" + "api03-" + ALNUM * 5,
    "openai": "sk-" + "proj-" + ALNUM,
    "nvidia": "nvapi-" + ALNUM * 3,
    "google": "AIza" + ALNUM + "k1L2m3N4o5P6q7R",
    "index-upload": "pypi-" + ALNUM * 3,
    "docker": "dckr_" + "pat_" + ALNUM,
    "npm": "npm_" + ALNUM + "k1L2m3N4o5P6q7R8",
    "telegram": "123456789:" + "AAE" + ALNUM + "x1y2z3w4v5-_",
    "stripe": "sk_" + "live_" + ALNUM,
    "jwt": "eyJ" + ALNUM + ".eyJ" + ALNUM + "." + ALNUM,
    "private-key": "-----BEGIN RSA " + "PRIVATE KEY-----",
    "azure-key": "AccountKey=" + ALNUM * 2 + "==",
    "wandb": 'wandb.login(key="' + "0123456789abcdef" * 2 + '01234567")',
    "url-token": "https://" + ALNUM + "@example.org/x",
    "url-credential": "https://alice:" + "s3kr1t-pa55@example.org/x",
    "assigned": 'password = "' + ALNUM + '"',
}


def facts(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the values that have a place of their own: a report has one for each fact, a patch for each file."""
    for value in values:
        yield from getattr(value, "facts", None) or getattr(value, "files", None) or (value,)


def covered(values: Iterable[Any], remarks: Iterable[ParseNote]) -> set[int]:
    """Return the numbers of the lines that ended in a value or a remark."""
    lines: set[int] = set()
    for item in (*facts(values), *remarks):
        lines |= set(range(item.place.line, item.place.line + getattr(item, "lines", 1)))
    return lines


def written(data: bytes) -> set[int]:
    """Return the numbers of the lines of a captured file that are not empty."""
    try:
        whole = text.decode(data, "x", nul=True)
    except SnapshotError:  # env.nul may hold what is no text
        whole = data.decode("utf-8", "replace")
    rows = text.split_lines(whole.replace("\0", ""))
    return {number for number, row in enumerate(rows, 1) if row.strip()}
