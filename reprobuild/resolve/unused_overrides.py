"""Overrides that match no part of a snapshot.

They may be typing errors, or meant for another snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.utils import canonicalize_name

from reprobuild.config.overrides import Decisions
from reprobuild.snapshot.model import Snapshot


def unused(decisions: Decisions, snapshot: Snapshot) -> Iterator[str]:
    """Yield a message for each override of an uncaptured project.

    The override is a source or a build.

    One file of overrides may serve many snapshots, so it is not an error.
    """
    captured = {canonicalize_name(line.name) for line in snapshot.requirements}
    captured |= {canonicalize_name(patch.name) for patch in snapshot.patches}
    if snapshot.captured:
        captured |= {canonicalize_name(one.name) for one in snapshot.captured.repositories}
    for option, names in (("--source", decisions.sources), ("build:", decisions.build)):
        for name in names:
            if canonicalize_name(name) not in captured:
                yield f"{option} {name} has no effect: no line and no repository of the snapshot has that name"
