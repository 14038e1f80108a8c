"""The planted pairs, those without a cause, and the noisy ones: each bisected once in real containers."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from proof.bisection.differences import PROLOGUE, World, ordinary
from proof.bisection.pairs import COUNTS, PAIRS, Pair, make_pairs
from reprobuild.api.context import open_context
from reprobuild.bisect.bisection import Judging, bisect
from reprobuild.bisect.links import make_link_finder
from reprobuild.bisect.metric import Metric
from reprobuild.bisect.mixture import make_mixer
from reprobuild.bisect.result import BisectionResult
from reprobuild.bisect.trial import TrialCommand
from reprobuild.lock.model import Lock
from reprobuild.pipeline.locked_side import open_source
from reprobuild.run.options import RunOptions

MODULES = ("reprobuild/bisect", "reprobuild/pipeline/trial_image", "reprobuild/engines")
RATE = 0.05
# Effect and noise, in percent of the value.
NOISY = tuple((effect, noise) for effect in (2, 4, 6, 8, 10) for noise in (1, 2, 3, 5))
# The scripts of pairs without a cause.
INNOCENT: Mapping[str, str] = {
    "B gives the result of A": "sys.exit(3)",
    "A differs from itself": "sys.exit(os.urandom(1)[0] % 100)",
    "no mixture has a result": "sys.exit(125)",
    "only the machine differs": "sys.exit(3)",
}
_NOISE = "import random; noise = random.Random(os.urandom(8)).gauss(0, 1); "  # `random` itself is seeded
_SIZE = 12
HEAD = ("differences", "exact", "runs, one guilty", "two", "three", "set-up of a trial, s")


class Bisections:
    """The bisections of one run, with their results in a file; a run that was cut off goes on there."""

    def __init__(self, world: World, work: Path) -> None:
        self._world, self._file = world, work / "bisections.json"
        self.results: dict[str, dict[str, Any]] = (
            json.loads(self._file.read_bytes()) if self._file.exists() else {}
        )

    def measure(self, shard: str, only: str = "") -> list[dict[str, Any]]:
        """Return the results of a part of the cases."""
        index, shards = map(int, shard.split("/"))
        cases = [case for case in self._cases() if only in case[0]][index - 1 :: shards]
        for name, run in cases:
            if name not in self.results:
                self.results[name] = {"name": name, **run()}
                print(self.results[name], file=sys.stderr, flush=True)
                self._file.write_text(json.dumps(self.results, indent=1))
        return [self.results[name] for name, _ in cases]

    def _cases(self) -> Iterable[tuple[str, Callable[[], dict[str, Any]]]]:
        for pair in make_pairs():
            yield f"planted {pair.number}", partial(self._run_planted, pair)
        for number in range(5):
            for name in INNOCENT:
                yield (
                    f"innocent {number}, {name}",
                    partial(self._run_innocent, name, number),
                )
        for effect, noise in NOISY:
            yield f"noisy {effect} %, {noise} %", partial(self._run_noisy, effect, noise)

    def _run_planted(self, pair: Pair) -> dict[str, Any]:
        result = self._bisect(self._world.pair(pair.differences), pair.script)
        guilty = {item.name for item in pair.guilty}
        return {
            "kind": "planted", "differences": len(pair.differences), "rule": pair.rule, "guilty": pair.kinds,
            "right": _names(result) == guilty and result.is_proved, **_facts(result),
        }  # fmt: skip

    def _run_innocent(self, name: str, number: int) -> dict[str, Any]:
        differences = [ordinary("variable", item) for item in range(_SIZE + number)]
        first, second = self._world.pair(differences, number + 1)
        if name == "only the machine differs":
            second = msgspec.structs.replace(first, snapshot=second.snapshot)
        result = self._bisect((first, second), INNOCENT[name], afresh=True)
        return {"kind": "innocent", "right": not result.guilty, "reason": result.reason, **_facts(result)}

    def _run_noisy(self, effect: int, noise: int) -> dict[str, Any]:
        differences = [ordinary("variable", number) for number in range(_SIZE)]
        guilty = differences[(effect + noise) % _SIZE]
        script = (
            f"{_NOISE}print('t=%f' % ((1 + {effect / 100} * ({guilty.test})) * (1 + {noise / 100} * noise)))"
        )
        result = self._bisect(
            self._world.pair(differences),
            script,
            Judging(error_rate=RATE),
            metric=Metric(pattern="t=([0-9.]+)"),
        )
        return {
            "kind": "noisy", "effect": effect, "noise": noise, "right": _names(result) == {guilty.name},
            "reason": result.reason, **_facts(result),
        }  # fmt: skip

    def _bisect(
        self, locks: tuple[Lock, Lock], script: str, judging: Judging | None = None, *, afresh: bool = False,
        metric: Metric | None = None,
    ) -> BisectionResult:  # fmt: skip
        command = TrialCommand(
            arguments=("python", "-c", PROLOGUE + script), options=RunOptions(engine="builtin"), metric=metric
        )
        context = open_context(self._world.store.root, offline=True, caches=False)
        mixer = make_mixer(*locks, lambda source: open_source(source, context), make_link_finder(context))
        blank = BisectionResult(first="A", second="B", command=command.arguments, oracle="")
        return bisect(mixer, command, judging or Judging(), context, blank, afresh=afresh)


def _names(result: BisectionResult) -> set[str]:
    return {result.differences[number].name for number in result.guilty}


def _facts(result: BisectionResult) -> dict[str, Any]:
    setups = [trial.setup for trial in result.trials]
    return {
        "found": sorted(_names(result)), "runs": result.runs, "seconds": round(result.seconds, 1),
        "set-up": round(statistics.median(setups), 2) if setups else None,
        "untestable": sum(trial.answer == "untestable" for trial in result.trials),
    }  # fmt: skip


def held(found: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether every planted cause was found, no innocent was accused, and noise kept to the stated rate."""
    noisy = [each for each in found if each["kind"] == "noisy"]
    others = [each for each in found if each["kind"] != "noisy"]
    wrong = sum(bool(each["found"]) and not each["right"] for each in noisy)
    missing = sum(not each["found"] for each in noisy)
    return all(each["right"] for each in others) and max(wrong, missing) <= max(1, RATE * len(noisy))


