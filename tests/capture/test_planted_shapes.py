"""Two values of every shape, planted in a capture: in innocent variables, a command line, changed and new files."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
from pathlib import Path

import pytest

from reprobuild.resolve.environment.environment import resolve_environment
from reprobuild.snapshot.read import read_snapshot
from tests.capture.repositories import BASE, ENV, PROGRAM, document, new_origin, write
from tests.capture.test_secrets import captured_bytes
from tests.snapshot.shapes import ALIKE, MORE, SHAPES, fill

MISSED = 2
COMMANDS = (
    "curl", "mysql", "sshpass", "tool", "wandb", "docker", "podman", "mc", "ldapsearch", "smbclient", "lftp", "7z",
    "unzip", "zip", "openssl", "sqlplus",
)  # fmt: skip
Plant = tuple[str, str, list[str]]


@pytest.fixture(scope="module")
def plants() -> dict[str, list[Plant]]:
    """Return (shape, text, parts that must be nowhere) by place."""
    source = random.Random("planted")
    found: dict[str, list[Plant]] = {"variable": [], "baked": [], "command": [], "changed": [], "new": []}
    for number, (shape, text) in enumerate({**SHAPES, **MORE}.items()):
        places = ("baked" if number % 4 == 0 else "variable", ("command", "changed", "new")[number % 3])
        for place in places:
            if place == "command" and ("\n" in text or "KEY-----" in text or '"' in text):
                place = "new"
            found[place].append((shape, *fill(text, source)))
    found["variable"] += [(shape, *fill(text, source)) for shape, text in ALIKE.items()]
    assert sum(map(len, found.values())) >= 200
    return found


@pytest.fixture(scope="module")
def captured(plants: dict[str, list[Plant]], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """Return the snapshot, and every byte of it and of what was said."""
    folder = tmp_path_factory.mktemp("planted")
    top = new_origin(folder)
    write(top, "kept.py", b"".join(f"# note\n{text}\n".encode() for _, text, _ in plants["changed"]))
    for number, (_, text, _) in enumerate(plants["new"]):
        write(top, f"new{number}.txt", f"first\n{text}\n".encode())
    variables = {f"RUN_NOTE_{n}": text for n, (_, text, _) in enumerate(plants["variable"])}
    variables |= {f"TORCHINDUCTOR_NOTE_{n}": text for n, (_, text, _) in enumerate(plants["baked"])}
    words = [word for _, text, _ in plants["command"] for word in _words(text)]
    run = f"subprocess.run([sys.executable, {str(PROGRAM)!r}, '-o', {str(folder / 'out')!r}], check=True)"
    program = f"import subprocess, sys; {run}"
    done = subprocess.run(
        [BASE, "-c", program, *words], cwd=top, env=ENV | variables, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "out", captured_bytes(folder / "out") + done.stdout + done.stderr


def _words(text: str) -> list[str]:
    """Return the words of a command line that has this text in it: of a command its own, else one."""
    return shlex.split(text) if text.split(" ")[0] in COMMANDS else [text]


def test_no_planted_value_is_in_a_snapshot(
    plants: dict[str, list[Plant]], captured: tuple[Path, bytes]
) -> None:
    missed = [
        (place, shape) for place, all_of in plants.items() for shape, _, parts in all_of
        if any(part.encode() in captured[1] for part in parts)
    ]  # fmt: skip
    assert len(missed) <= MISSED, missed
    assert {shape for _, shape in missed} <= set(ALIKE)


def test_what_holds_one_was_seen(plants: dict[str, list[Plant]], captured: tuple[Path, bytes]) -> None:
    """The places are places that a capture reads: each is named where it was left out."""
    found = document(captured[0])
    names = {one["name"] for one in found["withheld"]}
    assert {f"TORCHINDUCTOR_NOTE_{n}" for n in range(len(plants["baked"]))} <= names
    (one,) = found["repositories"]
    left = {file["path"] for file in one["left_out"]}
    assert left == {"kept.py", *(f"new{n}.txt" for n in range(len(plants["new"])))}
    assert "***" in json.dumps(found["command"])


def test_no_planted_value_is_baked(plants: dict[str, list[Plant]], captured: tuple[Path, bytes]) -> None:
    snapshot = read_snapshot(captured[0])
    settings, rulings = resolve_environment(snapshot.variables, bake={"RUN_NOTE_*": None}, drop=())
    said = repr((settings, rulings)).encode()
    kept = [
        shape
        for all_of in plants.values()
        for shape, _, parts in all_of
        if any(p.encode() in said for p in parts)
    ]
    assert set(kept) <= set(ALIKE)
