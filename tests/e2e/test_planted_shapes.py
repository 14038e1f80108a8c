"""Two values of every shape, drawn by seed and planted all over a real capture: none is in anything that is built."""

from __future__ import annotations

import base64
import json
import random
import re
import shlex
import subprocess
import urllib.parse
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.capture.repositories import BASE, ENV, PROGRAM, git, new_origin, write
from tests.capture.test_secrets import captured_bytes, plant_distribution
from tests.conftest import reprobuild
from tests.e2e.test_planted_secrets import below, unpacked
from tests.snapshot.shapes import ALIKE, MORE, SHAPES, fill

AT_MOST = 2  # of all in a snapshot
PROJECT = b"""[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "clone"
version = "1"
"""
# A backend that needs nothing: there is no index in this test.
BACKEND = b"""import zipfile
def build_wheel(folder, settings=None, metadata=None):
    name = "clone-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.writestr("clone-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: clone\\nVersion: 1\\n")
        wheel.writestr("clone-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("clone-1.dist-info/RECORD", "")
    return name
build_editable = build_wheel
"""
COMMANDS = (
    "curl", "mysql", "sshpass", "tool", "wandb", "docker", "podman", "mc", "ldapsearch", "smbclient", "lftp", "7z",
    "unzip", "zip", "openssl", "sqlplus",
)  # fmt: skip
ACCEPTED = ("--accept", "python-patch", "--accept", "no-apt-list")


@dataclass(frozen=True)
class Plant:
    """One value: its shape, the place where it stands, the text around it, and the parts that must be nowhere."""

    shape: str
    place: str
    text: str
    parts: tuple[str, ...]


@dataclass(frozen=True)
class Work:
    """What came of it: the snapshots, what was refused, and every byte that was built or said."""

    snapshots: bytes
    refused: subprocess.CompletedProcess[str]
    built: bytes
    said: bytes
    names: frozenset[str]


@pytest.fixture(scope="module")
def plants() -> list[Plant]:
    """Return the values; each shape is in an innocent variable, or one that is baked, and in one other place."""
    source = random.Random("planted in a build")
    found = []
    for number, (shape, form) in enumerate({**SHAPES, **MORE}.items()):
        others = ("command", "changed", "new", "committed", "staged")
        for place in ("baked" if number % 4 == 0 else "variable", others[number % 5]):
            text, parts = fill(form, source)
            if place == "command" and ("\n" in text or "KEY-----" in text or '"' in text):
                place = "new"
            found.append(Plant(shape, place, text, tuple(parts or [text])))
    for shape, form in ALIKE.items():
        text, parts = fill(form, source)
        found.append(Plant(shape, "variable", text, tuple(parts)))
    for place in ("remote", "freeze", "index"):
        for _ in range(4):
            text, parts = fill("{a24}", source)
            found.append(Plant("login", place, text, tuple(parts)))
    return found


def of(plants: Iterable[Plant], place: str) -> list[Plant]:
    return [plant for plant in plants if plant.place == place]


