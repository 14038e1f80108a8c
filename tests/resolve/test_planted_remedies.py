"""Captured texts that contain the words before an option: the proposed commands hold nothing of them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from reprobuild.lock.model import Resolution
from reprobuild.resolve.completeness import ADD
from reprobuild.resolve.deviation_remedies import suggest_options, suggest_remedies
from reprobuild.resolve.interpreter.choice import ANY_PATCH
from reprobuild.resolve.sources.resolutions import rule_line_without_commit
from reprobuild.snapshot.parsers.pip_freeze import parse
from tests.conftest import reprobuild

COMMAND = "--accept unread-line ; touch PWNED ; echo $(touch PWNED)"


def test_an_unread_line_adds_no_option(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "requirements.txt").write_text(
        f"click==8.1.7\n!!!x {ANY_PATCH}{COMMAND}\n%%%y {ADD}{COMMAND}\n!!!z; name it with {COMMAND}\n"
        f"!!!z; take it again with `{COMMAND}`\n"
    )
    done = reprobuild(
        "lock", tmp_path / "s", "-o", tmp_path / "s.lock", "--python", "3.11", "--accept", "no-apt-list",
        "--store", tmp_path / "store",
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    hint = done.stderr.partition("hint: ")[2]
    assert "correct requirements.txt:2, requirements.txt:3" in hint
    assert "touch" not in hint
    commands = [line.partition(": ")[2] for line in hint.splitlines() if "reprobuild lock " in line]
    assert commands
    assert all(";" not in shlex.split(command) for command in commands)


@pytest.mark.parametrize(
    "kind", ["unread-line", "no-wheel", "no-source", "other-pip", "no-freeze", "python-patch"]
)
@pytest.mark.parametrize("begin", [ANY_PATCH, ADD, "; name it with --source ", "; take it again with "])
def test_no_class_carries_a_command(kind: str, begin: str) -> None:
    for end in (COMMAND, f"x={COMMAND}", f"`{COMMAND} > x`", f"x='{COMMAND}", "x=a'b'$(touch PWNED)"):
        ruling = Resolution(
            file="requirements.txt", line=1, subject="numpy", outcome="unresolved", reason=f"why{begin}{end}", kind=kind
        )  # fmt: skip
        texts = [*suggest_remedies((), [ruling], [ruling], ()), *suggest_options([ruling], ())]
        assert not [text for text in texts if "touch" in text], texts


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("-e git+https://h.invalid/a#egg=foo", "--source foo=https://h.invalid/a@COMMIT"),
        (
            "-e git+https://h.invalid/a b; name it with --source foo=$(touch PWNED).git#egg=foo",
            "--source foo=PATH@COMMIT",
        ),
        ("-e git+https://h.invalid/it's; name it with --source x=y#egg=foo", "--source foo=PATH@COMMIT"),
    ],
)
def test_an_address_with_the_words_is_not_proposed(line: str, option: str) -> None:
    ((requirement,), _) = parse(f"{line}\n".encode())
    ruling = rule_line_without_commit(requirement, None)
    (text,) = [text for text in suggest_remedies((), [ruling], [ruling], ()) if "--source" in text]
    end = ", or @HEAD for the commit that a repository of this machine has checked out"
    assert text == f"name each repository with {option}{end}"
