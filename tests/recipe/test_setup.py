"""`%setup` of an Apptainer.def, which runs on the machine itself: no file of a lock leads it out of the new root."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from reprobuild.recipe.render import base_file, own_directory, render_recipe
from tests.recipe.full_lock import full_lock

LINKS = ("src", "mnt", "mnt/sources", "mnt/wheels", "opt", "opt/env", "tmp", "workspace")


def archive(members: dict[str, str | bytes]) -> bytes:
    """Return a tar: a text is where a link leads, bytes are a file."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def run(script: str, root: Path, folder: Path) -> subprocess.CompletedProcess[bytes]:
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "APPTAINER_ROOTFS": str(root)}
    return subprocess.run(
        ["/bin/sh", "-e", "-c", script], cwd=folder, env=env, capture_output=True, check=False
    )


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """The context of the recipe, with a file of its own in each directory."""
    lock = full_lock()
    folder = tmp_path / "context"
    for name in (own_directory(lock), "wheels", "bytecode", "sources"):
        (folder / name).mkdir(parents=True)
        (folder / name / "planted").write_text("planted")
    interpreter = archive({"opt/python/planted": b"planted"})
    for name in re.findall(r"context/(interpreter-\S+)", render_recipe(lock)["Apptainer.def"]):
        (folder / name).write_bytes(interpreter)
    return folder


def setup() -> str:
    (section,) = re.findall(r"(?s)\n%setup\n(.*?)\n%post\n", render_recipe(full_lock())["Apptainer.def"])
    return str(section)


@pytest.mark.parametrize("link", LINKS)
def test_a_link_in_the_system_leads_no_file_out_of_the_root(context: Path, tmp_path: Path, link: str) -> None:
    victim, root = tmp_path / "victim", tmp_path / "root"
    victim.mkdir()
    root.mkdir()
    base = archive({link: str(victim), f"{link}/planted": b"planted"})
    (context / base_file(full_lock())).write_bytes(base)
    run(setup(), root, tmp_path)
    assert list(victim.iterdir()) == []


def test_a_system_without_links_gets_all_files(context: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (context / base_file(full_lock())).write_bytes(archive({"usr/x": b"1"}))
    done = run(setup(), root, tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (root / "usr/x").read_bytes() == b"1"
    assert {path.parent.name for path in (root / "mnt").glob("*/planted")} >= {
        "wheels",
        "bytecode",
        "sources",
    }


def test_what_a_link_would_do_to_a_later_archive(tmp_path: Path) -> None:
    """The control: an archive that is unpacked over a system follows the system's links."""
    victim, root = tmp_path / "victim", tmp_path / "root"
    victim.mkdir()
    root.mkdir()
    (tmp_path / "base.tar").write_bytes(archive({"opt": str(victim)}))
    (tmp_path / "later.tar").write_bytes(archive({"opt/planted": b"planted"}))
    for name in ("base", "later"):
        run(f"tar --extract --file {name}.tar --directory {root}", root, tmp_path)
    assert [path.name for path in victim.iterdir()] == ["planted"]
