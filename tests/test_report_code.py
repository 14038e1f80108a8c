"""`show` names the repository that the job ran in, or says how its code gets into the image; each hint is followed."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reprobuild.report.code import find_code, render_code
from reprobuild.report.text import render_snapshot
from reprobuild.run.options import read_volumes
from reprobuild.snapshot.read import read_snapshot
from tests.capture.repositories import BASE, ENV, LEAN, PROGRAM, git, new_origin, run_program, write
from tests.command_lines import parse_command
from tests.conftest import EXAMPLE, reprobuild


def take(job: Path, out: Path) -> None:
    """Capture where a job runs, on a machine without packages."""
    done = run_program("-o", out, env=LEAN, cwd=job)
    assert done.returncode == 0, done.stderr


def lines_of(snapshot: Path, drop: tuple[str, ...] = ()) -> list[str]:
    return render_code(find_code(read_snapshot(snapshot), drop))


def change(snapshot: Path, how: Callable[[dict[str, Any]], None]) -> None:
    found = json.loads((snapshot / "capture.json").read_text())
    how(found)
    (snapshot / "capture.json").write_text(json.dumps(found))


def test_the_repository_of_the_job_is_named(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    take(top, tmp_path / "snapshot")
    head = git(top, "rev-parse", "HEAD").decode()[:12]
    place = "/src/clone in the image, "
    said = f"code          clone: {top} (commit {head}, branch main, {place}the job ran in it)"
    assert lines_of(tmp_path / "snapshot") == [said]
    assert "\nchanges       none\n" in render_snapshot(read_snapshot(tmp_path / "snapshot"))
    assert lines_of(tmp_path / "snapshot", ("clone",)) == [said.replace(place, "")]


def test_changes_are_named(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, "kept.py", b"changed\n")
    git(top, "add", "-A")
    take(top, tmp_path / "staged")
    (line,) = lines_of(tmp_path / "staged")
    assert ", branch main, uncommitted changes, /src/clone in the image, " in line
    assert "\nchanges       clone (uncommitted changes)\n" in render_snapshot(
        read_snapshot(tmp_path / "staged")
    )
    git(top, "commit", "-q", "-m", "mine")
    take(top, tmp_path / "unpushed")
    base = git(top, "rev-parse", "origin/main").decode()[:12]
    (line,) = lines_of(tmp_path / "unpushed")
    assert f", branch main, changes since commit {base}, /src/clone in the image, " in line
    write(top, "new.py", b"new\n")
    take(top, tmp_path / "untracked")
    assert ", uncommitted changes, " in lines_of(tmp_path / "untracked")[0]


def test_a_folder_of_the_repository_is_named(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    take(top / "dir", tmp_path / "snapshot")
    (line,) = lines_of(tmp_path / "snapshot")
    assert line.endswith("the job ran in its dir)")


def test_the_job_ran_in_an_inner_repository(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    inner = top / "inner"
    inner.mkdir()
    git(inner, "init", "-q", ".")
    write(inner, "a", b"a\n")
    take(top, tmp_path / "snapshot")
    change(tmp_path / "snapshot", lambda found: found["command"].update(folder=str(inner)))
    first, second = lines_of(tmp_path / "snapshot")
    assert first.endswith(f": {inner} (no commit, branch main, the job ran in it)")
    assert second.startswith(f"code          clone: {top} (commit ")
    assert "the job ran" not in second


def hints(lines: list[str]) -> tuple[str, str]:
    """Return the commands of both hints."""
    capture, mount = lines[-2:]
    assert capture.startswith("  capture it  ")
    assert mount.startswith("  or mount it ")
    return capture[14:], mount[14:]


@pytest.mark.parametrize("name", ["job", "the job's"])
def test_code_in_no_repository(name: str, tmp_path: Path) -> None:
    job = tmp_path / name
    write(job, "train.py", b"print(1)\n")
    take(job, tmp_path / "snapshot")
    lines = lines_of(tmp_path / "snapshot")
    assert lines == [
        f"code          none of the job's own: it ran in {job}, which is in no captured repository",
        f"  capture it  cd {shlex.quote(str(job))} && {{ git rev-parse --git-dir || git init; }} && "
        "reprobuild capture -o ~/with-code",
        f"  or mount it reprobuild run frozen -v {shlex.quote(f'{job}:/job')} --workdir /job -- COMMAND",
    ]
    followed(lines, job, tmp_path)


def followed(lines: list[str], job: Path, folder: Path) -> None:
    """Do as the hints say: the new snapshot has the code, and the other command line mounts it."""
    capture, mount = hints(lines)
    home, programs = folder / "home", folder / "bin"
    home.mkdir()
    programs.mkdir()
    started = shlex.join([BASE, str(PROGRAM)])
    (programs / "reprobuild").write_text(f'#!/bin/sh\nshift\nexec {started} "$@"\n')
    (programs / "reprobuild").chmod(0o755)
    env = {**ENV, "HOME": str(home), "PATH": f"{programs}:{ENV['PATH']}", "PWD": str(job)}
    subprocess.run(["sh", "-ec", capture], check=True, capture_output=True, env=env, cwd=job)
    code = find_code(read_snapshot(home / "with-code"))
    assert code.captured
    assert [one.folder for one in code.repositories if one.job is not None] == [str(job)]
    assert (
        reprobuild(
            "restore", home / "with-code", code.repositories[0].name, "-o", folder / "again"
        ).returncode
        == 0
    )
    assert (folder / "again" / "train.py").read_bytes() == b"print(1)\n"
    words = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {mount}"], check=True, capture_output=True, env=env, cwd=job
    )
    context = parse_command("run", words.stdout.decode().splitlines()[2:])
    volumes, _ = read_volumes(context.params["volumes"])
    assert volumes == ((str(job), "/job"),)
    assert context.params["workdir"] == "/job"


def test_a_recipe_without_code(tmp_path: Path) -> None:
    snapshot, job = tmp_path / "snapshot", tmp_path / "job"
    write(snapshot, "requirements.txt", b"six==1.16.0\n")
    write(job, "train.py", b"print(1)\n")
    lines = lines_of(snapshot)
    assert lines == [
        "code          none: the snapshot has no repository, and does not state the job's directory; there run:",
        "  capture it  { git rev-parse --git-dir || git init; } && reprobuild capture -o ~/with-code",
        '  or mount it reprobuild run frozen -v "$PWD":/job --workdir /job -- COMMAND',
    ]
    followed(lines, job, tmp_path)


def test_a_repository_that_was_left_out(tmp_path: Path) -> None:
    """`git init` would make another repository in the place of the one that needs the user's word."""
    job = tmp_path / "job"
    job.mkdir()
    take(job, tmp_path / "snapshot")
    note = "repositories/job was left out: it belongs to another user: `git config ...` trusts it"
    change(tmp_path / "snapshot", lambda found: found.update(notes=[note]))
    assert (
        hints(lines_of(tmp_path / "snapshot"))[0]
        == "a repository was left out; the note on it says what admits it"
    )


