"""Explanation of the differences of two images.

Each difference has its place and the input that caused it. Each layer is read once as a stream; contents of
files that differ are then fetched into a scratch directory, up to a limit. Memory is bounded by the number of
files, not by their size.
"""

from __future__ import annotations

import shlex
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.compare.images.attribute import (
    NONE,
    Cause,
    Input,
    Origins,
    candidate_inputs,
    choose_culprit,
    folder_owners,
    list_causes,
    origin_file_hashes,
    read_origins,
)
from reprobuild.compare.images.diffoscope import DiffoscopeResult, find_diffoscope, run_diffoscope
from reprobuild.compare.images.excerpt import quote_difference, quoting_obstacle
from reprobuild.compare.images.installed_lists import describe_unread
from reprobuild.compare.images.scan import Known, Scanned, choose_pairs, fetch_contents, scan_image
from reprobuild.compare.images.tree import (
    KINDS,
    FileChange,
    Level,
    compare_documents,
    compare_packing,
    compare_runtime,
    compare_trees,
    find_level,
)
from reprobuild.errors import EngineError, UsageError
from reprobuild.image.formats.squashfs_read import is_squashed, open_squashed
from reprobuild.image.oci.members import open_scratch_file
from reprobuild.image.oci.open import GIVE, OciImage, open_path
from reprobuild.infra.suggest import suggest_path
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.lock.diff import Change, compare_locks
from reprobuild.lock.file import read_lock
from reprobuild.lock.model import Lock

LOCK = "reprobuild.lock"
LABEL = "org.reprobuild.lock"
IMAGE_FILES = ("index.json", "manifest.json", "image/index.json")
SNAPSHOT_FILES = ("capture.json", "env.txt", "requirements.txt")
# Maximum bytes of one content, and of all contents together, that are read.
LARGEST = 32 << 20
MOST = 1 << 30

Say = Callable[[str], None]
Pair = tuple[Scanned, Scanned]


class ImageSummary(Struct, frozen=True, kw_only=True):
    """A side: an image's name, form and digests.

    The name is the user's. A missing digest is "".
    """

    name: str
    form: str
    reference: str
    tree: str
    config: str
    manifest: str
    lock: str


class ImageDiff(Struct, frozen=True, kw_only=True):
    """All differences of two images.

    `level` is the highest at which they are equal: manifest, config, tree, or different. `files` and those
    `changes` whose kind is `runtime` make trees differ; other changes do not.
    """

    one: ImageSummary
    other: ImageSummary
    level: Level
    files: tuple[FileChange, ...] = ()
    changes: tuple[Change, ...] = ()
    culprits: tuple[Cause, ...] = ()
    diffoscope: tuple[DiffoscopeResult, ...] = ()
    notes: tuple[str, ...] = ()


def compare_images(
    first: str, second: str, env: Mapping[str, str], say: Say, *, diffoscope: bool = False
) -> ImageDiff:  # fmt: skip
    """Compare two images.

    Args:
        first: a path of an output directory, a layout, an archive, a SIF or a squashfs, or the name of an image
            of the engine.
        second: likewise.
        env: the user's environment, for the engine's address and PATH.
        say: called with each step.
        diffoscope: run diffoscope on files that differ, in a sandbox. It executes parsers of their formats.

    Raises:
        UsageError: one of them is not an image.
        BuildError: one of them is damaged.
        EngineError: it is not a file, and no engine has it; or diffoscope cannot be run.
    """
    if diffoscope:
        find_diffoscope(env)
    with tempfile.TemporaryDirectory(prefix="reprobuild-diff-") as folder:
        scratch, known = Path(folder), Known()
        _refuse_environments(first, second)
        images = []
        for index, name in enumerate((first, second)):
            place = scratch / str(index)
            place.mkdir()
            images.append((name, open_image(name, place, env, say)))
        sides: list[Scanned] = []
        for name, image in images:
            say(f"reading {name}: {image.form}, {len(image.layers)} layers")
            sides.append(scan_image(image, known))
        known.clear()
        return _compare_scanned((sides[0], sides[1]), scratch, env, say, diffoscope)


