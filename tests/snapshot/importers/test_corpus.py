"""Runs and locks as people published them: each is imported, or refused with a cause and a next step."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest

from reprobuild.errors import ReproError
from reprobuild.snapshot.import_facts import FILE, ImportFacts
from reprobuild.snapshot.importers.import_snapshot import import_into, needs_import
from reprobuild.snapshot.read import read_snapshot

CORPUS = Path(os.environ["REPROBUILD_CORPUS"]) / "runs"
# The number of levels down to a run: one file, or a directory in that of its repository.
LEVELS = {
    "uv": 1, "pylock": 1, "pip-inspect": 1, "pixi": 1, "conda-lock": 1, "poetry": 1, "pdm": 1, "pipfile": 1,
    "requirements": 1, "conda-env": 1, "wandb": 2, "mlflow": 2, "guild": 2, "sacred": 2, "hf-card": 1, "sagemaker": 1,
    "sacct": 1, "hydra": 1, "dvc": 1,
}  # fmt: skip
RUNS = sorted(
    path
    for format_name, levels in LEVELS.items()
    for path in (CORPUS / format_name).glob("/".join("*" * levels))
)
REFUSED = {
    "0xorial__mlfls-hw-pixi.lock": "has no environment for Linux, only for osx-arm64",
    "run-cb009651": "MLflow run: `meta.yaml` names no package",
    "LuxAI-Gamers__QLara-training_job.json": "is of no known format",  # a state machine that would start the job
    "ivolabbe__slurminal-sacct.json": "has 3 jobs, and a snapshot is of one",
    "mila-iqia__SARC-tests--data--sacct--fromage_1706227200.json": "has 9 jobs, and a snapshot is of one",
}
REFUSED_FORMATS = {
    "sagemaker": "names only the image 433757028032.dkr.ecr.us-west-2.amazonaws.com/xgboost:1",
    "sacct": "a Slurm job without its variables names no environment",
    "hydra": "has only facts that belong to a run (Hydra), and names no package",
    "dvc": "has only facts that belong to a run (DVC), and names no package",
}
PEOPLE = re.compile(r"someone|node01|example\.org")  # the corpus has these in place of names


def name_of(path: Path) -> str:
    return str(path.relative_to(CORPUS))


def cause_of(path: Path) -> str:
    """Return the cause for which a run is refused; empty if it is imported."""
    return REFUSED.get(path.name) or REFUSED_FORMATS.get(path.relative_to(CORPUS).parts[0], "")


@pytest.mark.parametrize("path", RUNS, ids=name_of)
def test_a_run_becomes_a_snapshot_that_names_no_person(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "snapshot"
    assert needs_import(path)
    if cause := cause_of(path):
        with pytest.raises(ReproError, match=re.escape(cause)) as err:
            import_into(path, out)
        assert err.value.hint
        assert not out.exists()
        return
    facts = import_into(path, out)
    snapshot = read_snapshot(out)
    assert (
        snapshot.requirements or snapshot.conda or snapshot.reports or snapshot.variables or snapshot.remarks
    )
    assert msgspec.json.decode((out / FILE).read_bytes(), type=ImportFacts) == facts
    for file in out.iterdir():
        rows = [row for row in file.read_text().splitlines() if not row.startswith("name:")]
        assert not [row for row in rows if PEOPLE.search(row)], file


def test_every_file_of_the_corpus_is_in_a_run() -> None:
    files = {path for path in CORPUS.rglob("*") if path.is_file() and path.name != "index.tsv"}
    assert len(files) > 200
    assert {path for path in files if not any(run == path or run in path.parents for run in RUNS)} == set()


@pytest.mark.parametrize("path", [path for path in RUNS if not cause_of(path)], ids=name_of)
def test_each_line_has_its_origin(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "snapshot"
    facts = import_into(path, out)
    for origin in facts.origins:
        lines = (out / origin.file).read_text().splitlines()
        assert 0 <= origin.line <= len(lines)
    if facts.origins:
        stated = {(origin.file, origin.line) for origin in facts.origins}
        for name in ("requirements.txt", "conda-explicit.txt"):
            if (out / name).exists() and (name, 0) not in stated:
                rows = (out / name).read_text().splitlines()
                own = [number for number, row in enumerate(rows, 1) if not row.startswith((" ", "@"))]
                assert all((name, number) in stated for number in own)
