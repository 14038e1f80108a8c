"""Profiles in force and their records, with the example's own torch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import Ran, run

SEVEN = {"REPROBUILD_SEED": "7", "REPROBUILD_SEED_EXPLICIT": "1", "PYTHONHASHSEED": "7"}


class Job:
    """A directory in which programs with the real torch run, and the records that they leave."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python, self.records, self.program = python, folder / "records", folder / "program.py"

    def run(self, code: str, profile: str = "torch", env: Mapping[str, str] | None = None) -> Ran:
        self.program.write_text(code)
        whole = {**SEVEN, "REPROBUILD_PROFILE": profile, "REPROBUILD_RECORD": str(self.records)}
        return run(str(self.python), str(self.program), env={**whole, **(env or {})})

    def records_of(self, count: int) -> list[dict[str, Any]]:
        found = [json.loads(path.read_text()) for path in sorted(self.records.glob("*"))]
        assert len(found) == count
        return found


@pytest.fixture
def job(torch_python: Path, tmp_path: Path) -> Job:
    return Job(torch_python, tmp_path)


def changes(record: Mapping[str, Any]) -> dict[str, tuple[object, object, bool, str]]:
    return {
        one["setting"]: (one["requested"], one["effective"], one["valid"], one["when"])
        for one in record["overrides"]
    }


ALTERNATIVES = """
from torch.nn.functional import *
x = torch.zeros(3); i = torch.tensor([0, 2])
x.index_put_((i,), torch.ones(2)); x.index_put_((i,), torch.ones(2), accumulate=True)
a = torch.rand(1, 1, 6, 6, requires_grad=True); avg_pool2d(a, 2).sum().backward()
interpolate(a, scale_factor=2, mode="bilinear").sum().backward()
torch.sort(torch.rand(5), stable=True); torch.bincount(i)
cross_entropy(torch.rand(4, 3, requires_grad=True), torch.zeros(4, dtype=torch.long)).backward()
"""


