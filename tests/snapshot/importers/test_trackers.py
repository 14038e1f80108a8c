"""Runs and locks that the tools themselves write here, with planted names of people and secrets."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from pip._internal.models.index import PyPI

from reprobuild.snapshot.import_facts import ImportFacts
from reprobuild.snapshot.importers import wandb
from reprobuild.snapshot.importers.import_snapshot import import_into, open_snapshot
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.read import read_snapshot
from tests.snapshot.importers.tools import Tools

TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
DIGITS = "9f8e7d6c5b4a3210" * 2 + "a0b1c2d3"
LETTERS = "-".join(["hunter22", "Kz9"])
PLANTED = ("alice", "Alice", "gpu-17", "lab.example", TOKEN, DIGITS, LETTERS)
VARIABLES = {
    "USER": "alice", "LOGNAME": "alice", "HOSTNAME": "gpu-17.lab.example", "OMP_NUM_THREADS": "4",
    "HF_TOKEN": "hf_" + "aB1cD2eF3gH4" * 3, "DATABASE": f"postgres://u:{LETTERS}@db.example/x", "WANDB_API_KEY": DIGITS,
    "WANDB_USERNAME": "alice", "WANDB_EMAIL": "alice@lab.example", "WANDB_HOST": "gpu-17",
}  # fmt: skip


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    return Tools(tmp_path_factory.mktemp("tools"))


def imported(path: Path, out: Path) -> tuple[ImportFacts, Snapshot]:
    """Import a path, and check that no file of the result has a planted text."""
    facts = import_into(path, out)
    for file in out.iterdir():
        content = file.read_text()
        assert [text for text in PLANTED if text in content] == [], file.name
    return facts, read_snapshot(out)


def versions(snapshot: Snapshot) -> dict[str, str]:
    return {line.name: line.version for line in snapshot.requirements if line.kind == "index"}


def python_of(snapshot: Snapshot) -> str | None:
    return snapshot.reports[0].python if snapshot.reports else None


TRAIN = """\
import wandb
run = wandb.init(project="p", config={"lr": 1}, mode="offline", settings=wandb.Settings(save_code=True))
run.log({"loss": 1.0})
run.finish()
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with a login in its remote, and a program with an uncommitted change."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)

    def git(*words: str) -> None:
        who = ("-c", "user.name=Alice B", "-c", "user.email=alice@lab.example")
        subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)

    git("init", "-q")
    git("remote", "add", "origin", f"https://alice:{TOKEN}@git.example/lab/work.git")
    git("add", "train.py")
    git("commit", "-q", "-m", "begin")
    (folder / "train.py").write_text(TRAIN + "# one change\n")
    return folder


@pytest.mark.parametrize("group", ["trackers", "old"])
def test_an_offline_run_of_wandb(group: str, tools: Tools, repository: Path, tmp_path: Path) -> None:
    words = ("train.py", "--token", TOKEN, "--user", "alice")
    tools.run(group, "python", *words, cwd=repository, **VARIABLES)
    (run,) = (repository / "wandb").glob("offline-run-*")
    facts, snapshot = imported(run, tmp_path / "out")
    assert (facts.format, facts.started[:3]) == ("W&B run", "202")
    assert versions(snapshot)["wandb"] == {"trackers": "0.31.0", "old": "0.18.7"}[group]
    assert python_of(snapshot) == sys.version.split()[0]
    assert "# one change" in (tmp_path / "out" / "work.patch").read_text()
    assert [entry.reason for entry in facts.unused if entry.source == "code/train.py"] == [wandb.CODE]
    assert not [
        path for path in (tmp_path / "out").iterdir() if "import wandb" in path.read_text().splitlines()
    ]
    (own,) = (entry.reason for entry in facts.unused if entry.field == "git")
    assert own.startswith("the job's own repository: https://git.example/lab/work.git at ")


@pytest.mark.long
def test_a_run_of_sacred(tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "from sacred import Experiment, SETTINGS\n"
        "from sacred.observers import FileStorageObserver\n"
        f"SETTINGS.HOST_INFO.CAPTURED_ENV = {sorted(VARIABLES)}\n"
        "ex = Experiment('work', save_git_info=False)\n"
        "ex.observers.append(FileStorageObserver('runs'))\n"
        "ex.main(lambda: None)\n"
        "ex.run()\n"
    )
    tools.run("trackers", "python", "train.py", cwd=tmp_path, **VARIABLES)
    facts, snapshot = imported(tmp_path / "runs" / "1", tmp_path / "out")
    assert versions(snapshot)["sacred"] == "0.8.7"
    assert [(variable.name, variable.value) for variable in snapshot.variables] == [("OMP_NUM_THREADS", "4")]
    assert facts.started.startswith("20")
    assert snapshot.reports


def test_a_directory_of_hydra_joins_a_list(tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import hydra\n@hydra.main(version_base=None)\ndef main(cfg): pass\nmain()\n"
    )
    words = ("train.py", "hydra.run.dir=job", "+hydra.job.env_set.OMP_NUM_THREADS=4", "+lr=1")
    tools.run("trackers", "python", *words, cwd=tmp_path)
    (tmp_path / "job" / "requirements.txt").write_text("click==8.1.7\n")
    facts, _ = imported(tmp_path / "job", tmp_path / "out")
    assert facts.format == "a snapshot in a directory"
    snapshot = read_snapshot(tmp_path / "out")
    assert versions(snapshot) == {"click": "8.1.7"}
    assert [(variable.name, variable.value) for variable in snapshot.variables] == [("OMP_NUM_THREADS", "4")]
    (version,) = (entry for entry in facts.unused if entry.field == "hydra.runtime.version")
    assert version.reason == "the snapshot has its own requirements.txt"


