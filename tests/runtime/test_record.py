"""Records: which processes write one, when, where, and what is in it; with a small stand-in for torch."""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import TORCH, Environment, Ran, make_environment, run

SEVEN = {"REPROBUILD_SEED": "7", "REPROBUILD_SEED_EXPLICIT": "1", "PYTHONHASHSEED": "7"}
FRAMEWORK = TORCH.replace("return 2**40 + 5", "return calls[-1][1]")


@pytest.fixture(scope="session")
def framework(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with a stand-in that knows the seed it was given last."""
    assert FRAMEWORK != TORCH
    made = make_environment(tmp_path_factory.mktemp("framework"))
    made.install(torch=FRAMEWORK)
    return made


class Job:
    """A directory in which programs run, and the records that they leave."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python, self.folder, self.records = python, folder, folder / "records"

    def run(self, code: str, env: Mapping[str, str] | None = None) -> Ran:
        program = self.folder / "program.py"
        program.write_text(code)
        whole = {**SEVEN, "REPROBUILD_RECORD": str(self.records), **(env or {})}
        return run(str(self.python), str(program), env=whole)

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.records.glob("*"))]

    def one(self) -> dict[str, Any]:
        (found,) = self.all()
        return found


@pytest.fixture
def job(framework: Environment, tmp_path: Path) -> Job:
    return Job(framework.python, tmp_path)


@pytest.mark.parametrize(
    ("end", "code", "kind"),
    [("raise KeyError('secret')", 1, "KeyError"), ("sys.exit(3)", 3, None), ("", 0, None)],
)
def test_every_end_that_python_sees_is_recorded(job: Job, end: str, code: int, kind: str | None) -> None:
    assert job.run(f"import sys, torch\n{end}").code == code
    record = job.one()
    assert record["exit"]["exception"] == kind
    assert "secret" not in json.dumps(record)


@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), 15)"])
def test_after_an_end_that_python_does_not_see_the_start_is_there(job: Job, end: str) -> None:
    job.run(f"import os, torch\n{end}")
    record = job.one()
    assert record["exit"] is None
    assert record["start"]["requested"]["seed"] == 7


def test_only_known_variables_are_recorded(job: Job) -> None:
    env = {"AWS_SECRET_ACCESS_KEY": "hunter2", "REPROBUILD_TOKEN": "hunter2", "OMP_NUM_THREADS": "1"}
    job.run("import torch", env=env)
    assert "hunter2" not in json.dumps(job.one())
    assert job.one()["start"]["effective"]["environment"]["OMP_NUM_THREADS"] == "1"


def test_control_characters_of_a_value_do_not_reach_a_terminal(job: Job) -> None:
    ran = job.run("import os, torch\nos.environ['CUBLAS_WORKSPACE_CONFIG'] = '\\x1b[2J' + 'x' * 5000")
    assert "\x1b" not in ran.err + next(job.records.iterdir()).read_text()
    assert len(ran.err.splitlines()) == 1
    assert len(ran.err) < 1000


