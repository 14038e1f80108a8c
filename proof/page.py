"""The tables of `docs/proof.md`, from the newest evidence.

`python -m proof.page` writes them into the page.

A table stands between `<!-- NAME -->` and `<!-- end -->`; a test compares the page with the evidence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from proof import as_of, as_of_untimed, choices, gpu_train
from proof.bisection import experiment as bisections
from proof.circumstances import LEVELS
from proof.environments import experiment
from proof.evidence import FOLDER, ROOT
from proof.sdists import tables

PAGE = ROOT / "docs" / "proof.md"
_BLOCK = re.compile(r"(<!-- ([a-z-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def newest(name: str, folder: Path = FOLDER) -> dict[str, Any] | None:
    """Return the newest evidence of a name, or None.

    Its file is called `NAME-DATE.json`.
    """
    found = sorted(
        path for path in folder.glob(f"{name}-*.json") if re.fullmatch(rf"{name}-[\d-]+", path.stem)
    )
    return json.loads(found[-1].read_bytes()) if found else None


def written(page: str, folder: Path = FOLDER) -> str:
    """Return the page with tables of the present evidence."""

    def block(match: re.Match[str]) -> str:
        evidence = newest(match[2], folder)
        write = TABLES.get(match[2]) or TABLES[match[2].partition("-")[0]]
        table = "No evidence yet.\n" if evidence is None else write(evidence)
        return f"{match[1]}{table}{match[4]}"

    return _BLOCK.sub(block, page)


def _factors(evidence: Mapping[str, Any]) -> str:
    subject, values = evidence["subject"], evidence["values"]
    names = [name for name in LEVELS if name != "path"]
    rows = [
        [
            *(str(each[name]) for name in ("number", "builder", *names)),
            "short" if each["path"] == "short" else "long, odd",
            *(_short(each[name]) for name in ("tree", "manifest", "sif")),
        ]
        for each in sorted(evidence["builds"], key=lambda build: int(build["number"]))
    ]
    said = "; ".join(f"{name}: {count} value{'s' * (count != 1)}" for name, count in values.items())
    about = (
        f"{subject['system packages']} system packages, {subject['distributions']} distributions, "
        f"{subject['sources']} sources. {said}. {_where(evidence)}\n\n"
    )
    return about + _table(["", "builder", *names, "path", "tree", "manifest", "SIF"], rows)


def _ablation(evidence: Mapping[str, Any]) -> str:
    rows = [
        [
            each["cut"],
            each["part"],
            str(each["differ"]),
            ", ".join(f"`{name[:70]}`" for name in each["examples"][:2]),
        ]
        for each in evidence["cuts"]
    ]
    return f"{_where(evidence)}\n\n" + _table(["taken away", "shown by", "differ", "for example"], rows)


def _leftovers(evidence: Mapping[str, Any]) -> str:
    rows = [
        [builder, f"`{line}`", str(count)]
        for builder, counts in evidence["needed"].items()
        for line, count in sorted(counts.items())
    ]
    return f"{_where(evidence)}\n\n" + _table(["builder", "line", "times needed"], rows)


def _fault_injection(evidence: Mapping[str, Any]) -> str:
    rows = [[case, str(count)] for case, count in sorted(evidence["cases"].items())]
    said = (
        f"{evidence['killed in time']} kills came in time, {evidence['disks that were full']} disks were full; "
        f"broken promises: {evidence['broken']}. {_where(evidence)}\n\n"
    )
    return said + _table(["fault", "cases"], rows)


def _fuzz(evidence: Mapping[str, Any], things: str = "archives") -> str:
    rows = [[target, str(count)] for target, count in sorted(evidence["cases"].items())]
    said = (
        f"{sum(evidence['cases'].values())} {things} in {evidence['seconds']:.0f} s: {evidence['refused']} refused, "
        f"{evidence['accepted']} accepted, {len(evidence['found'])} faults. {_where(evidence)}\n\n"
    )
    return said + _table(["target", things], rows)


def _trace(evidence: Mapping[str, Any]) -> str:
    faults = [each for each in evidence["scripts"] if each["kind"] != "clean"]
    clean = [each for each in evidence["scripts"] if each["kind"] == "clean"]
    rows = [
        [each["script"], each["kind"], each["said"] or "no cause", each["place"].rpartition("/")[2],
         str(each["runs to name"]), str(each["runs"]), "yes" if each["right"] else "no"]
        for each in faults
    ]  # fmt: skip
    said = (
        f"{sum(each['right'] for each in faults)} of {len(faults)} planted faults are named. "
        f"{sum(not each['right'] for each in clean)} of {len(clean)} runs of clean scripts are accused. "
    )
    header = ["fault", "class", "named class", "place", "runs to name", "runs", "right"]
    return f"{said}{_where(evidence)}\n\n" + _table(header, rows)


def _planted(evidence: Mapping[str, Any]) -> str:
    rows = [
        [each["script"], each["kind"], f"{each['runs'] - each['wrong']} of {each['runs']}"]
        for each in evidence["scripts"]
    ]
    return f"{_where(evidence)}\n\n" + _table(["script", "kind", "judged as it must be"], rows)


def _cluster(evidence: Mapping[str, Any]) -> str:
    runs = evidence["runs"]
    rows = [
        [what, f"{sum(each['right'][place] for each in runs)} of {len(runs)}"]
        for place, what in enumerate(evidence["checks"])
    ]
    return f"{_where(evidence)}\n\n" + _table(["told", "right"], rows)


def _benchmarks(evidence: Mapping[str, Any]) -> str:
    rows = []
    for figure in evidence["figures"]:
        value = "-" if figure["value"] is None else f"{figure['value']:.3g} {figure['unit']}"
        limit = "-" if figure["limit"] is None else f"{figure['limit']:g} {figure['unit']}"
        rows.append([figure["name"], value, limit, figure["verdict"], figure["against"]])
    return f"{_where(evidence)}\n\n" + _table(["figure", "value", "limit", "", "against"], rows)


def _torch(evidence: Mapping[str, Any]) -> str:
    names = sorted({name for counts in evidence["answers"].values() for name in counts})
    rows = [
        [way, *(str(counts.get(name, 0)) for name in names)] for way, counts in evidence["answers"].items()
    ]
    said = (
        f"torch {evidence['torch']}, {'with' if evidence['gpu'] else 'without'} a GPU, seed {evidence['seed']}, "
        f'`-k "{evidence["chosen"]}"`; answered otherwise than without us: {len(evidence["otherwise"])}. '
        f"{_where(evidence)}\n\n"
    )
    return said + _table(["profile", *names], rows)


def _suites(evidence: Mapping[str, Any]) -> str:
    releases = evidence["releases"]
    rows = [
        [each["suite"], releases[each["suite"]], each["file"], str(each["answers"].get("passed", 0)),
         str(sum(each["answers"].values()) - each["answers"].get("passed", 0)), str(each["steps"]),
         str(len(each["different"]))]
        for each in evidence["files"]
    ]  # fmt: skip
    said = (
        f"{sum(evidence['answers'].values()):,} tests, {evidence['steps']:,} recorded steps; answered otherwise with "
        f"the recorder: {len(evidence['different'])}, and {len(evidence['of PyTorch'])} for a defect of PyTorch. "
        f"{_where(evidence)}\n\n"
    )
    header = [
        "project",
        "release",
        "tests",
        "passed",
        "skipped or failed, both ways",
        "steps",
        "answered otherwise",
    ]
    return said + _table(header, rows)


def _shares(evidence: Mapping[str, Any]) -> str:
    rows = [
        [f"1 of {each['one drifting run in']}", str(each["runs"]), f"{each['bound']:.0%}", str(each["trials"]),
         f"{each['identical'] / each['trials']:.1%}", f"{each['expected share']:.1%}"]
        for each in evidence["cases"]
    ]  # fmt: skip
    header = ["drifting runs", "N", "bound of an identical answer", "checks", "identical", "expected"]
    return f"{_where(evidence)}\n\n" + _table(header, rows)


def _gpu_train(evidence: Mapping[str, Any]) -> str:
    rows = [[what, value] for what, value in gpu_train.table(evidence)]
    said = f"Claims that do not hold: {', '.join(evidence['broken']) or 'none'}. {_where(evidence)}\n\n"
    return said + _table(["", ""], rows)


def _environments(evidence: Mapping[str, Any]) -> str:
    found = evidence["environments"]
    rows = [experiment.row(each) for each in found]
    return f"{experiment.sentence(found)} {_where(evidence)}\n\n" + _table(experiment.HEAD, rows)


def _as_of(evidence: Mapping[str, Any]) -> str:
    found = [each for each in evidence["environments"] if each["versions"]]
    without = [
        f"{each['name']} of {each['date']}" for each in evidence["environments"] if not each["versions"]
    ]
    rows = [
        [
            each["name"], each["date"], each["python"], str(each["versions"]), "; ".join(each["wrong"]),
            f"{each['seconds']:.0f} / {each['seconds of uv']:.0f} s",
        ]
        for each in found
    ]  # fmt: skip
    ours, theirs = sum(each["seconds"] for each in found), sum(each["seconds of uv"] for each in found)
    said = (
        f"{as_of.share(found):.1%} of {sum(each['versions'] for each in found)} versions in {len(found)} environments; "
        f"{ours / theirs:.2f} of uv's own time. uv itself finds no versions for {', '.join(without) or 'none'}. "
        f"{_where(evidence)}\n\n"
    )
    return said + _table(["names", "date", "Python", "versions", "other", "time, and uv's"], rows)


def _as_of_untimed(evidence: Mapping[str, Any]) -> str:
    rules = as_of_untimed.count_rules(evidence["environments"])
    rows = [[rule, str(right), str(wrong), f"{wrong / max(1, right + wrong):.2%}"]
            for rule, (right, wrong) in rules.items() if rule != "no evidence"]  # fmt: skip
    without = rules.get("no evidence", (0, 0))[0]
    count_text = (
        f"{len(evidence['environments'])} of {len(as_of_untimed.CASES)} environments, in an order of chance. "
    )
    said = f"{count_text}{without} releases have no evidence. Each other judgement, compared with the upload time:\n\n"
    return _as_of(evidence) + "\n" + said + _table(["evidence", "right", "wrong", "share"], rows)


def _sdists(evidence: Mapping[str, Any]) -> str:
    found = evidence["candidates"]
    classes = _table(["outcome", "newest", "as of the day"], tables.count_classes(found))
    failures = _table(tables.HEAD, tables.list_failures(found))
    return f"{tables.describe(found)} {_where(evidence)}\n\n{classes}\n{failures}"


def _choices(evidence: Mapping[str, Any]) -> str:
    return _table(choices.HEAD, choices.table(evidence["consumers"])) + f"\n{_where(evidence)}\n"


def _bisect(evidence: Mapping[str, Any]) -> str:
    killed, found = evidence["kills"], evidence["bisections"]
    text = (
        f"{bisections.describe(found)} After {killed['kills']} kills, {killed['runs again']} trials ran again: a kill "
        "can come between the last line of a command and the record of its trial. "
        f"{_where(evidence)}\n\n"
    )
    rows = [
        [
            f"[{each['package']}]({each['source']})", " to ".join(each["days"]), str(each["differences"]),
            "; ".join(each["guilty"]), ", ".join(each["required"]), str(each["runs"]), str(each["untestable"]),
        ]
        for each in evidence["published"]
    ]  # fmt: skip
    head = ["regression", "locks of", "differences", "found", "of them required", "runs", "untestable"]
    return text + _table(bisections.HEAD, bisections.rows(found)) + "\n" + _table(head, rows)


def _long_tests(evidence: Mapping[str, Any]) -> str:
    files: dict[str, list[Mapping[str, Any]]] = {}
    for test in evidence["tests"]:
        files.setdefault(test["test"].partition("::")[0], []).append(test)
    rows = [
        [
            f"`{name}`", str(len(tests)), str(sum(test["answer"] == "passed" for test in tests)),
            f"{sum(test['seconds'] for test in tests):.0f}",
        ]
        for name, tests in files.items()
    ]  # fmt: skip
    return f"{_where(evidence)}\n\n" + _table(["module", "tests", "passed", "seconds"], rows)


TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "factors": _factors, "ablation": _ablation, "leftovers": _leftovers,
    "fault-injection": _fault_injection, "fuzz": _fuzz,
    "reading": partial(_fuzz, things="captures"), "documents": partial(_fuzz, things="documents"),
    "benchmarks": _benchmarks,
    "planted": _planted, "trace": _trace, "suites": _suites, "shares": _shares, "cluster": _cluster, "torch": _torch,
    "gpu-train": _gpu_train,
    "environments": _environments, "as-of": _as_of,
    "as-of-untimed": _as_of_untimed, "long-tests": _long_tests, "sdists": _sdists, "bisect": _bisect,
    "choices": _choices,
}  # fmt: skip


def _where(evidence: Mapping[str, Any]) -> str:
    about = evidence["machine"]
    return f"{evidence['date'][:10]}, {about['cpu']}, {about['cores']} cores, {about['system']}."


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _short(digest: str) -> str:
    return f"`{digest.removeprefix('sha256:')[:8]}`"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
