"""The build of the captured Python.

It distinguishes installations of one version.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from reprobuild.snapshot.capture_document import CaptureDocument, PythonFacts
from reprobuild.snapshot.model import MachineReport


class StatedBuild(Struct, frozen=True, kw_only=True):
    """The build of Python that a snapshot states.

    `words` are the text of `format_build`, or the first line of `python -VV` without its first word. `platform` is
    that of `sysconfig`, `prefix` the installation directory, if known.
    """

    version: str
    words: str
    platform: str
    prefix: str = ""


def find_stated_build(
    document: CaptureDocument | None, reports: Sequence[MachineReport]
) -> StatedBuild | None:
    """Return the build stated by capture.json or python.txt, or None.

    It needs version, date and platform.

    Args:
        document: the capture of the snapshot, if it has one.
        reports: the reports of the snapshot.
    """
    captured = _read_captured_build(document.python) if document and document.python else None
    return captured or next(filter(None, map(_parse_report_build, reports)), None)


def format_build(version: str, build: Sequence[str], compiler: str) -> str:
    """Return a build as text, from the parts of Python's `platform`."""
    return f"{version} ({', '.join(build)}) [{compiler}]"


def _read_captured_build(python: PythonFacts) -> StatedBuild | None:
    if python.implementation != "CPython" or not all((*python.build, python.platform)):
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