def test_strict_is_in_effect_as_it_was_asked_for_and_refuses_no_alternative(job: Job) -> None:
    nan = "import torch; print(bool(torch.isnan(torch.empty(1000)).all()))\n"
    ran = job.run(nan + ALTERNATIVES, "strict")
    assert (ran.code, ran.out, ran.err) == (0, "True\n", "")
    (record,) = job.records_of(1)
    assert record["overrides"] == []
    assert (record["format"], record["frameworks"], record["rank"]) == (1, ["torch"], None)
    for when in ("start", "exit"):
        asked, now = record[when]["requested"], record[when]["effective"]
        assert (asked["seed"], asked["explicit"], asked["profile"]) == (7, True, "strict")
        assert {"name": "NCCL_ALGO", "value": "Ring", "binds": "C", "profile": "strict"} in asked["entries"]
        assert now["environment"]["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
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


def test_every_flag_of_torch_in_the_data_is_one_of_this_release(job: Job) -> None:
    code = (
        "import torch\nfrom reprobuild_runtime.profiles import apply, choose, versions\n"
        "for name in choose.data()['profiles']:\n"
        "    for entry in apply.select_flags('torch', choose.settings((name,), versions.list_own_directories())):\n"
        "        apply.set_flag(entry); assert apply.read_flag(entry) == apply.requested_flag(entry), entry\n"
        "        print(entry['name'])"
    )
    found = job.run(code, "log-only").out.split()
    assert {"torch.use_deterministic_algorithms", "torch.backends.mkldnn.deterministic"} <= set(found)
    assert "torch.utils.deterministic.fill_uninitialized_memory" in found


def test_kernels_are_chosen_without_a_word_and_without_threads_or_random_numbers(job: Job) -> None:
    code = """
import os, torch
from reprobuild_runtime.profiles import kernels
tasks, state = len(os.listdir("/proc/self/task")), torch.get_rng_state()
print(kernels.settle(torch), [name for name in kernels.FUNCTIONS if not hasattr(torch, name)])
print(len(os.listdir("/proc/self/task")) - tasks, bool((torch.get_rng_state() == state).all()))
"""
    ran = job.run(code)
    assert (ran.out, ran.err) == ("[] []\n0 True\n", "")


def test_equal_runs_end_in_equal_states_and_other_seeds_in_others(job: Job) -> None:
    for seed in ("7", "7", "8"):
        job.run("import numpy.random, random, torch; torch.rand(3)", env={"REPROBUILD_SEED": seed})
    ends = [record["exit"] for record in job.records_of(3)]
    states = [end["effective"]["generators"] for end in ends]
    by_seed = {end["requested"]["seed"]: end["effective"]["generators"] for end in ends}
    assert states.count(by_seed[7]) == 2
    assert all(by_seed[7][name] != by_seed[8][name] for name in ("random", "numpy.random", "torch"))


OVERRIDES = """
import ctypes, os, torch
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":16:8"  # as the full determinism of transformers does
ctypes.CDLL(None).setenv(b"NCCL_ALGO", b"^NVLS", 1)  # as torch's process group may, below Python
torch.use_deterministic_algorithms(True, warn_only=True)
torch.backends.cudnn.benchmark = True
torch.manual_seed(3)
"""


def test_what_stands_against_the_profile_is_recorded_and_said(job: Job) -> None:
    ran = job.run(OVERRIDES, "strict", {"NCCL_NVLS_ENABLE": "1"})
    (record,) = job.records_of(1)
    assert changes(record) == {
        "NCCL_NVLS_ENABLE": ("0", "1", False, "start"),
        "CUBLAS_WORKSPACE_CONFIG": (":4096:8", ":16:8", True, "exit"),
        "NCCL_ALGO": ("Ring", "^NVLS", True, "exit"),
        "torch.use_deterministic_algorithms": (True, "warn_only", False, "exit"),
        "torch.backends.cudnn.benchmark": (False, True, False, "exit"),
        "torch.initial_seed": (7, 3, True, "exit"),
    }
    preset, at_exit = ran.err.splitlines()
    assert preset == "reprobuild: profile strict wants NCCL_NVLS_ENABLE 0; it is 1, and stays so"
    assert at_exit.startswith(
        "reprobuild: at exit not as asked for: CUBLAS_WORKSPACE_CONFIG :16:8 (asked for: "
    )
    assert "torch.use_deterministic_algorithms warn_only (asked for: True)" in at_exit
    assert "NCCL_NVLS_ENABLE" not in at_exit


LOADER = """
import torch
class Data(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, index): return index
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(Data(), num_workers=1, multiprocessing_context=method)
        print(sorted(int(one) for one in loader))
"""


def test_workers_of_a_loader_write_no_record(job: Job) -> None:
    ran = job.run(LOADER)
    assert ran.out == "[0, 1, 2, 3]\n" * 2, ran.err
    (record,) = job.records_of(1)
    assert record["exit"] is not None


REFUSED = """
import threading, torch
def put(): torch.ones(3).put_(torch.tensor([0]), torch.tensor([1.0]))
def unpool(): torch.nn.MaxUnpool2d(2)(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 2, 2, dtype=torch.long))
try: put()
except RuntimeError: print("handled")
thread = threading.Thread(target=unpool); thread.start(); thread.join()
print(bool(torch.isnan(torch.empty(1000)).all()))
put()
"""


def test_a_refused_operation_raises_and_the_hint_is_the_last_line(job: Job) -> None:
    ran = job.run(REFUSED, "strict,fast")
    assert (ran.code, ran.out) == (1, "handled\nFalse\n")
    said = ran.err.splitlines()
    errors = [line.split(" does not")[0] for line in said if line.startswith("RuntimeError")]
    hints = [line for line in said if line.startswith("reprobuild: hint: ")]
    assert errors == ["RuntimeError: max_unpooling2d_forward_out", "RuntimeError: put_"]
    assert [line.split(" has an alternative: ")[0] for line in hints] == [
        "reprobuild: hint: max_unpooling2d_forward_out", "reprobuild: hint: put_",
    ]  # fmt: skip
    assert all(
        "Profile strict,fast switched it on; the profile `torch` refuses nothing" in line for line in hints
    )
    assert said[-1] == hints[-1]
    assert job.run(REFUSED, "torch").code == 0


def test_other_errors_and_hooks_of_the_program_are_left_alone(job: Job) -> None:
    code = (
        "import sys; sys.excepthook = lambda *a: print('mine', a[0].__name__)\nimport torch\n"
        "torch.use_deterministic_algorithms(True)\n{}"
    )
    ran = job.run(code.format("torch.ones(3).put_(torch.tensor([0]), torch.tensor([1.0]))"))
    assert (ran.code, ran.out) == (1, "mine RuntimeError\n")
    assert ran.err.startswith("reprobuild: hint: put_ ")
    assert "The program switched it on, not the profile (torch)" in ran.err
    assert job.run(code.format("raise RuntimeError('other')")).err == ""


ENFORCE = """
import os, subprocess, sys, torch
from reprobuild_runtime import profiles
print(profiles.enforce(False, "strict"))
try: profiles.enforce(True, "quick")
except ValueError as err: print(err, "/", err.hint)
print(profiles.enforce(True, "strict"))
print(torch.are_deterministic_algorithms_enabled(), os.environ["NCCL_ALGO"], os.environ["CUBLASLT_WORKSPACE_SIZE"])
sys.stdout.flush()
subprocess.run([sys.executable, "-c", "import torch; print(torch.are_deterministic_algorithms_enabled())"])
torch.cuda.is_initialized = lambda: True  # there is no device here to initialise
print(profiles.enforce(True, "strict,vllm"))
"""


def test_user_code_puts_a_profile_in_force_and_hears_what_comes_too_late(job: Job) -> None:
    env = {"NCCL_ALGO": "Tree", "PYTHONHASHSEED": "random"}
    nothing, unknown, late, own, child, with_cuda = job.run(ENFORCE, env=env).out.splitlines()
    assert nothing == "[]"
    assert unknown.startswith("there is no profile 'quick' / give REPROBUILD_PROFILE one of ")
    for word in (
        "PYTHONHASHSEED: the order of sets was drawn when this interpreter started",
        "OMP_DYNAMIC, MKL_DYNAMIC: torch is imported already",
        "profile strict wants NCCL_ALGO Ring; it is Tree, and stays so",
    ):  # fmt: skip
        assert word in late
    assert "CUBLAS" not in late
    assert "TORCHINDUCTOR" not in late  # read when something is compiled, or when the mode is switched on
    assert (own, child) == ("True Tree 32768", "True")
    assert with_cuda.endswith("NCCL_LAUNCH_MODE: CUDA is initialised already']")
    assert "CUBLASLT_WORKSPACE_SIZE, " in with_cuda


def test_what_a_launcher_lost_of_the_environment_is_set_in_time_and_the_rest_is_recorded(job: Job) -> None:
    code = "import os, torch; print(os.environ['CUBLAS_WORKSPACE_CONFIG'], os.environ['NCCL_ALGO'])"
    settled = {"REPROBUILD_ENVIRON": "settled", "REPROBUILD_SETTLED": "REPROBUILD_SEED=7 PYTHONHASHSEED=7"}
    ran = job.run(code, "strict", settled)
    assert ran.out == ":4096:8 Ring\n"
    (record,) = job.records_of(1)
    lost = (None, False, "start")
    assert changes(record) == {"OMP_DYNAMIC": ("FALSE", *lost), "MKL_DYNAMIC": ("FALSE", *lost)}
    assert ran.err == ""
