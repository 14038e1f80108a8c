"""The callbacks, each with the real library: a run leaves a snapshot that can be read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from reprobuild.recipe.payload import FACADE
from reprobuild.snapshot.importers.own_snapshot import find_own_snapshot
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.read import read_snapshot

ROOT = Path(__file__).parent.parent
LIBRARIES = ("transformers", "accelerate", "lightning", "hydra-core", "wandb", "mlflow-skinny")
TRANSFORMERS = """
import torch
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments
from reprobuild.integrations.hugging_face import HuggingFaceCapture


class Model(PreTrainedModel):
    config_class = PretrainedConfig

    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(2, 1)
        self.post_init()

    def forward(self, x, labels=None):
        return {"loss": self.layer(x).square().mean()}


arguments = TrainingArguments("out", max_steps=1, use_cpu=True, report_to=[], save_strategy="no")
data = [{"x": torch.ones(2), "labels": torch.ones(1)}] * 4
Trainer(Model(PretrainedConfig()), arguments, train_dataset=data, callbacks=[HuggingFaceCapture()]).train()
"""
LIGHTNING = """
import torch
from lightning.pytorch import LightningModule, Trainer
from reprobuild.integrations.lightning import LightningCapture


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, number):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


Trainer(
    max_steps=1, accelerator="cpu", logger=False, enable_checkpointing=False, default_root_dir="out",
    callbacks=[LightningCapture()],
).fit(Model(), torch.utils.data.DataLoader(torch.ones(4, 2)))
"""
HYDRA = """
import hydra


@hydra.main(version_base=None)
def main(config):
    print("ran")


main()
"""
WANDB = """
import wandb
from reprobuild.integrations.wandb import capture_run

with wandb.init(mode="offline", project="p", dir=".") as run:
    print(capture_run(run, upload=True))
"""
MLFLOW = """
import mlflow
from reprobuild.integrations.mlflow import log_capture

mlflow.set_tracking_uri("file:mlruns")
with mlflow.start_run():
    assert log_capture().endswith("/artifacts/reprobuild-snapshot")
"""
IN_IMAGE = """
from types import SimpleNamespace

from reprobuild.integrations.wandb import capture_run

print(capture_run(SimpleNamespace(dir="run/files", id="1")))
"""
OPTION = "+hydra.callbacks.capture._target_=reprobuild.integrations.hydra.HydraCapture"


@pytest.fixture(scope="module")
def libraries(torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the newest releases of the libraries, beside the torch of the example."""
    folder = tmp_path_factory.mktemp("libraries")
    (folder / "overrides.txt").write_text('torch ; sys_platform == "never"\n')
    subprocess.run(
        [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", torch_python, "--target", folder / "site",
         "--overrides", folder / "overrides.txt", *LIBRARIES], check=True, timeout=600,
    )  # fmt: skip
    return folder / "site"


@pytest.mark.parametrize(
    ("program", "options", "place"),
    [
        (TRANSFORMERS, (), "out"),
        (LIGHTNING, (), "out"),
        (HYDRA, (OPTION, "hydra.run.dir=out"), "out"),
        (WANDB, (), "wandb/offline-run-*"),
        (MLFLOW, (), "mlruns/0/*/artifacts"),
    ],
    ids=["transformers", "lightning", "hydra", "wandb", "mlflow"],
)
def test_a_run_leaves_a_snapshot(
    program: str, options: tuple[str, ...], place: str, libraries: Path, torch_python: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(program)
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "MARK": "here", "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": f"{libraries}:{ROOT}", "WANDB_SILENT": "true", "MLFLOW_ALLOW_FILE_STORE": "true",
    }  # fmt: skip
    done = subprocess.run(
        [torch_python, "train.py", *options], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (directory,) = tmp_path.glob(f"{place}/reprobuild-snapshot")
    run = directory.parent.parent if directory.parent.name == "artifacts" else directory.parent
    assert find_own_snapshot(run) == directory
    snapshot = read_snapshot(directory)
    assert variables(snapshot)["MARK"] == "here"
    assert "torch" in {line.name for line in snapshot.requirements}
    assert snapshot.captured is not None


def test_a_callback_runs_where_an_image_has_it(tmp_path: Path) -> None:
    """In an image, `reprobuild.pth` adds a directory with the small package `reprobuild` of the runtime.

    It is behind the environment's own distributions, so that an installed reprobuild is the one that is imported.
    """
    venv.create(tmp_path / "venv", with_pip=False)
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    library, job = tmp_path / "lib", tmp_path / "job"
    for folder in (library / "reprobuild", job):
        folder.mkdir(parents=True)
    shutil.copytree(ROOT / "reprobuild_runtime", library / "reprobuild_runtime")
    shutil.copy(ROOT / "reprobuild_runtime" / FACADE, library / "reprobuild" / "__init__.py")
    (site / "reprobuild.pth").write_text(f"{library}\nimport reprobuild_runtime.startup\n")
    (job / "wandb.py").write_text("")
    (job / "train.py").write_text(IN_IMAGE)
    command = (tmp_path / "venv/bin/python", "train.py")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MARK": "here"}
    done = subprocess.run(command, cwd=job, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "No module named 'reprobuild.integrations'" in done.stderr
    for name in ("reprobuild", "reprobuild_portable", "reprobuild_runtime"):
        (site / name).symlink_to(ROOT / name)
    done = subprocess.run(command, cwd=job, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "run/reprobuild-snapshot\n"
    assert variables(read_snapshot(job / "run" / "reprobuild-snapshot"))["MARK"] == "here"


def variables(snapshot: Snapshot) -> dict[str, str | None]:
    return {variable.name: variable.value for variable in snapshot.variables}
