"""The requirements of a project's tests, as its source archive states them."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec.toml
from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("test", "tests", "testing", "pytest", "unittest")
LESSER_EXTRAS = ("dev", "develop", "development")
_FORMS = (  # a file of ranges (`.in`) is read before the versions that were made from it
    "requirements/{}.in", "requirements/{}.txt", "requirements-{}.txt", "requirements_{}.txt", "{}-requirements.txt",
    "{}_requirements.txt", "{}/requirements.txt",
)  # fmt: skip
FILES = tuple(form.format(word) for word in ("test", "tests", "testing") for form in _FORMS)
LESSER_FILES = tuple(form.format("dev") for form in _FORMS)
# Checks of style, whose newest versions find other things; no test of a program needs them.
_CHECK_NAMES = """
black mypy pyright ruff isort flake8 pylint pre-commit bandit docformatter autoflake pyupgrade
"""
_CHECKS = frozenset(_CHECK_NAMES.split())
_CHECK_FORMS = ("flake8-", "types-", "pytest-mypy", "pytest-ruff", "pytest-checkdocs", "pytest-black")
# Tools of developers, left out of lists that are not for tests alone.
_TOOL_NAMES = """
sphinx furo tox nox twine wheel build codecov coveralls check-manifest cogapp towncrier pip-tools bump2version
bumpversion mkdocs mkdocstrings mkdocs-material
"""
_TOOLS = frozenset(_TOOL_NAMES.split())
# Modules that tests import at the start of a line, and their distributions.
_MODULES = {
    "hypothesis": "hypothesis", "freezegun": "freezegun", "mock": "mock", "parameterized": "parameterized",
    "pretend": "pretend", "trio": "trio", "numpy": "numpy", "pandas": "pandas", "yaml": "PyYAML", "toml": "toml",
    "tomli": "tomli", "lxml": "lxml", "simplejson": "simplejson", "requests": "requests", "responses": "responses",
    "attr": "attrs", "sqlalchemy": "SQLAlchemy", "six": "six", "dateutil": "python-dateutil", "pytz": "pytz",
    "jinja2": "Jinja2", "flask": "Flask", "click": "click", "docutils": "docutils", "pygments": "Pygments",
    "psutil": "psutil", "setuptools": "setuptools", "pkg_resources": "setuptools", "bs4": "beautifulsoup4",
    "pytest_mock": "pytest-mock", "pytest_asyncio": "pytest-asyncio", "jsonschema": "jsonschema",
}  # fmt: skip
# Words of settings and tests that need a plugin of pytest.
_PLUGINS = {
    r"--cov\b": "pytest-cov", r"\basyncio_mode\b|mark\.asyncio\b": "pytest-asyncio",
    r"\(.*\bmocker\b.*\)": "pytest-mock", r"\(.*\bsubtests\b.*\)": "pytest-subtests",
    r"(?:^|\s)-n[ =]?(?:auto|logical|\d)": "pytest-xdist", r"\(.*\bbenchmark\b.*\)": "pytest-benchmark",
    r"--timeout\b|mark\.timeout\b": "pytest-timeout",
}  # fmt: skip
_SETTINGS = ("pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml")


def environment_of(python: str) -> dict[str, str]:
    """Return the marker variables of a full version of Python on this machine."""
    known = {key: str(value) for key, value in default_environment().items()}
    return {
        **known,
        "python_version": ".".join(python.split(".")[:2]),
        "python_full_version": python,
        "extra": "",
    }


def choose_extras(requires: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return those of some extras that requirements mention."""
    known = {
        canonicalize_name(name)
        for text in requires
        for name in re.findall(r"""extra\s*==\s*['"]([^'"]+)""", text)
    }
    return [name for name in names if name in known]


def expand_extras(
    project: str, requires: Iterable[str], extras: Iterable[str], variables: Mapping[str, str]
) -> list[Requirement]:
    """Return the requirements of some extras without their markers; an extra may name others of its project."""
    rows = [parsed for text in requires if (parsed := parse_requirement(text)) is not None]
    queue, done, chosen = list(extras), set[str](), []
    while queue:
        extra = queue.pop(0)
        if extra in done:
            continue
        done.add(extra)
        for row in rows:
            if row.marker is None or row.marker.evaluate({**variables, "extra": ""}):
                continue  # it is needed without the extra
            if not row.marker.evaluate({**variables, "extra": extra}):
                continue
            if canonicalize_name(row.name) == canonicalize_name(project):
                queue += sorted(row.extras)
            else:
                chosen.append(Requirement(str(row).partition(";")[0]))
    return chosen


def parse_requirement(text: str) -> Requirement | None:
    """Return the requirement of a line, or None for an option, an address or a comment."""
    try:
        parsed = Requirement(re.sub(r"(?:^|\s)#.*$", "", text).split(" --hash")[0].rstrip("\\ ").strip())
    except InvalidRequirement:
        return None
    return None if parsed.url else parsed


