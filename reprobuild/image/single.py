"""An image as one file: a SIF for Apptainer, a squashfs for enroot; from an OCI layout of any builder.

The bytes depend on the image's tree and configuration, the definition file, and the versions of `mksquashfs`
and its compressor. Owners are kept, so that the file holds the tree of the image and nothing has to be
believed: who has no privileges sees foreign owners as nobody, in a SIF as in any other file system.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from reprobuild.archive import CHUNK
from reprobuild.image import sif
from reprobuild.image.enroot import enroot_files
from reprobuild.image.flat import Flat, flattened
from reprobuild.image.oci import Layout
from reprobuild.image.singularity import apptainer_files, inspect_metadata, oci_config
from reprobuild.image.squash import Compressor, check_program, write_squashfs

Kind = Literal["sif", "sqsh"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Single(Struct, frozen=True, kw_only=True):
    """The files that were written: {kind: sha256 in hex}, and the device nodes that are not in them."""

    digests: dict[Kind, str]
    devices: tuple[str, ...]


def filename(kind: Kind) -> str:
    """Return the name of a file in the folder of results."""
    return f"image.{kind}"


def write_single(
    layout: Layout, out: Path, kinds: Collection[Kind], *, definition: str, env: Mapping[str, str],
    compressor: Compressor = "zstd",
) -> Single:  # fmt: skip
    """Write `out/image.sif`, `out/image.sqsh` or both, each whole or not at all.

    Args:
        layout: the image.
        out: the folder of results, which needs space for the unpacked image meanwhile.
        kinds: which files.
        definition: the text of the definition file, for the SIF.
        env: the user's environment.
        compressor: `gzip` for kernels that know no zstd.

    Raises:
        BuildError: the layout is damaged, or holds what cannot be in such a file.
        EngineError: `mksquashfs` is absent, too old, or failed.
    """
    check_program(env)
    digests: dict[Kind, str] = {}
    with flattened(layout, out) as flat:
        for kind in KINDS:
            if kind in kinds:
                digests[kind] = _write(kind, flat, out, definition, env, compressor)
    return Single(digests=digests, devices=flat.devices)


def _write(
    kind: Kind, flat: Flat, out: Path, definition: str, env: Mapping[str, str], compressor: Compressor
) -> str:
    part = _part(out, filename(kind))
    try:
        if kind == "sif":
            _write_sif(flat, part, definition, env, compressor)
        else:
            pieces = flat.stream(enroot_files(flat.config))
            write_squashfs(
                pieces, part, root=flat.tree[""], epoch=flat.epoch, env=env, compressor=compressor
            )
        digest = _sha256(part)
        part.rename(out / filename(kind))
    finally:
        part.unlink(missing_ok=True)
    return digest


def _write_sif(
    flat: Flat, part: Path, definition: str, env: Mapping[str, str], compressor: Compressor
) -> None:
    sif.architecture_code(flat.architecture)  # known, before any work
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


def _part(out: Path, name: str) -> Path:
    """Return a new file beside the one that is to be, with the permissions that the user's umask gives."""
    path = out / f".{name}.{uuid.uuid4().hex[:8]}"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o777))
    return path


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
