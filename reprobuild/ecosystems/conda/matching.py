"""Requirements of conda packages, compared with packages by rattler."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.ecosystems.conda.linking import run_rattler
from reprobuild.infra.untrusted.decode import decode_value

# Characters of a requirement; those of conda-forge have some 60. rattler's stack overflows at brackets that are
# nested some thousand deep.
_LONGEST = 200
_MOST_SECONDS = 60  # rattler compares 100,000 requirements in a few


class Question(Struct, frozen=True, kw_only=True):
    """A requirement of `depends`, as `numpy >=1.21,<2`, and a package of the name in it."""

    spec: str
    name: str
    version: str
    build: str
    build_number: int


def match_specs(questions: Sequence[Question]) -> dict[Question, bool]:
    """Return whether each package meets the requirement; a requirement that is not valid is met by each.

    So is one that may have a regular expression (`^...$`), which rattler can match for hours, and a very long one.

    Raises:
        EngineError: rattler is not installed.
        BuildError: it failed.
    """
    compared = [item for item in questions if "^" not in item.spec and len(item.spec) <= _LONGEST]
    answers = dict.fromkeys(questions, True)
    if not compared:
        return answers
    rows = [msgspec.structs.astuple(question) for question in compared]
    with tempfile.TemporaryDirectory(prefix="reprobuild-conda-") as folder:
        answer = run_rattler(
            {"match": {"rows": rows}}, Path(folder), "compare requirements of conda packages", _MOST_SECONDS
        )
    return answers | dict(zip(compared, decode_value(answer, list[bool]), strict=True))