def read_requirements(path: Path, depth: int = 3) -> Iterator[Requirement]:
    """Yield the requirements of a file and of the files that it includes."""
    if not path.is_file() or not depth:
        return
    for row in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if match := re.fullmatch(r"\s*(?:-r|--requirement)[ =]?\s*(\S+)\s*", row):
            yield from read_requirements(path.parent / match[1], depth - 1)
        elif parsed := parse_requirement(row):
            yield parsed


def read_tox(path: Path) -> list[Requirement]:
    """Return the plain lines of `deps` in the first environment of a tox.ini, and those of files that it includes."""
    reader = configparser.RawConfigParser(strict=False)
    try:
        reader.read_string(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, configparser.Error):
        return []
    chosen: list[Requirement] = []
    for row in reader.get("testenv", "deps", fallback="").splitlines():
        if match := re.fullmatch(r"\s*-r\s*(?:\{toxinidir\}/)?(\S+)\s*", row):
            chosen += read_requirements(path.parent / match[1])
        elif parsed := parse_requirement(row):
            chosen.append(parsed)
    return chosen


def read_tables(project: Mapping[str, Any]) -> list[Requirement]:
    """Return the requirements for tests in the tables of hatch, PDM and Poetry."""
    tool = project.get("tool", {})
    rows: list[str] = []
    environments = tool.get("hatch", {}).get("envs", {})
    for name in ("default", "test", "tests"):
        table = environments.get(name, {})
        rows += [*table.get("dependencies", ()), *table.get("extra-dependencies", ())]
    groups = tool.get("pdm", {}).get("dev-dependencies", {})
    for name in (*EXTRAS, *LESSER_EXTRAS):
        rows += groups.get(name, ())
    poetry = tool.get("poetry", {})
    tables = [poetry.get("dev-dependencies", {})]
    tables += [
        poetry.get("group", {}).get(name, {}).get("dependencies", {}) for name in (*EXTRAS, *LESSER_EXTRAS)
    ]
    rows += [
        name for table in tables for name in table
    ]  # the names alone: the forms of versions are Poetry's own
    return [parsed for row in rows if (parsed := parse_requirement(row)) is not None]


def find_plugins(folder: Path, tests: Path) -> Iterator[str]:
    """Yield the distributions that the settings and the tests of an archive mention."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in sorted(tests.rglob("*.py"))]
    settings = (folder / name for name in _SETTINGS)
    whole = "\n".join(texts + [path.read_text(encoding="utf-8") for path in settings if path.is_file()])
    for pattern, name in _PLUGINS.items():
        if re.search(pattern, whole, re.MULTILINE):
            yield name
    for match in sorted(set(re.findall(r"^(?:import|from) (\w+)", "\n".join(texts), re.MULTILINE))):
        if match in _MODULES:
            yield _MODULES[match]


def merge(rows: Iterable[Requirement], variables: Mapping[str, str]) -> dict[str, Requirement]:
    """Return one requirement for each distribution, by its canonical name.

    Checks of style and requirements of another Python are left out.
    """
    merged: dict[str, Requirement] = {}
    for row in rows:
        name = str(canonicalize_name(row.name))
        if name in _CHECKS or name.startswith(_CHECK_FORMS):
            continue
        if row.marker and not row.marker.evaluate(dict(variables)):
            continue
        former = merged.get(name)
        whole = Requirement(row.name)
        whole.extras = row.extras | (former.extras if former else set())
        whole.specifier = row.specifier & former.specifier if former else row.specifier
        merged[name] = whole
    return merged


def read_stated(project: str, folder: Path, requires: Sequence[str], python: str) -> list[Requirement]:
    """Return the requirements of the first of these that an archive has.

    They are extras and files of requirements for tests, tox.ini, tables of other tools, and extras and files for
    developers.
    """
    variables, document = environment_of(python), folder / "pyproject.toml"
    if rows := expand_extras(project, requires, choose_extras(requires, EXTRAS), variables):
        return rows
    if rows := _read_first(folder, FILES) or read_tox(folder / "tox.ini"):
        return rows
    if document.is_file() and (rows := read_tables(msgspec.toml.decode(document.read_bytes()))):
        return rows
    rows = expand_extras(project, requires, choose_extras(requires, LESSER_EXTRAS), variables)
    rows = rows or _read_first(folder, LESSER_FILES)
    return [row for row in rows if canonicalize_name(row.name) not in _TOOLS]


def _read_first(folder: Path, names: Iterable[str]) -> list[Requirement]:
    return next((rows for name in names if (rows := list(read_requirements(folder / name)))), [])


def find_needs(project: str, folder: Path, tests: Path, requires: Sequence[str], python: str) -> list[str]:
    """Return what the tests of an archive need beside the project's own requirements, pytest among them.

    What the settings and the tests plainly mention is added to what is stated.
    """
    merged = merge(read_stated(project, folder, requires, python), environment_of(python))
    own = {
        canonicalize_name(row.name) for row in map(parse_requirement, requires) if row and row.marker is None
    }
    for name in ("pytest", *find_plugins(folder, tests)):
        key = str(canonicalize_name(name))
        if key not in own:
            merged.setdefault(key, Requirement(name))
    merged.pop(str(canonicalize_name(project)), None)
    return [str(row) for _, row in sorted(merged.items())]
