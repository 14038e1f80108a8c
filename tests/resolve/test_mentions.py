"""Variables of unknown names that the job's own code names: `lock` says so, with the option that bakes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprobuild import api
from reprobuild.lock.model import Resolution
from reprobuild.resolve.environment.environment import resolve_environment
from reprobuild.resolve.environment.mentions import describe_mentions
from reprobuild.snapshot.model import SourceLocation, Variable
from reprobuild.store.store import Store
from tests.image.made import Made, file
from tests.report.samples import IMAGE
from tests.verify.samples import make_lock

NAMES = ("ALPHA", "BETA", "HOME", "OMP_NUM_THREADS", "HF_TOKEN")


def rulings(*names: str) -> tuple[Resolution, ...]:
    variables = [
        Variable(name=name, value="1e-3", place=SourceLocation(file="env.txt", line=number))
        for number, name in enumerate(names)
    ]
    return resolve_environment(variables, bake={}, drop=())[1]


def messages(tmp_path: Path, path: str, text: bytes, names: tuple[str, ...] = NAMES) -> list[str]:
    made = Made(tmp_path)
    made.source("job", [file("README.md", b"ALPHA"), file(path, text)])
    return list(describe_mentions(rulings(*names), made.sources, made.store))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("train.py", b"lr = float(os.environ['ALPHA'])"),
        ("src/a.py", b'os.getenv("ALPHA", "1")'),
        ("run.sh", b"python train.py --lr $ALPHA"),
        ("run.sh", b"python train.py --lr ${ALPHA:-1}"),
        ("conf.yaml", b"lr: ${ALPHA}"),
    ],
)
def test_a_parameter_of_the_job_is_named(path: str, text: bytes, tmp_path: Path) -> None:
    (message,) = messages(tmp_path, path, text)
    assert message == (
        f"the job's code names variables that the image lacks: ALPHA (the first in job/{path}); to put their captured "
        "values in: --bake ALPHA"
    )


def test_a_tree_that_the_store_lacks_is_not_read(tmp_path: Path) -> None:
    """The summary of a build repeats the message, and another process may have cleaned the store meanwhile."""
    made = Made(tmp_path)
    made.source("job", [file("train.py", b"os.environ['ALPHA']")])
    empty = Store(tmp_path / "empty")
    assert list(describe_mentions(rulings(*NAMES), made.sources, empty)) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("train.py", b"ALPHA = 3  # $, 'BETA_2'"),
        ("train.py", b"os.environ['HOME'], os.environ['OMP_NUM_THREADS']"),  # of known classes
        ("notes.md", b"export 'ALPHA'"),
        ("large.py", b"'ALPHA'" + b" " * (1 << 20)),
    ],
)
def test_what_is_no_mention(path: str, text: bytes, tmp_path: Path) -> None:
    assert messages(tmp_path, path, text) == []


def test_many_are_counted(tmp_path: Path) -> None:
    names = tuple(f"MY_PARAMETER_{number:02}" for number in range(12))
    (message,) = messages(tmp_path, "train.py", repr(names).encode(), names)
    assert "MY_PARAMETER_07 and 4 more (the first in job/train.py)" in message
    assert message.endswith("--bake MY_PARAMETER_06 --bake MY_PARAMETER_07")


def test_the_option_puts_it_in() -> None:
    """As the message says."""
    variable = Variable(name="ALPHA", value="1e-3", place=SourceLocation(file="env.txt", line=1))
    settings, _ = resolve_environment([variable], bake={"ALPHA": None}, drop=())
    assert [(setting.name, setting.value) for setting in settings] == [("ALPHA", "1e-3")]


def test_the_summary_of_a_build_repeats_the_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that is used again has no step that says it."""
    made = Made(tmp_path / "made")
    made.source("job", [file("train.py", b"os.environ['ALPHA']")])
    lock = make_lock(sources=tuple(made.sources), rulings=rulings(*NAMES))
    monkeypatch.setattr(
        "reprobuild.api.commands.from_snapshot.build_from_snapshot", lambda *_, **__: (lock, IMAGE, None)
    )
    context = api.open_context(store=made.store.root, offline=True)
    result = api.from_snapshot(tmp_path, tmp_path / "out", context=context)
    (message,) = describe_mentions(lock.rulings, lock.sources, made.store)
    assert result.warnings == (message,)
    lines = str(result).splitlines()
    assert lines[lines.index(f"warning: {message}") + 1] == ""
