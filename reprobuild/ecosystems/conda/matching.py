"""Requirements of conda packages, compared with packages by rattler."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.ecosystems.conda.linking import run_rattler
from reprobuild.infra.untrusted.decode import decode_value


class Question(Struct, frozen=True, kw_only=True):
    """A requirement of `depends`, as `numpy >=1.21,<2`, and a package of the name in it."""

    spec: str
    name: str
    version: str
    build: str
    build_number: int


def match_specs(questions: Sequence[Question]) -> dict[Question, bool]:
    """Return whether each package meets the requirement; a requirement that is not valid is met by each.

    Raises:
        EngineError: rattler is not installed.
        BuildError: it failed.
    """
    if not questions:
        return {}
    rows = [msgspec.structs.astuple(question) for question in questions]
    with tempfile.TemporaryDirectory(prefix="reprobuild-conda-") as folder:
        answer = run_rattler(
            {"match": {"rows": rows}}, Path(folder), "compare requirements of conda packages"
        )
    return dict(zip(questions, decode_value(answer, list[bool]), strict=True))
