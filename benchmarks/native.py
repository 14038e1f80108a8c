"""Our side of the benchmarks of builds.

It has a copy of a filled store, and timed runs of `reprobuild build` in it.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from benchmarks.measure import PROGRAM, Sample, time_process
from reprobuild.store.signature import strip_signature

LOCK, IMAGE = "reprobuild.lock", "image.json"


def copy_store(store: Path, target: Path) -> None:
    """Copy a store, by hard links if possible.

    The copy can lose and gain files of its own.
    """
    for name in ("blobs", "made"):
        (target / name).mkdir(parents=True)
        if (store / name).is_dir():
            shutil.copytree(store / name, target / name, copy_function=link_or_copy, dirs_exist_ok=True)


def link_or_copy(source: str, target: str) -> None:
    """Give a file a second name, or copy it.

    It is copied if the second name is on another file system.
    """
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def forget_layers(store: Path) -> int:
    """Remove all layers and their memory from a store.

    Returns the number of remembered layers.

    The results of sealing stay, the listing of the base among them.
    """
    memories = {
        path: json.loads(strip_signature(path.read_bytes())) for path in sorted((store / "made").iterdir())
    }
    layers = {
        path: value for path, value in memories.items() if isinstance(value, dict) and "diff_id" in value
    }
    others = [value for path, value in memories.items() if path not in layers and isinstance(value, dict)]
    kept = {value["listing"] for value in others if "listing" in value}
    for path, value in layers.items():
        for digest in {value["blob"], value["listing"]} - kept:
            (store / "blobs" / digest[:2] / digest).unlink(missing_ok=True)
        path.unlink()
    return len(layers)


def layer_count(store: Path) -> int:
    """Return the number of layers that a store remembers."""
    values = (json.loads(strip_signature(path.read_bytes())) for path in (store / "made").iterdir())
    return sum(isinstance(value, dict) and "diff_id" in value for value in values)


class Native:
    """Our side: a copy of the store, and the manifest digest.

    Every build must give that digest.
    """

    def __init__(self, store: Path, results: Path, folder: Path) -> None:
        self.store, self.out, self.lock = folder / "store", folder / "out", results / LOCK
        self.manifest = ""
        copy_store(store, self.store)

    def build(self, *, cached: bool) -> Sample:
        """Build once.

        Raises:
            RuntimeError: layers were made or reused otherwise than asked, or the image is another one.
        """
        if not cached:
            forget_layers(self.store)
        shutil.rmtree(self.out, ignore_errors=True)
        before = layer_count(self.store)
        command = ("build", str(self.lock), "-o", str(self.out), "--store", str(self.store), "--offline")
        sample = time_process([*PROGRAM, *command])
        image = json.loads((self.out / IMAGE).read_bytes())
        made = layer_count(self.store) - before
        if bool(made) == cached or (not cached and made < image["layers"]):
            raise RuntimeError(f"{made} of {image['layers']} layers were made, with cached={cached}")
        if self.manifest not in ("", image["manifest"]):
            raise RuntimeError(f"another image: {image['manifest']}, before {self.manifest}")
        self.manifest = image["manifest"]
        return sample

    def size(self) -> int:
        """Return the bytes of the image's layout."""
        return sum(path.stat().st_size for path in (self.out / "image").rglob("*") if path.is_file())
