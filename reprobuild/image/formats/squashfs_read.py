"""A SIF or a squashfs as an image.

The image has one layer: `sqfs2tar` writes the contents as a tar: https://github.com/AgentD/squashfs-tools-ng.
It reads owners, devices and attributes without the privileges that unpacking would need. A SIF of ours holds
the runtime configuration; a squashfs does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reprobuild.errors import BuildError
from reprobuild.image.formats.sif import JSON, MAGIC, Sif, read_sif
from reprobuild.image.formats.squashfs_tables import check_tables
from reprobuild.image.formats.squashfs_write import Compressor
from reprobuild.image.oci.members import (
    CUT_SHORT,
    DirectoryFiles,
    StreamPart,
    open_bounded_file,
    open_scratch_file,
)
from reprobuild.image.oci.open import LARGEST_JSON, OciImage, PackedLayer, check_configuration
from reprobuild.infra import proc
from reprobuild.infra.tar.entries import CHUNK
from reprobuild.infra.untrusted.json_documents import RUNTIME, parse_image_json
from reprobuild_portable.hashing import hash_file, hash_stream

SQUASHFS = b"hsqs"
CONFIG = "oci-config.json"
INSTALL = "install squashfs-tools-ng, which has it, or compare the output directories"
_MAGIC_AT = 32
_COMPLAINT = 4096
_SECONDS = 3600
_COMPRESSOR_AT = 20
_COMPRESSORS: Mapping[int, Compressor] = {1: "gzip", 6: "zstd"}


def is_squashed(path: Path) -> bool:
    """Return whether a file looks like a SIF or squashfs."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        start = stream.read(_MAGIC_AT + len(MAGIC))
    return start.startswith(SQUASHFS) or start[_MAGIC_AT:] == MAGIC


def compressor_of(path: Path) -> Compressor | None:
    """Return the compressor of a SIF or squashfs, or None.

    None means a compressor that we do not write, or a damaged file.
    https://dr-emann.github.io/squashfs/squashfs.html#_the_superblock
    """
    try:
        offset = 0 if _begins_with(path, SQUASHFS) else read_sif(path).system.offset
    except BuildError:
        return None
    with path.open("rb") as stream:
        stream.seek(offset + _COMPRESSOR_AT)
        return _COMPRESSORS.get(int.from_bytes(stream.read(2), "little"))


def _begins_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(magic)) == magic


def open_squashed(path: Path, scratch: Path, env: Mapping[str, str]) -> OciImage:
    """Open a SIF or a squashfs.

    Args:
        path: the file.
        scratch: an empty directory, for the unpacked image; it is needed as long as the image is.
        env: the user's environment, for PATH.

    Returns:
        An image whose `manifest` is the sha256 of the file, since the file names none.

    Raises:
        BuildError: it is damaged, unpacks to too much, or the kernel would find other files in it.
        EngineError: `sqfs2tar` is absent.
    """
    plain = _begins_with(path, SQUASHFS)
    document: dict[str, Any] = {"config": {}}
    squashfs = path
    if not plain:
        sif = read_sif(path)
        document = _sif_configuration(path, sif)
        squashfs = scratch / "system.sqsh"
        _extract_squashfs(path, sif.system.offset, sif.system.size, squashfs)
    try:
        check_tables(squashfs)
    except ValueError as err:
        raise BuildError(f"{path} is a damaged image: {err}", hint=CUT_SHORT) from None
    tree = scratch / "tree.tar"
    argv = ["sqfs2tar", "--root-becomes", ".", "--no-skip", str(squashfs)]
    _run_bounded(argv, env, path, tree)
    layer = PackedLayer(file=tree.name, diff_id=hash_file(tree))
    return OciImage(
        name=str(path), form="squashfs" if plain else "SIF", files=DirectoryFiles(scratch), layers=(layer,),
        documents={"config": document}, config_digest="", manifest=f"sha256:{hash_file(path)}",
    )  # fmt: skip


def _run_bounded(argv: Sequence[str], env: Mapping[str, str], path: Path, target: Path) -> None:
    """Write the output of a program up to a bound.

    A small file can make it endless; the program is ended at the bound.
    """
    complaint = b""
    with open_bounded_file(target, path) as write:

        def take(stream: int, piece: bytes) -> None:
            nonlocal complaint
            if stream == 1:
                write(piece)
            else:
                complaint = (complaint + piece)[-_COMPLAINT:]

        code = proc.stream(argv, env=env, purpose=f"read {path}", sink=take, timeout=_SECONDS, hint=INSTALL)
    if code:
        text = complaint.decode(errors="replace").strip()
        raise BuildError(
            f"{path} is a damaged image: `{argv[0]}` ended with code {code}: {text}", hint=CUT_SHORT
        )


def _sif_configuration(path: Path, sif: Sif) -> dict[str, Any]:
    """Return a SIF's other contents as an image configuration.

    Its objects are listed beside the configuration.
    """
    objects = {}
    config: Any = {}
    has_config = False
    with path.open("rb") as stream:
        for item in sif.objects:
            if item is sif.system:
                continue
            stream.seek(item.offset)
            digest = hash_stream(StreamPart(stream, item.size))
            objects[f"{item.id} {item.name}"] = f"{item.kind:#x} sha256:{digest}"
            if item.kind == JSON and item.name == CONFIG and has_config:
                raise BuildError(f"{path} is a damaged image: it has two objects {CONFIG}", hint=CUT_SHORT)
            if item.kind == JSON and item.name == CONFIG and item.size <= LARGEST_JSON:
                stream.seek(item.offset)
                config, has_config = _parse_configuration(path, stream.read(item.size)), True
    return {"architecture": sif.architecture, "config": config, "objects": objects}


def _parse_configuration(path: Path, raw: bytes) -> Any:
    try:
        return check_configuration({"config": parse_image_json(raw, RUNTIME)})["config"]
    except (ValueError, RecursionError) as err:
        raise BuildError(f"{path} is a damaged image: {CONFIG}: {err}", hint=CUT_SHORT) from None


def _extract_squashfs(path: Path, offset: int, size: int, target: Path) -> None:
    with path.open("rb") as stream, open_scratch_file(target) as write:
        stream.seek(offset)
        while size and (chunk := stream.read(min(CHUNK, size))):
            write(chunk)
            size -= len(chunk)
