"""unbundle: a bundle to a folder of results, and its inputs to a store; every byte is compared."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from reprobuild.distribute.expected_files import SIF, unread
from reprobuild.distribute.manifest import Manifest, read_manifest
from reprobuild.distribute.signing import looking_by
from reprobuild.distribute.validate import HOSTILE, check_results, doubtful, own_page
from reprobuild.errors import FetchError, ShipError
from reprobuild.image.model import Image
from reprobuild.lock.lock import Lock
from reprobuild.output.directory import LOCK, REPORT, VERDICT, read_image, remember_tree
from reprobuild.store.roots import keep
from reprobuild.store.store import DamagedError, Store, hash_file
from reprobuild_portable.unbundle.bundle import Bundle, open_bundle
from reprobuild_portable.unbundle.damage import Sink, damaged, refuse_damaged
from reprobuild_portable.unbundle.format import Member, Refused
from reprobuild_portable.unbundle.messages import origin, say_strangers
from reprobuild_portable.unbundle.strangers import strangers
from reprobuild_portable.unbundle.unpack import unpack


class Unbundled(Struct, frozen=True, kw_only=True):
    """What came of a bundle.

    Attributes:
        out: the folder of results.
        new: False where its files stood there already, whole.
        strangers: paths in that folder that the bundle does not have, or that differ; at most 20.
        members: how many files the bundle has.
        inputs: how many inputs of the lock came with it and are in the store.
        signed: the bundle has a signature.
        signer: of those asked for, the one who signed; empty where nobody was asked for.
        lock, manifest: digests of lock (hex) and image.
        certified: the certificate of the bundle is in the folder, and is one of this image.
        doubted: the paths of papers, recipes and programs of it that do not follow from the lock, and of what was not
            looked into: `image.sif`, `reprobuild/`. The page of the certificate, which is written anew, is among them
            where another one came.
        origin: who made the lock, as far as is known, and what it means to follow it.
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


