"""Distributions that `pip freeze` leaves out.

They are pip, and before Python 3.12 setuptools and wheel.

`reprobuild capture` writes all distributions into the `distributions` part of `capture.json`, with their directory and
their installer. Jobs import setuptools (`pkg_resources`, `torch.utils.cpp_extension`), so the image needs them.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePosixPath
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from packaging.utils import canonicalize_name

from reprobuild.infra.display import escaped
from reprobuild.infra.untrusted.strings import QuotedPath
from reprobuild.snapshot import text
from reprobuild.snapshot.model import Requirement
from reprobuild.snapshot.parsers import pip_freeze
from reprobuild.snapshot.parsers.capture_json import DAMAGED

# https://pip.pypa.io/en/stable/cli/pip_freeze/#cmdoption-all
NAMES = frozenset({"pip", "setuptools", "wheel"})
# conda has records of its own packages, and Debian's belong to the base.
_OTHERS = frozenset({"", "conda", "debian", "rpm"})

_Field = Annotated[str, Meta(max_length=4096)]


class _Distribution(Struct, frozen=True):
    name: _Field = ""
    version: _Field = ""
    installer: _Field = ""
    location: QuotedPath = ""


class _Distributions(Struct, frozen=True):
    found: Annotated[tuple[_Distribution, ...], Meta(max_length=1_000_000)] = ()


class _Python(Struct, frozen=True):
    prefix: QuotedPath = ""


class _Document(Struct, frozen=True):
    distributions: _Distributions | None = None  # None if that part failed
    python: _Python | None = None


def parse(data: bytes, listed: Collection[str] = (), file: str = "capture.json") -> tuple[Requirement, ...]:
    """Return the lines that `pip freeze --all` adds to `pip freeze`.

    They are in the file's order.

    Args:
        data: the bytes of a `capture.json`.
        listed: names of the freeze.
        file: the name of the document in messages.

    Raises:
        SnapshotError: it is damaged. `captured.parse` checks its version before.
    """
    try:
        document = msgspec.json.decode(data, type=_Document)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as err:  # nested brackets; broken UTF-8
        raise text.broken(file, escaped(str(err)), DAMAGED) from None
    if document.distributions is None or document.python is None:
        return ()
    prefix = PurePosixPath(document.python.prefix)
    known = {canonicalize_name(name) for name in listed}
    found: dict[str, Requirement] = {}
    for one in document.distributions.found:
        name = canonicalize_name(one.name)
        inside = PurePosixPath(one.location).is_relative_to(prefix)
        if name in NAMES - known and inside and one.installer not in _OTHERS:
            lines, _ = pip_freeze.parse(f"{name}=={one.version}\n".encode(), file)
            if len(lines) == 1 and lines[0].kind == "index":  # a version is untrusted input, too
                found[name] = lines[0]
    return tuple(found.values())
