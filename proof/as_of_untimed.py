"""The same environments with an index that publishes no upload times, as many company mirrors do.

The index has the pages of this machine's own, as PEP 503 has them, on loopback. Each judgement on a release is compared
with the upload time that the machine's index publishes for it.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec import structs
from packaging.utils import canonicalize_name

from proof.as_of import CASES as ENVIRONMENTS
from proof.as_of import MACHINE, PYTHONS, context_of, differences, lock_by_uv, recover, share
from proof.untimed import untimed_index
from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import PackageIndex, read_indexes
from reprobuild.errors import ReproError
from reprobuild.resolve.ages.age import parse_time
from reprobuild.resolve.ages.evidence import AgeReader
from reprobuild.resolve.ages.releases import date_releases, group_files
from reprobuild.resolve.as_of_moment import parse_moment
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.python.context import make_file_lists

GOAL = 0.9  # of all versions
# In an order of chance: the first ones are a sample.
CASES = list(ENVIRONMENTS)
random.Random(20).shuffle(CASES)
_RULES = (
    (" was there: ", "a later release was there"),
    ("uploaded on", "an upload time"),
    (r"the newest file in .*\.whl ", "the newest member of a wheel"),
    (" was written on |the newest file in ", "the times of a source archive"),
    ("the list of changes", "the list of changes"),
    ("built by ", "the release of the back end"),
)


def measure(work: Path, cases: Iterable[tuple[str, Sequence[str], str]] = CASES) -> list[dict[str, Any]]:
    """Return the facts of each environment; those of an earlier call are kept in `work`."""
    done = work / "as-of-untimed.json"
    known = {(row["name"], row["date"]): row for row in json.loads(done.read_text())} if done.exists() else {}
    source = read_indexes(os.environ).simple[0]
    with untimed_index(source) as address:
        for name, names, date in cases:
            if (name, date) not in known:
                known[name, date] = _measure_one(name, names, date, work, address)
                print(known[name, date], file=sys.stderr, flush=True)
                done.write_text(json.dumps(list(known.values())))
    return [known[name, date] for name, _, date in cases]


def _measure_one(name: str, names: Sequence[str], date: str, work: Path, address: str) -> dict[str, Any]:
    python = PYTHONS[int(date[:4])]
    row: dict[str, Any] = {"name": name, "date": date, "python": python, "versions": 0, "wrong": []}
    began = time.monotonic()
    try:
        locked = lock_by_uv(names, date, python)
    except subprocess.CalledProcessError:  # there was no such environment
        return row | {"seconds of uv": 0, "seconds": 0, "rules": {}}
    middle = time.monotonic()
    machine = read_indexes(os.environ)
    context = context_of(
        work, structs.replace(machine, simple=(address, *machine.simple[1:])), int(time.time())
    )
    row |= {"versions": len(locked), "seconds of uv": round(middle - began, 1)}
    try:
        chosen = recover(names, date, python, context)
    except ReproError as err:
        chosen = {}
        row |= {"error": str(err)[:2000]}
    row |= {"wrong": differences(locked, chosen), "seconds": round(time.monotonic() - middle, 1)}
    return row | {"rules": _count_rules([*locked], date, address, context)}


def _count_rules(
    projects: Sequence[str], date: str, address: str, context: ResolveContext
) -> Mapping[str, list[int]]:
    """Return how many judgements of each rule are right, and how many are wrong."""
    moment = parse_time(parse_moment(date)) or 0
    files = make_file_lists(Decisions(), context.services, context)
    timed = context_of(context.folder, read_indexes(os.environ))
    real = make_file_lists(Decisions(), timed.services, timed)
    counts: Counter[tuple[str, bool]] = Counter()
    with ThreadPoolExecutor(16) as pool:
        reader = AgeReader(context.store, context.net, moment, context.now, (PYTHONS[int(date[:4])], MACHINE))
        for project in projects:
            groups = group_files(files.list_page(PackageIndex(address), canonicalize_name(project)))
            if not groups:
                continue
            judged = date_releases(groups, moment, reader.date, pool)
            uploaded = _uploads(real, timed.indexes.simple[0], project)
            for version in groups:
                if version not in uploaded or (version.is_prerelease and version not in judged.present):
                    continue
                if version in judged.unknown:
                    counts["no evidence", True] += 1
                    continue
                rule = next(
                    (word for form, word in _RULES if re.search(form, judged.present.get(version, ""))), ""
                )
                there = uploaded[version] <= moment
                counts[rule or "left out as later", there == (version in judged.present)] += 1
    return {rule: [counts[rule, True], counts[rule, False]] for rule, _ in counts}


def _uploads(files: FileLists, address: str, project: str) -> dict[Any, int]:
    """Return the first upload time of each version."""
    groups = group_files(files.list_page(PackageIndex(address), canonicalize_name(project)))
    times = {
        version: [parse_time(file.uploaded or "") or 0 for file in group] for version, group in groups.items()
    }
    return {version: min(moments) for version, moments in times.items() if all(moments)}


def count_rules(found: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Return the right and the wrong judgements of each rule, of all environments."""
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for row in found:
        for rule, (well, badly) in row["rules"].items():
            right[rule] += well
            wrong[rule] += badly
    return {rule: (right[rule], wrong[rule]) for rule in sorted({*right, *wrong})}


def held(found: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether enough versions were recovered."""
    return share(found) >= GOAL
