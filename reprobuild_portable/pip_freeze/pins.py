"""Names and versions of distributions, as pip writes them."""

from __future__ import annotations

import re
from typing import Optional

_VERSION = re.compile(  # https://packaging.python.org/en/latest/specifications/version-specifiers/, appendix
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_n>\d*))?"
    r"(?P<post>-(?P<post_n1>\d+)|[-_.]?(?:post|rev|r)[-_.]?(?P<post_n2>\d*))?"
    r"(?P<dev>[-_.]?dev[-_.]?(?P<dev_n>\d*))?(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?",
    re.ASCII,
)
_PRE = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}


def canonical_name(name: str) -> str:
    """Return the name that all spellings of one distribution share."""
    return re.sub(r"[-_.]+", "-", name).lower()


def normal_version(text: str) -> Optional[str]:
    """Return the version in its normal form, or None.

    It is None if the text is not a version by the specification.
    """
    match = _VERSION.fullmatch(text.strip().lower())
    if match is None:
        return None
    part = match.groupdict()
    out = f"{int(part['epoch'])}!" if part["epoch"] and int(part["epoch"]) else ""
    out += ".".join(str(int(number)) for number in part["release"].split("."))
    if part["pre"]:
        out += _PRE.get(part["pre"], part["pre"]) + str(int(part["pre_n"] or 0))
    if part["post"]:
        out += f".post{int(part['post_n1'] or part['post_n2'] or 0)}"
    if part["dev"]:
        out += f".dev{int(part['dev_n'] or 0)}"
    if part["local"]:
        pieces = re.split(r"[-_.]", part["local"])
        out += "+" + ".".join(str(int(piece)) if piece.isdigit() else piece for piece in pieces)
    return out


def pinned(name: str, version: str) -> str:
    """Return `name==version`.

    It has three equals signs if the version is not one by the specification.
    """
    normal = normal_version(version)
    return f"{name}=={normal}" if normal is not None else f"{name}==={version}"
