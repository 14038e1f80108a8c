"""The command `unbundle`: a bundle to an output directory.

Its inputs go into a store; every byte is compared.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from reprobuild.distribute.expected_files import SIF, list_unchecked
from reprobuild.distribute.manifest import Manifest, read_manifest
from reprobuild.distribute.signing import make_keygen
from reprobuild.distribute.validate import HOSTILE, check_results, find_mismatched_files, replace_page
from reprobuild.errors import DistributionError, FetchError
from reprobuild.image.model import Image
from reprobuild.infra.shell_words import quote_path
from reprobuild.lock.model import Lock
from reprobuild.output.directory import LOCK, REPORT, VERDICT, read_image, remember_tree
from reprobuild.store.roots import record_lock
from reprobuild.store.store import DamagedError, Store
from reprobuild_portable.hashing import hash_file
from reprobuild_portable.unbundle.bundle import Bundle, open_bundle
from reprobuild_portable.unbundle.damage import MemberSink, check, find_damage, refuse_damaged
from reprobuild_portable.unbundle.format import Member, RefusedError
from reprobuild_portable.unbundle.messages import origin, say_strangers
from reprobuild_portable.unbundle.strangers import list_foreign_paths
from reprobuild_portable.unbundle.unpack import unpack

UNKNOWN_SIGNER = "the bundle is signed, but the signer was not checked (use --allowed-signers)"


class UnbundleResult(Struct, frozen=True, kw_only=True):
    """The result of unpacking a bundle.

    Attributes:
        out: the output directory.
        new: False if its files were there already, complete.
        strangers: paths in that directory that the bundle does not have, or that differ; at most 20.
        members: the number of files in the bundle.
        inputs: the number of the lock's inputs that came with it and are in the store.
        signed: the bundle has a signature.
        signer: the signer among the allowed ones; empty if no signer was required.
        lock, manifest: digests of lock (hex) and image.
        certified: the bundle's verdict file is in the directory, and is one of this image.
        doubted: the paths of attachments, recipes and programs that do not follow from the lock, and of files
            that were not checked: `image.sif`, `reprobuild/`. The page of the verdict is written again, and
            is among them if the bundle had another one.
        origin: the maker of the lock, as far as known, and the meaning of trusting it.
    """

    out: str
    new: bool
    strangers: tuple[str, ...]
    members: int
    inputs: int
    signed: bool
    signer: str
    lock: str
    manifest: str
    certified: bool
    doubted: tuple[str, ...]
    origin: str


class BundleCheck(Struct, frozen=True, kw_only=True):
    """The result of comparing a bundle with its own manifest.

    Attributes:
        file: the bundle, or the common part of the names of its parts.
        members: the number of files in the bundle.
        size: the bytes of these files.
        signed: the bundle has a signature.
        signer: the signer among the allowed ones; empty if no signer was required.
        lock, manifest: digests of lock (hex) and image, as the manifest states them.
    """

    file: str
    members: int
    size: int
    signed: bool
    signer: str
    lock: str
    manifest: str


def check_bundle(
    file: Path, env: Mapping[str, str], *, signers: Path | None, say: Callable[[str], None]
) -> BundleCheck:
    """Compare every byte of a bundle with its manifest, and write no file.

    Args:
        file: the bundle, or the common part of the names of its parts.
        env: the user's environment, for `ssh-keygen`.
        signers: a file of allowed signers, one of whom must have signed; None to skip this check.
        say: called with each step.

    Raises:
        DistributionError: a part is missing, a byte is wrong, or no allowed signer signed.
    """
    with _open_bundle(file, signers, env) as bundle:
        stated = read_manifest(bundle.manifest)
        if bundle.signature and not signers:
            say(UNKNOWN_SIGNER)
        say(f"unbundle: {len(bundle.members)} files, every byte compared")
        check(bundle)
        return BundleCheck(
            file=str(file), members=len(bundle.members), size=sum(member.size for member in bundle.members),
            signed=bool(bundle.signature), signer=bundle.signer, lock=stated.lock, manifest=stated.image.manifest,
        )  # fmt: skip


def unbundle(
    file: Path, out: Path, store: Store, env: Mapping[str, str], *, signers: Path | None, say: Callable[[str], None],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> UnbundleResult:  # fmt: skip
    """Unpack a bundle, and put its inputs into the store.

    The directory appears complete. The inputs are stored each time, from the bundle if `out` exists already
    and its inputs were moved to another store.

    Args:
        file: the bundle, or the common part of the names of its parts.
        out: a new directory.
        store: takes the inputs, and keeps the lock.
        env: the user's environment, for `ssh-keygen`.
        signers: a file of allowed signers (ssh-keygen(1)), one of whom must have signed; None to skip this
            check.
        say: called with each step.
        progress: called with (bytes so far, bytes in all).

    Raises:
        DistributionError: a part is missing, a copy was cut, a byte is wrong, no allowed signer signed, or the files
            do not belong together. If the copy was damaged, complete files are kept for the next run; `out` stays
            empty.
    """
    out_text, out = str(out), out.absolute()  # if it is the working directory, another takes its place
    with _open_bundle(file, signers, env) as bundle:
        stated = read_manifest(bundle.manifest)
        if bundle.signature and not signers:
            say(UNKNOWN_SIGNER)
        say(f"unbundle: {len(bundle.members)} files, every byte compared")
        named = {(member.path, member.sha256) for member in bundle.members}
        members = {member.path: member for member in bundle.members}
        inputs = [member for member in bundle.members if member.path.startswith("store/blobs/")]

        made_up: list[str] = []

        def settle(tree: str | Path) -> None:
            try:
                look(Path(tree), certificate=True)
            except DistributionError as err:
                raise RefusedError(str(err), err.hint) from None  # `unpack` removes the files
            bring(Path(tree), unpacked=True)

        def look(tree: Path, *, certificate: bool) -> None:
            lock, image = check_results(tree, members, certificate=certificate)
            _refuse_other(stated, lock, image)
            in_bundle = (REPORT, _sha256(tree / REPORT)) in named
            if replace_page(tree, lock, image, remove=in_bundle) and in_bundle:
                made_up.append(REPORT)

        def bring(tree: Path, *, unpacked: bool) -> None:
            lacking = [
                member
                for member in inputs
                if not _is_stored(member, store, say)
                and not (unpacked and _move_to_store(tree / member.path, member, store))
            ]
            if lacking:
                say(f"into the store, from the bundle again: {len(lacking)} inputs")
                _store_inputs(bundle, lacking, store)
            _remove_inputs(tree, inputs, store)

        new = unpack(bundle, str(out), progress=progress, settle=settle)
        if not new:
            # The other program may have unpacked it: it checks less, and leaves the inputs there.
            look(out, certificate=(VERDICT, _sha256(out / VERDICT)) in named)
            bring(out, unpacked=False)  # another user may have it, and have one of its files open for writing
        others = () if new else tuple(list_foreign_paths(bundle, str(out)))
        say_strangers(others, say)
        lock, image = read_image(out)
        doubted = tuple(sorted((*find_mismatched_files(out, members, lock, image, store), *made_up)))
        _report_doubts(doubted, list_unchecked(members), out_text, say)
        remember_tree(image, store)  # `look` computed it
        record_lock(lock, out / LOCK, store, "unbundle")
        whence = origin(file.name, bool(bundle.signature), bundle.signer)
        say(whence)
        count = sum(store.has(member.sha256) for member in inputs)
        return UnbundleResult(
            out=out_text, new=new, strangers=others, members=len(bundle.members), inputs=count,
            signed=bool(bundle.signature), signer=bundle.signer, lock=lock.digest, manifest=image.manifest,
            certified=(VERDICT, _sha256(out / VERDICT)) in named,
            doubted=tuple(sorted((*doubted, *list_unchecked(members)))), origin=whence,
        )  # fmt: skip


def _report_doubts(
    doubted: Sequence[str], unread: Sequence[str], out: str, say: Callable[[str], None]
) -> None:
    again = f"`reprobuild build {quote_path(f'{out}/{LOCK}')} -o {quote_path(out)}"
    if doubted:
        say(f"of another reprobuild, or made up, as they do not follow from the lock: {', '.join(doubted)}")
        say(f"do not run or follow those: {again}` writes the recipe and its context anew")
    if SIF in unread:
        say(f"{SIF} was not looked into: {again} --format sif` writes it anew from the layers, which were")
    if len(unread) > (SIF in unread):
        say(
            "the wheels in reprobuild/ are the sender's, and were not looked into: install reprobuild from elsewhere"
        )


@contextlib.contextmanager
def _open_bundle(file: Path, signers: Path | None, env: Mapping[str, str]) -> Iterator[Bundle]:
    try:
        with open_bundle(str(file), str(signers) if signers else "", make_keygen(env)) as bundle:
            yield bundle
    except RefusedError as err:
        raise DistributionError(str(err), hint=err.hint) from None


def _refuse_other(stated: Manifest, lock: Lock, image: Image) -> None:
    """Refuse a bundle whose manifest names another lock or image."""
    identity = (lock.digest, image.reference, image.tree, image.config, image.manifest)
    names = stated.image
    if (stated.lock, names.reference, names.tree, names.config, names.manifest) != identity:
        raise DistributionError(
            "the bundle.json tells of another lock or image than are in the bundle", hint=HOSTILE
        )


def _sha256(path: Path) -> str:
    return hash_file(path) if path.is_file() else ""


def _remove_inputs(tree: Path, inputs: Sequence[Member], store: Store) -> None:
    """Remove stored inputs and empty directories from an output directory.

    The user may have made a store of that very directory (`--store OUT/store`): then all of it stays.
    """
    if store.root.resolve().is_relative_to(tree.resolve()):
        return
    for member in inputs:
        (tree / member.path).unlink(missing_ok=True)
    folders = {tree / folder for member in inputs for folder in PurePosixPath(member.path).parents[:-1]}
    for folder in sorted(folders, reverse=True):  # inner directories come first
        with contextlib.suppress(OSError):  # it has another file, or is gone already
            folder.rmdir()


def _is_stored(member: Member, store: Store, say: Callable[[str], None]) -> bool:
    """Return whether the store has a file, whole."""
    sha256 = member.sha256
    is_damaged = store.has(sha256) and not store.has(sha256, member.size)
    try:
        if not is_damaged:
            # The copy at hand is removed later, so check that of the store.
            store.verified(sha256, "an input")
            return True
    except DamagedError:
        is_damaged = True
    except FetchError:
        pass  # it is not there
    if is_damaged:
        say(f"in the store an input was damaged: {sha256}; that of the bundle takes its place")
    return False


def _move_to_store(path: Path, member: Member, store: Store) -> bool:
    """Add a file that this process unpacked to the store, hard-linked if possible; return whether it is there."""
    if not path.is_file():
        return False
    with store.scratch() as folder:
        part = folder / "input"
        try:
            os.link(path, part)
        except OSError:
            shutil.copyfile(path, part)
        store.adopt(part, member.sha256)
    return True


class _Input(MemberSink):
    """A sink that stores an input after verification."""

    def __init__(self, part: Path, sha256: str, store: Store) -> None:
        self._part, self._sha256, self._store = part, sha256, store
        self._stream = part.open("xb")

    def write(self, piece: bytes) -> None:
        self._stream.write(piece)

    def close(self, right: bool) -> None:
        self._stream.close()
        if right:
            self._store.adopt(self._part, self._sha256)
        else:
            self._part.unlink()


def _store_inputs(bundle: Bundle, inputs: Sequence[Member], store: Store) -> None:
    """Add inputs to the store from the bundle.

    Raises:
        RefusedError: with the name of each member that is damaged.
    """
    hashes = {member.sha256 for member in inputs}
    with store.scratch() as folder:

        def take(member: Member) -> MemberSink | None:  # the bytes of a link came with an earlier member
            fits = member.sha256 in hashes and not member.link
            return _Input(folder / "input", member.sha256, store) if fits else None

        refuse_damaged(list(find_damage(bundle, take)))