def _refuse_environments(first: str, second: str) -> None:
    """Refuse a text file or a snapshot in the place of an image.

    Raises:
        UsageError: it names the command that takes them.
    """
    for name in (first, second):
        path = Path(name)
        if name and path.is_dir():
            is_snapshot = any((path / file).is_file() for file in SNAPSHOT_FILES)
            is_image = any((path / file).is_file() for file in IMAGE_FILES)
            kind = "a snapshot" if is_snapshot and not is_image else ""
        else:
            is_text = path.is_file() and path.stat().st_size and is_text_file(path)
            kind = "a text file such as a lock" if is_text else ""
        if kind:
            raise UsageError(
                f"{name} is {kind}, and not an image",
                hint=f"`{shlex.join(('reprobuild', 'compare', first, second))}` compares environments",
            )


def is_text_file(path: Path) -> bool:
    """Return whether a file cannot be an archive.

    Archives begin with, or soon contain, bytes that a text does not have. One that cannot be read may be an archive.
    """
    try:
        stream, _ = open_plain(path, links=True)
    except OSError:
        return False
    with stream:
        start = stream.read(512)
    return b"\0" not in start and not start.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd"))


def open_image(name: str, scratch: Path, env: Mapping[str, str], say: Say) -> OciImage:
    """Open an image of any form.

    Args:
        name: see `compare_images`.
        scratch: an empty directory, needed as long as the image is.
        env: see `compare_images`.
        say: called if an engine is used.

    Raises:
        UsageError, BuildError, EngineError: see `compare_images`.
    """
    path = Path(name)
    if name and path.exists():
        return open_squashed(path, scratch, env) if is_squashed(path) else open_path(path, scratch)
    if name.startswith(("/", ".", "~")) or not name:
        raise UsageError(f"there is no image at {name or 'an empty name'}", hint=GIVE)
    from reprobuild.engines import docker  # its SDK takes 0.2 s; the only engine used here

    if docker.version(env) is None:
        raise EngineError(
            f"there is no file {name!r}, and no Docker engine answers that could have an image of that name",
            hint=suggest_path(path) or GIVE,
        )
    saved = scratch / "saved.tar"
    say(f"{name} is no file: saving the image of that name from {docker.NAME}")
    with open_scratch_file(saved) as write:
        docker.save(name, write, env)
    opened = open_path(saved, scratch, name)
    return msgspec.structs.replace(opened, form=f"{opened.form} of {docker.NAME}")


def _compare_scanned(
    pair: Pair, scratch: Path, env: Mapping[str, str], say: Say, diffoscope: bool
) -> ImageDiff:  # fmt: skip
    locks, notes = _read_locks(pair)
    notes += [
        f"{scanned.image.name} states no configuration, so what runs is not known of it"
        for scanned in pair
        if not scanned.image.config_digest and not scanned.image.config
    ]
    files = compare_trees(pair[0].tree, pair[1].tree)
    changes = (
        *compare_runtime(pair[0].image.runtime, pair[1].image.runtime),
        *compare_documents(*pair),
        *compare_packing(*pair),
    )
    deeper: list[DiffoscopeResult] = []
    blamed: list[Cause] = []
    if files:
        contents = scratch / "contents"
        contents.mkdir()
        say(f"{len({file.path for file in files})} paths differ; looking into them")
        files, more = _with_excerpts(pair, files, contents)
        files, blamed, unread = _with_culprits(pair, files, contents, locks)
        notes += [*more, *unread]
        if diffoscope:
            unexplained_first = sorted(files, key=lambda file: file.culprit != NONE)
            deeper, more = run_diffoscope(pair, unexplained_first, contents, env, say)
            notes += more
    sides = [_summarise_image(scanned, lock) for scanned, lock in zip(pair, locks, strict=True)]
    return ImageDiff(
        one=sides[0], other=sides[1], level=find_level(*pair), changes=changes,
        files=tuple(sorted(files, key=lambda f: (KINDS.index(f.kind), f.path))), culprits=tuple(blamed),
        diffoscope=tuple(deeper), notes=tuple(notes),
    )  # fmt: skip


def _summarise_image(scanned: Scanned, lock: Lock | None) -> ImageSummary:
    image = scanned.image
    return ImageSummary(
        name=image.name, form=image.form, reference=image.reference, tree=scanned.digest,
        config=image.config_digest, manifest=image.manifest, lock=f"sha256:{lock.digest}" if lock else "",
    )  # fmt: skip


