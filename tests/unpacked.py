"""Programs of Debian's packages for a test on a machine that lacks them: unpacked, nothing installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PRIVATE_ENGINE = Path(__file__).parent.parent / "dev" / "private_engine.py"


def unpack_packages(packages: Sequence[str], folder: Path) -> str:
    """Unpack packages into `folder/root`, and return the LD_LIBRARY_PATH of their libraries."""
    argv = [sys.executable, PRIVATE_ENGINE, "unpack", folder / "root", *packages]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ":".join(sorted({str(path.parent) for path in (folder / "root").rglob("lib*.so*")}))
