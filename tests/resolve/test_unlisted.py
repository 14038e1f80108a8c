"""Lines beside the freeze: one that no index has is left out, and one of the freeze stays unresolved."""

from __future__ import annotations

import msgspec
import pytest

from reprobuild.lock.model import Resolution
from reprobuild.resolve.line_resolutions import exclude_unlisted
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.parsers import capture_json
from reprobuild.snapshot.unlisted import list_unlisted
from tests.snapshot.test_unlisted import document, one


@pytest.mark.parametrize(
    ("file", "outcome"), [("capture.json", "excluded"), ("requirements.txt", "unresolved")]
)
def test_only_lines_beside_the_freeze_are_left_out(file: str, outcome: str) -> None:
    snapshot = Snapshot(
        digest="", unlisted=list_unlisted(capture_json.parse(document(one("setuptools", "59.9.9"))))
    )
    lost = Resolution(
        file=file, line=1, subject="setuptools", outcome="unresolved", reason="no index has it",
        kind="gone", captured="setuptools==59.9.9",
    )  # fmt: skip
    pinned = msgspec.structs.replace(lost, subject="pip", outcome="pinned", kind="")
    first, second = exclude_unlisted((lost, pinned), snapshot)
    assert (first.outcome, first.reason) == (outcome, "no index has it")
    assert second == pinned
