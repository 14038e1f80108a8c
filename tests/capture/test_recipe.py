"""The recipe in Bash, and the verb: both on real repositories."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from reprobuild.api.context import without_relative_directories
from reprobuild.capture import launch
from reprobuild.cli import common
from reprobuild.errors import SnapshotError
from reprobuild.snapshot.read import read_snapshot
from reprobuild_portable.secrets.redact import strip_credentials
from tests.capture.repositories import BASE, ENV, PROGRAM, document, git, new_origin, untouched, write
from tests.capture.test_reading import install
from tests.conftest import ROOT, reprobuild
from tests.snapshot.samples import SECRETS


def run_recipe(target: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    argv = ["bash", "-s", "--", str(target)]
    return subprocess.run(
        argv, input=launch.read_capture_recipe(), env=env, capture_output=True, text=True, check=False
    )


@pytest.fixture
def job(tmp_path: Path) -> dict[str, str]:
    """A job's environment: an editable install with work in every state, and secrets."""
    top = new_origin(tmp_path)
    write(top, "kept.py", b"staged\n")
    git(top, "add", "-A")
    write(top, "kept.py", b"in the work tree\n")
    write(top, "data.bin", bytes(range(256)))
    git(top, "add", "data.bin")
    write(top, "new\nname", b"untracked\n")
    install(tmp_path / "venv" / "lib" / "python3.11" / "site-packages", "my_lib", top)
    return ENV | {
        "VIRTUAL_ENV": str(tmp_path / "venv"), "PATH": f"{Path(BASE).parent}:{ENV['PATH']}",
        "WANDB_API_KEY": "Zq7xW9pL",
        "INNOCENT": SECRETS["github"], "MULTI": "first\nSECOND=2\n", "MAX_TOKENS": "4096", "KEYBOARD": "us",
        "TOKENIZER": "bpe", "MAX_NEW_TOKENS": "64", "HF_TOKENIZER_API_KEY": "Zq7xW9pL", "NEW_TOKENS_SECRET": "Zq7xW9pL",
        "TOKENIZER_HUB_TOKEN": "Zq7xW9pL", "DATA_URL": "https://ada:Zq7/xW9pL@example.org/x",
    }  # fmt: skip


def test_the_verb_prints_it(tmp_path: Path) -> None:
    done = reprobuild("capture", "--print-recipe", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == files("reprobuild_runtime").joinpath("capture.sh").read_text()
    assert done.stdout.startswith("#!/bin/bash\n")
    assert list(tmp_path.iterdir()) == []


def test_it_is_read_and_nothing_was_touched(job: dict[str, str], tmp_path: Path) -> None:
    before = untouched(tmp_path / "clone")
    done = run_recipe(tmp_path / "out", job)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert untouched(tmp_path / "clone") == before
    snapshot = read_snapshot(tmp_path / "out")
    known = {variable.name: variable for variable in snapshot.variables}
    assert known["MULTI"].value == "first\nSECOND=2\n"
    assert known["MAX_TOKENS"].value == "4096"
    assert known["KEYBOARD"].value == "us"
    assert (known["TOKENIZER"].value, known["MAX_NEW_TOKENS"].value) == ("bpe", "64")
    for name in ("WANDB_API_KEY", "HF_TOKENIZER_API_KEY", "NEW_TOKENS_SECRET", "TOKENIZER_HUB_TOKEN"):
        assert known[name].value is None
    assert not {"INNOCENT", "DATA_URL"} & set(known)
    text = b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir())
    assert b"Zq7xW9pL" not in text
    assert SECRETS["github"].encode() not in text
    assert len(snapshot.packages) > 50
    (report,) = snapshot.reports
    assert (report.kind, report.python) == ("python", platform.python_version())
    assert not [variable for variable in snapshot.variables if variable.suspect]
    reasons = {remark.place.file: remark.reason for remark in snapshot.remarks}
    assert reasons["clone.untracked"] == "names of untracked files, for people: not read"
    assert (tmp_path / "out" / "clone.untracked").read_bytes() == b"new\nname\0"
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "out").iterdir()} == {0o600}


ADDRESSES = [
    "https://u:p@ss/w@host/x", "https://u:p/w@h.example/x", "https://u:p@h.example/x@3/y", "https://h.example:80/x@y/z",
    "git+https://u:p@h.example/r.git@abc#egg=x", "git+https://u:p@host/r.git@f/x", "git+https://u:p@host/r@main",
    "git+ssh://git@h.example/r.git@a",
]  # fmt: skip


def test_its_freeze_lines_have_no_credentials() -> None:
    """The same addresses are left as by the rules of reprobuild."""
    start = launch.read_capture_recipe().index("without_credentials() {")
    function = (
        launch.read_capture_recipe()[start : launch.read_capture_recipe().index("\n}\n", start)] + "\n}\n"
    )
    argv = ["bash", "-c", f"{function}without_credentials"]
    done = subprocess.run(argv, input="\n".join(ADDRESSES), capture_output=True, text=True, check=True)
    assert done.stdout.split() == [strip_credentials(address)[0] for address in ADDRESSES]


