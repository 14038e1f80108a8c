"""Each command of `cluster` takes its own options, and refuses those of the others. The tests run no engine."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from reprobuild.cli.main import cli
from reprobuild.errors import UsageError

JOB = "--nodes 2 --repository h/n"


def invoke(name: str, tmp_path: Path, options: str) -> BaseException | None:
    """Run a command whose OUT is missing, and return what it raises."""
    operands = [str(tmp_path / "out"), *(["certificates"] if name.startswith("gather") else [])]
    words = ["cluster", name, *operands, *options.split()]
    return CliRunner().invoke(cli, words, standalone_mode=False).exception


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("run", "--nodes 64 --partition gpu --time-limit 10 --srun-args=-v --timeout 9 --thorough --gpu none --json"),
        ("run", "--cpu-only --no-controls --engine docker --probe conv2d --no-collectives"),
        ("job", f"{JOB} --pull-secret s --node-gpus 8 --namespace n --node-selector a=b --timeout 9"),
        ("job", f"{JOB} --cpu-only --probe conv2d --no-controls --thorough --json"),
        ("worker", "--output f --store s --gpu all --engine docker --thorough --no-controls --probe conv2d"),
        ("gather", "--json --store s"),
        ("gather-pods", "--nodes 2 --thorough --no-controls --probe conv2d --cpu-only --json"),
    ],
)  # fmt: skip
def test_each_command_takes_its_options(name: str, options: str, tmp_path: Path) -> None:
    error = invoke(name, tmp_path, options)
    assert isinstance(error, UsageError), error
    assert str(error).startswith("there is no directory ")


@pytest.mark.parametrize(
    ("name", "options", "refused"),
    [
        ("run", "--repository h/n", "--repository"),
        ("run", "--against x", "--against"),
        ("run", "--no-probes", "--no-probes"),
        ("job", f"{JOB} --engine podman", "--engine"),
        ("job", f"{JOB} --partition gpu", "--partition"),
        ("worker", "--output f --nodes 2", "--nodes"),
        ("gather", "--nodes 2", "--nodes"),
        ("gather", "--thorough", "--thorough"),
        ("gather-pods", "--nodes 2 --repository h/n", "--repository"),
    ],
)
def test_an_option_of_another_command_is_refused(
    name: str, options: str, refused: str, tmp_path: Path
) -> None:
    error = invoke(name, tmp_path, options)
    assert isinstance(error, click.NoSuchOption), error
    assert error.option_name == refused


@pytest.mark.parametrize(
    ("name", "options", "missing"),
    [
        ("job", "--repository h/n", "nodes"),
        ("job", "--nodes 2", "repository"),
        ("worker", "", "target"),
        ("gather-pods", "", "nodes"),
    ],
)
def test_a_missing_option_is_named(name: str, options: str, missing: str, tmp_path: Path) -> None:
    error = invoke(name, tmp_path, options)
    assert isinstance(error, click.MissingParameter), error
    assert error.param
    assert error.param.name == missing
