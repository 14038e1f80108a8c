"""Saved choices of a made cache, as `run --save-choices` leaves them."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.engines.model import Task
from reprobuild.image.choices.archive import hash_files, pack
from reprobuild.image.choices.caches import read_caches
from reprobuild.image.choices.platform import ChoicePlatform
from reprobuild.image.choices.record import (
    CHOICES,
    CacheSize,
    ChoiceFile,
    SavedChoices,
    encode_choices,
    remember_accepted,
)
from reprobuild.infra.directory_fd import remove
from reprobuild.run.choice_session import ChoiceSession
from reprobuild.store.keyring import StoreKeyring, keyring
from tests.verify.samples import make_lock

PLATFORM = ChoicePlatform(
    machine="x86_64", cpu="one", flags=("avx2",), threads=2, gpus=(), driver="", variables={},
    packages={"torch": "2.13"},
)  # fmt: skip
IMAGE = f"sha256:{'2' * 64}"
CACHE = {"inductor/cache/44": b'{"cache": {}}', "inductor/ab/cab.so": b"\0code" * 5000}


def save_choices(
    out: Path,
    contents: Mapping[str, bytes] = CACHE,
    platform: ChoicePlatform = PLATFORM,
    *,
    accepted: bool = True,
    **stated: Any,
) -> ChoiceFile:
    """Write choices into an output directory, which need not exist; the user has accepted them, or not.

    `stated` are other fields of the record.
    """
    folder = out.parent / f"{out.name}-cache"
    for path, content in contents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    (out / CHOICES).mkdir(parents=True, exist_ok=True)
    part = out / CHOICES / "part"
    archive = pack(folder, hash_files(folder, lambda _: True), part, 0)
    sizes = {"inductor": CacheSize(measured=1, compiled=1, files=len(contents))}
    saved = SavedChoices(lock="1" * 64, image=IMAGE, archive=archive, platform=platform, caches=sizes)
    saved = msgspec.structs.replace(saved, **stated)
    file = ChoiceFile(saved=saved, document=encode_choices(saved), folder=out / CHOICES)
    part.rename(file.archive)
    file.record.write_bytes(file.document)
    if accepted:
        remember_accepted(file, keyring())
    return file


def replace(path: Path, content: bytes) -> None:
    """Write a file of a copy that may be a hard link."""
    path.unlink()
    path.write_bytes(content)


def forge_image(out: Path) -> str:
    """Give an output directory another image with the same lock; return the digest of its former configuration."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        info = tarfile.TarInfo("opt/foreign.txt")
        info.size = 8
        archive.addfile(info, io.BytesIO(b"foreign\n"))

    def put(document: bytes) -> dict[str, object]:
        sha256 = hashlib.sha256(document).hexdigest()
        (out / "image/blobs/sha256" / sha256).write_bytes(document)
        return {"digest": f"sha256:{sha256}", "size": len(document)}

    def blob(digest: str) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(
            (out / "image/blobs/sha256" / digest.removeprefix("sha256:")).read_bytes()
        )
        return found

    index = msgspec.json.decode((out / "image/index.json").read_bytes())
    manifest = blob(index["manifests"][0]["digest"])
    former = manifest["config"]["digest"]
    config, layer = blob(former), put(content.getvalue())
    config["rootfs"]["diff_ids"].append(layer["digest"])
    config.setdefault("history", []).append({"created_by": "foreign"})
    manifest["layers"].append({"mediaType": "application/vnd.oci.image.layer.v1.tar", **layer})
    manifest["config"].update(put(msgspec.json.encode(config)))
    index["manifests"][0].update(put(msgspec.json.encode(manifest)))
    replace(out / "image/index.json", msgspec.json.encode(index))
    image = msgspec.json.decode((out / "image.json").read_bytes())
    stated = {"config": manifest["config"]["digest"], "manifest": index["manifests"][0]["digest"]}
    replace(out / "image.json", msgspec.json.encode({**image, **stated, "layers": image["layers"] + 1}))
    return str(former)


def check_engine(attach: Callable[[Task], int], folder: Path) -> None:
    """Hold that an engine gives choices to a container, and that the caller owns the new ones.

    Args:
        attach: runs a task in an image that has `sh` and `cat`.
        folder: an empty directory.
    """
    lock, caches = make_lock(), {"extensions": read_caches()["extensions"]}
    for name in ("first", "second", "out"):
        (folder / name).mkdir()
    first = ChoiceSession(lock, IMAGE, folder / "first", caches, PLATFORM, None)
    make = Task(arguments=("sh", "-c", "umask 77; echo code >$TORCH_EXTENSIONS_DIR/a.so"))
    assert attach(first.mount(make)) == 0
    assert first.find_misses().compiled == ("extensions/a.so",)
    saved = first.save(folder / "out", StoreKeyring(folder / "keys"))
    assert saved is not None
    second = ChoiceSession(lock, IMAGE, folder / "second", caches, PLATFORM, saved)
    use = "read code <$TORCH_EXTENSIONS_DIR/a.so; test $code = code; echo more >$TORCH_EXTENSIONS_DIR/b.so"
    task = Task(arguments=("sh", "-ec", f"test $REPROBUILD_CHOICES = {saved.digest}; {use}"))
    assert attach(second.mount(task)) == 0
    assert second.find_misses().compiled == ("extensions/b.so",)
    remove(folder / "second")  # the caller can
