"""An image as one file: a SIF or a squashfs.

A SIF is for Apptainer, a squashfs for enroot; both are made from an OCI layout of any builder. The bytes
depend on the image's tree and configuration, the definition file, and the versions of `mksquashfs` and its
compressor. Owners are kept, so that the file holds the tree with the image's digest; for a caller without
privileges Apptainer shows every file as the caller's.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Literal, get_args

import msgspec

from reprobuild.image.formats import sif
from reprobuild.image.formats.apptainer_files import apptainer_files, inspect_metadata, oci_config
from reprobuild.image.formats.enroot import enroot_files
from reprobuild.image.formats.flatten import Flat, open_flat_image
from reprobuild.image.formats.squashfs_write import Compressor, find_program, write_squashfs
from reprobuild.image.model import Image
from reprobuild.image.oci.read import Layout, read_layout
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_file, hash_stream

Kind = Literal["sif", "sqsh"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# The name of each kind for `--format`.
_FORMATS: dict[Kind, str] = {"sif": "sif", "sqsh": "squashfs"}


def single_file_name(kind: Kind) -> str:
    """Return the name of a file in the output directory."""
    return f"image.{kind}"


def keep_matching_singles(
    image: Image, former: Image | None, out: Path, store: Store, say: Callable[[str], None]
) -> Image:
    """Return the image with former files that still fit.

    Any other file under their names is removed. The directory may be untrusted. A file is kept only if this
    store remembers that it was written from the image, whatever the directory states.

    Args:
        image: as it was built now.
        former: the former image according to the output directory.
        out: the output directory.
        store: that of `remember_singles`.
        say: called with each removed file.
    """
    digests: dict[str, str] = {}
    for kind in KINDS:
        path = out / single_file_name(kind)
        if not os.path.lexists(path):
            continue
        if former and former.manifest != image.manifest and getattr(former, kind):
            why = "it was of another image"
        elif (digest := _digest_of(path)) and is_single_of_here(image, kind, digest, store):
            digests[kind] = digest
            continue
        else:
            why = f"it is not known to be of this image; write it with --format {_FORMATS[kind]}"
        path.unlink()
        say(f"removed {path}: {why}")
    return msgspec.structs.replace(image, **digests)


def remember_singles(image: Image, store: Store) -> None:
    """Record in a store the files written from an image."""
    for kind in KINDS:
        if digest := getattr(image, kind):
            store.remember(_key(image, kind, digest), True)


def is_single_of_here(image: Image, kind: Kind, digest: str, store: Store) -> bool:
    """Return whether a store remembers that a file of this digest was written from an image."""
    return store.recall(_key(image, kind, digest)) is True


def drop_foreign_singles(image: Image, out: Path, store: Store) -> Image:
    """Return the image without the digests of files that are not known to be written from it.

    The files of a directory of another party can hold any bytes, whatever its record states.
    """
    digests = {kind: getattr(image, kind) for kind in KINDS}
    foreign = {
        kind: ""
        for kind, digest in digests.items()
        if digest
        and not (
            is_single_of_here(image, kind, digest, store)
            and _digest_of(out / single_file_name(kind)) == digest
        )
    }
    return msgspec.structs.replace(image, **foreign)


def _key(image: Image, kind: Kind, digest: str) -> str:
    return hashlib.sha256(f"single file of an image, 1 {kind} {image.manifest} {digest}".encode()).hexdigest()


def _digest_of(path: Path) -> str:
    """Return the digest of a regular file, else "".

    It is also empty for a link or an unreadable file.
    """
    try:
        with open_plain(path, links=False)[0] as stream:
            return f"sha256:{hash_stream(stream)}"
    except OSError:
        return ""


def write_singles(
    image: Image, out: Path, kinds: Collection[Kind], definition: str, env: Mapping[str, str],
    say: Callable[[str], None], *, compressor: Compressor = "zstd",
) -> dict[str, str]:  # fmt: skip
    """Write `out/image.sif`, `out/image.sqsh` or both.

    Each appears only when it is complete.

    Args:
        image: its layout is in `out`.
        out: the output directory, which needs space for the unpacked image meanwhile.
        kinds: the files to write.
        definition: the text of the definition file, for the SIF.
        env: the user's environment.
        say: called with each step, and with entries that are left out.
        compressor: `gzip` for kernels that do not know zstd.

    Returns:
        {kind: "sha256:..."}.

    Raises:
        BuildError: the layout is damaged, or has entries that such a file cannot hold.
        EngineError: `mksquashfs` is absent, too old, or failed.
    """
    find_program(env)
    digests: dict[str, str] = {}
    with open_flat_image(read_layout(out / image.layout), out) as flat:
        if flat.devices:
            names = ", ".join(f"/{path}" for path in flat.devices[:3])
            say(f"left out: {len(flat.devices)} device nodes ({names}), which are the host's at run time")
        for kind in KINDS:
            if kind in kinds:
                say(f"image: {single_file_name(kind)}")
                digests[kind] = f"sha256:{_write_single(kind, flat, out, definition, env, compressor)}"
    return digests


def write_sif(layout: Layout, out: Path, definition: str, env: Mapping[str, str]) -> str:
    """Write a layout as `out/image.sif`; return its sha256.

    The hash is in hex. The file appears only when it is complete; see `write_singles`.
    """
    find_program(env)
    with open_flat_image(layout, out) as flat:
        return _write_single("sif", flat, out, definition, env, "zstd")


def _write_single(
    kind: Kind, flat: Flat, out: Path, definition: str, env: Mapping[str, str], compressor: Compressor
) -> str:
    part = _make_part(out, single_file_name(kind))
    try:
        if kind == "sif":
            _write_sif(flat, part, definition, env, compressor)
        else:
            pieces = flat.stream(enroot_files(flat.config))
            write_squashfs(pieces, part, root=flat.tree[""], epoch=flat.epoch, env=env, compressor=compressor)
        digest = hash_file(part)
        part.rename(out / single_file_name(kind))
    finally:
        part.unlink(missing_ok=True)
    return digest


def _write_sif(
    flat: Flat, part: Path, definition: str, env: Mapping[str, str], compressor: Compressor
) -> None:
    sif.architecture_code(flat.architecture)  # an unknown one must be reported before any compression
    small = [
        (sif.DEFINITION, "", definition.encode()),
        (sif.JSON, "inspect-metadata.json", inspect_metadata(flat.config, definition)),
        (sif.JSON, "oci-config.json", oci_config(flat.config)),
    ]
    pieces = flat.stream(apptainer_files(flat.tree, flat.config, definition))
    write_squashfs(
        pieces, part, root=flat.tree[""], epoch=flat.epoch, env=env, offset=sif.system_offset(small),
        compressor=compressor,
    )  # fmt: skip
    with part.open("r+b") as file:
        sif.write_head(file, small, flat.architecture)
    sif.read_sif(part)


def _make_part(out: Path, name: str) -> Path:
    """Return a new file beside the final one.

    It has the permissions of the user's umask.
    """
    path = out / f".{name}.{uuid.uuid4().hex[:8]}"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o777))
    return path
