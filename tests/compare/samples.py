"""Snapshots and images that the tests of `compare` are made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reprobuild.compare.environments.comparison import EnvironmentComparison
from reprobuild.compare.environments.open import Running, compare
from tests.conftest import EXAMPLE
from tests.image.images import Entries, make_layout
from tests.image.made import file

SNAPSHOT = EXAMPLE / "snapshot"
NOBODY = Running(python="/nonexistent/python", env={})
NO_ENGINE = {"DOCKER_HOST": "unix:///nonexistent/docker.sock", "PATH": "/usr/bin:/bin"}
SITE = "opt/env/lib/python3.11/site-packages"


def compared(one: object, other: object, running: Running = NOBODY) -> EnvironmentComparison:
    return compare(str(one), str(other), running, NO_ENGINE, lambda text: None)


def make_snapshot(folder: Path, capture: Mapping[str, Any] | None = None, **files: str) -> Path:
    """Write a snapshot; `env_txt` is env.txt, and `capture` goes into capture.json."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        stem, _, ending = name.rpartition("_")
        (folder / f"{stem.replace('_', '-')}.{ending}").write_text(text)
    if capture is not None:
        (folder / "capture.json").write_text(
            json.dumps({"capture": 1, "parts": {}, "repositories": [], **capture})
        )
    return folder


def repository(name: str, worktree: str, **more: Any) -> dict[str, Any]:
    """Return a repository as capture.json has it: without changes, where `more` does not say otherwise."""
    return {
        "name": name, "folder": f"/home/ada/{name}", "object_format": "sha1", "head": "c" * 40, "branch": None,
        "remotes": [], "base": None, "prerequisites": [], "index": worktree, "worktree": worktree, "bundle": None,
        "diff": {"file": None, "from": "c" * 40, "reason": "done"}, "unmerged": [], "flags": {}, "settings": {},
        "attributes": "", "shallow": [], "left_out": [], "parent": None, "path": "", **more,
    }  # fmt: skip


def info(name: str, version: str, site: str = SITE, *, metadata: str = "", **files: str) -> Entries:
    """Return a distribution as pip installs it; `direct_url` is its direct_url.json."""
    folder = f"{site}/{name.replace('-', '_')}-{version}.dist-info"
    text = metadata or f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: other\n"
    found = [file(f"{folder}/METADATA", text.encode()), file(f"{folder}/RECORD", b"")]
    return [*found, *(file(f"{folder}/{key}.json", value.encode()) for key, value in files.items())]


STATUS = (
    "Package: bash\nStatus: install ok installed\nVersion: 5.2.15-2+b7\nArchitecture: amd64\nDescription: a\n b\n\n"
    "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\nArchitecture: amd64\n\n"
    "Package: libc6\nStatus: install ok installed\nVersion: 2.36-9\nArchitecture: amd64\n\n"
    "Package: libc6\nStatus: install ok installed\nVersion: 2.36-9\nArchitecture: i386\n"
)


def make_image(folder: Path, *more: tuple[Any, bytes], env: Mapping[str, str] | None = None) -> Path:
    """Write a layout with a virtual environment at /opt/env, dpkg's list, and variables."""
    variables = {"PATH": "/opt/env/bin:/usr/bin", **(env or {})}
    entries = [
        file("opt/env/bin/python3", b"", 0o755),
        file("opt/env/pyvenv.cfg", b"home = /usr/bin\nversion = 3.11.2\n"),
        file("usr/bin/python3", b"", 0o755),
        *info("pip", "23.0", "usr/lib/python3/dist-packages"),
        file("var/lib/dpkg/status", STATUS.encode()),
        file("etc/os-release", b'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n'),
        *more,
    ]
    config = {"Env": [f"{name}={value}" for name, value in variables.items()]}
    return make_layout(folder, entries, config=config)
