"""No text of others acts on a terminal or on the server that runs a job of CI."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from reprobuild.cli import progress
from reprobuild.infra.escape import escape_text
from tests.conftest import reprobuild

COMMANDS = [
    "##vso[task.prependpath]/tmp/evil",
    "x ##VSO[task.setvariable variable=A]b",
    "##[error]x",
    "###[group]x",
    "##teamcity[setParameter name='a']",
    "::add-mask::x",
    "  ::error file=a.py,line=1::x",
]
# What a server looks for: the first three anywhere in a line, the last at its start.
ACTIVE = re.compile(r"(?im)##(?:vso|teamcity)?\[|^\s*::[a-z]")


@pytest.mark.parametrize("text", COMMANDS)
def test_no_command_of_a_ci_server_is_printed(text: str) -> None:
    assert ACTIVE.search(text)
    for shown in (escape_text(text), progress.sanitise_text(f"a\n{text}")):
        assert not ACTIVE.search(shown)
        assert shown.replace("\\x23", "#").replace("\\x3a", ":").endswith(text)


@pytest.mark.parametrize("text", ["# [1]", "##", "a::b", "::1", "std::vector", "a ## b", "#!/bin/sh"])
def test_other_text_stays(text: str) -> None:
    assert escape_text(text) == progress.sanitise_text(text) == text


@pytest.mark.parametrize("character", ["\u3164", "\u034f", "\ufe0f", "\u202e", "\x1b", "\x9b"])
def test_a_message_has_no_invisible_character(character: str) -> None:
    assert (
        progress.sanitise_text(f"a{character}b\tc\n")
        == f"a{character.encode('unicode_escape').decode()}b\tc\n"
    )


def test_a_snapshot_prints_no_command(tmp_path: Path) -> None:
    for name in ("requirements.txt", "modules.txt", "apt-packages.txt"):
        (tmp_path / name).write_text("".join(f"{command}\n" for command in COMMANDS))
    (tmp_path / "env.txt").write_text("PATH=/usr/bin\nLD_PRELOAD=/tmp/##vso[task.prependpath]x.so\n")
    for words in ((), ("--json",)):
        done = reprobuild("show", tmp_path, *words)
        assert not ACTIVE.search(done.stdout + done.stderr), done.stdout + done.stderr
    assert "##vso[" in json.dumps(json.loads(done.stdout))


def test_many_empty_lines_take_linear_time() -> None:
    began = time.process_time()
    assert escape_text("\n" * 100_000 + "x::y\n ::error::x", lines=True).endswith("\nx::y\n \\x3a:error::x")
    assert time.process_time() - began < 3
