"""Records of requested and effective settings, and profiles in force, with the example's own torch."""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import RUNTIME, Environment, Ran, run

SEVEN = {
    "REPROBUILD_SEED": "7",
    "REPROBUILD_SEED_EXPLICIT": "1",
    "PYTHONHASHSEED": "7",
    "REPROBUILD_ENVIRON": "x",
}
PUT = "torch.ones(3).put_(torch.tensor([0]), torch.tensor([1.0]))"
UNPOOL = "torch.nn.MaxUnpool2d(2)(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 2, 2, dtype=torch.long))"


class Job:
    """A folder in which programs with the real torch run, and the records that they leave."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python, self.folder, self.records = python, folder, folder / "records"

    def run(self, code: str, profile: str = "torch", env: Mapping[str, str] | None = None) -> Ran:
        program = self.folder / "program.py"
        program.write_text(code)
        whole = {
            **SEVEN,
            "REPROBUILD_PROFILE": profile,
            "REPROBUILD_RECORD": str(self.records),
            **(env or {}),
        }
        return run(str(self.python), str(program), env=whole)

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.records.glob("*"))]

    def one(self) -> dict[str, Any]:
        (found,) = self.all()
        return found


@pytest.fixture
def job(torch_python: Path, tmp_path: Path) -> Job:
    return Job(torch_python, tmp_path)


def changes(record: Mapping[str, Any]) -> dict[str, tuple[object, object, bool, str]]:
    return {
        one["setting"]: (one["requested"], one["effective"], one["valid"], one["when"])
        for one in record["overrides"]
    }


def test_what_is_in_effect_as_it_was_asked_for(job: Job) -> None:
    ran = job.run("import torch, random; torch.rand(3)", "strict")
    assert (ran.code, ran.err) == (0, "")
    record = job.one()
    assert record["overrides"] == []
    assert (record["format"], record["frameworks"], record["rank"]) == (1, ["torch"], None)
    for when in ("start", "exit"):
        asked, now = record[when]["requested"], record[when]["effective"]
        assert (asked["seed"], asked["explicit"], asked["profile"]) == (7, True, "strict")
        assert {"name": "NCCL_ALGO", "value": "Ring", "binds": "C", "profile": "strict"} in asked["entries"]
        assert now["environment"]["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8" if when == "exit" else True
        assert now["flags"]["torch.are_deterministic_algorithms_enabled"] is True
        assert now["flags"]["torch.is_deterministic_algorithms_warn_only_enabled"] is False
        assert now["flags"]["torch.backends.mkldnn.deterministic"] is True
        assert now["flags"]["torch.get_num_threads"] >= 1
        assert now["hash_order_is_chosen"] is True
    start, end = (record[when]["effective"]["generators"] for when in ("start", "exit"))
    assert start["torch"] != end["torch"]
    assert "torch.cuda" not in end
    assert record["set_by_profile"]["torch.use_deterministic_algorithms"] == {"before": False, "after": True}
    assert len(json.dumps(record)) < 20_000


def test_equal_runs_end_in_equal_states_and_other_seeds_in_others(job: Job) -> None:
    for seed in ("7", "7", "8"):
        job.run("import numpy.random, random, torch; torch.rand(3)", env={"REPROBUILD_SEED": seed})
    states = [record["exit"]["effective"]["generators"] for record in job.all()]
    by_seed = {r["exit"]["requested"]["seed"]: r["exit"]["effective"]["generators"] for r in job.all()}
    assert states.count(by_seed[7]) == 2
    assert all(by_seed[7][name] != by_seed[8][name] for name in ("random", "numpy.random", "torch"))


OVERRIDES = """
import os, torch
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":16:8"  # as the full determinism of transformers does
torch.backends.cudnn.benchmark = True
torch.use_deterministic_algorithms(True, warn_only=True)
torch.manual_seed(3)
"""


def test_what_the_program_changed_is_recorded_and_said_in_one_line(job: Job) -> None:
    ran = job.run(OVERRIDES)
    record = job.one()
    assert changes(record) == {
        "CUBLAS_WORKSPACE_CONFIG": (":4096:8", ":16:8", True, "exit"),
        "torch.backends.cudnn.benchmark": (False, True, False, "exit"),
        "torch.initial_seed": (7, 3, True, "exit"),
    }
    flags = [
        record[when]["effective"]["flags"]["torch.is_deterministic_algorithms_warn_only_enabled"]
        for when in ("start", "exit")
    ]
    assert flags == [False, True]
    (line,) = ran.err.splitlines()
    assert line.startswith(
        "reprobuild: at exit not as asked for: CUBLAS_WORKSPACE_CONFIG :16:8 (asked for: :4096:8)"
    )
    assert "torch.initial_seed 3 (asked for: 7)" in line
    assert line.endswith(f"; see {next(job.records.iterdir())}")


def test_a_preset_is_in_the_record_from_the_start_and_not_said_again(job: Job) -> None:
    env = {"NCCL_ALGO": "Tree", "CUBLAS_WORKSPACE_CONFIG": ":16:8"}
    ran = job.run("import torch", "strict", env=env)
    assert ran.err == ""
    found = changes(job.one())
    assert found["NCCL_ALGO"] == ("Ring", "Tree", False, "start")
    assert found["CUBLAS_WORKSPACE_CONFIG"] == (":4096:8", ":16:8", True, "start")


def test_what_a_library_sets_below_python_is_seen(job: Job) -> None:
    code = "import torch, ctypes; ctypes.CDLL(None).setenv(b'NCCL_ALGO', b'allreduce:tree', 1)"
    job.run(code, "strict")
    assert changes(job.one())["NCCL_ALGO"] == ("Ring", "allreduce:tree", False, "exit")


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


LOADER = """
import torch
class Data(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, index): return index
if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(Data(), num_workers=2, multiprocessing_context={method!r})
    print(sorted(int(one) for one in loader))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_a_loader_write_none(job: Job, method: str) -> None:
    ran = job.run(LOADER.format(method=method))
    assert ran.out == "[0, 1, 2, 3]\n", ran.err
    assert job.one()["exit"] is not None


