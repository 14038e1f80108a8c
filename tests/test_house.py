"""The house: who may import whom, and the doors. Each check is shown to fail on a planted violation."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "reprobuild"

# A room imports those before it, never those after (docs/design.md).
ORDER = [
    "errors", "proc", "capture", "sandbox", "secrets", "display", "halt", "alone", "descriptors", "whole", "guard",
    "archive",
    "layering", "snapshot", "net", "restore", "profiles", "decisions", "services", "lock", "keyring", "signature",
    "rootkey", "store", "share", "listing", "compare", "caches", "fetch", "keep", "brought",
    "halflife", "registry", "apt",
    "conda", "resolve", "payload", "wheelorder", "realise", "preflight", "collect", "config", "render", "context",
    "image", "engines", "builders", "explain",
    "environments", "verify", "report", "session", "results", "foreign", "checks", "running", "ship", "fleet", "doctor",
    "pipeline", "rebuild", "cli",
]  # fmt: skip

# One door for each ugly thing.
ONLY_IN = {
    "subprocess": {"proc"},
    "jinja2": {"render"},
    "click": {"cli"},
    "rich": {"cli"},
    "docker": {"engines", "registry"},  # the SDK reads files of logins, too
    "requests": {"net", "engines"},  # the Docker SDK lets exceptions of requests through
    "urllib3": {"net"},
    "yaml": {"guard", "snapshot"},  # the bounded readers; the nodes of conda's environments
    "elftools": {"guard"},
    "packageurl": {"ship"},
    "pysequoia": {"apt"},
    "rattler": {"conda"},
    "clingo": {"resolve"},
    "torch": set(),
    "numpy": set(),
}
EXITS = {"cli"}
READS_ENVIRONMENT = {"cli", "keyring"}  # the keys of whoever runs a program that uses `Store` by itself


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def violations(room: str, source: str) -> list[str]:
    """Return what a file of a room must not do."""
    tree = ast.parse(source)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            names = []
        found += [complaint for name in names if (complaint := _import(room, name))]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            place = f"{node.value.id}.{node.attr}"
            if place == "sys.exit" and room not in EXITS:
                found.append("exits")
            if (
                place in ("os.environ", "os.getenv", "os.getcwd", "Path.cwd")
                and room not in READS_ENVIRONMENT
            ):
                found.append(f"reads {place}")
    return found


def _import(room: str, name: str) -> str:
    parts = name.split(".")
    if parts[0] in ONLY_IN and room not in ONLY_IN[parts[0]]:
        return f"imports {parts[0]}"
    if parts[0] == "reprobuild_runtime" and room != "__init__":
        return "imports the runtime package, which is data here"
    if parts[0] == "reprobuild" and len(parts) > 1 and parts[1] in ORDER and room in ORDER:
        return (
            f"imports {parts[1]}, which comes after it" if ORDER.index(parts[1]) > ORDER.index(room) else ""
        )
    return ""


# Programs for other places, which have the standard library alone.
APART = {"in_sandbox", "alone", "launch.py"}
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if not APART & set(path.relative_to(PACKAGE).parts)]


def test_there_are_files() -> None:
    assert len(FILES) > 50


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_rooms_keep_to_themselves(path: Path) -> None:
    assert violations(room_of(path), path.read_text()) == []


def test_every_room_has_its_place() -> None:
    rooms = {room_of(path) for path in FILES} - {"__init__"}
    assert rooms == set(ORDER)


def test_the_design_has_the_rooms_in_this_order() -> None:
    text = (PACKAGE.parent / "docs" / "design.md").read_text().split("## Rooms")[1].split("\n\n")[2]
    first = [line.split("|")[1] for line in text.splitlines()[2:]]
    assert [name.rstrip("/") for cell in first for name in re.findall("`([a-z_/]+)`", cell)] == ORDER


@pytest.mark.parametrize(
    ("room", "source", "complaint"),
    [
        ("lock", "import subprocess", "imports subprocess"),
        ("verify", "from torch import nn", "imports torch"),
        ("store", "from reprobuild.cli import main", "imports cli, which comes after it"),
        ("errors", "from reprobuild import proc", "imports proc, which comes after it"),
        ("render", "import sys\nsys.exit(1)", "exits"),
        ("resolve", "import os\nos.environ['HOME']", "reads os.environ"),
        ("payload", "import reprobuild_runtime", "imports the runtime package, which is data here"),
    ],
)
def test_a_violation_is_seen(room: str, source: str, complaint: str) -> None:
    assert complaint in violations(room, source)


SANDBOXED = {"importlib", "json", "marshal", "os", "sys", "sysconfig", "warnings", "typing"}
LAUNCHING = {"ctypes", "errno", "fcntl", "json", "os", "resource", "signal", "stat", "sys", "types", "typing"}
HANDED_OVER = {
    *(
        "argparse",
        "contextlib",
        "errno",
        "fcntl",
        "hashlib",
        "json",
        "os",
        "re",
        "shutil",
        "subprocess",
        "sys",
        "tarfile",
    ),
    *("stat", "tempfile", "time", "typing"),
}


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        *((path, SANDBOXED) for path in sorted((PACKAGE / "realise" / "in_sandbox").glob("*.py"))),
        (PACKAGE / "sandbox" / "launch.py", LAUNCHING),
        *((path, HANDED_OVER) for path in sorted((PACKAGE / "ship" / "alone").glob("*.py"))),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_what_runs_apart_is_old_python_and_standard_library(path: Path, allowed: set[str]) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    names = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    names |= {
        node.module.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
    }
    assert names <= allowed | {"__future__"}
