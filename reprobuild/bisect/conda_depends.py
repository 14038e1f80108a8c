"""Requirements between the packages of conda of two locks, by `depends` of those that differ.

If a requirement holds in one lock and not with the other lock's package, the two change together, or in one order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice

import msgspec

from reprobuild.bisect.slots import Slot, Slots
from reprobuild.context import RunContext
from reprobuild.ecosystems.conda.matching import Question, match_specs
from reprobuild.ecosystems.conda.package import IndexJson, read_facts
from reprobuild.errors import BuildError
from reprobuild.lock.python import CondaPackage

# Returns what a package states of itself; None if it is unavailable.
ReadIndex = Callable[[CondaPackage], IndexJson | None]
MOST_TOGETHER = 100_000  # requirements of all packages between each other
_MOST = 1000  # requirements of a package: conda's largest, for whole distributions, have some 400
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def open_index(package: CondaPackage, context: RunContext) -> IndexJson | None:
    """Return `info/index.json` of a package in the store; None if the file is no package.

    Raises:
        FetchError: it is not there, or damaged.
    """
    path = context.store.verified(package.file.sha256, package.file.filename)
    try:
        return read_facts(path, package.file.filename).index
    except BuildError:
        return None  # the trial that installs it reports it


def link_conda(
    slots: tuple[Slots, Slots], differing: Sequence[Slot], read_index: ReadIndex
) -> list[tuple[Slot, Slot]]:
    """Return (a, b) for each slot a that cannot be of B without slot b.

    Raises:
        EngineError, BuildError: rattler is missing, or fails.
    """
    changed = {slot for slot in differing if slot[0] == "conda"}
    if len(changed) < 2:
        return []
    read: dict[str, IndexJson | None] = {}  # by sha256: packages that share a file are one at most
    facts: list[dict[Slot, IndexJson]] = [{}, {}]
    for number, side in enumerate(slots):
        for slot in sorted(changed & side.keys()):
            sha256 = side[slot].file.sha256
            if sha256 not in read:
                read[sha256] = read_index(side[slot])
            index = read[sha256]
            if index is not None and index.name == slot[1]:
                facts[number][slot] = index
    requirements = list(
        islice(
            (
                (number, slot, ("conda", name), spec)
                for number, side in enumerate(facts)
                for slot, index in side.items()
                for spec in index.depends[:_MOST]
                if (name := _read_name(spec)) != slot[1] and ("conda", name) in changed
            ),
            MOST_TOGETHER,
        )
    )
    questions = {
        _make_question(spec, package)
        for _, _, required, spec in requirements
        for side in facts
        if (package := side.get(required))
    }
    answers = match_specs(sorted(questions, key=msgspec.structs.astuple))

    def meets(number: int, required: Slot, spec: str) -> bool:
        package = facts[number].get(required)
        return package is not None and answers[_make_question(spec, package)]

    return sorted(
        {
            (slot, required) if number else (required, slot)
            for number, slot, required, spec in requirements
            if meets(number, required, spec) and not meets(1 - number, required, spec)
        }
    )


def _make_question(spec: str, package: IndexJson) -> Question:
    return Question(
        spec=spec, name=package.name, version=package.version, build=package.build, build_number=package.build_number,
    )  # fmt: skip


def _read_name(spec: str) -> str:
    match = _NAME.match(spec)
    return match[0].lower() if match else ""