def test_the_code_of_a_recipe() -> None:
    assert lines_of(EXAMPLE / "snapshot") == [
        "code          tinytrain: git+https://git.example.org/team/tinytrain.git (commit b0d6dda01e9e)"
    ]


def test_show_prints_it_and_has_it_in_json(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    take(top, tmp_path / "snapshot")
    done = reprobuild("show", tmp_path / "snapshot")
    assert lines_of(tmp_path / "snapshot")[0] in done.stdout.splitlines()
    code = json.loads(reprobuild("show", tmp_path / "snapshot", "--json").stdout)["code"]
    assert code["folder"] == str(top)
    assert [(one["name"], one["job"], one["place"]) for one in code["repositories"]] == [
        ("clone", ".", "/src/clone")
    ]


def test_many_repositories_and_hostile_names(tmp_path: Path) -> None:
    take(new_origin(tmp_path), tmp_path / "snapshot")

    def how(found: dict[str, Any]) -> None:
        (one,) = found["repositories"]
        others = [{**one, "name": f"r{number}", "folder": '"/e\\033[2J"'} for number in range(30)]
        found.update(repositories=[*others, one])

    change(tmp_path / "snapshot", how)
    lines = lines_of(tmp_path / "snapshot")
    assert len(lines) == 21
    assert lines[0].endswith("the job ran in it)")
    assert lines[-1] == "code          11 more repositories; all with --json"
    assert all(line.isprintable() for line in lines)
    change(tmp_path / "snapshot", lambda found: found["command"].update(folder='"/e\\033[2J\\nx"'))
    assert all(line.isprintable() for line in lines_of(tmp_path / "snapshot"))


def test_a_diff_of_no_repository(tmp_path: Path) -> None:
    """`lock` then has the newest commit that it fits: resolve/test_job_diffs.py."""
    top = new_origin(tmp_path)
    write(top, "kept.py", b"changed\n")
    diff = git(top, "diff", "HEAD", "--binary", "--full-index")
    for name in ("My_Job.diff", "my job.diff", "lib-repo.diff", "lib.diff"):
        write(tmp_path / "snapshot", name, diff)
    line = "-e git+https://git.example.org/lib-repo.git@b0d6dda01e9e2f15844b573e40475a481144187b#egg=lib\n"
    write(tmp_path / "snapshot", "requirements.txt", line.encode())
    assert lines_of(tmp_path / "snapshot") == [
        "code          lib: git+https://git.example.org/lib-repo.git (commit b0d6dda01e9e)",
        "code          My_Job.diff: nothing of this name is installed; name it by --source my-job=PATH@COMMIT",
        "code          my job.diff: nothing of this name is installed; name it by --source",
    ]


def test_an_import_is_not_captured_here(tmp_path: Path) -> None:
    """`reprobuild capture` would capture this environment, and not the one of the imported list."""
    (tmp_path / "requirements.txt").write_text("six==1.16.0\n")
    done = reprobuild("show", tmp_path / "requirements.txt")
    lines = done.stdout.splitlines()
    at = lines.index("code          none: the imported files have no repository; where your code is, run:")
    assert lines[at + 1] == ('  mount it    reprobuild run frozen -v "$PWD":/job --workdir /job -- COMMAND')
    assert "capture it" not in done.stdout
    words = shlex.split(lines[at + 1].removeprefix("  mount it ").replace("$PWD", str(tmp_path)))
    (tmp_path / "frozen").mkdir()
    parsed = parse_command("run", words[2:]).params
    assert (parsed["volumes"], parsed["workdir"]) == ((f"{tmp_path}:/job",), "/job")
