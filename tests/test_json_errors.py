"""`--json` of a command line that fails: one document, with the error in it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

from reprobuild.cli import main as cli
from reprobuild.errors import UsageError
from tests.command_lines import find_command, parse_command
from tests.conftest import PROGRAM
from tests.test_cli import Said as Said
from tests.test_cli import said as said

# Of each command, arguments with which it fails; `{}` is a directory that is not there.
FAILING = {
    "bundle": ["{}", "-o", "{}.tar"],
    "bisect": ["{}", "{}"],
    "build": ["{}"],
    "cluster gather": ["{}", "{}"],
    "cluster gather-traces": ["{}"],
    "cluster trace": ["{}"],
    "cluster trace-worker": ["{}", "--output", "{}"],
    "cluster gather-pods": ["{}", "{}", "--nodes", "2"],
    "cluster job": ["{}", "--nodes", "2", "--repository", "registry.invalid/name"],
    "cluster run": ["{}"],
    "cluster worker": ["{}", "--output", "{}"],
    "compare": ["{}", "{}"],
    "completion": ["tcsh"],
    "diff": ["{}", "{}"],
    "doctor": ["{}"],
    "fetch": ["{}"],
    "from-snapshot": ["{}"],
    "import": ["{}"],
    "lock": ["{}"],
    "pull": ["no-reference"],
    "push": ["{}", "registry.invalid/name:tag"],
    "rebuild": ["{}"],
    "render": ["{}"],
    "restore": ["{}", "name", "-o", "{}/out"],
    "show": ["{}"],
    "store check": ["--store", "{}"],
    "store join": ["{}"],
    "store gc": ["--store", "{}"],
    "store share": ["--store", "{}", "--group", "no-such-group"],
    "trace": ["{}"],
    "unbundle": ["{}"],
    "verify": ["{}"],
}


def commands() -> list[str]:
    """Return every command but `run`, those of a group with its name before theirs."""
    found = []
    for verb in sorted(set(cli.COMMANDS) - {"run"}):
        command: click.Command = import_module(f"reprobuild.cli.{cli.module_name(verb)}").command
        parts = command.commands if isinstance(command, click.Group) else {"": command}
        found += [f"{verb} {part}".strip() for part in parts]
    return found


NEEDY = [name for name in commands() if any(param.required for param in find_command(name).params)]


def failed(said: Said, *arguments: object) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the error of the only document."""
    code = said(*arguments, "--json")
    version, name = found = json.loads(said.out)
    assert (version, name, found["version"]) == ("version", "error", 1)
    return code, found["error"]


@pytest.mark.parametrize("command", sorted(set(commands()) - {"capture"}))
def test_each_command_that_fails_prints_one_document(command: str, said: Said, tmp_path: Path) -> None:
    words = [word.replace("{}", str(tmp_path / "absent")) for word in FAILING[command]]
    code, error = failed(said, *command.split(), *words)
    assert code == error["code"] > 0
    told = said.err[said.err.index("error: ") :]
    assert told == f"error: {error['message']}\n\nhint: {error['hint']}\n"


def test_a_capture_that_fails_says_so_in_its_own_document(said: Said) -> None:
    assert said("capture", "-o", "/dev/null/snapshot", "--json") != 0
    assert json.loads(said.out)["captured"] is False


@pytest.mark.parametrize("command", commands())
def test_an_option_that_is_not_known_prints_one_document(command: str, said: Said) -> None:
    code, error = failed(said, *command.split(), "--no-such-option")
    assert (code, error["code"]) == (2, 2)
    assert error["hint"] == f"see `reprobuild {command} --help`"


def test_without_json_nothing_is_on_standard_output(said: Said) -> None:
    assert said("show", "absent") == 3
    assert said.out == ""


def test_json_after_the_dashes_is_of_the_command_that_runs(said: Said) -> None:
    assert said("run", "absent", "--", "true", "--json") == 125
    assert said.out == ""
    assert said("run", "--json", "absent", "--", "true") == 125
    assert said.out == ""


def test_a_bug_prints_one_document(said: Said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: object) -> None:
        raise ValueError(value)

    value = "hunter2"

    monkeypatch.setattr("reprobuild.cli.show.read_snapshot", broken)
    code, error = failed(said, "show", tmp_path)
    assert code == error["code"] == 70
    assert error["message"] == "this is a bug in reprobuild"
    assert value not in said.out + said.err


def test_an_error_after_the_answer_adds_no_second_document(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(stream: int, data: bytes) -> None:
        raise UsageError("standard error is gone", hint="give one")

    from reprobuild.cli import documents, show

    def answer(*_: object) -> None:
        documents.print_json({"answer": 1})
        late(2, b"")

    monkeypatch.setattr(show, "read_snapshot", answer)
    assert said("show", "any", "--json") == 2
    assert json.loads(said.out) == {"version": 1, "answer": 1}
    assert "standard error is gone" in said.err


def test_an_interrupted_command_prints_one_document(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("reprobuild.cli.show.read_snapshot", interrupted)
    code, error = failed(said, "show", "any")
    assert code == error["code"] == cli.INTERRUPTED
    assert error["message"] == "interrupted"


def test_a_full_standard_output_keeps_the_first_error(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        words = [*PROGRAM, "show", str(tmp_path / "absent"), "--json"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr.startswith("error: there is no directory")


def test_refused_lines_are_in_the_document_one_by_one(said: Said, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("numpy\nscipy\n")
    code, error = failed(
        said, "lock", tmp_path, "-o", tmp_path / "x.lock", "--python", "3.11", "--accept", "no-apt-list"
    )
    assert code == 4
    assert [(line["file"], line["line"], line["subject"], line["class"]) for line in error["refused"]] == [
        ("requirements.txt", 1, "numpy", "index-line"), ("requirements.txt", 2, "scipy", "index-line"),
    ]  # fmt: skip
    assert {line["outcome"] for line in error["refused"]} == {"unresolved"}


@pytest.mark.parametrize(
    "command", sorted(set(NEEDY) - {"bisect", "compare", "trace", "cluster trace", "cluster trace-worker"})
)
def test_a_missing_argument_leads_to_a_whole_example(command: str, said: Said) -> None:
    code, error = failed(said, *command.split())
    assert code == 2
    assert error["message"].startswith("Missing ")
    example = re.match(
        r"for example `(?:pdsh -w \S+ )?reprobuild ([^`>]*)(?:> [^`]*)?`; otherwise see", error["hint"]
    )
    assert example, error["hint"]
    name, words = command.split(), shlex.split(example[1])
    assert words[: len(name)] == name
    assert parse_command(command, words[len(name) :])
