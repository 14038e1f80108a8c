"""The planted faults and the clean scripts, fifty times each.

What share is caught, and is one alarm false?

Each time is one run of `verify --workload`: two fresh containers, and a third if bytes differ.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.engines.model import Engine
from reprobuild.engines.registry import find_engine
from reprobuild.image.model import Image
from reprobuild.output.directory import read_image
from reprobuild.verify.workload.conditions import Conditions
from reprobuild.verify.workload.run import compare_work
from tests.determinism.planted import CLEAN, CLEAN_FOLDER, FAULTS, FAULTS_FOLDER, Script, verdicts, work_of

MODULES = (
    "reprobuild/engines",
    "reprobuild_runtime/artefacts",
    "reprobuild_runtime/seeding",
    "reprobuild/verify",
)
RUNS = 50
AT_ONCE = 2  # pairs of containers, as many as the cores of a small machine
SEED = 42


class Planted:
    """The experiment, with its results in a file.

    A run that was cut off goes on there.
    """

    def __init__(self, results: Path, kept: Path) -> None:
        self.results, self.kept = results, kept
        self.found: dict[str, list[dict[str, str]]] = json.loads(kept.read_text()) if kept.exists() else {}

    def do(self, shard: str, only: str) -> list[dict[str, Any]]:
        """Run the scripts of a part, and return the results.

        Only scripts whose name holds `only` are run.
        """
        _, image = read_image(self.results)
        engine = find_engine(None, os.environ)
        engine.load(self.results / "image", image.reference, image.digests, os.environ)
        index, shards = map(int, shard.split("/"))
        scripts = [script for script in (*FAULTS, *CLEAN) if only in script.name][index - 1 :: shards]
        for script in scripts:
            seen = self.found.setdefault(script.name, [])
            with ThreadPoolExecutor(AT_ONCE) as pool:
                todo = range(RUNS - len(seen))
                for answer in pool.map(lambda _, script=script: _once(script, image, engine), todo):
                    seen.append(answer)
                    self.kept.write_text(json.dumps(self.found))
        return [judged(script, self.found[script.name]) for script in scripts]


def _once(script: Script, image: Image, engine: Engine) -> dict[str, str]:
    folder = FAULTS_FOLDER if script in FAULTS else CLEAN_FOLDER
    conditions = Conditions(volumes=((str(folder), "/scripts"),), read_only=frozenset({"/scripts"}))
    work = msgspec.structs.replace(work_of(script), conditions=conditions)
    return verdicts(compare_work(work, SEED, image.reference, engine, os.environ).comparisons)


def judged(script: Script, seen: Sequence[dict[str, str]]) -> dict[str, Any]:
    """Return the counts of right and wrong answers.

    The wrong ones are listed.
    """
    wrong = [answer for answer in seen if answer != script.expected]
    return {
        "script": script.name, "kind": "fault" if script in FAULTS else "clean", "runs": len(seen),
        "wrong": len(wrong), "instead": dict(Counter(json.dumps(answer) for answer in wrong)),
    }  # fmt: skip


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return the findings, a line for each script."""
    return "\n".join(
        f"{each['script']:<24} {each['kind']:<6} {each['runs'] - each['wrong']} of {each['runs']} as it must be"
        for each in found
    )
