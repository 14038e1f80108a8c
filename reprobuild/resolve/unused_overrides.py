"""Decisions that name nothing in a snapshot: a slip of the pen, or meant for another snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.utils import canonicalize_name

from reprobuild.config.overrides import Decisions
from reprobuild.snapshot.model import Snapshot


def unused(decisions: Decisions, snapshot: Snapshot) -> Iterator[str]:
    """Yield what to say of each project for which a source or a way to build was decided, and which was not captured.

    One file of decisions may serve many snapshots, so it is no error.
    """
    captured = {canonicalize_name(line.name) for line in snapshot.requirements}
    captured |= {canonicalize_name(patch.name) for patch in snapshot.patches}
    if snapshot.captured:
        captured |= {canonicalize_name(one.name) for one in snapshot.captured.repositories}
    for option, names in (("--source", decisions.sources), ("build:", decisions.build)):
        for name in names:
            if canonicalize_name(name) not in captured:
                yield f"{option} {name} has no effect: no line and no repository of the snapshot has that name"
