"""A folder of results: the names of its files, and what it holds, read back."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.errors import UsageError
from reprobuild.image.build import Image
from reprobuild.image.layout import read_layout
from reprobuild.lock import Lock, conflicts, read_lock
from reprobuild.verify.verdict import Verdict

LOCK, IMAGE, VERDICT, REPORT = "reprobuild.lock", "image.json", "verdict.json", "report.html"


def former_image(out: Path) -> Image | None:
    """Return the image that a folder of results says to hold, or None."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode((out / IMAGE).read_bytes(), type=Image)
    return None


def read_image(out: Path) -> tuple[Lock, Image]:
    """Return the lock and the image of a folder of results.

    Raises:
        UsageError: the folder holds no image, or what it holds does not belong together: a build into it was
            interrupted.
    """
    image = former_image(out)
    if image is None:
        raise UsageError(f"{out} holds no image", hint="build one with `reprobuild from-snapshot DIR -o OUT`")
    lock, layout = read_lock(out / LOCK), out / image.layout
    whole = image.lock == lock.digest
    if whole and layout.exists():
        found = read_layout(layout)
        whole = (found.manifest, found.reference) == (image.manifest, image.reference)
    if not whole:
        raise UsageError(
            f"the lock, the image and {IMAGE} of {out} do not belong together: a build into it was interrupted",
            hint=f"finish it: `reprobuild build {out / LOCK} -o {out}`",
        )
    return lock, image


def summary(lock: Lock, image: Image, verdict: Verdict | None, out: Path) -> dict[str, Any]:
    """Return the document of `from-snapshot --json`."""
    nothing = {"cpu": "not-run", "gpu": "not-run", "collectives": "not-run"}
    return {
        "out": str(out),
        "lock": f"sha256:{lock.digest}",
        "image": {
            "reference": image.reference, "tree": image.tree, "config": image.config, "manifest": image.manifest,
            "builder": image.builder,
            **{kind: digest for kind, digest in (("sif", image.sif), ("sqsh", image.sqsh)) if digest},
        },
        "verdict": {
            "determinism": msgspec.to_builtins(verdict.determinism) if verdict else nothing,
            "round_trip": verdict.round_trip if verdict else "not-run",
            **({"against": verdict.against.verdict} if verdict and verdict.against else {}),
        },
        "deviations": [msgspec.to_builtins(ruling) for ruling in lock.deviations],
        "conflicts": list(conflicts(lock)),
    }  # fmt: skip
