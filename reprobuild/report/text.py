"""Final report for a terminal.

It has the pinned lines, the deviations with reasons, the verdict, and the command to run the image.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import get_args

from msgspec import UNSET

from reprobuild.image.model import NATIVE, Image
from reprobuild.infra.columns import align
from reprobuild.lock.model import OF_NO_LINE, Lock, Outcome, Resolution
from reprobuild.lock.requirements import find_conflicts, shorten_conflicts
from reprobuild.report.code import describe_changes, find_code, render_code
from reprobuild.report.determinism import verdict_lines
from reprobuild.report.difference import safe_text
from reprobuild.report.drift_trace import trace_lines
from reprobuild.report.machine import machine_lines
from reprobuild.report.next_commands import check_lines, run_command
from reprobuild.report.units import format_bytes, format_duration
from reprobuild.resolve.cuda.evidence import determine_cuda
from reprobuild.resolve.environment.path_mapping import unquote_directory
from reprobuild.resolve.interpreter.other_pip import find_other_pip
from reprobuild.resolve.vendor.hints import VendorOrigin
from reprobuild.snapshot.model import ParseNote, Requirement, Snapshot
from reprobuild.verify.determinism.summary import describe_scope
from reprobuild.verify.verdict import Verdict

_MANY = 12  # deviations of one kind that are all listed with their reasons
# In the order of the values: those that need a look come last.
_OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_FIRST = 3  # the number of them to list if there are more


def render_text(
    lock: Lock, image: Image, verdict: Verdict | None, out: Path, *, size: int = 0, seconds: float | None = None,
    warnings: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return the closing lines of `from-snapshot`: the differences, the digests, and the result.

    Args:
        lock, image, verdict: what was made, and checked unless it is None.
        out: the output directory, as the user named it.
        size: of the image, in bytes; 0 if it is unknown.
        seconds: how long the command took; None if it is unknown.
        warnings: further differences that a user should know.
    """
    return "\n".join(
        [
            *_outcome_lines(lock),
            *(verdict_lines(verdict) if verdict else ()),
            *_deviation_lines(lock),
            *_conflict_lines(lock),
            *(_round_trip_lines(verdict) if verdict else ()),
            *(safe_text(note, 600) for note in (verdict.notes if verdict else ())),
            *(f"warning: {safe_text(warning, 600)}" for warning in warnings),
            "",
            *_digest_lines(lock, image),
            "",
            f"run it: {run_command(lock, out)}",
            *(trace_lines(verdict, out) if verdict else ()),
            *(check_lines(verdict, lock, out) if verdict else ()),
            *_result_lines(image, verdict, out, size, seconds),
        ]
    )


def _digest_lines(lock: Lock, image: Image) -> list[str]:
    return [
        f"lock      sha256:{lock.digest}",
        *([f"builder   {image.builder}"] if image.builder != NATIVE else []),
        f"tree      {image.tree}",
        f"config    {image.config}",
        f"manifest  {image.manifest}",
        *(f"{kind:<8}  {digest}" for kind, digest in (("sif", image.sif), ("sqsh", image.sqsh)) if digest),
    ]


def _result_lines(
    image: Image, verdict: Verdict | None, out: Path, size: int, seconds: float | None
) -> list[str]:
    known_size = f", {format_bytes(size)}" if size else ""
    lines = [
        *([f"report: {safe_text(str(out / 'report.html'))}"] if verdict else []),
        f"image: {safe_text(image.reference)}{known_size}, in {safe_text(str(out / image.layout))}",
        *([f"time: {format_duration(seconds)}"] if seconds is not None else []),
    ]
    if verdict is None:
        return [*lines, "round trip: not-run", "determinism: not-run"]
    answers = verdict.determinism
    return [
        *lines,
        f"round trip: {verdict.round_trip}",
        f"determinism: cpu {answers.cpu}{describe_scope(verdict)}, gpu {answers.gpu}, "
        f"collectives {answers.collectives}",
        *([f"exit code {verdict.exit_code}: {safe_text(verdict.exit_reason)}"] if verdict.exit_code else []),
    ]


def _outcome_lines(lock: Lock) -> list[str]:
    by_file: dict[str, Counter[str]] = {}
    for ruling in lock.rulings:
        if ruling.kind not in OF_NO_LINE:
            by_file.setdefault(ruling.file, Counter())[ruling.outcome] += 1
    return align(
        [
            (name, ", ".join(f"{counts[outcome]} {outcome}" for outcome in _OUTCOMES if counts[outcome]))
            for name, counts in sorted(by_file.items())
        ]
    )


