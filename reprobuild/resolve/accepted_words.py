"""Words of `accept` that accept nothing: an error, unless another machine may need them.

The snapshot and the overrides decide some classes, whichever machine makes the lock. The others depend on indexes,
archives and repositories, so an override file may name them for the day on which a version is gone.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from reprobuild.config.overrides import Decisions
from reprobuild.errors import UsageError
from reprobuild.infra.suggest import did_you_mean, find_close
from reprobuild.lock.model import Resolution
from reprobuild.resolve.interpreter.other_pip import rule_other_pip
from reprobuild.resolve.line_resolutions import rule_unread
from reprobuild.snapshot.model import (
    CapturedCondaPackage,
    Module,
    Requirement,
    RpmPackage,
    Snapshot,
    SystemPackage,
    Variable,
)

# Classes that depend on a machine, an index, an archive or a repository.
MACHINE_CLASSES = frozenset(
    {
        "ambiguous-index", "archive-line", "base-variable", "base-version", "conda-ambiguous", "conda-build",
        "conda-changed", "conda-package", "conda-unbuilt", "file-left-out", "interpreter-library", "lfs-pointer",
        "module-replaced", "newer-library", "no-freeze", "no-hash", "no-nvcc", "no-wheel", "other-hash",
        "other-local-version", "python-patch", "secret-file", "site-library-path", "source-only", "system-version",
        "unknown-package", "unknown-project", "unknown-version", "unreachable-index", "unreachable-source",
        "unsigned-file", "vendor-build", "withdrawn",
    }
)  # fmt: skip
# Classes that the snapshot decides, with the overrides that answer the same question: with one of them, the word
# waits for a run without it.
SNAPSHOT_CLASSES: dict[str, tuple[str, ...]] = {
    "conda-line": ("indexes", "channels"),
    "conda-platform": ("platform",),
    "conda-request": (),
    "directory-line": ("sources", "indexes"),
    "index-line": (),
    "no-apt-list": (),
    "no-source": ("sources",),
    "other-pip": (),
    "pinned-twice": ("python",),
    "python-guess": ("python",),
    "site-library": ("drop", "bake"),
    "solved": ("as_of",),
    "stray-diff": ("sources",),
    "suspect-value": ("drop", "bake"),
    "unread-line": (),
    "unread-marker": ("python",),
}
_CapturedLine = Requirement | SystemPackage | Variable | Module | CapturedCondaPackage | RpmPackage
# Of these, the classes that need no index and no other machine.
_LOCAL_CLASSES = ("conda-request", "index-line", "no-apt-list", "other-pip", "unread-line")
_LEAST = 0.75  # likeness of a suggestion
_SAME = 0.85  # likeness of a misspelt class: a name of a library may resemble one a little
_SHOWN = 3  # names of one class in the hint
_REFUSED = ("replaced", "unresolved")


def check_accepted_classes(decisions: Decisions, snapshot: Snapshot, rulings: Iterable[Resolution]) -> None:
    """Refuse a class that the snapshot decides and that no line has.

    It is for the time before the wheels are fetched: other words may name what is found later.

    Args:
        decisions: the overrides of the file and of the options.
        snapshot: as it was read, without chosen versions.
        rulings: of the lines, as far as they are known.

    Raises:
        UsageError: there is such a class; the hint lists the classes that occur.
    """
    every = tuple(rulings)
    _refuse(list(_find_classes(decisions, snapshot, every)), every)


def check_accepted_words(decisions: Decisions, snapshot: Snapshot, rulings: Iterable[Resolution]) -> None:
    """Refuse each word of `accept` that is no class, name or line of the snapshot.

    Args:
        decisions: the overrides of the file and of the options.
        snapshot: as it was read, without chosen versions.
        rulings: of all lines.

    Raises:
        UsageError: there is such a word, or a class that cannot occur; the hint lists the classes that occur.
    """
    every = tuple(rulings)
    names = {*_captured_names(snapshot), *(name for ruling in every for name in names_of(ruling))}
    names -= {ruling.kind for ruling in every}
    others = [
        word
        for word in decisions.accept
        if not is_class(word) and word not in names and word.partition("/")[0] not in names
    ]
    known = sorted({*names, *MACHINE_CLASSES, *SNAPSHOT_CLASSES})
    texts = list(_find_classes(decisions, snapshot, every))
    for word in others:
        meant = did_you_mean(word, known, _LEAST)
        text = f"--accept {shlex.quote(word)} is no class, and no name or line of this snapshot"
        texts.append(f"{text}; {meant}" if meant else text)
    _refuse(texts, every)


def check_words_early(decisions: Decisions, snapshot: Snapshot) -> None:
    """Refuse words of `accept` that the snapshot alone shows to be wrong, before any index is asked.

    Other words may name what is found later, such as a library.

    Args:
        decisions: the overrides of the file and of the options.
        snapshot: as it was read.

    Raises:
        UsageError: a class that no line can have, a misspelt class, or a line that the snapshot does not have.
    """
    names, local = set(_captured_names(snapshot)), [*rule_unread(snapshot), *rule_other_pip(snapshot)]
    only = msgspec.structs.replace(
        decisions, accept=tuple(w for w in decisions.accept if w in _LOCAL_CLASSES)
    )
    texts = list(_find_classes(only, snapshot, local))
    for word in decisions.accept:
        if is_class(word) or word in names:
            continue
        if close := find_close(word, (*MACHINE_CLASSES, *SNAPSHOT_CLASSES), _SAME):
            texts.append(f"--accept {shlex.quote(word)} is no class; did you mean `{close}`?")
        elif _is_absent_line(word, snapshot):
            texts.append(f"--accept {shlex.quote(word)} names no captured line")
    if texts:
        raise UsageError(
            "\n".join(texts), hint="correct it, or leave it out; docs/decisions.md has all classes"
        )


def find_unknown_words(
    decisions: Decisions, snapshot: Snapshot, refused: Iterable[Mapping[str, object]]
) -> list[str]:
    """Return the words of `accept` that are no class, and no name or line that is known when lines are refused.

    A later step may still find the name, such as that of a library.

    Args:
        decisions: the overrides of the file and of the options.
        snapshot: as it was read.
        refused: the facts of the refused lines, as an error has them.
    """
    names = {*_captured_names(snapshot)}
    for facts in refused:
        names |= {str(facts["subject"]), str(facts["file"])}
    return [
        word
        for word in decisions.accept
        if not (is_class(word) or names & {word, word.partition("/")[0], word.rpartition(":")[0] or word})
    ]


def describe_unknown_word(word: str) -> str:
    """Return the advice on a word of `find_unknown_words`."""
    return (
        f"leave out --accept {shlex.quote(word)}: it is no class, and so far no name or line of this snapshot"
    )


def _is_absent_line(word: str, snapshot: Snapshot) -> bool:
    """Return whether a word is FILE:LINE of a list of packages that has no package in that line."""
    lists = (snapshot.requirements, snapshot.unlisted, snapshot.packages, snapshot.conda, snapshot.rpms)
    places = [line.place for line in itertools.chain[_CapturedLine](*lists)]
    others = [remark.place for remark in snapshot.remarks]
    file, _, number = word.rpartition(":")
    return (
        file in {place.file for place in places}
        and number.isdecimal()
        and int(number) > 0
        and (file, int(number)) not in {(place.file, place.line) for place in (*places, *others)}
    )


def names_of(ruling: Resolution) -> set[str]:
    """Return the words by which `accept` may name a line: class, name and place."""
    return {ruling.kind, ruling.subject, f"{ruling.file}:{ruling.line}"}


def is_class(word: str) -> bool:
    """Return whether a word of `accept` is a class of deviations."""
    return word in MACHINE_CLASSES or word in SNAPSHOT_CLASSES


def _find_classes(decisions: Decisions, snapshot: Snapshot, rulings: Sequence[Resolution]) -> Iterator[str]:
    """Yield a text for each accepted class that the snapshot decides and that no line has."""
    present = {ruling.kind for ruling in rulings}
    for word in decisions.accept:
        if word in SNAPSHOT_CLASSES and word not in present and not _may_occur(word, decisions, snapshot):
            yield f"--accept {shlex.quote(word)} has no effect: no line of this snapshot has this class"


def _may_occur(word: str, decisions: Decisions, snapshot: Snapshot) -> bool:
    """Return whether a run with other overrides may have the class."""
    if word == "no-apt-list":
        return not snapshot.packages
    if word == "index-line":
        return any(line.kind == "index" and line.version is None for line in snapshot.requirements)
    return any(getattr(decisions, field) for field in SNAPSHOT_CLASSES[word])


def _captured_names(snapshot: Snapshot) -> Iterator[str]:
    """Yield the names of captured lines and of their files; `python` is the interpreter."""
    yield "python"
    lists: tuple[Sequence[_CapturedLine], ...] = (
        snapshot.requirements, snapshot.unlisted, snapshot.packages, snapshot.variables, snapshot.modules,
        snapshot.conda, snapshot.rpms,
    )  # fmt: skip
    for line in itertools.chain(*lists):
        yield line.name
        yield line.place.file
    for patch in snapshot.patches:
        yield from (patch.name, patch.file)
    for repository in snapshot.captured.repositories if snapshot.captured else ():
        yield repository.name


def _refuse(texts: Sequence[str], rulings: Iterable[Resolution]) -> None:
    if not texts:
        return
    groups: dict[str, list[str]] = {}
    for ruling in rulings:
        if ruling.outcome in _REFUSED or (ruling.accepted and is_class(ruling.kind)):
            groups.setdefault(ruling.kind, []).append(ruling.subject)
    present = "; ".join(f"{kind} ({_shorten(groups[kind])})" for kind in sorted(groups))
    raise UsageError(
        "\n".join(texts),
        hint=f"leave it out; the deviations of this snapshot are: {present}"
        if present
        else "leave it out: this snapshot has no deviation on this machine",
    )


def _shorten(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
