"""Files of a snapshot that forbid a lock: `show` names them, and `lock` does before it asks a network."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reprobuild.cli.main import run_line
from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.git.restore import bundle
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.errors import SnapshotError
from reprobuild.infra.http.client import Net
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.resolver import resolve_snapshot
from reprobuild.resolve.sources.captured_checks import list_file_errors
from reprobuild.snapshot.parsers.capture_json import DAMAGED
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from tests.capture.repositories import git, new_origin, take, write
from tests.capture.test_reading import captured, dirty

OPTIONS = ("--python", "3.11.2", "--accept", "no-apt-list")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return the snapshot of an editable install with uncommitted changes."""
    top = new_origin(tmp_path, project=True)
    dirty(top)
    folder = captured(tmp_path, top, top, cwd=top)
    (folder / "apt-packages.txt").unlink(missing_ok=True)
    return folder


def cut_diff(out: Path) -> None:
    """Leave the files of the diff that come first, as a full disk does."""
    diff = out / "my_lib.diff"
    diff.write_bytes(diff.read_bytes().rpartition(b"diff --git ")[0])


def remove_bundle(out: Path) -> None:
    (out / "my_lib.bundle").unlink()


def cut_bundle(out: Path) -> None:
    (out / "my_lib.bundle").write_bytes((out / "my_lib.bundle").read_bytes()[:-30])


def lose_bundle(out: Path) -> None:
    """State that the bundle was larger than the budget of the capture."""
    document = json.loads((out / "capture.json").read_text())
    document["repositories"][0]["bundle"] |= {"file": None, "reason": "too large"}
    (out / "capture.json").write_text(json.dumps(document))


DAMAGES: list[tuple[Callable[[Path], None], str, str]] = [
    (cut_diff, "my_lib.diff was changed after the capture: it has ", "what goes into the image is read from the"),
    (remove_bundle, "the captured repository my_lib: my_lib.bundle is missing or no file", DAMAGED),
    (cut_bundle, "the captured repository my_lib: my_lib.bundle is not the file that was written", DAMAGED),
    (lose_bundle, "the changes of my_lib were not captured (too large)", "capture it again; `capture.json` says which"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "message", "hint"), DAMAGES)
def test_show_names_a_file_that_forbids_a_lock(
    out: Path, damage: Callable[[Path], None], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(out)
    assert run_line(["show", str(out), *OPTIONS]) == 0
    answer, error, remedy, after = capsys.readouterr().out.splitlines()[-4:]
    assert answer == "can be frozen: no, 1 error"
    assert error.startswith(f"  {message}")
    assert remedy.startswith(f"    hint: {hint}")
    assert after.startswith(
        f"next: change the snapshot as above, then reprobuild from-snapshot {out} -o frozen "
    )
    assert run_line(["show", str(out), *OPTIONS, "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["errors"]
    assert listed["message"].startswith(message)
    assert listed["hint"].startswith(hint)
    assert run_line(["show", str(out), *OPTIONS, "--drop", "my_lib"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("can be frozen: yes, ")


@pytest.mark.parametrize(("damage", "message", "hint"), DAMAGES)
def test_lock_refuses_such_a_file_before_it_asks_a_network(
    out: Path, tmp_path: Path, damage: Callable[[Path], None], message: str, hint: str
) -> None:
    damage(out)
    steps: list[str] = []
    context = ResolveContext(
        store=Store(tmp_path / "store"), net=Net(offline=True), env=os.environ, folder=tmp_path, captured=out,
        say=steps.append, now=0, indexes=PackageIndexes(find_links=(), simple=(), credentials={}),
    )  # fmt: skip
    with pytest.raises(SnapshotError) as err:
        resolve_snapshot(read_snapshot(out), Decisions(python="3.11.2", accept=("no-apt-list",)), context)
    assert str(err.value).startswith(message)
    assert err.value.hint.startswith(hint)
    assert steps == []


def test_errors_and_questions_are_counted_apart(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remove_bundle(out)
    assert run_line(["show", str(out), "--python", "3.11.2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-5] == "can be frozen: no, 1 error and 1 open question"
    assert lines[-1].endswith(" -o frozen --python 3.11.2 --accept no-apt-list")


def test_a_nested_repository_is_checked(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    inner = top / "inner"
    inner.mkdir()
    git(inner, "init", "-q", ".")
    write(inner, "a", b"a\n")
    take(top, tmp_path / "out")
    names = [path.name for path in (tmp_path / "out").glob("*.bundle")]
    assert list_file_errors(read_snapshot(tmp_path / "out"), tmp_path / "out", ()) == ()
    (tmp_path / "out" / "inner.bundle").unlink()
    (error,) = list_file_errors(read_snapshot(tmp_path / "out"), tmp_path / "out", ())
    assert str(error) == "the captured repository inner: inner.bundle is missing or no file", names


def test_a_large_bundle_is_not_hashed(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lock` hashes it when it makes the source: `show` stays quick."""
    cut_bundle(out)
    monkeypatch.setattr(bundle, "_SMALL", 10)
    assert list_file_errors(read_snapshot(out), out, ()) == ()
