"""Explanation of an impossible system.

It is a minimal set of contradicting restrictions.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from reprobuild.errors import LockError
from reprobuild.resolve.system.conflicts import ANOTHER_IMAGE, Clash
from reprobuild.resolve.system.solver import Needs, OneVersion, RequestRestriction, Restriction


class ContradictionError(LockError):
    """No system is possible with the known packages.

    `names` are those of the packages involved.
    """

    def __init__(self, message: str, *, hint: str, names: frozenset[str]) -> None:
        super().__init__(message, hint=hint)
        self.names = names


def explain_contradiction(
    core: Sequence[Restriction], requests: Mapping[str, str], drops: Mapping[str, str], label: str
) -> ContradictionError:
    """Return the error for restrictions that contradict each other.

    Args:
        core: the restrictions.
        requests: the requested keys, each with the asking package.
        drops: the package of the list that asks for a key, which the user can leave out.
        label: of the release.
    """
    sentences = [*_describe_absent(core, requests, label), *_describe_needs(core, label)]
    sentences += [
        f"only one version of {part.key} can be installed" for part in core if isinstance(part, OneVersion)
    ]
    sentences += [str(part) for part in core if not isinstance(part, (RequestRestriction, Needs, OneVersion))]
    names = [drops[part.key] for part in core if isinstance(part, RequestRestriction) and part.key in drops]
    return ContradictionError(
        "; ".join(sentences), hint=_hint(list(dict.fromkeys(names)), core),
        names=frozenset(name for part in core for name in _related_packages(part)),
    )  # fmt: skip


def _related_packages(part: Restriction) -> Iterator[str]:
    """Yield packages with other versions that change a restriction."""
    if isinstance(part, Needs):
        yield from (part.candidate.name, *(relation.name for relation in part.need.group))
    elif isinstance(part, (RequestRestriction, OneVersion)):
        yield part.key.partition(":")[0]
    else:
        yield from (part.one.name, part.other.name)


def _describe_absent(core: Sequence[Restriction], requests: Mapping[str, str], label: str) -> Iterator[str]:
    """Yield the requested packages that do not exist.

    Each alone is a contradiction.
    """
    if len(core) == 1 and isinstance(core[0], RequestRestriction):
        key = core[0].key
        yield f"{requests[key]} needs the system package {key}, which {label} does not have"


def _describe_needs(core: Iterable[Restriction], label: str) -> Iterator[str]:
    """Yield each need once, with the versions that have it."""
    versions: dict[tuple[str, str], list[str]] = {}
    for part in core:
        if isinstance(part, Needs):
            lack = "" if part.possible else f", which {label} does not have"
            versions.setdefault((part.candidate.key, f"{part.need}{lack}"), []).append(part.candidate.version)
    for (key, need), having in versions.items():
        yield f"{key} {' and '.join(having)} needs {need}"


def _hint(drops: Sequence[str], core: Iterable[Restriction]) -> str:
    if not drops:
        return "choose another base or Python, or give apt a source that has it"
    options = " or ".join(f"`--drop {shlex.quote(name)}`" for name in drops)
    which = drops[0] if len(drops) == 1 else "one of them"
    if any(isinstance(part, Needs) and not part.possible for part in core):
        return f"give apt a source that has it, or leave {which} out with {options}"
    if any(isinstance(part, Clash) and part.of_image for part in core):
        return f"leave {which} out: {options}; or {ANOTHER_IMAGE}"
    return f"leave {which} out: {options}; or give apt a source that has the captured versions, which stood together"
