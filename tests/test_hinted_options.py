"""Options of a hint are printed as the whole command, which works as it is printed."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from reprobuild.cli.hinted_options import write_commands
from reprobuild.cli.main import run_line
from reprobuild.resolve.interpreter.proposal import read_python_releases
from reprobuild_portable.hashing import hash_file
from tests.resolve.small import APT, use_debian, write_wheel
from tests.test_cli import Said as Said
from tests.test_cli import said as said

OPTIONS = "--accept no-wheel --accept withdrawn"
HINT = f"to go on without exactly these: {OPTIONS}\nwith {OPTIONS} the image will NOT have a"

BASE = ("--base", "debian/bookworm")


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["lock", "my run", "-o", "a;b"], "reprobuild lock 'my run' -o 'a;b' "),
        (["-q", "from-snapshot", "run", "--accept", "x"], "reprobuild -q from-snapshot run --accept x "),
        (["from-snapshot", "run", "--python", "3.11"], "reprobuild from-snapshot run --python 3.11 "),
        (["bisect", "a", "b"], ""),  # the options are those of `lock`
        (["lock", "--", "run"], ""),  # an option behind `--` would be a name
        (["lock", "run", "--source", f"x=https://{'u:p'}@h.example/x.git"], ""),
        (["lock", "run", "--bake", f"HF_TOKEN=hf_{'aB3' * 11}x"], ""),
        (["lock", "one\nhint: two"], ""),
        ([], ""),
    ],
)
def test_the_running_command_is_repeated_without_secrets(arguments: list[str], command: str) -> None:
    first, second = HINT.splitlines()
    assert write_commands(HINT, [OPTIONS], arguments).splitlines() == [
        first.replace(OPTIONS, f"{command}{OPTIONS}"), second,
    ]  # fmt: skip


def test_a_word_is_left_out_in_its_option_alone() -> None:
    arguments = ["lock", "made", "--accept", "made", "--accept=made", "--accept", "other"]
    assert write_commands("on: --accept x", ["--accept x"], arguments, ["made"]) == (
        "on: reprobuild lock made --accept other --accept x"
    )


def test_a_value_that_an_option_replaces_is_left_out() -> None:
    hint = "first: --python 3.11\nin backquotes: `--python 3.11`\nthen: --accept x --python 3.11"
    arguments = ["lock", "run", "--python", "3.11.99", "--as-of", "2024-01-15", "--python=3.12"]
    command = "reprobuild lock run --as-of 2024-01-15"
    assert write_commands(hint, ["--python 3.11", "--accept x --python 3.11"], arguments).splitlines() == [
        f"first: {command} --python 3.11", f"in backquotes: `{command} --python 3.11`",
        f"then: {command} --accept x --python 3.11",
    ]  # fmt: skip


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a snapshot with lines that cannot be repeated; its machine has two wheels and no network."""
    use_debian(monkeypatch)
    write_wheel(tmp_path / "wheels", "here")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    (tmp_path / "my run").mkdir()
    (tmp_path / "my run" / "apt-packages.txt").write_text(APT)
    (tmp_path / "my run" / "requirements.txt").write_text(
        "here==1.0\ngone==1.0\nmade @ file:///home/u/made\n"
    )
    return tmp_path / "my run"


def follow(line: str, begin: str) -> int:
    """Run the command of a hint as it is printed."""
    assert line.startswith(begin), line
    program, *words = shlex.split(line.removeprefix(begin))
    assert program == "reprobuild"
    return run_line(words)


def test_the_command_that_goes_on_is_followed(snapshot: Path, said: Said) -> None:
    lock, store = snapshot.parent / "new lock", snapshot.parent / "store"
    code, _, hint = said.failed("lock", snapshot, "-o", lock, "--store", store, *BASE)
    assert code == 4
    line = next(line for line in hint.splitlines() if "to go on" in line)
    assert line.endswith(" --accept made --accept gone")
    assert follow(line, "to go on without exactly these: ") == 0
    assert lock.exists()


@pytest.mark.parametrize("form", [["--accept", "everything"], ["--accept=everything"]])
def test_a_word_that_accepts_nothing_is_left_out_of_the_command(
    form: list[str], snapshot: Path, said: Said
) -> None:
    """A later step may find a name, such as that of a library, so the word alone is no error yet."""
    lock, store = snapshot.parent / "a.lock", snapshot.parent / "store"
    arguments = ["lock", snapshot, *form, "--accept", "withdrawn", "-o", lock, "--store", store, *BASE]
    code, _, hint = said.failed(*arguments)
    assert code == 4
    first, line = hint.splitlines()[0], next(line for line in hint.splitlines() if "to go on" in line)
    assert (
        first == "leave out --accept everything: it is no class, and so far no name or line of this snapshot"
    )
    assert "everything" not in line
    assert " --accept withdrawn " in line
    assert follow(line, "to go on without exactly these: ") == 0
    assert lock.exists()


