"""Saved choices of a made cache, as `run --save-choices` leaves them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

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
CACHE = {"inductor/cache/44": b'{"cache": {}}', "inductor/ab/cab.so": b"\0code" * 5000}


def save_choices(
    out: Path,
    contents: Mapping[str, bytes] = CACHE,
    platform: ChoicePlatform = PLATFORM,
    *,
    accepted: bool = True,
) -> ChoiceFile:
    """Write choices into an output directory, which need not exist; the user has accepted them, or not."""
    folder = out.parent / f"{out.name}-cache"
    for path, content in contents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    (out / CHOICES).mkdir(parents=True, exist_ok=True)
    part = out / CHOICES / "part"
    archive = pack(folder, hash_files(folder, lambda _: True), part, 0)
    sizes = {"inductor": CacheSize(measured=1, compiled=1, files=len(contents))}
    saved = SavedChoices(lock="1" * 64, archive=archive, platform=platform, caches=sizes)
    file = ChoiceFile(saved=saved, document=encode_choices(saved), folder=out / CHOICES)
    part.rename(file.archive)
    file.record.write_bytes(file.document)
    if accepted:
        remember_accepted(file, keyring())
    return file


def check_engine(attach: Callable[[Task], int], folder: Path) -> None:
    """Hold that an engine gives choices to a container, and that the caller owns the new ones.

    Args:
        attach: runs a task in an image that has `sh` and `cat`.
        folder: an empty directory.
    """
    lock, caches = make_lock(), {"extensions": read_caches()["extensions"]}
    for name in ("first", "second", "out"):
        (folder / name).mkdir()
    first = ChoiceSession(lock, folder / "first", caches, PLATFORM, None)
    make = Task(arguments=("sh", "-c", "umask 77; echo code >$TORCH_EXTENSIONS_DIR/a.so"))
    assert attach(first.mount(make)) == 0
    assert first.find_misses().compiled == ("extensions/a.so",)
    saved = first.save(folder / "out", StoreKeyring(folder / "keys"))
    assert saved is not None
    second = ChoiceSession(lock, folder / "second", caches, PLATFORM, saved)
    use = "read code <$TORCH_EXTENSIONS_DIR/a.so; test $code = code; echo more >$TORCH_EXTENSIONS_DIR/b.so"
    task = Task(arguments=("sh", "-ec", f"test $REPROBUILD_CHOICES = {saved.digest}; {use}"))
    assert attach(second.mount(task)) == 0
    assert second.find_misses().compiled == ("extensions/b.so",)
    remove(folder / "second")  # the caller can
