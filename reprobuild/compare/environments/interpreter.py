"""The interpreter packed in a snapshot, as facts.

`capture --include interpreter` packs it.
"""

from __future__ import annotations

from reprobuild.compare.environments.evidence import archive_evidence
from reprobuild.compare.environments.model import EnvironmentBuilder
from reprobuild.compare.environments.repositories import LEFT_OUT
from reprobuild.snapshot.capture_model import PackedInterpreter
from reprobuild.snapshot.model import Snapshot
from reprobuild_portable import secrets

OTHER_ARCHIVE = "{} has an archive of the interpreter that is not the one of its capture.json"


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