def test_the_command_with_all_answers_is_followed(snapshot: Path, said: Said) -> None:
    (snapshot / "apt-packages.txt").unlink()
    (snapshot / "requirements.txt").write_text("here==1.0\n")
    lock, store = snapshot.parent / "a.lock", snapshot.parent / "store"
    arguments = ["lock", str(snapshot), "-o", str(lock), "--store", str(store), *BASE]
    code, _, hint = said.failed(*arguments)
    assert code == 4
    answers = hint.rpartition("all answers at once: ")[2]
    assert answers == f"{shlex.join(['reprobuild', *arguments])} --python X.Y.Z --accept no-apt-list"
    assert follow(answers.replace("X.Y.Z", "3.11.2"), "") == 0


@pytest.mark.parametrize("requires", ["==3.11.*", ">=3.10"])
def test_the_command_for_a_lock_of_uv_has_a_version(
    requires: str, snapshot: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11 stands in for the newest one, which the small Debian does not have."""
    releases = tuple(release for release in read_python_releases() if release.minor <= "3.11")
    monkeypatch.setattr("reprobuild.resolve.interpreter.proposal.read_python_releases", lambda: releases)
    wheel = snapshot.parent / "wheels" / "here-1.0-py3-none-any.whl"
    (snapshot.parent / "uv.lock").write_text(
        f'version = 1\nrequires-python = "{requires}"\n[[package]]\nname = "job"\nversion = "1"\n'
        'source = { virtual = "." }\ndependencies = [{ name = "here" }]\n[[package]]\nname = "here"\n'
        'version = "1.0"\nsource = { registry = "https://index.example.org/simple" }\n'
        f'wheels = [{{ url = "https://index.example.org/{wheel.name}", hash = "sha256:{hash_file(wheel)}" }}]\n'
    )
    files = ["-o", snapshot.parent / "a.lock", "--store", snapshot.parent / "store"]
    code, what, hint = said.failed("lock", snapshot.parent / "uv.lock", *files, *BASE)
    assert code == 4
    assert f"; 3.11 is the newest in the range {requires}" in what
    assert "X.Y.Z" not in hint
    begin = (
        "if another Python ran, `python -V` in its environment prints the version for --python; "
        "all answers at once: "
    )
    assert hint.endswith(" --python 3.11 --accept no-apt-list")
    assert follow(hint, begin) == 0


def test_the_command_with_the_python_that_ran_is_followed(snapshot: Path, said: Said) -> None:
    (snapshot / "requirements.txt").write_text("here==1.0\n")
    (snapshot / "python.txt").write_text("Python 3.11.2\n")
    lock, store = snapshot.parent / "a.lock", snapshot.parent / "store"
    rest = ["-o", str(lock), "--store", str(store), *BASE]
    code, _, hint = said.failed("lock", str(snapshot), "--python", "3.12", *rest)
    assert code == 4
    command = shlex.join(["reprobuild", "lock", str(snapshot), *rest])
    assert hint == f"another minor version is another environment: {command} --python 3.11.2"
    assert follow(hint, "another minor version is another environment: ") == 0


def test_the_command_with_a_release_is_followed(snapshot: Path, said: Said) -> None:
    (snapshot / "requirements.txt").write_text("here==1.0\n")
    lock = snapshot.parent / "a.lock"
    code, what, hint = said.failed("lock", snapshot, "-o", lock, "--store", snapshot.parent / "store")
    assert (code, what) == (4, "nothing in the snapshot tells which distribution it ran")
    begin = "say which one it was, by `base:` in reprobuild.yaml or as an option, for example: "
    assert follow(hint, begin) == 0
    assert lock.exists()


def test_the_document_has_the_command(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["lock", str(snapshot), "--store", str(snapshot.parent / "store"), *BASE, "--json"]
    assert run_line(arguments) == 4
    hint = json.loads(capsys.readouterr().out)["error"]["hint"]
    options = "--accept made --accept gone"
    assert f"these: {shlex.join(['reprobuild', *arguments])} {options}\n" in hint