def unbundle(
    file: Path, out: Path, store: Store, env: Mapping[str, str], *, signers: Path | None, say: Callable[[str], None],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Unbundled:  # fmt: skip
    """Unpack a bundle into a folder of results, which appears whole, and put its inputs into the store.

    They go there each time: where `out` stands already and they have left it for another store, from the bundle.

    Args:
        file: the bundle, or what the names of its parts have in common.
        out: a new folder.
        store: takes the inputs, and keeps the lock.
        env: the user's environment, for `ssh-keygen`.
        signers: a file of allowed signers (ssh-keygen(1)), of whom one must have signed; None to ask for nobody.
        say: is told each step.
        progress: told (bytes so far, bytes in all).

    Raises:
        ShipError: a part is missing, a copy was cut, a byte is not what it must be, nobody of those asked for signed,
            or the files do not belong together. What is whole is kept for the next run, but nothing is in `out`.
    """
    told, out = str(out), out.absolute()  # where it is the working directory, another takes its place
    with _opened(file, signers, env) as found:
        stated = read_manifest(found.manifest)
        if found.signature and not signers:
            say("it is signed; nobody looked by whom (--signers)")
        say(f"unbundle: {len(found.members)} files, every byte compared")
        named = {(member.path, member.sha256) for member in found.members}
        members = {member.path: member for member in found.members}
        inputs = [member for member in found.members if member.path.startswith("store/blobs/")]

        made_up: list[str] = []

        def settle(tree: str | Path) -> None:
            look(Path(tree), certificate=True)
            bring(Path(tree))

        def look(tree: Path, *, certificate: bool) -> None:
            lock, image = check_results(tree, members, certificate=certificate)
            _refuse_other(stated, lock, image)
            theirs = (REPORT, _sha256(tree / REPORT)) in named
            if own_page(tree, lock, image, remove=theirs) and theirs:
                made_up.append(REPORT)

        def bring(tree: Path) -> None:
            lacking = [
                member for member in inputs if not _take(tree / member.path, member.sha256, store, say)
            ]
            if lacking:
                say(f"into the store, from the bundle again: {len(lacking)} inputs")
                _read(found, lacking, store)
            _drop(tree, inputs, store)

        new = unpack(found, str(out), progress=progress, settle=settle)
        if not new:
            # The other program may have unpacked it: it checks less, and leaves the inputs there.
            look(out, certificate=(VERDICT, _sha256(out / VERDICT)) in named)
            bring(out)
        others = () if new else tuple(strangers(found, str(out)))
        say_strangers(others, say)
        lock, image = read_image(out)
        doubted = tuple(sorted((*doubtful(out, members, lock, image, store), *made_up)))
        _say_doubts(doubted, unread(members), told, say)
        remember_tree(image, store)  # `look` computed it
        keep(lock, out / LOCK, store, "unbundle")
        whence = origin(file.name, bool(found.signature), found.signer)
        say(whence)
        brought = sum(store.has(member.sha256) for member in inputs)
        return Unbundled(
            out=told, new=new, strangers=others, members=len(found.members), inputs=brought,
            signed=bool(found.signature), signer=found.signer, lock=lock.digest, manifest=image.manifest,
            certified=(VERDICT, _sha256(out / VERDICT)) in named,
            doubted=tuple(sorted((*doubted, *unread(members)))), origin=whence,
        )  # fmt: skip


def _say_doubts(doubted: Sequence[str], unread: Sequence[str], out: str, say: Callable[[str], None]) -> None:
    again = f"`reprobuild build {shlex.quote(f'{out}/{LOCK}')} -o {shlex.quote(out)}"
    if doubted:
        say(f"of another reprobuild, or made up, as they do not follow from the lock: {', '.join(doubted)}")
        say(f"do not run or follow those: {again}` writes the recipe and its context anew")
    if SIF in unread:
        say(f"{SIF} was not looked into: {again} --sif` writes it anew from the layers, which were")
    if len(unread) > (SIF in unread):
        say(
            "the wheels in reprobuild/ are the sender's, and were not looked into: install reprobuild from elsewhere"
        )


@contextlib.contextmanager
def _opened(file: Path, signers: Path | None, env: Mapping[str, str]) -> Iterator[Bundle]:
    try:
        with open_bundle(str(file), str(signers) if signers else "", looking_by(env)) as found:
            yield found
    except Refused as err:
        raise ShipError(str(err), hint=err.hint) from None


def _refuse_other(stated: Manifest, lock: Lock, image: Image) -> None:
    """Stop where the manifest of a bundle tells of another lock or image than its files are."""
    names = (image.reference, image.tree, image.config, image.manifest)
    told = stated.image
    if (stated.lock, told.reference, told.tree, told.config, told.manifest) != (lock.digest, *names):
        raise ShipError("the bundle.json tells of another lock or image than are in the bundle", hint=HOSTILE)


def _sha256(path: Path) -> str:
    return hash_file(path) if path.is_file() else ""


def _drop(tree: Path, inputs: Sequence[Member], store: Store) -> None:
    """Remove inputs that the store has from a folder of results, and the folders that get empty by that.

    The user may have made a store of that very folder (`--store OUT/store`): then all of it stays.
    """
    if store.root.resolve().is_relative_to(tree.resolve()):
        return
    for member in inputs:
        (tree / member.path).unlink(missing_ok=True)
    folders = {tree / folder for member in inputs for folder in PurePosixPath(member.path).parents[:-1]}
    for folder in sorted(folders, reverse=True):  # what is below comes first
        with contextlib.suppress(OSError):  # something else is in it, or it is gone already
            folder.rmdir()


def _take(path: Path, sha256: str, store: Store, say: Callable[[str], None]) -> bool:
    """Bring a file into the store, by hard link where both are on one file system.

    Return whether the store has it: False where it is neither there nor at `path`.
    """
    try:
        store.verified(sha256, "an input")  # the copy at hand goes: that of the store must be whole
        return True
    except DamagedError:
        say(f"in the store an input was damaged: {sha256}; that of the bundle takes its place")
    except FetchError:
        pass  # it is not there
    if not path.is_file():
        return False
    with store.scratch() as folder:
        part = folder / "input"
        try:
            os.link(path, part)
        except OSError:
            shutil.copyfile(path, part)
        store.adopt(part, sha256)
    return True


class _Input(Sink):
    """An input that goes into the store when all its bytes came, and were right."""

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


def _read(bundle: Bundle, inputs: Sequence[Member], store: Store) -> None:
    """Bring inputs into the store from the bundle.

    Raises:
        Refused: with the name of each member that is damaged.
    """
    wanted = {member.sha256 for member in inputs}
    with store.scratch() as folder:

        def take(member: Member) -> Sink | None:  # where a link stands, the bytes stood before
            fits = member.sha256 in wanted and not member.link
            return _Input(folder / "input", member.sha256, store) if fits else None

        refuse_damaged(list(damaged(bundle, take)))