def _read_locks(pair: Pair) -> tuple[list[Lock | None], list[str]]:
    """Return the lock of each image, by the image's label.

    One lock may be of both.
    """
    labels = [scanned.image.runtime.labels.get(LABEL, "") for scanned in pair]
    locks: dict[str, Lock] = {}
    notes = []
    for scanned, label in zip(pair, labels, strict=True):
        path = Path(scanned.image.name) / LOCK
        if scanned.image.form != "output directory" or not path.is_file():
            continue
        lock = read_lock(path)
        locks[f"sha256:{lock.digest}"] = lock
        if label != f"sha256:{lock.digest}":
            notes.append(f"{path} is not the lock of the image beside it, and was not used for it")
    return [locks.get(str(label)) for label in labels], notes


# --- contents --------------------------------------------------------------------------------


def _with_excerpts(
    pair: Pair, files: list[FileChange], contents: Path
) -> tuple[list[FileChange], list[str]]:  # fmt: skip
    """Return the changes with the first difference of each content, and notes."""
    pairs = {f.path: (pair[0].tree[f.path], pair[1].tree[f.path]) for f in files if f.kind == "content"}
    read, left_out = choose_pairs(pairs, LARGEST, MOST)
    needed = {entry.sha256 for both in read.values() for entry in both}
    for scanned in pair:  # the records of inputs are in the same layers, so one more pass is enough for both
        fetch_contents(scanned, needed | origin_file_hashes(scanned.tree), contents)
    changes = []
    for file in files:
        if file.kind == "content":
            detail = (
                _excerpt(read[file.path], file.path, contents) if file.path in read else left_out[file.path]
            )
            file = msgspec.structs.replace(file, detail=detail)
        changes.append(file)
    notes = [f"{len(left_out)} files were not looked into, as each says"] if left_out else []
    return changes, notes


def _excerpt(entries: tuple[TarEntry, TarEntry], path: str, contents: Path) -> str:
    first, second = ((contents / entry.sha256).read_bytes() for entry in entries)
    reason = quoting_obstacle(path, entries[0], entries[1], (first, second))
    where = quote_difference(first, second, quote=not reason)
    return f"{where}; not quoted: {reason}" if reason else where


# --- inputs ----------------------------------------------------------------------------------


def _with_culprits(
    pair: Pair, files: list[FileChange], contents: Path, locks: list[Lock | None]
) -> tuple[list[FileChange], list[Cause], list[str]]:
    """Return the changes with inputs, the inputs with counts, and notes."""

    def read(entry: TarEntry) -> bytes | None:
        path = contents / entry.sha256
        return path.read_bytes() if path.is_file() else None

    origins = [read_origins(scanned.tree, read, lock) for scanned, lock in zip(pair, locks, strict=True)]
    changed, same = _compare_inputs(origins, locks)
    folders = [folder_owners(side, scanned.tree) for side, scanned in zip(origins, pair, strict=True)]
    changes = []
    for file in files:
        known = [item for side in reversed(origins) for item in candidate_inputs(file.path, side)]
        entries = [scanned.tree.get(file.path) for scanned in pair]
        if all(entry is None or entry.type == "directory" for entry in entries):
            known = [o for side in folders if (o := side.get(file.path, NONE)) != NONE] + known
        changes.append(msgspec.structs.replace(file, culprit=choose_culprit(known, changed)))
    counts = Counter({(f.path, f.culprit) for f in changes})
    by_input = Counter(culprit for _, culprit in counts)
    names = [(scanned.image.name, side.unread) for scanned, side in zip(pair, origins, strict=True)]
    notes = [describe_unread(name, unread) for name, unread in names if unread]
    return changes, list_causes(by_input, changed, same, locked=None not in locks), notes


def _compare_inputs(
    origins: list[Origins], locks: list[Lock | None]
) -> tuple[dict[Input, tuple[str, str]], dict[Input, str]]:
    """Return the differing inputs, and the versions of equal ones.

    A differing input has both values.
    """
    first, second = (side.versions for side in origins)
    same = {item: version for item, version in first.items() if second.get(item) == version}
    versions = {
        item: (first.get(item, ""), second.get(item, "")) for item in {*first, *second} if item not in same
    }
    if locks[0] is None or locks[1] is None:
        return versions, same
    changed = {_changed_input(c): (c.one or "", c.other or "") for c in compare_locks(locks[0], locks[1])}
    return changed, same


def _changed_input(change: Change) -> Input:
    name = change.name
    return (change.kind, str(canonicalize_name(name)) if change.kind == "python" else name)
