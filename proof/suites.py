"""Tests of PyTorch, Lightning, Accelerate and transformers, with the recorder of a trace on and off.

Does any of them answer otherwise?

The tests are those of the released packages, unmodified: of Debian's source package of torch, of the source
distribution of accelerate, and of the repositories of Lightning and transformers. Each file of tests runs in a process
of its own, once with the start-up hook alone, and once with the recorder too. A test
with another answer runs again both ways, because some tests of these suites depend on the time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from proof.evidence import ROOT
from proof.torch_tests import SOURCES, SUITE, answers, checked
from reprobuild.trace.log import ENTRY

SEED = "7"
AGAIN = 3  # runs of a test with two answers, each way
SECONDS = 3000  # of one file of tests
MODULES = (
    "reprobuild_runtime/startup.py", "reprobuild_runtime/importhook.py", "reprobuild_runtime/seeding",
    "reprobuild_runtime/profiles", "reprobuild_runtime/trace",
)  # fmt: skip
# Steps, components, and the operations of the first steps; a record of lines would take hours here.
OPTIONS: Mapping[str, object] = {"first": 0, "last": 3, "stride": 1, "components": True}


class Repository(Struct, frozen=True, kw_only=True):
    """The repository of a project: a revision that the server gives, and the paths of the tests."""

    url: str
    revision: str
    paths: tuple[str, ...]


class Suite(Struct, frozen=True, kw_only=True):
    """One project and its tests.

    Attributes:
        name: of the project.
        release: of the project.
        packages: the requirements of its environment.
        files: its files of tests, below the unpacked source, each with an expression of `pytest -k`, or empty.
        folder: the working directory of the tests, below the unpacked source.
        options: of pytest.
        repository: has the tests, if no source archive has them.
        variables: of the processes.
    """

    name: str
    release: str
    packages: tuple[str, ...]
    files: Mapping[str, str]
    folder: str
    options: tuple[str, ...] = ()
    repository: Repository | None = None
    variables: Mapping[str, str] = {}


_TESTS = (
    "numpy<2.4",
    "pytest",
    "expecttest",
    "hypothesis",
    "parameterized",
    "psutil",
    "scipy",
    "setuptools<81",
)
SUITES = (
    Suite(
        name="torch", release="2.6.0", packages=("torch==2.6.0", *_TESTS), folder="test",
        options=("--noconftest", "-c", os.devnull, "--rootdir", "."),
        files={
            "test_optim.py": "", "optim/test_lrscheduler.py": "", "optim/test_swa_utils.py": "",
            "test_dataloader.py": "seed or sampler or generator or random or shuffle",
            "test_torch.py": "seed or generator or deterministic or grad_scal",
        },
    ),
    Suite(
        name="accelerate", release="1.9.0",
        packages=("torch==2.13.0", "accelerate==1.9.0", "transformers==4.57.1", "torchdata==0.11.0", *_TESTS),
        folder="",
        files={
            f"tests/test_{name}.py": ""
            for name in (
                "accelerator", "cpu", "data_loader", "grad_sync", "kwargs_handlers", "optimizer", "scheduler",
                "state_checkpointing", "utils",
            )
        },
    ),
    Suite(
        name="lightning", release="2.6.5",
        packages=(
            "torch==2.13.0", "lightning==2.6.5", "cloudpickle", "pytest-timeout", "pytest-rerunfailures", *_TESTS,
        ),
        folder="tests",
        repository=Repository(
            url="https://github.com/Lightning-AI/pytorch-lightning", revision="2.6.5", paths=("tests",)
        ),
        files={
            "tests_fabric/utilities/test_seed.py": "", "tests_pytorch/loops/optimization": "",
            "tests_pytorch/trainer/optimization": "", "tests_pytorch/loops/test_training_loop.py": "",
            "tests_pytorch/loops/test_training_epoch_loop.py": "", "tests_pytorch/models/test_restore.py": "",
            "tests_pytorch/checkpointing/test_trainer_checkpoint.py": "",
        },
    ),
    Suite(
        name="transformers", release="4.57.1",
        packages=(
            "torch==2.13.0", "accelerate==1.9.0", "transformers==4.57.1", "datasets", "sentencepiece",
            "pytest-asyncio", "pytest-rich", "pytest-timeout", *_TESTS,
        ),
        folder="",
        # The last commit before the changes for version 5, which the release 4.57 does not have.
        repository=Repository(
            url="https://github.com/huggingface/transformers", revision="38a08b6e8ae35857109cedad75377997fecbf9d0",
            paths=("tests", "conftest.py", "pyproject.toml"),
        ),
        variables={"HF_HUB_OFFLINE": "1"},
        files={
            f"tests/{name}.py": ""
            for name in (
                "trainer/test_trainer", "trainer/test_trainer_callback", "trainer/test_trainer_seq2seq",
                "trainer/test_trainer_utils", "trainer/test_data_collator", "optimization/test_optimization",
            )
        },
    ),
)  # fmt: skip
# Tests that answer otherwise under any mode of PyTorch's dispatcher, also without reprobuild.
OF_PYTORCH = {
    "test_torch.TestTorchDeviceTypeCPU::test_deterministic_empty_cpu_uint64":
        "PyTorch 2.6 passes no number above 2**63 - 1 to a mode of the dispatcher; PyTorch 2.13 does",
}  # fmt: skip


def find_source(suite: Suite, work: Path) -> Path:
    """Return the directory of a project's source, fetched and unpacked at the first call.

    Raises:
        RuntimeError: the source cannot be had.
    """
    folder = work / f"{suite.name}-{suite.release}"
    if folder.exists():
        return folder
    part = work / f"{suite.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    if suite.repository:
        _check_out(suite.repository, part / "source")
    elif suite.name == "torch":
        checked(
            [sys.executable, str(ROOT / "dev" / "private_engine.py"), "source", str(part), SOURCES, SUITE]
        )
        _unpack(part, f"{SOURCES}_{suite.release}*.orig.tar.*")
    else:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", suite.name]
        checked([*pip, "-d", str(part), f"{suite.name}=={suite.release}"])
        _unpack(part, "*.tar.gz")
    (inside,) = (path for path in part.iterdir() if path.is_dir())
    inside.rename(folder)
    shutil.rmtree(part)
    return folder


def _check_out(repository: Repository, folder: Path) -> None:
    git = ["git", "-C", str(folder)]
    checked(["git", "init", "--quiet", str(folder)])
    checked([*git, "fetch", "--quiet", "--depth", "1", repository.url, repository.revision])
    checked([*git, "checkout", "--quiet", "FETCH_HEAD", "--", *repository.paths])


def _unpack(folder: Path, pattern: str) -> None:
    (archive,) = folder.glob(pattern)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")


def find_python(suite: Suite, work: Path) -> Path:
    """Return the interpreter of an environment with the project, made at the first call.

    Raises:
        RuntimeError: it cannot be made.
    """
    folder = work / f"env-{suite.name}"
    if not (folder / "done").exists():
        checked([sys.executable, "-m", "venv", "--clear", str(folder)])
        checked([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *suite.packages])
        site = next((folder / "lib").glob("python3.*/site-packages"))
        hook = f"{ROOT}\nimport reprobuild_runtime.startup\n"
        (site / "reprobuild.pth").write_text(hook, encoding="utf-8")
        (folder / "done").touch()
    return folder / "bin" / "python"


class Tests(Struct, frozen=True):
    """One file of tests: its suite, source, interpreter and working directory."""

    suite: Suite
    python: Path
    source: Path
    file: str
    work: Path

    def run(self, *, recorded: bool, chosen: Sequence[str] = ()) -> tuple[dict[str, str], int]:
        """Run the tests, or the chosen ones; return the answer of each, and the number of recorded steps.

        Raises:
            RuntimeError: pytest itself failed.
        """
        key = hashlib.sha256(f"{self.suite.name} {self.file}".encode()).hexdigest()[:8]
        report, log, logs = (self.work / f"{key}.{end}" for end in ("xml", "log", "logs"))
        shutil.rmtree(logs, ignore_errors=True)
        report.unlink(missing_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        env = {
            **kept, "HOME": str(self.work), "REPROBUILD_RECORD": "0", "REPROBUILD_SEED": SEED,
            "REPROBUILD_PROFILE": "torch", "TESTING_ON_CI": "", "OMP_NUM_THREADS": "1",
            **self.suite.variables,
        }  # fmt: skip
        if recorded:
            env["REPROBUILD_TRACE"] = json.dumps({**OPTIONS, "folder": str(logs)})
        expression = self.suite.files[self.file]
        argv = [
            sys.executable, "-I", "-S", str(ROOT / "reprobuild_runtime" / "entrypoint.py"), str(self.python), "-m",
            "pytest", "-p", "no:cacheprovider", "-q", f"--junitxml={report}", *self.suite.options,
            *(chosen or [self.file]), *(["-k", expression] if expression and not chosen else []),
        ]  # fmt: skip
        with log.open("wb") as stream:
            done = subprocess.run(
                argv, env=env, cwd=self.source / self.suite.folder, stdout=stream, stderr=subprocess.STDOUT,
                timeout=SECONDS, check=False,
            )  # fmt: skip
        if done.returncode not in (0, 1) or not report.exists():  # 1: some tests failed
            raise RuntimeError(f"pytest ended with {done.returncode}; see {log}")
        return answers(report), sum(path.stat().st_size // ENTRY.size for path in logs.glob("*.steps"))

    def compare(self) -> dict[str, Any]:
        """Run the tests both ways, and return the counts, and each test with another answer.

        A test that fails now and then without a recorder is not counted as one with another answer.
        """
        plain, _ = self.run(recorded=False)
        recorded, steps = self.run(recorded=True)
        different: list[str] = []
        unsteady: list[str] = []
        for name in sorted({*plain, *recorded}):
            pair = plain.get(name, "not there"), recorded.get(name, "not there")
            if pair[0] != pair[1]:
                (unsteady if self._is_unsteady(name) else different).append(
                    f"{name}: {pair[0]}, then {pair[1]}"
                )
        counts = Counter(answer.partition(":")[0] for answer in plain.values())
        return {
            "suite": self.suite.name, "file": self.file, "answers": dict(counts), "steps": steps,
            "different": different, "unsteady": unsteady,
        }  # fmt: skip

    def _is_unsteady(self, name: str) -> bool:
        """Return whether a test alone has equal sets of answers both ways, in `AGAIN` runs each."""
        wanted = name.rpartition("::")[2]
        given = [
            {
                self.run(recorded=recorded, chosen=[self.file, "-k", wanted])[0].get(name, "")
                for _ in range(AGAIN)
            }
            for recorded in (False, True)
        ]
        return given[0] == given[1]


def list_tests() -> list[tuple[Suite, str]]:
    """Return each file of tests with its suite."""
    return [(suite, file) for suite in SUITES for file in suite.files]


def compare_file(suite: Suite, file: str, work: Path) -> dict[str, Any]:
    """Run one file of tests both ways.

    Raises:
        RuntimeError: its source or environment cannot be had, or pytest itself failed.
    """
    work.mkdir(parents=True, exist_ok=True)
    source, python = find_source(suite, work), find_python(suite, work)
    return Tests(suite, python, source, file, work).compare()


def findings(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the evidence of all files."""
    totals: Counter[str] = Counter()
    lines = [line for each in found for line in each["different"]]
    for each in found:
        totals.update(each["answers"])
    return {
        "seed": int(SEED), "options": dict(OPTIONS), "releases": {suite.name: suite.release for suite in SUITES},
        "answers": dict(totals), "steps": sum(each["steps"] for each in found),
        "different": [line for line in lines if line.partition(": ")[0] not in OF_PYTORCH],
        "of PyTorch": [
            f"{line}: {OF_PYTORCH[name]}" for line in lines if (name := line.partition(": ")[0]) in OF_PYTORCH
        ],
        "unsteady": [line for each in found for line in each["unsteady"]], "files": list(found),
    }  # fmt: skip
