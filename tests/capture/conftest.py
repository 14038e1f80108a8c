"""Real artefacts are read where somebody has them: the directory that REPROBUILD_CORPUS names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.capture.repositories import new_origin, take, write

collect_ignore = [] if os.environ.get("REPROBUILD_CORPUS") else ["test_corpus.py"]


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A good snapshot of a repository called `clone`, with a bundle."""
    top = new_origin(tmp_path)
    write(top, "kept.py", b"changed\n")
    write(top, "new", b"new\n")
    take(top, tmp_path / "snapshot")
    return tmp_path / "snapshot"