CHILDREN = """
import multiprocessing, sys
def work(_=None):
    import torch
    return 1
if __name__ == "__main__":
    import torch
    context = multiprocessing.get_context(sys.argv[1])
    if sys.argv[2] == "pool":
        with context.Pool(2) as pool: print(pool.map(work, [0, 1]))
    else:
        for _ in range(2):
            child = context.Process(target=work); child.start(); child.join(); print(child.exitcode)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize(("kind", "out", "more"), [("pool", "[1, 1]\n", 0), ("ranks", "0\n0\n", 2)])
def test_workers_write_none_and_processes_of_their_own_do(
    job: Job, method: str, kind: str, out: str, more: int
) -> None:
    program = job.folder / "children.py"
    program.write_text(CHILDREN)
    env = {**SEVEN, "REPROBUILD_RECORD": str(job.records)}
    ran = run(str(job.python), str(program), method, kind, env=env)
    assert (ran.out, ran.err) == (out, "")
    # Children of fork and forkserver end by os._exit, before Python 3.14, and leave none.
    assert len(job.all()) in ({1 + more} if method == "spawn" else {1, 1 + more})
    assert all(record["exit"] is not None for record in job.all())


def test_a_fork_that_ends_as_a_program_does_writes_no_second_record(job: Job) -> None:
    assert job.run("import os, sys, torch\nif os.fork() == 0: sys.exit(0)\nos.wait()").code == 0
    assert job.one()["exit"] is not None


def test_names_tell_the_rank_and_never_the_host(job: Job) -> None:
    for name, rank in (("RANK", "0"), ("RANK", "1"), ("SLURM_PROCID", "1"), ("RANK", "x/../y")):
        assert job.run("import torch", env={name: rank, "WORLD_SIZE": "2"}).code == 0
    names = sorted(path.name for path in job.records.iterdir())
    assert len(names) == 4
    assert [name[:6] for name in names if name.startswith("rank")] == ["rank0-", "rank1-", "rank1-"]
    assert sorted(str(record["rank"]) for record in job.all()) == ["0", "1", "1", "None"]
    assert {record["ranks"] for record in job.all()} == {2}
    assert f'"{os.uname().nodename}"' not in json.dumps(job.all())


@pytest.mark.parametrize("wish", ["", "0"])
def test_no_record_where_none_is_wanted(job: Job, wish: str) -> None:
    assert job.run("import torch", env={"REPROBUILD_RECORD": wish}).err == ""
    assert {path.name for path in job.folder.iterdir()} == {"program.py"}


def test_a_process_without_a_framework_writes_none(job: Job) -> None:
    job.run("import random, json")
    assert not job.records.exists()


def test_without_a_word_it_stands_in_the_working_directory(framework: Environment, tmp_path: Path) -> None:
    code = f"import os; del os.environ['REPROBUILD_RECORD']; os.chdir({str(tmp_path)!r}); import torch; os.chdir('/')"
    assert framework.run(code, env=SEVEN).err == ""
    (path,) = (tmp_path / "reprobuild-record").iterdir()
    assert json.loads(path.read_text())["exit"] is not None


def test_a_working_directory_that_is_gone_is_said_and_the_job_runs(
    framework: Environment, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = (
        f"import os; del os.environ['REPROBUILD_RECORD']; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})\n"
        "import torch; print('ran')"
    )
    ran = framework.run(code, env=SEVEN)
    assert ran.out == "ran\n"
    assert len(ran.err.splitlines()) == 1
    assert ran.err.startswith("reprobuild: no record is written: FileNotFoundError")


def test_a_folder_that_cannot_be_written_is_said_once_and_the_job_runs(job: Job) -> None:
    job.records.write_text("a file")
    ran = job.run("import torch; print('ran')")
    assert (ran.code, ran.out) == (0, "ran\n")
    assert ran.err == f"reprobuild: no record is written: File exists: {job.records}\n"


def test_the_name_of_a_folder_that_cannot_be_written_is_short_and_printable(job: Job) -> None:
    above = job.records.parent  # the process makes the directory above a name that is too long
    folder = f"{above}/new\x1b[2J/" + "x" * 100_000
    ran = job.run("import torch; print('ran')", env={"REPROBUILD_RECORD": folder})
    assert (ran.code, ran.out) == (0, "ran\n")
    assert ran.err.startswith(f"reprobuild: no record is written: File name too long: {above}/new?[2J/")
    assert len(ran.err) < 250


def test_what_only_looks_like_a_digit_is_no_rank(job: Job) -> None:
    ran = job.run("import torch", env={"RANK": "\xb2"})
    assert (ran.code, ran.err) == (0, "")
    assert job.one()["rank"] is None


def test_a_full_disk_leaves_no_half_record(job: Job) -> None:
    limit = "import resource, torch; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"
    ran = job.run("import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" + limit)
    (path,) = job.records.iterdir()
    assert path.suffix == ".json"
    assert json.loads(path.read_text())["exit"] is None
    assert ran.err == f"reprobuild: no record is written: File too large: {job.records}\n"


def test_records_are_readable_by_those_who_may_read_the_outputs(job: Job) -> None:
    job.run("import os; os.umask(0o027); import torch")
    (path,) = job.records.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_what_the_program_changed_is_said_once_and_a_preset_is_not_said_again(job: Job) -> None:
    code = "import torch; torch.backends.cudnn.benchmark = True; torch.manual_seed(3)"
    settled = {"REPROBUILD_ENVIRON": "settled", "REPROBUILD_SETTLED": "REPROBUILD_SEED=7"}
    ran = job.run(code, env={"CUBLAS_WORKSPACE_CONFIG": ":1:1", **settled})
    found = {one["setting"]: (one["effective"], one["valid"], one["when"]) for one in job.one()["overrides"]}
    assert found == {
        "CUBLAS_WORKSPACE_CONFIG": (":1:1", False, "start"),
        "torch.backends.cudnn.benchmark": (True, False, "exit"),
        "torch.initial_seed": (3, True, "exit"),
    }
    said = "torch.backends.cudnn.benchmark True (asked for: False), torch.initial_seed 3 (asked for: 7)"
    (path,) = job.records.iterdir()
    assert ran.err == f"reprobuild: at exit not as asked for: {said}; see {path}\n"


def test_a_hash_order_that_nobody_chose_is_an_override(job: Job) -> None:
    job.run("import torch", env={"PYTHONHASHSEED": "random", "REPROBUILD_ENVIRON": "settled"})
    (one,) = job.one()["overrides"]
    assert (one["setting"], one["valid"], one["when"]) == ("PYTHONHASHSEED", False, "start")


def test_a_drawn_seed_is_recorded_and_nothing_is_overridden(job: Job) -> None:
    env = {"REPROBUILD_SEED_EXPLICIT": "0", "REPROBUILD_PROFILE": "strict"}
    assert job.run("import torch; torch.backends.cudnn.benchmark = True", env=env).err == ""
    record = job.one()
    assert record["overrides"] == []
    asked = record["exit"]["requested"]
    assert (asked["seed"], asked["explicit"], asked["profile"], asked["entries"]) == (7, False, "", [])
