"""Importer of `setup.cfg`: the requirements of a project of setuptools.

Format: https://setuptools.pypa.io/en/latest/userguide/declarative_config.html. The program `setup.py` is not run.
"""

from __future__ import annotations

import configparser
import re

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text
from reprobuild.infra.shell_words import quote_path
from reprobuild.snapshot import text
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.project_requirements import (
    DESCRIPTION,
    EXTRA,
    LARGEST,
    NOT_HERE,
    PROJECT,
    RANGE,
    add_project_python,
    add_requirement,
    check_count,
    find_project_file,
    has_captured_list,
    is_alone,
    read_project_file,
)
from reprobuild.snapshot.importers.source import ImportSource

NAME = "setup.cfg"
_STATED = re.compile(rb"(?m)^install[_-]requires[ \t]*[=:]")
_BLANKS = re.compile(r"(?<=\S)\s{2,}")
_REASONS = {
    "python_requires": RANGE, "setup_requires": "requirements of a build of the project itself",
    "tests_require": "requirements of the tests of the project",
}  # fmt: skip


def recognises(source: ImportSource) -> bool:
    """Return whether the path is a `setup.cfg`, or has one with requirements and no list that says more."""
    if is_alone(source):
        return find_project_file(source, NAME) is not None
    return has_requirements(source) and not has_captured_list(source)


def has_requirements(source: ImportSource) -> bool:
    """Return whether the path has a `setup.cfg` with requirements at its top."""
    file = find_project_file(source, NAME)
    return file is not None and _STATED.search(source.head(file, LARGEST)) is not None


def read(source: ImportSource) -> Draft:
    """Import the requirements of a project: those that its installation needs.

    Raises:
        SnapshotError: it is damaged, or states no requirement.
    """
    file = find_project_file(source, NAME)
    assert file is not None
    document = _load(read_project_file(source, file), file)
    draft = Draft("setup.cfg", file)
    options = {}
    if document.has_section("options"):
        options = {name.replace("-", "_"): value for name, value in document["options"].items()}
    rows = _split(options.get("install_requires", ""))
    if not rows:
        raise SnapshotError(f"{display_text(file)} states no requirement", hint=NOT_HERE)
    if (named := re.fullmatch(r"file:\s*([^,\s]+).*", rows[0])) and len(rows) == 1:
        raise SnapshotError(
            f"{display_text(file)} leaves its requirements to {display_text(named[1])}",
            hint=f"import that list: `reprobuild import {quote_path(display_text(named[1]))} -o DIR`",
        )
    check_count(len(rows), file)
    for number, row in enumerate(rows):
        add_requirement(draft, row, f"options.install_requires[{number}]")
    draft.limit_python(options.get("python_requires", ""))
    _leave_sections(draft, document)
    add_project_python(draft, source)
    return draft


def _load(data: bytes, file: str) -> configparser.RawConfigParser:
    """Return the document; `configparser` takes quadratic time for a run of blanks, so each becomes one."""
    rows = text.decode_lines(data, file)
    document = configparser.RawConfigParser()
    try:
        document.read_string("\n".join(_BLANKS.sub(" ", row) for row in rows))
    except configparser.Error as err:
        raise SnapshotError(
            f"{display_text(file)} is not read: {display_text(str(err).splitlines()[0])}",
            hint="look at what wrote it; a merge may have left its marks",
        ) from None
    return document


def _split(value: str) -> list[str]:
    """Return the items of a list of setuptools: lines, or parts between semicolons; a comment is none."""
    parts = value.split("\n") if "\n" in value else value.split(";")
    return [part.strip() for part in parts if part.strip() and not part.strip().startswith("#")]


def _leave_sections(draft: Draft, document: configparser.RawConfigParser) -> None:
    for section in document.sections():
        if section == "options":
            for name in document[section]:
                if name.replace("-", "_") != "install_requires":
                    reason = _REASONS.get(name.replace("-", "_"), "how the project itself is built")
                    draft.leave(f"{section}.{name}", reason)
        elif section == "options.extras_require":
            for name in document[section]:
                draft.leave(f"{section}.{name}", EXTRA)
        elif section == "metadata":
            for name in document[section]:
                draft.leave(f"{section}.{name}", PROJECT if name == "name" else DESCRIPTION)
        else:
            draft.leave(section, "settings of a tool")
