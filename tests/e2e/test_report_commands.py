"""The run box of report.html: its commands, as the page prints them, give the hash that it prints."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.conftest import Built
from tests.report.commands import EXPECTED, read_commands, run_commands


@pytest.mark.parametrize("title", ["reprobuild", "Docker"])
def test_the_commands_give_the_printed_hash(title: str, built_example: Built, tmp_path: Path) -> None:
    out = built_example.copy(tmp_path / "out")
    commands = read_commands((out / "report.html").read_text(), title)
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    (expected,) = EXPECTED.findall(commands)
    assert run_commands(commands, out, env)[-1] == f"{expected}  results/checkpoint.pt"