RANKS = """
import torch, torch.multiprocessing
def work(rank): torch.rand(1)
if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=2)
"""


def test_ranks_that_multiprocessing_spawns_write_their_own(job: Job) -> None:
    assert job.run(RANKS).code == 0
    assert len(job.all()) == 3


def test_names_tell_the_rank_and_never_the_host(job: Job) -> None:
    for rank in ("0", "1", "1", "x/../y"):
        assert job.run("import torch", env={"RANK": rank, "WORLD_SIZE": "2"}).code == 0
    names = sorted(path.name for path in job.records.iterdir())
    assert len(names) == 4
    assert [name[:6] for name in names if name.startswith("rank")] == ["rank0-", "rank1-", "rank1-"]
    assert os.uname().nodename not in "".join(names) + json.dumps(job.all())


@pytest.mark.parametrize("wish", ["", "0"])
def test_no_record_where_none_is_wanted(job: Job, wish: str) -> None:
    assert job.run("import torch", env={"REPROBUILD_RECORD": wish}).err == ""
    assert {path.name for path in job.folder.iterdir()} == {"program.py"}


def test_without_a_word_it_stands_in_the_working_directory(torch_python: Path, tmp_path: Path) -> None:
    code = f"import os; os.environ.pop('REPROBUILD_RECORD'); os.chdir({str(tmp_path)!r}); import torch; os.chdir('/')"
    assert run(str(torch_python), "-c", code, env=SEVEN).err == ""
    (path,) = (tmp_path / "reprobuild-record").iterdir()
    assert json.loads(path.read_text())["exit"] is not None


def test_a_process_without_a_framework_writes_none(job: Job) -> None:
    job.run("import random, json")
    assert not job.records.exists()


