"""A small Debian, directories of wheels and snapshots written as text: a whole `resolve` without a network."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.infra.http.client import Net
from reprobuild.resolve.context import ResolveContext
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from tests.system.samples import index, stanza

APT = (
    "libc6/stable,now 2.36-9 amd64 [installed]\npython3.11/stable,now 3.11.2-6 amd64 [installed]\n"
    "python3/stable,now 3.11.2-1 amd64 [installed]\n"
)


def use_debian(monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
    """Let apt have a small release, and more stanzas."""
    made = index(
        stanza("libc6", "2.36-9", "", "Essential: yes"), stanza("python3.11", "3.11.2-6", "libc6"),
        stanza("python3", "3.11.2-1", "python3.11"), stanza("tzdata", "1"), stanza("fakeroot", "1"),
        stanza("libfakeroot", "1"), *more,
    )  # fmt: skip
    monkeypatch.setattr("reprobuild.resolve.system.base.configured_index", lambda *_, **__: made)


def write_wheel(
    folder: Path, name: str, version: str = "1.0", tag: str = "py3-none-any", requires: tuple[str, ...] = (),
    **code: str,
) -> None:  # fmt: skip
    """Write a wheel whose modules have the texts of `code`."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    with zipfile.ZipFile(folder / f"{name}-{version}-{tag}.whl", "w") as made:
        for module, text in code.items():
            made.writestr(f"{module}.py", text)
        made.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        made.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
        made.writestr(f"{info}/RECORD", "")


def around(
    folder: Path, wheels: Path | None = None, say: Callable[[str], None] = lambda text: None
) -> ResolveContext:
    """Return what a lock is made with: no network, and wheels from one directory."""
    return ResolveContext(
        store=Store(folder / "store"), net=Net(), env={"PATH": os.defpath, "HOME": str(folder)},
        folder=folder, now=1_700_000_000, captured=folder / "snapshot", say=say,
        indexes=PackageIndexes(find_links=(wheels.as_uri(),) if wheels else (), simple=(), credentials={}),
    )  # fmt: skip


def snapshot(folder: Path, **files: str) -> Snapshot:
    """Write text files as a capture has them, and read them; `a_b` is `a-b.txt`, and `capture` capture.json."""
    folder.mkdir()
    for name, text in {"apt_packages": APT, "requirements": "", **files}.items():
        path = folder / ("capture.json" if name == "capture" else f"{name.replace('_', '-')}.txt")
        path.write_text(text)
    if "collect_env" in files:
        (folder / "collect-env.txt").rename(folder / "collect_env.txt")
    return msgspec.structs.replace(read_snapshot(folder), digest="5" * 64)