def _deviation_lines(lock: Lock) -> list[str]:
    solved = [f"solved: {len(lock.solved)} versions were chosen, not captured"] if lock.solved else []
    if not lock.deviations:
        return [*solved, "deviations: none"]
    lines = [*solved, "deviations:"]
    kinds = Counter(ruling.kind for ruling in lock.deviations)
    subjects: dict[str, list[str]] = {}
    for ruling in lock.deviations:
        alike = subjects.setdefault(ruling.kind, [])
        alike.append(ruling.subject)
        if kinds[ruling.kind] <= _MANY or len(alike) <= _FIRST:
            lines.append(f"  {describe_resolution(ruling)}")
        elif len(alike) == kinds[ruling.kind]:
            lines.append(
                f"  {len(alike) - _FIRST} more ({ruling.kind}), whose reasons the lock has: {', '.join(alike[_FIRST:])}"
            )
    return lines


def _conflict_lines(lock: Lock) -> list[str]:
    conflict_lines = find_conflicts(lock)
    return (
        ["requirements that are not met:", *(f"  {line}" for line in shorten_conflicts(conflict_lines))]
        if conflict_lines
        else []
    )


def _packed_python_lines(lock: Lock) -> list[str]:
    file = lock.interpreter.file
    if not lock.interpreter.of_machine or file is None:
        return []
    return [
        f"another machine needs {file.filename}, packed here: capture with `reprobuild capture --include interpreter`, "
        "or hand over `reprobuild bundle OUT -o frozen.tar --include wheels,debs`"
    ]


def describe_resolution(ruling: Resolution) -> str:
    """Return one line for a resolution."""
    reason = "; ".join(line.strip() for line in ruling.reason.splitlines())  # from the output of a program
    return f"{ruling.place}: {ruling.subject}: {ruling.outcome} ({ruling.kind}): {reason}"


def _round_trip_lines(verdict: Verdict) -> list[str]:
    """Return the unexplained lines, and the number of lines for each code."""
    counts = Counter(difference.code for difference in verdict.differences)
    bare = [
        f"  {safe_text(d.list)}: captured {safe_text(d.captured) or 'nothing'}, image "
        f"{safe_text(d.image) or 'nothing'}: UNEXPLAINED"
        for d in verdict.differences
        if d.code == "unexplained"
    ]
    known = ", ".join(f"{number} {code}" for code, number in sorted(counts.items()) if code != "unexplained")
    rest = known or ("not compared" if verdict.round_trip == "not-run" else "nothing else")
    return [*bare, f"not in the image as captured: {rest}"]


def render_resolutions(lock: Lock) -> str:
    """Return a short report on the resolution of captured lines."""
    return "\n".join(
        [
            *_outcome_lines(lock),
            *_deviation_lines(lock),
            *_conflict_lines(lock),
            *_packed_python_lines(lock),
            "",
            f"lock      sha256:{lock.digest}",
        ]
    )


def render_snapshot(
    snapshot: Snapshot, drop: Collection[str] = (), origin: VendorOrigin | None = None
) -> str:
    """Return the report on a snapshot's contents.

    Of a secret, it has the name but no part of the value.

    Args:
        snapshot: as it was read.
        drop: the user's override of the packages to leave out of the image.
        origin: the vendor's image that it was captured in, if any.
    """
    suspect = [variable.name for variable in snapshot.variables if variable.suspect]
    lines = [
        f"snapshot      sha256:{snapshot.digest}",
        f"python        {len(snapshot.requirements)} distributions{_environment_text(snapshot)}",
        *_other_pip_lines(snapshot),
        f"system        {len(snapshot.packages)} packages",
        f"environment   {len(snapshot.variables)} variables",
        f"modules       {', '.join(_module_text(m.name, m.version) for m in snapshot.modules) or 'none'}",
        *_optional_part_lines(snapshot),
        *_interpreter_lines(snapshot),
        *machine_lines(snapshot),
        *(f"image         {safe_text(line, 600)}" for line in (origin.lines() if origin else ())),
        *_cuda_lines(snapshot),
        f"changes       {', '.join(_list_changes(snapshot)) or 'none'}",
        *render_code(
            find_code(snapshot, drop), imported=snapshot.imported is not None and snapshot.captured is None
        ),
        *_uncaptured_lines(snapshot),
        f"absent        {', '.join(snapshot.absent) or 'nothing'}",
        f"secrets       {', '.join(_list_secrets(snapshot))}",
        f"suspect       {', '.join(suspect) or 'none'}",
    ]
    lines += _strange_lines(snapshot)
    hard = [line for line in snapshot.requirements if line.kind not in ("index", "archive")]
    lines += [f"needs more      {line.place}: {line.kind}: {line.text}{_version_text(line)}" for line in hard]
    return "\n".join(lines)


def _environment_text(snapshot: Snapshot) -> str:
    """Return the directory of the captured environment, if it is known."""
    python = snapshot.captured.python if snapshot.captured else None
    return f" in {safe_text(unquote_directory(python.prefix))}" if python and python.prefix else ""


