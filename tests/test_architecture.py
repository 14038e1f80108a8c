"""The architecture: which package may import which, and the one module for each ugly thing.

Each check is shown to fail on a planted violation.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "reprobuild"
PORTABLE = PACKAGE.parent / "reprobuild_portable"  # the layer below all others

# A package imports from the layers before its own, never from its own and those after it (docs/design.md).
LAYERS = (
    ("errors",),
    ("infra",),
    ("config", "capture"),
    ("snapshot",),
    ("lock",),
    ("store",),
    ("ecosystems", "recipe"),
    ("image",),
    ("resolve", "engines", "realise"),
    ("builders", "verify", "compare"),
    ("context",),
    ("output",),
    ("report",),
    ("doctor",),
    ("run", "distribute"),
    ("trace",),
    ("pipeline",),
    ("cluster", "bisect"),
    ("api", "integrations"),
    ("cli",),
)
RANK = {package: number for number, layer in enumerate(LAYERS) for package in layer}
MOST_IMPORTS = 224  # pairs of packages, of which the first imports the second

# The one place of each ugly thing: a directory or a module of `reprobuild/`.
ONLY_IN = {
    "subprocess": ("infra/proc",),
    "jinja2": ("infra/templates",),
    "click": ("cli",),
    "rich": ("cli", "infra/columns"),
    "docker": ("engines", "ecosystems/oci_registry"),  # the SDK reads files of logins, too
    "requests": ("infra/http", "engines"),  # the Docker SDK lets exceptions of requests through
    "urllib3": ("infra/http",),
    "yaml": ("infra/untrusted", "snapshot"),  # the bounded readers; the nodes of conda's environments
    "elftools": ("infra/untrusted",),
    "packageurl": ("distribute",),
    "pysequoia": ("ecosystems/apt",),
    "rattler": ("ecosystems/conda",),
    "clingo": ("resolve",),
    "torch": (),
    "numpy": (),
}
EXITS = ("cli",)
READS_ENVIRONMENT = (
    "api",
    "cli",
    "store/keyring",
)  # the keys of whoever runs a program that uses `Store` by itself


def package_of(module: str) -> str:
    """Return the top-level package of a module, given by its path below `reprobuild/` without `.py`."""
    return module.partition("/")[0]


def is_in(module: str, places: tuple[str, ...]) -> bool:
    """Say whether a module is one of these places, or below one."""
    return any(module == place or module.startswith(place + "/") for place in places)


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def violations(module: str, source: str) -> list[str]:
    """Return what a module must not do."""
    tree = ast.parse(source)
    found = [complaint for name in imports_of(tree) if (complaint := _import(module, name))]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            place = f"{node.value.id}.{node.attr}"
            if place == "sys.exit" and not is_in(module, EXITS):
                found.append("exits")
            reads = place in ("os.environ", "os.getenv", "os.getcwd", "Path.cwd")
            if reads and not is_in(module, READS_ENVIRONMENT):
                found.append(f"reads {place}")
    return found


def _import(module: str, name: str) -> str:
    parts = name.split(".")
    if parts[0] in ONLY_IN and not is_in(module, ONLY_IN[parts[0]]):
        return f"imports {parts[0]}"
    package = package_of(module)
    if parts[0] == "reprobuild_runtime" and package != "__init__":
        return "imports the runtime package, which is data here"
    if parts[0] != "reprobuild" or len(parts) < 2 or parts[1] == package:
        return ""
    if parts[1] in RANK and package in RANK and RANK[parts[1]] >= RANK[package]:
        return f"imports {parts[1]}, which is not in a layer before it"
    return ""


# Programs for other places, which have the standard library alone.
APART = {"in_sandbox", "standalone", "launch.py", "container.py", "seal.py"}
FILES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path == PACKAGE / "capture" / "launch.py" or not APART & set(path.relative_to(PACKAGE).parts)
]


def module_of(path: Path) -> str:
    """Return the path of a module below `reprobuild/`, without `.py`."""
    return path.relative_to(PACKAGE).with_suffix("").as_posix()


def test_there_are_files() -> None:
    assert len(FILES) > 400


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_modules_keep_to_the_layers(path: Path) -> None:
    assert violations(module_of(path), path.read_text()) == []


def test_every_package_has_a_layer() -> None:
    assert {package_of(module_of(path)) for path in FILES} - {"__init__", "__main__"} == set(RANK)


def test_the_design_has_the_layers_in_this_order() -> None:
    """Each row of the table is one layer or a part of one."""
    text = (PACKAGE.parent / "docs" / "design.md").read_text().split("## Packages")[1].split("\n\n")[2]
    cells = [line.split("|")[1] for line in text.splitlines()[2:]]
    named = [
        name.rstrip("/") for cell in cells for name in re.findall("`([a-z_/]+)`", cell) if name != "infra/"
    ]
    packages = list(dict.fromkeys(package_of(name) for name in named))
    assert set(packages) == set(RANK)
    assert all(RANK[first] <= RANK[second] for first, second in pairwise(packages))
    missing = [
        name for name in named if not ((PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file())
    ]
    assert missing == []


def test_few_packages_import_each_other() -> None:
    pairs = set()
    for path in FILES:
        package = package_of(module_of(path))
        for name in imports_of(ast.parse(path.read_text())):
            parts = name.split(".")
            if parts[0] == "reprobuild" and len(parts) > 1 and parts[1] in RANK and parts[1] != package:
                pairs.add((package, parts[1]))
    assert 50 < len(pairs) <= MOST_IMPORTS, sorted(pairs)


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("lock/lock", "import subprocess", "imports subprocess"),
        ("infra/http/client", "import subprocess", "imports subprocess"),
        ("verify/check", "from torch import nn", "imports torch"),
        ("recipe/image_config", "import jinja2", "imports jinja2"),
        (
            "store/store",
            "from reprobuild.cli.main import main",
            "imports cli, which is not in a layer before it",
        ),
        ("errors", "from reprobuild import infra", "imports infra, which is not in a layer before it"),
        (
            "resolve/resolver",
            "import reprobuild.realise",
            "imports realise, which is not in a layer before it",
        ),
        ("recipe/render", "import sys\nsys.exit(1)", "exits"),
        ("store/store", "import os\nos.environ['HOME']", "reads os.environ"),
        ("recipe/payload", "import reprobuild_runtime", "imports the runtime package, which is data here"),
    ],
)
def test_a_violation_is_seen(module: str, source: str, complaint: str) -> None:
    assert complaint in violations(module, source)


# Programs that are each one file, and so import none of each other.
PROGRAMS = ("capture", "unbundle")
PORTABLE_FILES = sorted(PORTABLE.rglob("*.py"))


def portable_violations(module: str, source: str) -> list[str]:
    """Return what a module of `reprobuild_portable` must not import, or that it is not of Python 3.8."""
    try:
        tree = ast.parse(source, feature_version=(3, 8))
    except SyntaxError as err:
        return [f"is not of Python 3.8: {err.msg}"]
    found = []
    for name in imports_of(tree):
        top, _, rest = name.partition(".")
        other = rest.partition(".")[0]
        if top == PORTABLE.name and other in PROGRAMS and package_of(module) != other:
            found.append(f"imports {other}, which is a program")
        elif name == "collections.abc":
            found.append("imports collections.abc: in Python 3.8, the types of typing alone take others")
        elif top != PORTABLE.name and top not in sys.stdlib_module_names:
            found.append(f"imports {top}, which is not the standard library")
    return found


@pytest.mark.parametrize(
    "path", PORTABLE_FILES, ids=lambda path: path.relative_to(PORTABLE).with_suffix("").as_posix()
)
def test_portable_modules_import_the_standard_library(path: Path) -> None:
    module = path.relative_to(PORTABLE).with_suffix("").as_posix()
    assert portable_violations(module, path.read_text()) == []


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("secrets/words", "import msgspec", "imports msgspec, which is not the standard library"),
        (
            "capture/files",
            "from reprobuild.infra import display",
            "imports reprobuild, which is not the standard library",
        ),
        (
            "unbundle/bundle",
            "import reprobuild_runtime",
            "imports reprobuild_runtime, which is not the standard library",
        ),
        (
            "capture/files",
            "from reprobuild_portable.unbundle.format import CHUNK",
            "imports unbundle, which is a program",
        ),
        (
            "secrets/words",
            "from reprobuild_portable.capture.files import quote",
            "imports capture, which is a program",
        ),
        ("capture/files", "from collections.abc import Callable", "imports collections.abc: "),
        ("capture/files", "match 1:\n    case 1: pass", "is not of Python 3.8: "),
    ],
)
def test_a_portable_violation_is_seen(module: str, source: str, complaint: str) -> None:
    assert any(found.startswith(complaint) for found in portable_violations(module, source))


SANDBOXED = {"importlib", "json", "marshal", "os", "sys", "sysconfig", "warnings", "typing"}
LAUNCHING = {
    "reprobuild",
    "ctypes",
    "errno",
    "fcntl",
    "json",
    "os",
    "resource",
    "signal",
    "stat",
    "sys",
    "types",
    "typing",
}
CONTAINING = LAUNCHING | {"contextlib", "reprobuild", "select", "socket", "struct", "time"}
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
        "shlex",
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
        (PACKAGE / "infra" / "sandbox" / "launch.py", LAUNCHING),
        (PACKAGE / "infra" / "sandbox" / "seal.py", {"fcntl", "mmap", "os", "sys"}),
        *((path, CONTAINING) for path in sorted((PACKAGE / "infra" / "sandbox").glob("container*.py"))),
        *((path, HANDED_OVER) for path in sorted((PACKAGE / "distribute" / "standalone").glob("*.py"))),
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


# Generated from modules of reprobuild_portable, whose classes they repeat.
SINGLE = {"reprobuild_runtime/capture.py", "reprobuild/distribute/standalone/unbundle.py"}


def shared_names(sources: dict[str, str]) -> dict[str, list[str]]:
    """Return each public class name that several modules define, with these modules."""
    found: dict[str, list[str]] = {}
    for name, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(name)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_no_two_public_classes_share_a_name() -> None:
    root = PACKAGE.parent
    paths = [
        path
        for package in ("reprobuild", "reprobuild_portable", "reprobuild_runtime")
        for path in (root / package).rglob("*.py")
    ]
    sources = {path.relative_to(root).as_posix(): path.read_text() for path in paths}
    assert len(sources) > 500
    assert shared_names({name: text for name, text in sources.items() if name not in SINGLE}) == {}


def test_a_shared_class_name_is_seen() -> None:
    sources = {
        "a.py": "class File:\n    pass\nclass _Own:\n    pass",
        "b.py": "class File: pass\nclass _Own: pass",
    }
    assert shared_names(sources) == {"File": ["a.py", "b.py"]}


MOST_LINES = 350  # of a module that a person writes
PACKAGES = ("reprobuild", "reprobuild_runtime", "reprobuild_portable")


def long_modules(sources: dict[str, str]) -> dict[str, int]:
    """Return each hand-written module with too many lines, and their number."""
    found = {}
    for name, source in sources.items():
        lines = source.splitlines()
        is_generated = any("do not edit" in line for line in lines[:5])
        if len(lines) > MOST_LINES and not is_generated:
            found[name] = len(lines)
    return found


def test_no_module_is_long() -> None:
    root = PACKAGE.parent
    paths = [path for package in PACKAGES for path in (root / package).rglob("*.py")]
    sources = {path.relative_to(root).as_posix(): path.read_text() for path in paths}
    assert len(sources) > 600
    assert long_modules(sources) == {}


def test_a_long_module_is_seen() -> None:
    sources = {
        "full.py": "x = 1\n" * MOST_LINES,
        "long.py": "x = 1\n" * (MOST_LINES + 1),
        "made.py": '"""Written by a program: do not edit."""\n' + "x = 1\n" * MOST_LINES,
        "late.py": "x = 1\n" * MOST_LINES + "# do not edit\n",
    }
    assert long_modules(sources) == {"long.py": MOST_LINES + 1, "late.py": MOST_LINES + 1}


# Participles, pronouns and adverbs that say nothing of a value (docs/STYLE.md).
VAGUE = frozenset(
    [
        "one",
        "found",
        "said",
        "told",
        "kept",
        "there",
        "each",
        "made",
        "wanted",
        "given",
        "asked",
        "listed",
        "brought",
        "held",
        "theirs",
        "ours",
        "mine",
        "gone",
        "way",
        "seen",
        "what",
        "own",
    ]
)


def vague_variables(sources: dict[str, str]) -> dict[str, list[str]]:
    """Return the vague names of variables and parameters in each hand-written module."""
    vague = {}
    for name, source in sources.items():
        if any("do not edit" in line for line in source.splitlines()[:5]):
            continue
        functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
        nodes = [node for function in functions for node in ast.walk(function)]
        names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        names |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        if shared := names & VAGUE:
            vague[name] = sorted(shared)
    return vague


def test_variables_say_what_they_hold() -> None:
    root = PACKAGE.parent
    paths = [path for package in PACKAGES for path in (root / package).rglob("*.py")]
    sources = {path.relative_to(root).as_posix(): path.read_text() for path in paths}
    assert vague_variables(sources) == {}


def test_a_vague_variable_is_seen() -> None:
    sources = {
        "names.py": "for wheel in wheels: pass\n",
        "vague.py": "class A:\n    found: int\ndef f(told):\n    told.kept = 1\n    return [one for one in told]\n",
    }
    assert vague_variables(sources) == {"vague.py": ["one", "told"]}