def capture(folder: Path, top: Path, plants: list[Plant], out: Path) -> bytes:
    """Capture a job of an environment of its own, and return what was said."""
    variables = {f"RUN_NOTE_{n}": plant.text for n, plant in enumerate(of(plants, "variable"))}
    variables |= {f"TORCHINDUCTOR_NOTE_{n}": plant.text for n, plant in enumerate(of(plants, "baked"))}
    indexes = [f"https://ada:{plant.text}@index.example/simple" for plant in of(plants, "index")]
    variables |= {"PIP_INDEX_URL": indexes[0], "PIP_EXTRA_INDEX_URL": " ".join(indexes[1:])}
    commands = of(plants, "command")
    words = [
        word
        for plant in commands
        for word in (shlex.split(plant.text) if plant.text.split(" ")[0] in COMMANDS else [plant.text])
    ]
    run = f"subprocess.run([sys.executable, {str(PROGRAM)!r}, '-o', {str(out)!r}], check=True)"
    argv = [str(folder / "venv" / "bin" / "python"), "-c", f"import subprocess, sys; {run}", *words]
    env = ENV | variables | {"PYTHONPATH": str(folder / "site")}
    done = subprocess.run(argv, cwd=top, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    (out / "apt-packages.txt").unlink()  # this machine's own, of which a build would take hours
    return done.stdout + done.stderr


def plant_files(folder: Path, plants: list[Plant]) -> Path:
    """Return a repository with values in its history, its index, changed and new files, and its remotes."""
    top = new_origin(folder)
    write(top, "pyproject.toml", PROJECT)
    write(top, "backend.py", BACKEND)
    write(top, "settings.txt", "\n".join(plant.text for plant in of(plants, "committed")).encode())
    git(top, "add", "-A")
    git(top, "commit", "-qm", "with settings")
    git(top, "push", "-q", "origin", "HEAD")
    for number, plant in enumerate(of(plants, "staged")):
        write(top, f"staged{number}.txt", f"first\n{plant.text}\n".encode())
    git(top, "add", "-A")
    write(top, "kept.py", "".join(f"# note\n{plant.text}\n" for plant in of(plants, "changed")).encode())
    for number, plant in enumerate(of(plants, "new")):
        write(top, f"new{number}.txt", f"first\n{plant.text}\n".encode())
    for number, plant in enumerate(of(plants, "remote")):
        git(top, "remote", "add", f"other{number}", f"https://ada:{plant.text}@git.example/r{number}.git")
    site = folder / "site"
    plant_distribution(site, "clone", {"url": top.as_uri(), "dir_info": {"editable": True}})
    for number, plant in enumerate(of(plants, "freeze")):
        address = f"https://ada:{plant.text}@files.example/a{number}-1.0-py3-none-any.whl"
        plant_distribution(site, f"archived{number}", {"url": address, "archive_info": {}})
    return top


@pytest.fixture(scope="module")
def work(plants: list[Plant], test_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Work:
    """Capture, be refused for what is committed, take it out, capture again, and build."""
    folder = tmp_path_factory.mktemp("shapes")
    subprocess.run([BASE, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    top = plant_files(folder, plants)
    before = {path for path in below(test_store) if path.is_file()}
    said = [capture(folder, top, plants, folder / "first")]
    more = [
        *ACCEPTED,
        "--source",
        f"clone={top}",
        *(word for n in range(4) for word in ("--drop", f"archived{n}")),
        "--store",
        test_store,
    ]
    refused = reprobuild("lock", folder / "first", "-o", folder / "refused.lock", *more)
    assert not (folder / "refused.lock").exists()
    git(top, "rm", "-qf", "settings.txt")
    git(top, "commit", "-qm", "without settings", "--", "settings.txt")
    git(top, "push", "-q", "origin", "HEAD")
    said.append(capture(folder, top, plants, folder / "second"))
    lost = ("--accept", "file-left-out")
    out = folder / "out"
    done = [
        reprobuild("show", folder / "second"),
        reprobuild("from-snapshot", folder / "second", "-o", out, "--no-verify", "--json", *lost, *more),
        reprobuild("bundle", out, "-o", folder / "b.tar", "--store", test_store, "--include", "context"),
    ]
    assert [one.returncode for one in done] == [0, 0, 0], done
    said += [text.encode() for one in (refused, *done) for text in (one.stdout, one.stderr)]
    files = [path for path in out.rglob("*") if path.is_file()] + [folder / "b.tar"]
    files += [path for path in below(test_store) if path.is_file() and path not in before]
    return Work(
        snapshots=captured_bytes(folder / "first") + captured_bytes(folder / "second"),
        refused=refused,
        built=b"\n".join({content for path in files for content in unpacked(path)}),
        said=b"\n".join(said),
        names=frozenset(path.name for path in files),
    )


def forms(part: str) -> set[bytes]:
    """Return a text raw, in base64 at each place of three, percent-encoded, and as JSON has it."""
    raw = part.encode()
    whole = {base64.b64encode(b"x" * skip + raw)[4:-4] for skip in (0, 1, 2)}
    return {raw, urllib.parse.quote(part, safe="").encode(), json.dumps(part)[1:-1].encode(), *whole}


def seen(plants: Iterable[Plant], content: bytes, folder: Path) -> list[tuple[str, str]]:
    """Return shape and place of each value that is in a content; grep looks for all of them at once."""
    owners = {form: plant for plant in plants for part in plant.parts for form in forms(part)}
    patterns = folder / "patterns"
    patterns.write_bytes(b"\n".join(owners))
    argv = ["grep", "-a", "-o", "-F", "-f", str(patterns)]
    done = subprocess.run(argv, input=content, capture_output=True, env={**ENV, "LC_ALL": "C"}, check=False)
    assert done.returncode in (0, 1), done.stderr
    return sorted(
        {(owners[form].shape, owners[form].place) for form in set(done.stdout.split(b"\n")) - {b""}}
    )


def test_there_are_two_hundred_of_sixty_shapes(plants: list[Plant]) -> None:
    assert len(plants) >= 200
    assert len({plant.shape for plant in plants}) >= 60
    places = Counter(plant.place for plant in plants)
    assert set(places) == {
        "variable", "baked", "command", "changed", "new", "committed", "staged", "remote", "freeze", "index",
    }  # fmt: skip
    assert min(places.values()) >= 4


@pytest.mark.long
def test_what_is_committed_is_refused_by_name(plants: list[Plant], work: Work, tmp_path: Path) -> None:
    assert work.refused.returncode != 0
    assert re.search(r"clone: settings\.txt:\d+: this looks like a secret", work.refused.stderr)
    assert "--accept clone/settings.txt" in work.refused.stderr
    assert seen(plants, (work.refused.stdout + work.refused.stderr).encode(), tmp_path) == []


def test_a_planted_value_would_be_seen(plants: list[Plant], tmp_path: Path) -> None:
    for plant in plants:
        form = min(forms(plant.parts[0] if plant.parts else plant.text))
        assert seen([plant], b"x" + form + b"\n", tmp_path) == [(plant.shape, plant.place)]


@pytest.mark.long
def test_no_value_is_in_what_is_built_kept_or_said(plants: list[Plant], work: Work, tmp_path: Path) -> None:
    assert {"reprobuild.lock", "Dockerfile", "Apptainer.def", "image.json", "b.tar"} <= work.names
    assert b"clone" in work.built  # the source, unpacked
    assert seen(plants, work.built, tmp_path) == []
    assert seen(plants, work.said, tmp_path) == []


@pytest.mark.long
def test_at_most_two_values_are_in_a_snapshot(plants: list[Plant], work: Work, tmp_path: Path) -> None:
    found = seen(plants, work.snapshots, tmp_path)
    assert len(found) <= AT_MOST, found
    assert {shape for shape, _ in found} <= set(ALIKE)
