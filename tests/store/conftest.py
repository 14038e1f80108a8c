"""A store with made-up packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.image.made import Made


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "made")
