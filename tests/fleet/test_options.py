"""An option of `verify` that would silently have no effect is refused. Nothing is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from reprobuild.cli import cli, cluster, verify
from reprobuild.errors import ReproError, UsageError

LEAVE = "leave it out: see docs/fleets.md"
ALONE = "a check of this machine alone"


def refusal(tmp_path: Path, *arguments: str) -> ReproError:
    """Return why a command line is refused; its OUT is not there, which is the last that is looked at."""
    done = CliRunner().invoke(cli, ["verify", str(tmp_path / "out"), *arguments], standalone_mode=False)
    assert isinstance(done.exception, ReproError), done.output
    return done.exception


@pytest.mark.parametrize(
    ("arguments", "what", "hint"),
    [
        ("--nodes 64 --partition gpu", f"--nodes has no effect on {ALONE}",
         "leave it out, or add one of: --kubernetes, --slurm"),
        ("--partition gpu", f"--partition has no effect on {ALONE}", "leave it out, or add one of: --slurm"),
        ("--image h/n", f"--image has no effect on {ALONE}", "leave it out, or add one of: --kubernetes"),
        ("--deadline 1800", f"--deadline has no effect on {ALONE}", None),
        ("--slurm --nodes 2 --against x", "--against has no effect on --slurm", LEAVE),
        ("--slurm --nodes 2 --command x", "--command has no effect on --slurm", LEAVE),
        ("--slurm --nodes 2 --artefact x", "--artefact has no effect on --slurm", LEAVE),
        ("--slurm --nodes 2 --distinct x", "--distinct has no effect on --slurm", LEAVE),
        ("--slurm --nodes 2 --ignore x", "--ignore has no effect on --slurm", LEAVE),
        ("--slurm --nodes 2 --no-smoke", "--no-smoke has no effect on --slurm", LEAVE),
        ("--slurm --nodes 2 --image h/n", "--image has no effect on --slurm", LEAVE),
        ("--member f --nodes 2", "--nodes has no effect on --member", LEAVE),
        ("--gather f --nodes 2", "--nodes has no effect on --gather", LEAVE),
        ("--gather f --thorough", "--thorough has no effect on --gather", LEAVE),
        ("--kubernetes --nodes 2 --engine podman", "--engine has no effect on --kubernetes", LEAVE),
        ("--kubernetes --gather f --image h/n", "--image has no effect on --kubernetes and --gather", LEAVE),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_refused(arguments: str, what: str, hint: str | None, tmp_path: Path) -> None:
    found = refusal(tmp_path, *arguments.split())
    assert (type(found), str(found)) == (UsageError, what)
    assert hint in (None, found.hint)


@pytest.mark.parametrize(
    "arguments",
    [
        "--against x --command true --ignore k --probe conv2d --no-smoke",
        "--slurm --nodes 64 --partition gpu --time 10 --srun-option=-v --deadline 9 --thorough --gpu none --json",
        "--member f --store s --gpu all --scope all --engine docker --thorough --no-control --probe conv2d",
        "--gather f --json",
        "--kubernetes --nodes 2 --image h/n --pull-secret s --node-gpus 8 --namespace n --node-label a=b --deadline 9",
        "--kubernetes --nodes 2 --image h/n --scope cpu",
        "--kubernetes --gather f --nodes 2 --thorough --no-control --probe conv2d --scope cpu",
    ],
)
def test_what_has_one_is_not(arguments: str, tmp_path: Path) -> None:
    assert " has no effect on " not in str(refusal(tmp_path, *arguments.split()))


def test_every_option_of_fleets_belongs_to_a_way() -> None:
    own = {parameter.name for parameter in verify.command.params}
    assert own > cluster.OF_FLEETS
    assert own > cluster.CHECKED | cluster.ALWAYS