def _list_changes(snapshot: Snapshot) -> list[str]:
    """Return the diffs, and the repositories whose changes are in a bundle."""
    diffs = {patch.file for patch in snapshot.patches}
    repositories = snapshot.captured.repositories if snapshot.captured else ()
    return [
        *(f"{patch.file} ({_count(len(patch.files), 'file')})" for patch in snapshot.patches),
        *(
            f"{repository.name} ({changes})"
            for repository in repositories
            if repository.diff.file not in diffs and (changes := describe_changes(repository))
        ),
    ]


def _list_secrets(snapshot: Snapshot) -> list[str]:
    """Return the names of secret variables, and the uncaptured files with the look of secrets."""
    names = [variable.name for variable in snapshot.variables if variable.value is None]
    files = [
        f"{repository.name}/{safe_text(file.path)}"
        for repository in (snapshot.captured.repositories if snapshot.captured else ())
        for file in repository.left_out
        if file.reason == "secret"
    ]
    variables = [f"{', '.join(names) or 'none'} (values are not kept)"] if names or not files else []
    return [*variables, *([f"{', '.join(files)} (not captured)"] if files else [])]


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + "s" * (number != 1)


def _strange_lines(snapshot: Snapshot) -> list[str]:
    """Return the lines on unknown text, one for each reason."""
    by_reason: dict[str, list[ParseNote]] = {}
    for remark in snapshot.remarks:
        if not remark.understood:
            by_reason.setdefault(remark.reason, []).append(remark)
    lines = []
    for reason, remarks in by_reason.items():
        first, count = remarks[0], sum(remark.lines for remark in remarks)
        number = f"{count} lines, the first " if count > 1 else ""
        text = f": {first.text}" if first.text else ""
        lines.append(f"not understood  {number}{first.place}: {reason}{text}")
    return lines


def _other_pip_lines(snapshot: Snapshot) -> list[str]:
    """Return the line on a freeze that another pip wrote, if one did."""
    other_pip = find_other_pip(snapshot)
    return [f"other pip     {safe_text(other_pip.sentence(), 1200)}"] if other_pip else []


def _interpreter_lines(snapshot: Snapshot) -> list[str]:
    """Return the line on the snapshot's packed interpreter, if any."""
    packed = snapshot.captured.interpreter if snapshot.captured else None
    if not packed:
        return []
    return [
        f"interpreter   Python {safe_text(packed.build)}, packed from {packed.prefix} ({packed.size >> 20} MB)"
    ]


def _uncaptured_lines(snapshot: Snapshot) -> list[str]:
    """Return the lines on uncaptured work, and the capture's notes."""
    if snapshot.captured is None:
        return []
    lines = []
    for repository in snapshot.captured.repositories:
        number = max(repository.left_out_count, len(repository.left_out))
        lines += [
            f"not captured  {repository.name}: {safe_text(file.path)}: {safe_text(file.reason)}"
            for file in repository.left_out
        ]
        if number > len(repository.left_out):
            lines.append(
                f"not captured  {repository.name}: {number - len(repository.left_out)} more, which are not named"
            )
    return lines + [f"note          {safe_text(note, 600)}" for note in snapshot.captured.notes or ()]


def _version_text(line: Requirement) -> str:
    known = line.version is not None and line.version_from is not UNSET
    return f" is {line.version} ({line.version_from})" if known else ""


def _optional_part_lines(snapshot: Snapshot) -> list[str]:
    """Return the lines on the optional parts of a snapshot."""
    lines = []
    if snapshot.conda:
        by_pip = sum(package.channel == "pypi" for package in snapshot.conda)
        lines.append(f"conda         {len(snapshot.conda) - by_pip} packages, and {by_pip} of pip")
    if snapshot.rpms:
        lines.append(f"rpm           {len(snapshot.rpms)} packages")
    for report in snapshot.reports:
        models = Counter(report.gpus)
        facts = {
            "python": report.python, "torch": report.torch, "CUDA": report.cuda, "cuDNN": report.cudnn,
            "driver": report.driver, "GPU": ", ".join(f"{count} {name}" for name, count in models.items()),
            "system": report.os, "libc": report.libc,
        }  # fmt: skip
        description = (
            "; ".join(f"{name} {value}" for name, value in facts.items() if value) or "nothing of use"
        )
        lines.append(f"{report.kind:<12}  {description}")
    return lines


def _cuda_lines(snapshot: Snapshot) -> list[str]:
    cuda = determine_cuda(snapshot)
    return [f"CUDA          {line}" for line in cuda.lines()] if cuda else []


def _module_text(name: str, version: str | None) -> str:
    return f"{name}/{version}" if version else name
