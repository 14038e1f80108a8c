from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.image.made import Made


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


@pytest.fixture(scope="session")
def real_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel from the index that this machine's pip is set to."""
    folder = tmp_path_factory.mktemp("wheels")
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*argv, "--dest", str(folder), "pytest"], check=True)
    return next(folder.glob("*.whl"))
