"""`reprobuild.api`: what a notebook does, shows and is told."""

from __future__ import annotations

import ast
import html
import json
import operator
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild import api
from reprobuild.api.results import BuildResult
from reprobuild.cli.main import COMMANDS
from reprobuild.engines.model import Sink, Streams
from reprobuild.errors import ReproError, SnapshotError
from reprobuild.lock.file import read_lock
from reprobuild.snapshot.model import Snapshot
from tests.conftest import Built
from tests.report.samples import IMAGE
from tests.verify.samples import make_lock, make_verdict

ROOT = Path(__file__).parent.parent
SNAPSHOT = ROOT / "examples" / "cpu-train" / "snapshot"


def run_cells(path: Path) -> list[Any]:
    """Run the code cells of a notebook as Jupyter does, and return the value that each shows."""
    shown: list[Any] = []
    names: dict[str, Any] = {}
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, path.name, "exec"), names)
            if isinstance(last, ast.Expr):
                shown.append(eval(compile(ast.Expression(last.value), path.name, "eval"), names))
    return shown


@pytest.mark.long
def test_the_notebook(
    built_example: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "reprobuild").symlink_to(built_example.store)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path / "examples")
    lines, python, printed, checked, version, comparison = run_cells(Path("notebook.ipynb"))
    assert (lines, python, printed) == (49, "3.11.2", None)
    assert "round trip: not-run" in capsys.readouterr().out
    assert (checked.verdict.round_trip, checked.exit_code) == ("explained", 0)
    assert checked.lock == read_lock(Path("frozen/reprobuild.lock"))
    report = html.unescape(re.fullmatch(r'<iframe .* srcdoc="([^"]*)"></iframe>', checked._repr_html_())[1])
    assert report == Path("frozen/report.html").read_text()
    assert version == "2.13.0+cpu\n"
    assert comparison._repr_html_() == f"<pre>{html.escape(str(comparison))}</pre>"
    assert comparison.comparison.differences


def test_a_captured_environment_is_a_snapshot(tmp_path: Path) -> None:
    snapshot = api.capture(tmp_path / "snapshot")
    assert snapshot.captured is not None
    assert {line.name for line in snapshot.requirements} >= {"pytest", "msgspec"}
    (tmp_path / "file").touch()
    with pytest.raises(
        SnapshotError, match=r"the capture ended with exit code 3: .*/file cannot be written: Not a directory"
    ) as caught:
        api.capture(tmp_path / "file")
    assert caught.value.hint == "mend the cause that it names, and capture again"


def test_a_printed_snapshot_or_lock_is_a_line() -> None:
    lock = make_lock()
    assert str(lock).startswith(f"<Lock of snapshot {lock.snapshot[:12]} for linux/amd64: ")
    assert f" {len(lock.wheels)} wheels, " in str(lock)
    assert str(Snapshot(digest="5" * 64)) == (
        "<Snapshot 555555555555: 0 requirements, 0 system packages, 0 conda packages, 0 variables, 0 patches>"
    )


def test_an_error_has_a_hint(tmp_path: Path) -> None:
    for action in (
        api.read_snapshot,
        lambda place: api.verify(place),
        lambda place: api.run(place, ["true"]),
    ):
        with pytest.raises(ReproError) as caught:
            action(tmp_path / "nothing")
        assert caught.value.hint


def test_a_result_shows_its_report_in_a_frame(built: BuildResult) -> None:
    assert built._repr_html_() == f"<pre>{html.escape(str(built))}</pre>"
    hostile = make_verdict(notes=('"></iframe><script>parent.x = 1</script>',))
    shown = msgspec.structs.replace(built, verdict=hostile)._repr_html_()
    assert re.fullmatch(r'<iframe sandbox="allow-scripts" [^<>]*></iframe>', shown)
    assert "allow-same-origin" not in shown


@pytest.fixture
def built(tmp_path: Path) -> BuildResult:
    """A result as `build` returns it, in a directory without a report."""
    return BuildResult(lock=make_lock(), image=IMAGE, verdict=None, out=tmp_path)


def test_the_output_of_a_run_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(out: Path, command: object, context: object, sink: Sink, options: object) -> int:
        for number in range(100):
            sink(1, b"%02d" % number)
            sink(2, b"%02d" % number)
        return 3

    monkeypatch.setattr("reprobuild.run.run.run", run)
    monkeypatch.setattr(Streams, "LARGEST", 10)
    result = api.run(tmp_path, ("true",))
    assert (result.code, result.stdout, result.stderr) == (3, b"00010203040", b"9596979899")


def test_every_name_is_there_and_no_other() -> None:
    assert all(getattr(api, name) for name in api.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'snapshot'"):
        operator.attrgetter("snapshot")(api)


def test_completion_knows_the_names_before_their_import() -> None:
    code = "from reprobuild import api; assert dir(api) == sorted(api.__all__), dir(api)"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert dir(api) == sorted(api.__all__)


def test_a_wrong_argument_name_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="acept"):
        api.Decisions(acept=("withdrawn",))  # type: ignore[call-arg]  # the wrong name is the case


def test_the_page_and_the_functions_are_the_same() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    functions = {name for name in api.__all__ if name[0].islower()}
    assert set(re.findall(r"^\| `(\w+)\(", page, re.MULTILINE)) | {"open_context"} == functions
    commands = set(re.findall(r"\| `([a-z-]+)` \|$", page, re.MULTILINE))
    assert commands <= COMMANDS.keys()


def test_the_lines_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example up to the lock, which needs an index."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "api.md").read_text(), re.DOTALL)
    first, _, _ = code.partition("decisions = ")
    monkeypatch.chdir(ROOT)
    exec(compile(first, "api.md", "exec"), {})
    assert capsys.readouterr().out == "49 lines of the freeze\n"
