"""The document of `bisect --json` is as docs/bisect.schema.json describes it."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from reprobuild.bisect.result import BisectionResult
from reprobuild.compare.environments.comparison import EnvironmentDifference
from reprobuild.lock.file import write_lock
from tests.bisecting.small import PROLOGUE, Bench
from tests.bisecting.test_sides import result
from tests.conftest import ROOT, reprobuild

sys.path.append(str(ROOT / "dev"))

import write_schema

# A mixture of two versions is untestable.
SCRIPT = PROLOGUE + "sys.exit(125 if alpha != beta else omp == '4')"


def complaints(document: Any) -> list[str]:
    schema = json.loads(write_schema.FILE.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(document)]


def printed(answer: BisectionResult) -> Any:
    return json.loads(json.dumps(msgspec.to_builtins(answer)))


def test_the_schema_is_that_of_the_code() -> None:
    assert write_schema.FILE.read_text() == write_schema.schema(), "run `python dev/write_schema.py`"


def test_made_documents_are_valid() -> None:
    gpu = EnvironmentDifference(
        rank=1, group="GPU", reason="", kind="gpu", name="GPU", one=None, other="H100"
    )
    assert complaints(printed(result(untestable=(gpu,), required=((0, 2),)))) == []
    assert complaints(printed(result(guilty=(), reason="why", hint="how"))) == []


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (("version",), 2, "2 is not one of [1]"),
        (("runs",), "12", "'12' is not of type 'integer'"),
        (("forward",), "C", "'C' is not one of ['A', 'B', 'other', 'untestable']"),
        (("required",), [[0]], "[0] is too short"),
        (("differences", 0, "kind"), "gpu", "'gpu' is not one of"),
        (("trials", 0, "differences"), 0, "0 is not of type 'array'"),
        (("trials", 0, "answer"), None, "None is not one of"),
    ],
)
def test_another_value_is_seen(path: tuple[str | int, ...], value: object, complaint: str) -> None:
    changed = copy.deepcopy(printed(result()))
    *parents, last = path
    place = changed
    for key in parents:
        place = place[key]
    place[last] = value
    assert [message[: len(complaint)] for message in complaints(changed)] == [complaint]


def test_a_missing_field_is_seen() -> None:
    document = printed(result())
    for name in BisectionResult.__struct_fields__:
        rest = {key: value for key, value in document.items() if key != name}
        assert complaints(rest) == [f"'{name}' is a required property"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs the built-in engine")
def test_documents_of_real_searches_are_valid(bench: Bench, tmp_path: Path) -> None:
    for name, lock in (("a.lock", bench.first), ("b.lock", bench.second)):
        write_lock(lock, tmp_path / name)
    for script, code in ((SCRIPT, 0), ("print(0)", 1)):
        done = reprobuild(
            "bisect", tmp_path / "a.lock", tmp_path / "b.lock", "--json", "--store", bench.store, "--offline",
            "--engine", "builtin", "--explain", tmp_path / "why.html", "--", "python", "-c", script,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        document = json.loads(done.stdout)
        assert complaints(document) == []
        assert bool(document["reason"]) == (code == 1)
        assert all(Path(trial["lock"]).is_file() for trial in (*document["sides"], *document["trials"]))
        assert ("untestable" in {trial["answer"] for trial in document["trials"]}) == (code == 0)