def rows(found: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return a row for each number of differences: pairs, exact answers, and median runs by guilty differences."""
    planted = [each for each in found if each["kind"] == "planted"]
    return [
        [
            str(count), f"{sum(each['right'] for each in group)} of {len(group)}",
            *(_median(each["runs"] for each in group if len(each["guilty"].split(", ")) == size) for size in (1, 2, 3)),
            _median(each["set-up"] for each in group),
        ]
        for count in COUNTS
        if (group := [each for each in planted if each["differences"] == count])
    ]  # fmt: skip


def describe(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the counts in sentences."""
    by_kind = {
        kind: [each for each in found if each["kind"] == kind] for kind in ("planted", "innocent", "noisy")
    }
    right = {
        kind: f"{sum(each['right'] for each in group)} of {len(group)}" for kind, group in by_kind.items()
    }
    accused = sum(bool(each["found"]) for each in by_kind["innocent"])
    wrong = sum(bool(each["found"]) and not each["right"] for each in by_kind["noisy"])
    return (
        f"{right['planted']} planted causes are found exactly (of {PAIRS} pairs). {len(by_kind['innocent'])} pairs "
        f"without a cause: {accused} accusations. {right['noisy']} causes of 2 to 10 % under noise of 1 to 5 % are "
        f"found, with {_median(each['runs'] for each in by_kind['noisy'])} runs in the median; {wrong} answers are "
        "wrong, the others are missing."
    )


def _median(values: Iterable[float]) -> str:
    known = list(values)
    return f"{statistics.median(known):g}" if known else "-"
