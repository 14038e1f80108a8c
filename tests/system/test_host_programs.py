"""The root in which a program of this machine runs: what it shows, and what it refuses to show."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from reprobuild.errors import EngineError
from reprobuild.infra.sandbox import host_programs
from reprobuild.infra.sandbox.host_programs import make_program_root


def shown(tmp_path: Path, script: str, path: str = "") -> set[Path]:
    """The directories that a root shows for a script, without those of the system."""
    program = tmp_path / "bin" / "program"
    program.parent.mkdir(exist_ok=True)
    program.write_text(script)
    folder = tmp_path / "root"
    folder.mkdir()
    root = make_program_root(folder, str(program), {"PATH": path})
    assert not any(bind.writable for bind in root.binds)
    assert all(str(bind.source) == bind.target for bind in root.binds)
    return {bind.source for bind in root.binds if bind.source.is_relative_to(tmp_path)}


def make_environment(folder: Path) -> Path:
    """An environment whose Python is a link to this one."""
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    (folder / "bin" / "python").symlink_to(sys.executable)
    return folder / "bin" / "python"


def test_the_environment_of_a_script_is_shown(tmp_path: Path) -> None:
    home = tmp_path / "home"
    python = make_environment(home / ".env")
    for number, start in enumerate(
        (f"#!{python} -I\n", f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n")
    ):
        case = tmp_path / str(number)
        case.mkdir()
        assert shown(case, start) == {case / "bin"}
        root = make_program_root(_empty(case / "again"), str(case / "bin/program"), {"PATH": ""})
        assert home / ".env" in {bind.source for bind in root.binds}
        assert home not in {bind.source for bind in root.binds}


def test_an_interpreter_is_searched_on_path(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env")
    script = "#!/usr/bin/env python\n"
    assert shown(tmp_path, script, str(python.parent)) == {tmp_path / "bin", tmp_path / "env"}


def test_links_are_followed_to_the_program(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env")
    tool = python.parent / "tool"
    tool.write_text(f"#!{python}\n")
    link = tmp_path / "local/bin/tool"
    link.parent.mkdir(parents=True)
    link.symlink_to("../../env/bin/tool")
    root = make_program_root(_empty(tmp_path / "root"), str(link), {})
    places = {bind.source for bind in root.binds}
    assert {link.parent, tmp_path / "env"} <= places
    assert link.parent.parent not in places


def test_a_link_to_itself_ends(tmp_path: Path) -> None:
    loop = tmp_path / "loop/python"
    loop.parent.mkdir()
    loop.symlink_to("python")
    assert shown(tmp_path, f"#!{loop}\n") == {tmp_path / "bin", tmp_path / "loop"}


def test_a_writable_mount_inside_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "bin" / "a b"
    inner.mkdir(parents=True)
    mounts = tmp_path / "mounts"
    place = str(inner).replace(" ", "\\040")
    mounts.write_text(f"1 2 0:1 / / rw - ext4 x rw\n3 1 0:2 / {place} rw,relatime - ext4 x rw\n")
    monkeypatch.setattr(host_programs, "_MOUNTS", mounts)
    with pytest.raises(
        EngineError, match=r"bin has another mount inside, .*/a b, which a sandbox cannot protect"
    ) as error:
        shown(tmp_path, "#!/bin/sh\n")
    assert error.value.hint == "leave --diffoscope out, or run it where this mount is read-only"
    shutil.rmtree(tmp_path / "root")
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, *more: path != inner and access(path, *more)
    )  # it is read-only
    assert tmp_path / "bin" in shown(tmp_path, "#!/bin/sh\n")


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_optional_directories_are_left_out_for_a_writable_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "opt" / "inner").mkdir(parents=True)
    (tmp_path / "usr").mkdir()
    mounts = tmp_path / "mounts"
    mounts.write_text(f"3 1 0:2 / {tmp_path}/opt/inner rw,relatime - ext4 x rw\n")
    monkeypatch.setattr(host_programs, "_MOUNTS", mounts)
    assert host_programs._find_writable_mount(tmp_path / "opt") == tmp_path / "opt" / "inner"
    assert host_programs._find_writable_mount(tmp_path / "usr") is None
    mounts.write_text("3 1 0:2 / /opt/inner rw,relatime - ext4 x rw\n")
    monkeypatch.setattr(host_programs.os, "access", lambda *_: True)
    folder = tmp_path / "root"
    folder.mkdir()
    root = host_programs.make_program_root(folder, "/bin/sh", {})
    assert "/opt" not in {bind.target for bind in root.binds}
