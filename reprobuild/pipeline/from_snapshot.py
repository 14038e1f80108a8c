"""The main pipeline: snapshot, lock, sealed lock, recipe, image, verdict."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.builders.native import build_image
from reprobuild.builders.registry import NATIVE, build_foreign, find_builder
from reprobuild.builders.tree_check import make_tree_check
from reprobuild.config.overrides import Decisions
from reprobuild.context import RunContext
from reprobuild.doctor.preflight.gpus import check_gpus
from reprobuild.doctor.preflight.preflight import inspect_machine, preflight
from reprobuild.engines.registry import HINT
from reprobuild.errors import BuildError, LockError
from reprobuild.image.engine_name import own_name
from reprobuild.image.formats.single_file import Kind, keep_matching_singles, remember_singles, write_singles
from reprobuild.image.formats.squashfs_write import Compressor, find_program
from reprobuild.image.model import Image
from reprobuild.infra.atomic import write_file
from reprobuild.lock.file import read_lock, write_lock, write_new_lock
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.lock.system import Artefact
from reprobuild.output.directory import (
    IMAGE,
    LOCK,
    find_former_image,
    is_built_here,
    remember_built,
    remember_tree,
)
from reprobuild.output.foreign import lock_backup_path, set_aside
from reprobuild.pipeline.verify import VerifyOptions, choose_engine, verify
from reprobuild.realise.realise import is_realised, realise
from reprobuild.recipe.build_context import write_context
from reprobuild.recipe.payload import payload_files
from reprobuild.recipe.render import render_recipe
from reprobuild.resolve.interpreter.standalone import with_mirror_address
from reprobuild.resolve.override_secrets import refuse_secrets as refuse_decision_secrets
from reprobuild.resolve.python.markers import select_environment_lines
from reprobuild.resolve.resolver import lock_sources, resolve_snapshot
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.fetch import fetch, list_artefacts, list_image_files
from reprobuild.store.roots import BUILD, gc_root, is_lock_of_here, record_lock, remember_lock
from reprobuild.verify.verdict import Verdict
from reprobuild_portable import secrets


class BuildOptions(Struct, frozen=True, kw_only=True):
    """Options for making the image.

    `tag` is its name (by default, a name that follows from the lock), and `builder` the program that makes it.

    `singles` are the single-file forms to write beside its layout, and `compressor` is for these. If `afresh` is set,
    the native builder lays out and packs each layer again, even if the store remembers the layer; other builders always
    do.
    """

    tag: str | None = None
    builder: str = NATIVE
    singles: tuple[Kind, ...] = ()
    compressor: Compressor = "zstd"
    afresh: bool = False


def build_from_snapshot(
    captured: Path, out: Path, decisions: Decisions, session: RunContext, making: BuildOptions, *,
    lock_path: Path | None = None, checks: VerifyOptions | None,
) -> tuple[SealedLock, Image, Verdict | None]:  # fmt: skip
    """Build and check an image from a snapshot directory.

    Args:
        captured: the directory of the snapshot.
        out: the output directory, made if it is missing.
        making: how the image is made.
        lock_path: a lock to use; else that of `out` if it was made here and still fits, else a new one.
        checks: None leaves the verdict out.

    Returns:
        The sealed lock, the image, and the verdict if checks were given.
    """
    snapshot = read_snapshot(captured)
    strange = [remark for remark in snapshot.remarks if not remark.understood]
    if strange:
        session.say(
            f"left out: {len(strange)} lines that are not understood, the first {strange[0].place}; "
            f"`reprobuild show {shlex.quote(str(captured))}` lists them"
        )
    if checks is not None:
        # Fail before minutes of locking and hours of fetching.
        choose_engine(checks, session, hint=f"{HINT}; or leave the checks out with --no-verify")
    out.mkdir(parents=True, exist_ok=True)
    lock = choose_lock(snapshot, captured, out, decisions, session, lock_path)
    with gc_root(lock, lock_path or out / LOCK, session.store, "build"):
        sealed, image = build(lock, out, session, making, checks.gpus if checks else "auto")
    if checks is None:
        return sealed, image, None
    return sealed, image, verify(sealed, image, out, session, checks)


def choose_lock(
    snapshot: Snapshot,
    captured: Path,
    out: Path,
    decisions: Decisions,
    session: RunContext,
    lock_path: Path | None,
) -> Lock:
    """Return the lock to build from, with its sources in the store.

    The sources of an existing lock are made again if the store lacks them.
    """
    lock = read_lock(lock_path) if lock_path else _read_former_lock(out / LOCK, snapshot, decisions, session)
    if lock is None or (lock_path is None and not is_lock_of_here(lock, session.store)):
        return _make_lock(snapshot, captured, out / LOCK, decisions, session, strange=lock)
    if lock.snapshot != snapshot.digest:
        raise LockError(
            f"{lock_path} was made from another snapshot ({lock.snapshot[:12]}, not {snapshot.digest[:12]})",
            hint="make a new lock with `reprobuild lock DIR`",
        )
    session.say(f"lock: {lock.digest[:12]}, {f'of {lock_path}' if lock_path else 'made here before'}")
    if not all(session.store.has(source.file.sha256) for source in lock.sources):
        here, _ = select_environment_lines(snapshot, lock.interpreter.version, lock.machine, decisions.drop)
        sources, _ = lock_sources(here, decisions, session.resolve_context(captured))
        digests = {source.file.sha256 for source in sources}
        if other := [source for source in lock.sources if source.file.sha256 not in digests]:
            raise LockError(
                "the sources are not those of the lock: "
                + ", ".join(f"{source.file.filename} (sha256 {source.file.sha256})" for source in other),
                hint="find the locked commit and its changes, or make a new lock with `reprobuild lock DIR`",
            )
    return lock


def _make_lock(
    snapshot: Snapshot,
    captured: Path,
    path: Path,
    decisions: Decisions,
    session: RunContext,
    strange: Lock | None,
) -> Lock:
    """Make a new lock of the snapshot.

    An untrusted lock at its path is renamed and kept.
    """
    aside = path if strange is None else lock_backup_path(path, strange)
    if strange is not None:
        session.say(
            f"lock: {path} is not known to be made here, so a new one is made, and it is kept as {aside}; "
            f"to follow it: --lock {shlex.quote(str(aside))}"
        )
    lock = resolve_snapshot(snapshot, decisions, session.resolve_context(captured))
    if strange is not None:
        path.replace(aside)
        record_lock(strange, aside, session.store)
    write_new_lock(lock, path)
    remember_lock(lock, session.store)
    record_lock(lock, path, session.store, "lock")
    return lock


def _read_former_lock(
    path: Path, snapshot: Snapshot, decisions: Decisions, session: RunContext
) -> Lock | None:
    """Return the lock at a path if snapshot and decisions match.

    It may come from anyone.
    """
    if not path.exists():
        return None
    refuse_decision_secrets(decisions)  # an earlier program wrote such locks
    lock = read_lock(path)
    if lock.snapshot == snapshot.digest and lock.decisions.as_dict() == decisions.lock_document():
        return lock
    session.say(f"lock: {path} is of another snapshot or other decisions; making a new one")
    return None


def fetch_lock(lock: Lock, path: Path, session: RunContext) -> int:
    """Fetch and verify all files of a lock into the store.

    The store keeps them for the lock at `path`.

    Returns:
        The number of files that were missing.
    """
    with gc_root(lock, path, session.store, "fetch"):
        return _fetch_files(list_artefacts(lock), lock, session)


def _fetch_files(files: Sequence[Artefact], lock: Lock, session: RunContext) -> int:
    python = lock.interpreter.file
    if python is not None and python.url and not session.store.has(python.sha256):
        files = [with_mirror_address(lock, file, session.env) if file == python else file for file in files]
    missing = [artefact for artefact in files if not session.store.has(artefact.sha256)]
    # Asking pip for the credentials of its indexes takes a second; often no file is missing.
    net = session.resolve_context().net if missing and not session.net.offline else session.net
    fetch_count = fetch(files, session.store, net, session.progress, caches=session.caches)
    if fetch_count:
        session.say(f"fetched {fetch_count} files")
    return fetch_count


def build(
    lock: Lock, out: Path, session: RunContext, making: BuildOptions, gpus: str = "auto", *, exact: bool = True
) -> tuple[SealedLock, Image]:  # fmt: skip
    """Seal a lock and write its recipe, context and image.

    The lock goes into `out`, too, with the single files of `making.singles`.

    Inputs of completed steps are not fetched.

    Args:
        gpus: the GPUs that the image is to run on here: "auto", "all", "none", or ids.
        exact: outputs that are realised again must match a sealed lock; else another lock is returned.
    """
    if making.singles:
        find_program(session.env)  # before hours of fetching
    if making.builder != NATIVE:
        find_builder(making.builder, session.env)
    machine = inspect_machine(session.env)
    warnings = preflight(lock, session.store, out, machine, gpus)
    for warning in warnings:
        session.say(f"warning: {warning}")
    out.mkdir(parents=True, exist_ok=True)
    # Each consumer verifies the files it reads. The packages of a base that is already realised are not read again.
    files = (
        list_image_files(lock)
        if isinstance(lock, SealedLock) and is_realised(lock, session.store)
        else list_artefacts(lock)
    )
    _fetch_files([file for file in files if not session.store.has(file.sha256)], lock, session)
    # The GPUs that torch was compiled for are listed in its wheel, which may only now be in the store.
    for warning in check_gpus(lock, session.store, machine.gpus, gpus):
        if warning not in warnings:
            session.say(f"warning: {warning}")
    sealed = realise(lock, session.store, session.say, exact=exact)
    texts = render_recipe(sealed)
    refuse_secrets(
        {**{name: text.encode() for name, text in texts.items()}, **payload_files(sealed, session.store)}
    )
    if is_lock_of_here(lock, session.store):
        remember_lock(sealed, session.store)
    write_lock(sealed, out / LOCK)
    with gc_root(sealed, out / LOCK, session.store, f"{BUILD}{making.builder}"):
        for name, text in texts.items():
            if name != "requirements.txt":
                write_file(out / name, text.encode())
        session.say("image: layers and OCI layout")
        former = find_former_image(out)
        reference = making.tag or own_name(sealed.digest)
        image = _make_image(sealed, out, session, texts, reference, making)
        remember_tree(image, session.store)
        image = _write_image_record(
            keep_matching_singles(image, former, out, session.store, session.say), out
        )
        if former is None or former.tree != image.tree or not is_built_here(former, out, session.store):
            set_aside(out, session.say)
        remember_built(image, out, session.store)
        if making.singles:
            digests = write_singles(
                image, out, making.singles, texts["Apptainer.def"], session.env, session.say,
                compressor=making.compressor,
            )  # fmt: skip
            image = _write_image_record(msgspec.structs.replace(image, **digests), out)
            remember_singles(image, session.store)
    return sealed, image


def _make_image(
    sealed: SealedLock,
    out: Path,
    session: RunContext,
    texts: dict[str, str],
    reference: str,
    making: BuildOptions,
) -> Image:
    """Write the context, and make the image from it or beside it."""
    store, files = session.store, payload_files(sealed, session.store)
    builder = making.builder
    if builder == NATIVE:
        with ThreadPoolExecutor(1) as pool:  # most of either is hashing, which lets other threads run
            context = pool.submit(write_context, sealed, store, out, texts)
            image = build_image(sealed, store, out, files=files, reference=reference, afresh=making.afresh)
            context.result()
        return image
    write_context(sealed, store, out, texts)
    image = build_foreign(
        builder, out, platform=sealed.platform, epoch=sealed.epoch, reference=reference, env=session.env,
        say=session.say, check=make_tree_check(sealed, store, files, builder, session.say),
    )  # fmt: skip
    return msgspec.structs.replace(image, lock=sealed.digest)


def _write_image_record(image: Image, out: Path) -> Image:
    write_file(out / IMAGE, msgspec.json.format(msgspec.json.encode(image)) + b"\n")
    return image


def refuse_secrets(files: Mapping[str, bytes]) -> None:
    """Refuse files with secrets before they are written.

    This is the last of several checks for secrets.

    Raises:
        BuildError: a secret was found. The message has the file, the line and the rule, but not the value.
    """
    for name, content in files.items():
        for line, rule in secrets.find(content):
            raise BuildError(
                f"{name}:{line}: this looks like a secret ({rule}), and would be readable in the image for ever",
                hint="leave its variable or package out with --drop NAME; pass secrets when the image runs",
            )
