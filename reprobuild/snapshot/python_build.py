"""The build of the captured Python.

It distinguishes installations of one version.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.infra.untrusted.regular_files import open_within
from reprobuild.infra.untrusted.strings import Line, QuotedPath
from reprobuild.snapshot.model import MachineReport
from reprobuild.snapshot.parsers.capture_json import FILE

_LARGEST = 64 << 20  # of capture.json, as it is read whole


class StatedBuild(Struct, frozen=True, kw_only=True):
    """The build of Python that a snapshot states.

    `words` are the text of `format_build`, or the first line of `python -VV` without its first word. `platform` is
    that of `sysconfig`, `prefix` the installation directory, if known.
    """

    version: str
    words: str
    platform: str
    prefix: str = ""


class _Python(Struct, frozen=True):
    version: Line
    build: tuple[Line, Line]
    compiler: Line
    platform: Line
    implementation: Line = ""
    base_prefix: QuotedPath = ""


class _Document(Struct, frozen=True):
    python: _Python | None = None


def find_stated_build(folder: Path, reports: Sequence[MachineReport]) -> StatedBuild | None:
    """Return the build stated by capture.json or python.txt, or None.

    It needs version, date and platform.

    Args:
        folder: of the snapshot.
        reports: the reports of the snapshot.
    """
    return _read_captured_build(folder) or next(filter(None, map(_parse_report_build, reports)), None)


def format_build(version: str, build: Sequence[str], compiler: str) -> str:
    """Return a build as text, from the parts of Python's `platform`."""
    return f"{version} ({', '.join(build)}) [{compiler}]"


def _read_captured_build(folder: Path) -> StatedBuild | None:
    try:
        stream, _ = open_within(folder, FILE)
        with stream:
            python = msgspec.json.decode(stream.read(_LARGEST), type=_Document).python
    except (OSError, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if python is None or python.implementation != "CPython" or not all((*python.build, python.platform)):
        return None
    return StatedBuild(
        version=python.version.rstrip("+"), words=format_build(python.version, python.build, python.compiler),
        platform=python.platform, prefix=python.base_prefix,
    )  # fmt: skip


def _parse_report_build(report: MachineReport) -> StatedBuild | None:
    facts = {fact.name: fact.value or "" for fact in report.facts}
    words = facts.get("Python version", "").removeprefix("Python ")
    if report.kind != "python" or not report.python or not re.search(r"\(.+\)", words):
        return None
    platform = facts.get("platform", "")
    return StatedBuild(version=report.python, words=words, platform=platform) if platform else None
