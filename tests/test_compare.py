"""Differences of locks and snapshots, likeliest culprit first."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reprobuild import pipeline
from reprobuild.compare import ORDER, Change, compare_locks, compare_snapshots
from reprobuild.errors import UsageError
from reprobuild.lock import Bytecode, Realised, Setting, write_lock
from reprobuild.report.text import render_differences
from reprobuild.snapshot import read_snapshot
from tests.conftest import EXAMPLE
from tests.verify.samples import SHA, artefact, deb, make_lock, source, wheel

SNAPSHOT = EXAMPLE / "snapshot"


def copy_of(folder: Path, name: str, old: str = "", new: str = "") -> Path:
    """Copy the example's snapshot, and change one of its files."""
    folder.mkdir()
    for path in SNAPSHOT.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
    return folder


def test_a_snapshot_and_itself(tmp_path: Path) -> None:
    assert pipeline.compare(SNAPSHOT, copy_of(tmp_path / "copy", "env.txt")) == []
    assert render_differences([]) == "no difference"


def test_only_ld_preload_differed(tmp_path: Path) -> None:
    line = next(
        line for line in (SNAPSHOT / "env.txt").read_text().splitlines() if line.startswith("LD_PRELOAD=")
    )
    other = copy_of(tmp_path / "other", "env.txt", f"{line}\n")
    found = pipeline.compare(SNAPSHOT, other)
    assert found == [
        Change(kind="environment", name="LD_PRELOAD", one=line.partition("=")[2], other=None),
    ]
    assert render_differences(found) == f"environment: LD_PRELOAD: {line.partition('=')[2]} -> nothing"


def test_ld_preload_comes_before_all_others(tmp_path: Path) -> None:
    other = copy_of(tmp_path / "other", "env.txt", "LD_PRELOAD=", "LD_PRELOAD=/lib/other.so:")
    (other / "env.txt").write_text("AAA=1\n" + (other / "env.txt").read_text())
    (other / "requirements.txt").write_text("aaa==1\n")
    (other / "apt-packages.txt").unlink()
    (other / "modules.txt").unlink()
    (other / "tinytrain.diff").unlink()
    found = pipeline.compare(SNAPSHOT, other)
    assert [change.name for change in found[:2]] == ["LD_PRELOAD", "AAA"]
    kinds = [change.kind for change in found]
    assert kinds == sorted(kinds, key=ORDER.index)
    assert set(kinds) == {"environment", "python", "source", "system", "module"}


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    secret = next(
        line for line in (SNAPSHOT / "env.txt").read_text().splitlines() if line.startswith("WANDB_API_KEY=")
    )
    other = copy_of(tmp_path / "other", "env.txt", secret, "WANDB_API_KEY=" + "0123456789" * 4)
    assert pipeline.compare(SNAPSHOT, other) == []
    gone = copy_of(tmp_path / "gone", "env.txt", f"{secret}\n")
    assert pipeline.compare(SNAPSHOT, gone) == [
        Change(kind="environment", name="WANDB_API_KEY", one="(secret)", other=None)
    ]


def test_names_are_compared_as_python_does(tmp_path: Path) -> None:
    snapshot = read_snapshot(SNAPSHOT)
    spelled = [
        msgspec.structs.replace(line, name=line.name.upper().replace("-", "_"))
        for line in snapshot.requirements
    ]
    assert compare_snapshots(snapshot, msgspec.structs.replace(snapshot, requirements=tuple(spelled))) == []


def test_a_lock_and_itself() -> None:
    assert compare_locks(make_lock(), make_lock()) == []


@pytest.mark.parametrize(
    ("fields", "kind", "name"),
    [
        (
            {"environment": (Setting(name="A", value="2"), Setting(name="LINES", value="one\ntwo"))},
            "environment",
            "A",
        ),
        ({"wheels": (wheel("torch", "1.1"),)}, "python", "torch"),
        ({"wheels": (wheel("torch", file=artefact("torch-1.0-other.whl")),)}, "python", "torch"),
        ({"wheels": (wheel("torch"), wheel("hatch", role="build"))}, "python", "hatch (build)"),
        ({"sources": (source("mylib", "8" * 40),)}, "source", "mylib"),
        ({"sources": ()}, "source", "mylib"),
        ({"seed": 3}, "other", "seed"),
        ({"epoch": 3}, "other", "epoch"),
        ({"workdir": "/"}, "other", "workdir"),
        ({"profile": "x"}, "other", "profile"),
        ({"platform": "linux/arm64"}, "other", "platform"),
        ({"snapshot": "6" * 64}, "other", "snapshot"),
    ],
)
def test_one_field_of_a_lock(fields: dict[str, object], kind: str, name: str) -> None:
    (change,) = compare_locks(make_lock(), make_lock(**fields))
    assert (change.kind, change.name) == (kind, name)
    (back,) = compare_locks(make_lock(**fields), make_lock())
    assert (back.one, back.other) == (change.other, change.one)


def test_interpreter_packages_and_what_was_realised() -> None:
    one = make_lock(realised=Realised(base="0" * 64, runtime="2" * 64, wheels=(), bytecode=()))
    realised = Realised(
        base="1" * 64, runtime="2" * 64, wheels=(wheel("mylib"),),
        bytecode=(Bytecode(artefact=SHA, tar="3" * 64), Bytecode(artefact="f" * 64, tar="4" * 64)),
    )  # fmt: skip
    other = make_lock(
        interpreter=msgspec.structs.replace(one.interpreter, version="3.12.1"),
        base=msgspec.structs.replace(one.base, packages=(deb("bash", "2"), deb("zsh"))),
        realised=realised,
    )
    found = [(change.kind, change.name) for change in compare_locks(one, other)]
    assert found[0] == ("interpreter", "python")
    assert found[1:4] == [("system", "bash"), ("system", "dpkg"), ("system", "zsh")]
    assert {kind for kind, _ in found[4:]} == {"realised"}
    assert ("realised", "wheel of mylib") in found
    assert ("realised", "base tree") in found


def test_locks_by_file_and_by_folder(tmp_path: Path) -> None:
    write_lock(make_lock(), tmp_path / "reprobuild.lock")
    write_lock(make_lock(seed=1), tmp_path / "other.lock")
    (change,) = pipeline.compare(tmp_path, tmp_path / "other.lock")
    assert (change.name, change.one, change.other) == ("seed", "None", "1")


def test_values_of_two_kinds(tmp_path: Path) -> None:
    write_lock(make_lock(), tmp_path / "reprobuild.lock")
    for pair in ((tmp_path, SNAPSHOT), (SNAPSHOT, tmp_path)):
        with pytest.raises(UsageError, match="are not of one kind") as failed:
            pipeline.compare(*pair)
        assert failed.value.hint == "compare two locks, or two snapshots"