def test_its_diff_fits_the_commit(job: dict[str, str], tmp_path: Path) -> None:
    """The chapter's `git diff` starts from what was staged, and leaves binaries out."""
    assert run_recipe(tmp_path / "out", job).returncode == 0
    git(tmp_path, "clone", "-q", tmp_path / "origin.git", "again")
    git(tmp_path / "again", "apply", tmp_path / "out" / "clone.diff")
    assert (tmp_path / "again" / "kept.py").read_bytes() == b"in the work tree\n"
    assert (tmp_path / "again" / "data.bin").read_bytes() == bytes(range(256))
    assert not list((tmp_path / "out").glob("*.bundle"))


@pytest.mark.parametrize("key", ["clean", "process"])
def test_no_filter_of_a_repository_is_run(key: str, job: dict[str, str], tmp_path: Path) -> None:
    top = tmp_path / "clone"
    git(top, "config", f"filter.evil one.{key}", f"touch {tmp_path}/ran; cat")
    git(top, "config", "filter.evil one.required", "true")
    write(top, ".git/info/attributes", b'*.py filter="evil one"\n* filter=lfs\n')
    git(top, "config", f"filter.lfs.{key}", f"touch {tmp_path}/ran; cat")
    assert run_recipe(tmp_path / "out", job).returncode == 0
    assert not (tmp_path / "ran").exists()
    assert b"in the work tree" in (tmp_path / "out" / "clone.diff").read_bytes()
    git(top, "diff", "HEAD", fails=True)  # the control
    assert (tmp_path / "ran").exists()


def test_commits_that_no_remote_has_are_bundled(job: dict[str, str], tmp_path: Path) -> None:
    git(tmp_path / "clone", "commit", "-qm", "unpushed")
    assert run_recipe(tmp_path / "out", job).returncode == 0
    git(tmp_path, "clone", "-q", tmp_path / "origin.git", "again")
    git(tmp_path / "again", "fetch", "-q", tmp_path / "out" / "clone.bundle", "HEAD")
    assert git(tmp_path / "again", "rev-parse", "FETCH_HEAD") == git(tmp_path / "clone", "rev-parse", "HEAD")


