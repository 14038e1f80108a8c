"""Overrides that match no part of a snapshot.

They may be typing errors, or meant for another snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from packaging.utils import canonicalize_name

from reprobuild.config.overrides import Decisions, is_named
from reprobuild.infra.suggest import did_you_mean
from reprobuild.lock.model import Resolution
from reprobuild.snapshot.model import Snapshot

_MOST_SUGGESTED = 20  # words for which a close name is looked for


def describe_unused_overrides(decisions: Decisions, snapshot: Snapshot) -> Iterator[str]:
    """Yield a message for each override of an uncaptured project.

    The override is a source or a build.

    One file of overrides may serve many snapshots, so it is not an error.
    """
    captured: set[str] = {canonicalize_name(line.name) for line in snapshot.requirements}
    captured |= {canonicalize_name(patch.name) for patch in snapshot.patches}
    if snapshot.captured:
        captured |= {canonicalize_name(repository.name) for repository in snapshot.captured.repositories}
    known, suggested = sorted(captured), 0
    for option, names in (("--source", decisions.sources), ("build:", decisions.build)):
        for name in names:
            if canonicalize_name(name) not in captured:
                suggested += 1
                meant = did_you_mean(canonicalize_name(name), known) if suggested <= _MOST_SUGGESTED else ""
                text = (
                    f"{option} {name} has no effect: no line and no repository of the snapshot has that name"
                )
                yield f"{text}; {meant}" if meant else text


def describe_misspelt_words(decisions: Decisions, rulings: Iterable[Resolution]) -> Iterator[str]:
    """Yield a text for each word of `drop` and `indexes` that names no line, if a line has a close name."""
    subjects = sorted({ruling.subject for ruling in rulings})
    projects = sorted(set(map(canonicalize_name, subjects)))
    for option, words, names in (
        ("--drop", [word for word in decisions.drop if not _fits_subject(word, subjects)], subjects),
        (
            "--index",
            [name for name in map(canonicalize_name, decisions.indexes) if name not in projects],
            projects,
        ),
    ):
        for word in islice(words, _MOST_SUGGESTED):
            if meant := did_you_mean(word, names):
                yield f"{option} {word} names no captured line; {meant}"


def _fits_subject(word: str, subjects: Iterable[str]) -> bool:
    return any(is_named(subject, (word,)) for subject in subjects)
