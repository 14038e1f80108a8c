"""Saved choices of a made cache, as `run --save-choices` leaves them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reprobuild.image.choices.archive import hash_files, pack
from reprobuild.image.choices.platform import ChoicePlatform
from reprobuild.image.choices.record import CHOICES, CacheSize, ChoiceFile, SavedChoices, encode_choices

PLATFORM = ChoicePlatform(
    machine="x86_64", cpu="one", flags=("avx2",), threads=2, gpus=(), driver="", variables={},
    packages={"torch": "2.13"},
)  # fmt: skip
CACHE = {"inductor/cache/44": b'{"cache": {}}', "inductor/ab/cab.so": b"\0code" * 5000}


def save_choices(
    out: Path, contents: Mapping[str, bytes] = CACHE, platform: ChoicePlatform = PLATFORM
) -> ChoiceFile:
    """Write choices into an output directory, which need not exist."""
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
    return file