def test_a_folder_that_cannot_be_written_is_said_once_and_the_job_runs(job: Job) -> None:
    job.records.write_text("a file")
    ran = job.run("import torch; print('ran')")
    assert (ran.code, ran.out) == (0, "ran\n")
    assert ran.err == f"reprobuild: no record is written: File exists: {job.records}\n"


def test_a_working_directory_that_is_gone_is_said_and_the_job_runs(
    torch_python: Path, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = (
        f"import os; os.environ.pop('REPROBUILD_RECORD'); os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})\n"
        "import torch; print(torch.initial_seed())"
    )
    ran = run(str(torch_python), "-c", code, env=SEVEN)
    assert (ran.out, ran.err) == ("7\n", ran.err)
    assert len(ran.err.splitlines()) == 1
    assert ran.err.startswith("reprobuild: no record is written: FileNotFoundError")


def test_a_drawn_seed_is_recorded_and_nothing_is_set(job: Job) -> None:
    env = {"REPROBUILD_SEED_EXPLICIT": "0"}
    assert job.run("import torch; torch.backends.cudnn.benchmark = True", "strict", env=env).err == ""
    record = job.one()
    assert record["overrides"] == []
    asked = record["exit"]["requested"]
    assert (asked["seed"], asked["explicit"], asked["profile"], asked["entries"]) == (7, False, "", [])
    assert record["exit"]["effective"]["flags"]["torch.are_deterministic_algorithms_enabled"] is False


@pytest.mark.parametrize(("code", "operation"), [(PUT, "put_"), (UNPOOL, "max_unpooling2d_forward_out")])
@pytest.mark.parametrize("thread", [False, True])
def test_a_refused_operation_raises_and_the_hint_is_the_last_line(
    job: Job, code: str, operation: str, thread: bool
) -> None:
    start = f"import threading, torch\ndef work():\n    {code}\n"
    end = "one = threading.Thread(target=work); one.start(); one.join()" if thread else "work()"
    ran = job.run(start + end, "strict")
    assert ran.code == (0 if thread else 1)
    said = ran.err.splitlines()
    assert any(line.startswith(f"RuntimeError: {operation} does not have a det") for line in said)
    assert said[-1].startswith(f"reprobuild: hint: {operation} has an alternative: ")
    assert said[-1].endswith("Profile strict switched it on; the profile `torch` refuses nothing")
    assert job.run(start + end, "torch").code == 0


def test_a_refusal_that_the_program_handles_is_its_own_affair(job: Job) -> None:
    ran = job.run(f"import torch\ntry: {PUT}\nexcept RuntimeError: print('caught')", "strict")
    assert (ran.code, ran.out, ran.err) == (0, "caught\n", "")


def test_other_errors_and_hooks_of_the_program_are_left_alone(job: Job) -> None:
    own = "import sys; sys.excepthook = lambda *a: print('mine', a[0].__name__)\n"
    ran = job.run(f"{own}import torch\n{PUT}", "strict")
    assert (ran.code, ran.out) == (1, "mine RuntimeError\n")
    assert ran.err.startswith("reprobuild: hint: put_ ")
    assert "hint" not in job.run("import torch\nraise RuntimeError('x')", "strict").err


def test_what_strict_names_as_alternatives_is_not_refused(job: Job) -> None:
    code = (
        "import torch\nfrom torch.nn.functional import *\nx = torch.zeros(3); i = torch.tensor([0, 2])\n"
        "x.index_put_((i,), torch.ones(2)); x.index_put_((i,), torch.ones(2), accumulate=True)\n"
        "a = torch.rand(1, 1, 6, 6, requires_grad=True); avg_pool2d(a, 2).sum().backward()\n"
        "interpolate(a, scale_factor=2, mode='bilinear').sum().backward()\n"
        "torch.sort(torch.rand(5), stable=True); torch.bincount(i)\n"
        "cross_entropy(torch.rand(4, 3, requires_grad=True), torch.zeros(4, dtype=torch.long)).backward()\n"
    )
    ran = job.run(code, "strict")
    assert (ran.code, ran.err) == (0, "")


FILL = "import torch; print(bool(torch.isnan(torch.empty(1000)).all()))"


@pytest.mark.parametrize(("profile", "filled"), [("strict", True), ("strict,fast", False), ("torch", False)])
def test_uninitialised_memory(job: Job, profile: str, filled: bool) -> None:
    assert job.run(FILL, profile).out == f"{filled}\n"


ENFORCE = "import os, torch, reprobuild_runtime.profiles as p\n"


def test_user_code_puts_a_profile_in_force_for_itself_and_its_children(job: Job) -> None:
    code = (
        "import subprocess, sys\n" + ENFORCE + "print(p.enforce(True, 'strict'))\n"
        "print(torch.are_deterministic_algorithms_enabled(), os.environ['NCCL_ALGO'])\n"
        "print(os.environ['REPROBUILD_PROFILE'])\n"
        "sys.stdout.flush()\n"
        "child = 'import torch; print(torch.are_deterministic_algorithms_enabled())'\n"
        "subprocess.run([sys.executable, '-c', child])\n"
    )
    late, own, child = job.run(code).out.splitlines()
    assert "TORCHINDUCTOR_MAX_AUTOTUNE: torch is imported already" in late
    assert "OMP_DYNAMIC: torch is imported already" in late
    assert "CUBLAS" not in late
    assert "PYTHONHASHSEED" not in late
    assert (own, child) == ("True Ring strict", "True")


def test_what_comes_too_late_is_returned_in_words(job: Job) -> None:
    started = "torch.cuda.is_initialized = lambda: True\n"  # there is no device here to initialise
    ran = job.run(ENFORCE + started + "print(p.enforce(True, 'vllm'))", env={"PYTHONHASHSEED": "random"})
    assert "CUBLAS_WORKSPACE_CONFIG: CUDA is initialised already" in ran.out
    assert "PYTHONHASHSEED: the order of sets was drawn when this interpreter started" in ran.out


def test_what_the_user_chose_stays_when_user_code_enforces(job: Job) -> None:
    code = ENFORCE + "print(p.enforce(True, 'strict'), os.environ['NCCL_ALGO'], p.enforce(False, 'strict'))"
    out = job.run(code, env={"NCCL_ALGO": "Tree"}).out
    assert "profile strict wants NCCL_ALGO Ring; it is Tree, and stays so" in out
    assert out.endswith(" Tree []\n")


def test_a_profile_that_is_none_is_a_value_error_with_a_hint(job: Job) -> None:
    code = ENFORCE + "try: p.enforce(True, 'quick')\nexcept ValueError as err: print(err, err.hint)"
    assert job.run(code).out.startswith("there is no profile 'quick' give REPROBUILD_PROFILE one of ")


def test_what_a_launcher_lost_of_the_environment_is_set_in_time(job: Job) -> None:
    out = job.run(
        "import os, torch; print(os.environ['CUBLAS_WORKSPACE_CONFIG'], os.environ['NCCL_ALGO'])", "strict"
    ).out
    assert out == ":4096:8 Ring\n"


def test_records_are_readable_by_those_who_may_read_the_outputs(job: Job) -> None:
    job.run("import torch")
    (path,) = job.records.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_fork_that_ends_as_a_program_does_writes_no_second_record(job: Job) -> None:
    code = "import os, sys, torch\nif os.fork() == 0: sys.exit(0)\nos.wait()"
    assert job.run(code).code == 0
    assert job.one()["exit"] is not None


def test_the_runtime_package_has_the_data(bare: Environment) -> None:
    assert {path.name for path in (RUNTIME / "profiles").glob("*.json")} == {"profiles.json", "refusals.json"}
