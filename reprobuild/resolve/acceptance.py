"""Deviations of a lock: accepted by name, or refused with the way on and its consequence."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from packaging.utils import canonicalize_name

from reprobuild.errors import LockError
from reprobuild.infra.suggest import did_you_mean
from reprobuild.lock.lock import Ruling
from reprobuild.resolve.python.python_versions import in_words
from reprobuild.snapshot.file_kinds import field_of

# Fields of Snapshot whose lines are one package each.
_LISTS = ("requirements", "packages", "conda", "rpms")
_SHOWN = 5  # names in one sentence
_EXAMPLES = 2  # lines of a group that is summed up
_GROUP = 4  # lines that are summed up: fewer are shown whole
_ANOTHER = ("packages", "unknown-version")  # the image has a system package in another version
# Distributions that compute: a job without one of them is another job.
_COMPUTING = frozenset(
    {
        "torch",
        "torchvision",
        "torchaudio",
        "tensorflow",
        "jax",
        "jaxlib",
        "cupy",
        "apex",
        "flash-attn",
        "transformer-engine",
        "triton",
    }
)
_SOURCE = "unreachable-source"
_PATCH = "python-patch"  # the class of another patch release of Python
_OPEN = "index-line"  # the class of a requirement without a version


def accept(
    rulings: Iterable[Ruling], accepted: Iterable[str], pythons: Sequence[str] = ()
) -> tuple[Ruling, ...]:
    """Mark the deviations that the user accepts, by class, by name or by `file:line`.

    Args:
        rulings: of every captured line.
        accepted: classes, names and places.
        pythons: each `X.Y` for which every pinned release has a file, where the chosen Python is none of them.

    Raises:
        LockError: a line is unresolved or replaced and was not accepted; the hint says which packages the image
            would lack.
    """
    words, rulings = set(accepted), tuple(rulings)
    marked, refused = [], []
    for ruling in rulings:
        if ruling.outcome in ("replaced", "unresolved"):
            if words & names_of(ruling):
                marked.append(msgspec.structs.replace(ruling, accepted=True))
                continue
            refused.append(ruling)
        marked.append(ruling)
    if refused:
        groups = _grouped(refused)
        lines = [line for title, group in groups.items() for line in _summary(title, group)]
        raise LockError(
            f"{len(refused)} captured lines cannot be repeated exactly:\n" + "\n".join(lines),
            hint="\n".join(
                [
                    *_meant(words, rulings, refused),
                    *_pythons(pythons),
                    *_capturing(refused),
                    *_pinning(refused),
                    *_naming(refused),
                    *_bringing(refused),
                    *_accepting(refused),
                ]
            ),
            listing=["all of them:", *map(_line, refused)] if _sums_up(groups) else (),
            refused=[_facts(ruling) for ruling in refused],
        )
    return tuple(marked)


def names_of(ruling: Ruling) -> set[str]:
    """Return the words by which `accept` may name a line: class, name and place."""
    return {ruling.kind, ruling.subject, f"{ruling.file}:{ruling.line}"}


def _meant(words: Iterable[str], rulings: Sequence[Ruling], refused: Sequence[Ruling]) -> Iterator[str]:
    """Yield a hint for each word that names no line, if a refused line has a close name."""
    known = set[str]().union(*map(names_of, rulings))
    names = sorted(set[str]().union(*map(names_of, refused)))
    for word in sorted(set(words) - known):
        if meant := did_you_mean(word, names):
            yield f"--accept {shlex.quote(word)} names no captured line: {meant}"


def _grouped(refused: Iterable[Ruling]) -> dict[str, list[Ruling]]:
    """Return the refused lines by file, outcome and class, by a title."""
    groups: dict[str, list[Ruling]] = {}
    for ruling in refused:
        groups.setdefault(f"{ruling.file}: {ruling.outcome} ({ruling.kind})", []).append(ruling)
    return groups


def _sums_up(groups: Mapping[str, Sequence[Ruling]]) -> bool:
    return any(len(group) >= _GROUP for group in groups.values())


def _summary(title: str, group: Sequence[Ruling]) -> list[str]:
    """Return a group in lines: whole, or its number and examples."""
    if not _sums_up({title: group}):
        return [_line(ruling) for ruling in group]
    more = len(group) - _EXAMPLES
    examples = [f"    {r.file}:{r.line}: {r.subject}: {r.reason}" for r in group[:_EXAMPLES]]
    return [f"  {len(group)} of {title}:", *examples, f"    and {more} more, which --verbose lists"]


def _facts(ruling: Ruling) -> dict[str, object]:
    return {
        "file": ruling.file, "line": ruling.line, "subject": ruling.subject, "outcome": ruling.outcome,
        "class": ruling.kind, "reason": ruling.reason,
    }  # fmt: skip


def _line(ruling: Ruling) -> str:
    return (
        f"  {ruling.file}:{ruling.line}: {ruling.subject}: {ruling.outcome} ({ruling.kind}): {ruling.reason}"
    )


def _pythons(pythons: Sequence[str]) -> list[str]:
    """Return the Python that fits every pinned release, the newest of several."""
    if not pythons:
        return []
    return [
        f"every pinned release has a file for Python {in_words(pythons)}: the environment ran one of them; "
        f"name it, such as `--python {shlex.quote(pythons[-1])}`"
    ]


def _capturing(refused: Sequence[Ruling]) -> list[str]:
    """Return how the very Python can be had, where another patch release stands in for it."""
    if _PATCH not in {ruling.kind for ruling in refused}:
        return []
    return [
        "if the environment still exists, `reprobuild capture --include interpreter` captures it with its own Python"
    ]


def _pinning(refused: Sequence[Ruling]) -> list[str]:
    """Return how to pin a list of requirements without versions."""
    open_lines = [ruling for ruling in refused if ruling.kind == _OPEN]
    if not open_lines:
        return []
    file = open_lines[0].file
    return [
        f"{file} has {len(open_lines)} requirements without a version, which no freeze has. Write the versions of the "
        f"environment that ran with `pip freeze > {shlex.quote(file)}`; if it is gone, choose versions of today with "
        f"`uv pip compile {shlex.quote(file)} -o pinned.txt` and put them into {file}."
    ]


def _naming(refused: Sequence[Ruling]) -> list[str]:
    """Return the options that name the repositories of sources which cannot be had."""
    names = sorted({ruling.subject for ruling in refused if ruling.kind == _SOURCE})
    if not names:
        return []
    options = " ".join(f"--source {shlex.quote(name)}=PATH|URL" for name in names)
    return [f"name a bundle, a clone or another remote with {options}"]


def _bringing(refused: Sequence[Ruling]) -> list[str]:
    """Return how torch and what else computes can be had: the job is another one without it."""
    lost = (
        r.subject for r in refused
        if r.outcome == "unresolved" and r.kind != _OPEN and field_of(r.file) == "requirements"
    )  # fmt: skip
    names = [name for name in dict.fromkeys(lost) if canonicalize_name(name) in _COMPUTING]
    if not names:
        return []
    options = " ".join(f"--index {shlex.quote(name)}=URL" for name in names[:_SHOWN])
    return [f"{_names(names)} can come from a page or a folder that has the wheel: {options}"]


def _accepting(refused: Sequence[Ruling]) -> list[str]:
    """Return the options that accept each class, and the packages that the image would lack."""
    kinds = sorted({ruling.kind for ruling in refused})
    lines = ["to go on without exactly these: " + " ".join(f"--accept {shlex.quote(kind)}" for kind in kinds)]
    for kind in kinds:
        lost = [
            ruling.subject
            for ruling in refused
            if (ruling.kind, ruling.outcome) == (kind, "unresolved")
            and field_of(ruling.file) in _LISTS
            and ruling.subject != ruling.file  # a line that was not understood names no package
            and (field_of(ruling.file), kind) != _ANOTHER
        ]
        if lost:
            lines.append(f"with --accept {shlex.quote(kind)} the image will NOT have {_names(lost)}")
    return lines


def _names(names: Sequence[str]) -> str:
    """Return names for a sentence: the first of them, and the number of the others."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
