"""The build of an interpreter, and the interpreter packed in a snapshot, as facts.

`capture --include interpreter` packs it.
"""

from __future__ import annotations

from msgspec import UNSET

from reprobuild.compare.environments.evidence import archive_evidence
from reprobuild.compare.environments.model import Aspects, EnvironmentBuilder
from reprobuild.compare.environments.repositories import LEFT_OUT
from reprobuild.snapshot.capture_document import PythonFacts
from reprobuild.snapshot.capture_model import PackedInterpreter
from reprobuild.snapshot.model import MachineReport, Snapshot
from reprobuild.snapshot.python_build import format_build
from reprobuild_portable import secrets

_FREE, _LOCKED = "free-threaded", "with the global lock"
OTHER_ARCHIVE = "{} has an archive of the interpreter that is not the one of its capture.json"


def captured_build(python: PythonFacts) -> Aspects:
    """Return the aspects by which two builds of one version differ, from capture.json."""
    facts: Aspects = {}
    if any(python.build):
        facts["build"] = _normalise_build(format_build(python.version, python.build, python.compiler))
    if python.platform:
        facts["platform"] = secrets.redact(python.platform)
    if python.implementation == "CPython":
        facts["ABI flags"] = python.abiflags or "none"
        facts["threading"] = _FREE if "t" in python.abiflags else _LOCKED
    return facts


def reported_build(report: MachineReport) -> Aspects:
    """Return the same aspects from the output of `python -VV`, or of a report that has the free-threaded build."""
    facts: Aspects = {}
    rows = {fact.name: fact.value or "" for fact in report.facts}
    words = rows.get("Python version", "").removeprefix("Python ")
    if report.kind == "python" and report.python and "(" in words:
        if "[" in words:  # Python 3.9 and older print the compiler on a row of its own
            facts["build"] = _normalise_build(words)
        facts["threading"] = _LOCKED
        if rows.get("platform"):
            facts["platform"] = secrets.redact(rows["platform"])
    if report.free_threaded is not UNSET:
        facts["threading"] = _FREE if report.free_threaded else _LOCKED
    return facts


def _normalise_build(words: str) -> str:
    """Return a build without commas: `python -VV` has one more of them than the parts of `platform`."""
    return secrets.redact(" ".join(words.replace(",", " ").split()))


def add_packed(gathered: EnvironmentBuilder, snapshot: Snapshot, archive: str | None) -> None:
    """Add the packed interpreter of a snapshot, if any.

    Args:
        gathered: takes the facts.
        snapshot: of which only the capture is read.
        archive: the result of `hash_interpreter`.
    """
    packed = snapshot.captured.interpreter if snapshot.captured else None
    if not packed:
        return
    proof = archive_evidence(packed, archive)
    gathered.add(
        "interpreter", "python", {"packed build": _describe_interpreter(packed), "sha256": packed.sha256}
    )
    gathered.evidence["interpreter", "python"] = (proof,)
    if not proof.stated:
        gathered.doubt("interpreter", OTHER_ARCHIVE, packed.file, "hidden")
    for file in packed.left_out:
        gathered.doubt("interpreter", LEFT_OUT, f"python/{file.path}", "hidden")


def _describe_interpreter(packed: PackedInterpreter) -> str:
    """Return build and place of an interpreter, redacted.

    The version is added if the build does not begin with it.
    """
    has_version = packed.build.partition(" ")[0] == packed.version
    build = packed.build if has_version else f"{packed.version}, {packed.build}"
    return secrets.redact(f"{build}, installed in {packed.prefix}")
