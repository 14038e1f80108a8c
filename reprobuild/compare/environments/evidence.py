"""Proof of the ids that a capture states.

It consists of the bytes of diffs, bundles and the packed interpreter. `capture.json` states the trees of its
repositories, and a snapshot may be untrusted. Equal trees are accepted only if the diffs and bundles beside
them have equal bytes, too. The same holds for the sha256 of the interpreter's archive.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild.compare.environments.model import Aspect, Environment, Kind, RepositoryEvidence
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.resolve.interpreter.captured import MOST_PACKED
from reprobuild.snapshot.capture_model import CapturedRepository, CaptureFacts, PackedInterpreter

ABSENT, UNREAD = "absent", "not read"
_PIECE = 1 << 20
_LARGEST = 4 << 30  # as `restore` reads
_LARGEST_DIFFS = 1 << 30
_STATED = "its {} differs, and capture.json states one {} for both"
_IDS: tuple[Aspect, ...] = ("tree", "trees", "sha256")
STARTS = "its diffs start at two commits, so nothing but capture.json says that the files are the same"
BUNDLES = "its bundles have other bytes: git may have packed the same files otherwise, and `restore` tells"


class Doubted(Struct, frozen=True, kw_only=True):
    """A thing with one id in two captures, but unproven.

    It is a repository and its tree, or the packed interpreter and the sha256 of its archive; `note` gives the
    reason.
    """

    kind: Kind
    name: str
    one: str
    other: str
    note: str


def hash_bundles(captured: CaptureFacts | None, folder: Path) -> dict[str, str]:
    """Return the sha256 of each repository's bundle, or the error."""
    repositories = captured.repositories if captured else ()
    budget = _Budget(_LARGEST)
    return {
        repository.name: budget.hash(folder / repository.bundle.file)
        for repository in repositories
        if repository.bundle is not None and repository.bundle.file is not None
    }


def hash_diffs(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the sha256 of each of these diffs of a snapshot, or the error."""
    budget = _Budget(_LARGEST_DIFFS)
    return {name: budget.hash(folder / name) for name in names}


def name_diffs(captured: CaptureFacts | None) -> list[str]:
    """Return the names of the repositories' diffs; that of a repository without a distribution is a `.patch`."""
    files = (repository.diff.file for repository in (captured.repositories if captured else ()))
    return [file for file in files if file is not None]


def hash_interpreter(captured: CaptureFacts | None, folder: Path) -> str | None:
    """Return the sha256 of the packed interpreter, or the error.

    The result is None if no interpreter is stated.
    """
    packed = captured.interpreter if captured else None
    return _Budget(MOST_PACKED).hash(folder / packed.file) if packed else None


class _Budget:
    """The bytes that may be read for the hashes of some files, all together."""

    def __init__(self, size: int) -> None:
        self._rest = self._size = size

    def hash(self, path: Path) -> str:
        """Return the sha256 of a file, or the error."""
        digest = hashlib.sha256()
        try:
            with open_plain(path, links=False)[0] as stream:
                while piece := stream.read(_PIECE):
                    digest.update(piece)
                    self._rest -= len(piece)
                    if self._rest < 0:
                        return f"{UNREAD}: more than {self._size} bytes"
        except FileNotFoundError:
            return ABSENT
        except OSError:
            return UNREAD
        return f"sha256:{digest.hexdigest()}"


def repository_evidence(
    repository: CapturedRepository, bundles: Mapping[str, str], diffs: Mapping[str, str]
) -> RepositoryEvidence:
    """Return the proof of the tree of one repository."""
    diff = "none" if repository.diff.file is None else diffs.get(repository.diff.file, ABSENT)
    bundle = bundles.get(repository.name, "none")
    stated = repository.name not in bundles or (
        repository.bundle is not None and bundle == f"sha256:{repository.bundle.sha256}"
    )
    return RepositoryEvidence(start=repository.diff.start, diff=diff, bundle=bundle, stated=stated)


def archive_evidence(packed: PackedInterpreter, archive: str | None) -> RepositoryEvidence:
    """Return the proof of the packed interpreter.

    `archive` is the result of `hash_interpreter`.
    """
    stated = f"sha256:{packed.sha256}"
    return RepositoryEvidence(
        start="", diff="none", bundle=archive or stated, stated=archive in (None, stated)
    )


def find_unproven(first: Environment, second: Environment) -> Iterator[Doubted]:
    """Yield the things with one stated id, but different bytes."""
    for place in sorted(first.evidence.keys() & second.evidence.keys()):
        kind, name = place
        first_aspects, second_aspects = (side.known[kind][name] for side in (first, second))
        if any(first_aspects.get(aspect) != second_aspects.get(aspect) for aspect in _IDS):
            continue  # this is reported already
        for first_proof, second_proof in zip(first.evidence[place], second.evidence[place], strict=False):
            if doubt := _compare_evidence(kind, name, first_proof, second_proof):
                yield doubt


def _compare_evidence(
    kind: Kind, name: str, first: RepositoryEvidence, second: RepositoryEvidence
) -> Doubted | None:
    label, proven = ("archive", "sha256") if kind == "interpreter" else ("bundle", "tree")
    bundles = f"{label} {first.bundle}", f"{label} {second.bundle}"
    if first.bundle != second.bundle and not (first.stated and second.stated):
        note, shown = _STATED.format(label, proven), bundles
    elif first.start != second.start:
        note, shown = STARTS, (f"diff from {first.start}", f"diff from {second.start}")
    elif first.diff != second.diff or first.diff.startswith(UNREAD):  # two that were not read may differ
        note, shown = _STATED.format("diff", proven), (f"diff {first.diff}", f"diff {second.diff}")
    elif first.bundle != second.bundle:
        note, shown = BUNDLES, bundles
    else:
        return None
    return Doubted(kind=kind, name=name, one=shown[0], other=shown[1], note=note)
