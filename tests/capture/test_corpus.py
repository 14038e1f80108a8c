"""Environments and modules of real jobs: had they been captured, nothing would be torn, suspect or leaked."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from reprobuild.snapshot.parsers import env, modules
from reprobuild_runtime import capture
from tests.capture.test_reading import context

CORPUS = Path(os.environ["REPROBUILD_CORPUS"])
DUMPS = sorted((CORPUS / "env_dump").iterdir())
LISTS = sorted((CORPUS / "module_list").iterdir())


def test_there_are_files() -> None:
    assert len(DUMPS) >= 5
    assert len(LISTS) >= 5


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.name)
def test_a_real_environment_is_read_as_it_was(path: Path) -> None:
    known = {v.name: v.value for v in env.parse(path.read_bytes())[0] if v.value is not None}
    assert known
    taken = capture.take_environment(context(known))
    assert taken.withheld == []
    found, remarks = env.parse(taken.texts["env.txt"])
    plain = {name: value for name, value in known.items() if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)}
    assert {variable.name: variable.value for variable in found} == plain
    assert [v.name for v in found if v.suspect and not str(v.value).endswith("...")] == []
    assert sorted(capture._path(name) for name in known.keys() - plain.keys()) == sorted(
        taken.facts["only_in_env_nul"]
    )
    assert all(remark.text.startswith("# only in env.nul: ") for remark in remarks if remark.text)


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_real_modules_are_read_as_they_were(path: Path) -> None:
    names = [m.name + (f"/{m.version}" if m.version else "") for m in modules.parse(path.read_bytes())[0]]
    taken = capture.take_modules(context({"LOADEDMODULES": ":".join(names)}))
    found, _ = modules.parse(taken.texts["modules.txt"])
    assert [m.name + (f"/{m.version}" if m.version else "") for m in found] == names