MLFLOW = """\
import mlflow, os, sys
mlflow.set_tracking_uri("file:" + os.path.abspath("mlruns"))
class Model(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        return model_input
with mlflow.start_run():
    mlflow.log_param("lr", 1)
    mlflow.pyfunc.save_model("model", python_model=Model(), pip_requirements=["click==8.1.7", "mlflow-skinny==3.17.2"])
"""


def test_a_model_and_a_run_of_mlflow(tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MLFLOW)
    tools.run(
        "trackers", "python", "train.py", cwd=tmp_path, MLFLOW_ALLOW_FILE_STORE="true", MLFLOW_DISABLE_TELEMETRY="true",
        **VARIABLES,
    )  # fmt: skip
    facts, snapshot = imported(tmp_path / "model", tmp_path / "out")
    assert versions(snapshot) == {"click": "8.1.7", "mlflow-skinny": "3.17.2"}
    assert python_of(snapshot) == sys.version.split()[0]
    assert facts.started.startswith("20")
    (run,) = (path.parent for path in (tmp_path / "mlruns" / "0").glob("*/meta.yaml"))
    (tmp_path / "model").rename(run / "artifacts" / "model")
    facts, again = imported(run, tmp_path / "again")
    assert (facts.format, versions(again)) == ("MLflow run", versions(snapshot))


@pytest.mark.long
def test_a_run_of_guild(tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("lr = 0.1\nprint(lr)\n")
    (tmp_path / "guild").mkdir()
    words = ("run", "train.py", "-y", "--run-dir", "run")
    tools.run("guild", "guild", *words, cwd=tmp_path, GUILD_HOME=str(tmp_path / "guild"), **VARIABLES)
    facts, snapshot = imported(tmp_path / "run", tmp_path / "out")
    assert versions(snapshot)["guildai"] == "0.9.0"
    values = {variable.name: variable.value for variable in snapshot.variables}
    assert values["OMP_NUM_THREADS"] == "4"
    assert not {"HF_TOKEN", "DATABASE", "WANDB_API_KEY", "USER"} & values.keys()
    assert facts.started.startswith("20")
    assert python_of(snapshot) == sys.version.split()[0]


@pytest.mark.long
def test_data_of_dvc(tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("x\n")
    for words in ("init -q --no-scm", "add -q data.txt", "stage add -q --run -n fit -d data.txt -o out.txt"):
        command = ["cp data.txt out.txt"] if words.startswith("stage") else []
        tools.run("dvc", "dvc", *words.split(), *command, cwd=tmp_path)
    (tmp_path / "requirements.txt").write_text("click==8.1.7\n")
    facts, _ = imported(tmp_path, tmp_path.parent / "imported-data")
    md5 = hashlib.md5(b"x\n").hexdigest()  # as DVC does
    assert [(entry.path, entry.md5, entry.size, entry.field) for entry in facts.data] == [
        ("data.txt", md5, 2, "stages.fit.deps[0]"), ("out.txt", md5, 2, "stages.fit.outs[0]"),
        ("data.txt", md5, 2, "outs[0]"),
    ]  # fmt: skip


PROJECT = (
    '[project]\nname = "work"\nversion = "1"\nrequires-python = ">=3.10"\ndependencies = ["click==8.1.7"]\n'
)
# The simple index: not every mirror has the JSON that poetry asks PyPI for.
SOURCE = f'\n[[tool.poetry.source]]\nname = "simple"\nurl = "{PyPI.simple_url}/"\npriority = "primary"\n'
PIPFILE = f"""\
[[source]]
url = "{PyPI.simple_url}"
verify_ssl = true
name = "pypi"

[packages]
click = "==8.1.7"
"""
HASHES = (
    "ae74fb96c20a0277a1d615f1e4d73c8414f5a98db8b799a7931d1582f3390c28",
    "ca9853ad459e787e2192211578cc907e7594e294c7ccc834310722b41b9ca6de",
)


@pytest.mark.parametrize(
    ("program", "words", "lock"),
    [
        ("poetry", ["lock", "-n"], "poetry.lock"),
        pytest.param("pdm", ["lock", "-q"], "pdm.lock", marks=pytest.mark.long),
        pytest.param("pipenv", ["lock", "-q"], "Pipfile.lock", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_a_lock(program: str, words: list[str], lock: str, tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT + SOURCE)
    if program == "pipenv":
        (tmp_path / "Pipfile").write_text(PIPFILE)
    tools.run(program, program, *words, cwd=tmp_path)
    with open_snapshot(tmp_path / lock) as directory:
        lines = {line.name: line for line in read_snapshot(directory).requirements}
    assert (lines["click"].version, lines["click"].hashes) == ("8.1.7", HASHES)
    colorama = lines.get("colorama")
    assert colorama is None or colorama.marker == 'platform_system == "Windows"'
    assert (colorama is None) == (program == "pipenv")