def test_one_of_many_ranks_captures(job: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "recipe.sh").write_text(launch.read_capture_recipe())
    argv = ["bash", str(tmp_path / "recipe.sh"), str(tmp_path / "out")]
    ranks = [subprocess.Popen(argv, env=job, stderr=subprocess.PIPE, text=True) for _ in range(20)]
    said = [rank.communicate()[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * 20
    assert sum(one.endswith("/out: captured\n") for one in said) == 1
    assert not (tmp_path / ".out.capturing").exists()


def test_what_it_cannot_do_it_says(job: dict[str, str], tmp_path: Path) -> None:
    done = run_recipe(Path("/proc/nowhere/out"), job)
    assert (done.returncode, done.stderr) == (3, "capture.sh: /proc/nowhere/out cannot be written\n")
    write(tmp_path, "full/mine", b"mine")
    done = run_recipe(tmp_path / "full", job)
    assert done.returncode == 3
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]
    done = subprocess.run(
        ["bash", "-s"], input=launch.read_capture_recipe(), text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "capture.sh: usage: capture.sh DIR\n")


# --- the verb ----------------------------------------------------------------------------------


def test_the_verb_captures_the_active_environment(tmp_path: Path) -> None:
    """Not that in which reprobuild itself is installed."""
    subprocess.run([BASE, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    install(site, "my_lib", tmp_path)
    env = ENV | {"VIRTUAL_ENV": str(tmp_path / "venv"), "RUN_NOTE": "two\nlines"}
    done = reprobuild("capture", "-o", tmp_path / "out", "--json", env=env | {"PYTHONPATH": ""}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["captured"]
    assert [line.name for line in read_snapshot(tmp_path / "out").requirements] == ["my_lib"]
    assert document(tmp_path / "out")["python"]["prefix"] == str(tmp_path / "venv")
    assert b"RUN_NOTE=two\nlines\0" in (tmp_path / "out" / "env.nul").read_bytes()
    shown = reprobuild("show", tmp_path / "out")
    assert (shown.returncode, shown.stderr) == (0, "")


def test_the_verb_gives_the_code_of_the_program(tmp_path: Path) -> None:
    done = reprobuild("capture", "-o", "/proc/nowhere/out", cwd=tmp_path)
    assert done.returncode == 3
    assert "/proc/nowhere/out cannot be written" in done.stderr


def test_an_interpreter_that_cannot_run_it(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="`false` could not run the capture: it exited 1") as caught:
        launch.capture("false", None, env=ENV, sink=lambda stream, data: None, as_json=False)
    assert caught.value.hint == "it must be Python 3.8 or newer; name another with --python"


@pytest.mark.parametrize("name", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_whose_environment_it_is(name: str, tmp_path: Path) -> None:
    assert launch.find_interpreter({name: str(tmp_path)}, sys.executable) == sys.executable
    write(tmp_path, "bin/python", b"")
    assert launch.find_interpreter({name: str(tmp_path)}, sys.executable) == str(tmp_path / "bin" / "python")
    assert launch.find_interpreter({}, sys.executable) == sys.executable


@pytest.mark.parametrize("name", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_a_relative_environment_is_not_used(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be a program of the current directory, which may be anybody's."""
    write(tmp_path, "venv/bin/python", b"")
    monkeypatch.chdir(tmp_path)
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(name, "venv")
    assert common.find_active_python()[0] == sys.executable
    said = (
        f"{name} is not an absolute path and is not used: activate the environment again, or name --python\n"
    )
    assert capsys.readouterr().err == said
    monkeypatch.setenv(name, str(tmp_path / "venv"))
    assert common.find_active_python()[0] == str(tmp_path / "venv/bin/python")
    assert capsys.readouterr().err == ""


def test_missing_objects_start_no_program_of_the_repository(job: dict[str, str], tmp_path: Path) -> None:
    """git fetches them when it needs them, and the repository's configuration says by which program."""
    top = tmp_path / "clone"
    (tmp_path / "trap").write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    (tmp_path / "trap").chmod(0o755)
    for setting in (
        "core.repositoryFormatVersion=1", "extensions.partialClone=origin", "remote.origin.promisor=true",
        f"remote.origin.uploadpack={tmp_path / 'trap'}", "protocol.allow=always", "protocol.file.allow=always",
    ):  # fmt: skip
        git(top, "config", *setting.split("=", 1))
    blob = git(top, "rev-parse", "HEAD:kept.py").decode().strip()
    (top / ".git/objects" / blob[:2] / blob[2:]).unlink()
    run_recipe(tmp_path / "out", job)
    assert (tmp_path / "out/env.txt").exists()
    assert not (tmp_path / "ran").exists()
    subprocess.run(
        [BASE, PROGRAM, "-o", tmp_path / "other"], cwd=top, env=job, check=True, capture_output=True
    )
    assert not (tmp_path / "ran").exists()
    git(top, "diff", "HEAD", fails=True)
    assert (tmp_path / "ran").exists(), "git itself would start it"


@pytest.mark.parametrize(
    ("at_start", "kept"), [(b"", True), (b"A=1\0", False), (b"A=1\0LC_CTYPE=C.UTF-8\0", True)]
)
def test_the_locale_that_python_set_is_not_the_users(at_start: bytes, kept: bool) -> None:
    env = {"A": "1", "LC_CTYPE": "C.UTF-8"}
    assert ("LC_CTYPE" in launch.drop_coerced_locale(env, at_start)) == kept
    assert launch.drop_coerced_locale(env, at_start)["A"] == "1"


def test_the_file_is_in_the_package() -> None:
    assert os.access(str(files("reprobuild_runtime").joinpath("capture.py")), os.R_OK)


@pytest.mark.parametrize(
    "name", ["CONDA_PREFIX", "CONDA_ROOT", "CONDA_EXE", "MAMBA_ROOT_PREFIX", "CONDARC", "MAMBARC"]
)
def test_relative_folders_of_conda_are_not_read(name: str) -> None:
    assert without_relative_directories({name: "here", "HOME": "/h"}) == {"HOME": "/h"}
    assert without_relative_directories({name: "/there"}) == {name: "/there"}


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    words = ("capture", "-o", tmp_path / "out", "--python")
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").symlink_to(sys.executable)
    hint = "name the Python of the environment, or its directory: `--python ENV`"
    for word, message, advice in [
        ("/nonexistent", "there is no /nonexistent", hint),
        ("env/bin/pythn", "there is no env/bin/pythn", "did you mean `env/bin/python`?"),
        ("env/bin", "env/bin is a directory without a Python", hint),
    ]:
        done = reprobuild(*words, word, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (6, f"error: {message}\n\nhint: {advice}\n")
    assert reprobuild(*words, "env/bin/python", cwd=tmp_path).returncode == 0


def test_the_directory_of_an_environment_is_its_interpreter(tmp_path: Path) -> None:
    """`env` is a program, too: it ran instead of the environment of this name."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    done = reprobuild("capture", "-o", "out", "--python", "env", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "env") in (tmp_path / "out" / "capture.json").read_text()


def test_the_task_prolog_of_the_page(tmp_path: Path) -> None:
    """It captures the activated environment, is silent, and never ends a job."""
    page = (ROOT / "docs" / "capture.md").read_text()
    script = page.partition("<!-- task prolog -->\n```bash\n")[2].partition("```")[0]
    program = ROOT / "reprobuild_runtime" / "capture.py"
    script = script.replace("/opt/reprobuild/capture.py", str(program))
    environment = {"PATH": os.environ["PATH"], "SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_ID": "42"}

    def run(**more: str) -> None:
        done = subprocess.run(
            ["bash", "-c", script], env=environment | more, capture_output=True, check=True, cwd=tmp_path
        )
        assert (done.stdout, done.stderr) == (b"", b"")

    run()
    run(VIRTUAL_ENV=str(tmp_path / "missing"))
    assert not (tmp_path / "repro").exists()
    run(CONDA_PREFIX=sys.prefix)
    assert (tmp_path / "repro" / "42" / "requirements.txt").is_file()
