"""The time of the example's SIF from its OCI layout.

The other side is `apptainer build` from the same layout.

Both sides read the same layout on the same disk (zstd layers) and end with one SIF there that Apptainer runs. Ours is a
process of its own that calls `write_singles`: it unpacks and checks the layers, merges them, has `mksquashfs` compress
them with zstd and hashes the file. Theirs is `apptainer build --disable-cache`, with its default compressor (gzip,
level 9); the second ratio has it use zstd, level 3, too.

Memory is the greatest resident size of our process and the greatest of `mksquashfs` in it, added up.

It needs `mksquashfs` on PATH and an Apptainer, which is given by name because it seldom is where the rest is.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure, NotRunError, Sample, spread, time_process

LIMIT = 0.15
LIMIT_MEMORY = 512.0  # MiB
ROUNDS = 3
MODULES = ("reprobuild/image", "reprobuild/infra/tar", "reprobuild/infra/proc")
ZSTD = ("--mksquashfs-args", "-comp zstd -Xcompression-level 3")

# In the output directory: image/, image.json, Apptainer.def. Prints the peak sizes in MiB.
OURS = """
import os, re, resource, sys
from pathlib import Path
from reprobuild.image.formats.single_file import write_singles
from reprobuild.output.directory import read_image
out = Path(sys.argv[1])
definition = (out / "Apptainer.def").read_text()
write_singles(read_image(out)[1], out, ["sif"], definition, dict(os.environ), lambda text: None)
# Not RUSAGE_SELF: across vfork(2) and exec it keeps the peak of the process that started this one.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
Path(sys.argv[2]).write_text(str([peak / 1024, children / 1024]))
"""


class Side:
    """Both sides, in one directory.

    It has a copy of the results by links, and the files written from it.
    """

    def __init__(self, results: Path, folder: Path, apptainer: str) -> None:
        self.out, self.theirs, self.apptainer = folder / "out", folder / "theirs.sif", apptainer
        self.sizes: dict[str, int] = {}
        self.memory = (0.0, 0.0)
        self.out.mkdir(parents=True)
        for name in ("image.json", "reprobuild.lock", "Apptainer.def"):
            shutil.copyfile(results / name, self.out / name)
        (self.out / "image").symlink_to(results / "image")

    def ours(self) -> Sample:
        """Write our SIF, and keep its greatest memory."""
        peaks = self.out / "peaks"
        sample = time_process([sys.executable, "-c", OURS, str(self.out), str(peaks)])
        found = json.loads(peaks.read_text())
        self.memory = max(self.memory, (found[0], found[1]), key=sum)
        self.sizes["ours"] = (self.out / "image.sif").stat().st_size
        return sample

    def apptainer_build(self, *options: str) -> Sample:
        """Build a SIF from the layout with Apptainer."""
        self.theirs.unlink(missing_ok=True)
        source = f"oci:{(self.out / 'image').resolve()}"
        sample = time_process(
            [self.apptainer, "build", "--disable-cache", *options, str(self.theirs), source]
        )
        self.sizes[" ".join(("theirs", *options))] = self.theirs.stat().st_size
        return sample


def measure(results: Path, folder: Path, apptainer: str | None, rounds: int = ROUNDS) -> list[Figure]:
    """Return the figures of both sides.

    `folder` is worked in, and left clean.

    Args:
        results: an output directory of `from-snapshot` or `build`; only read.
        folder: a directory on the disk that both sides write to.
        apptainer: the program; None if it is missing.
        rounds: how often each side is measured; ours before and after the other.

    Raises:
        NotRunError: Apptainer, `mksquashfs` or an image is missing.
    """
    if apptainer is None:
        raise NotRunError("no Apptainer is named: --apptainer PROGRAM")
    if not (results / "image" / "index.json").is_file():
        raise NotRunError(f"{results} holds no image; `make demo` makes one")
    for argv in ([apptainer, "--version"], ["mksquashfs", "-version"]):
        try:
            subprocess.run(argv, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            raise NotRunError(f"`{' '.join(argv)}` does not answer") from None
    scratch = folder / f"sif-{uuid.uuid4().hex[:8]}"
    try:
        side = Side(results, scratch, apptainer)
        return figures(side, side.ours, side.apptainer_build, rounds)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def figures(
    side: Side, ours: Callable[[], Sample], theirs: Callable[..., Sample], rounds: int
) -> list[Figure]:
    """Return the figures of both sides, which take turns."""
    ours()  # not counted: fills the disk cache
    written: list[Sample] = []
    built: list[Sample] = []
    quick: list[Sample] = []
    for _ in range(rounds):
        written.append(ours())
        built.append(theirs())
        written.append(ours())
        quick.append(theirs(*ZSTD))
    took = statistics.median(sample.wall for sample in written)
    details: dict[str, Any] = {
        "rounds": rounds,
        "ours": _series(written),
        "apptainer build": _series(built),
        "apptainer build, zstd 3": _series(quick),
        "bytes": dict(side.sizes),
        "ratio of minima": round(min(s.wall for s in written) / min(s.wall for s in built), 3),
    }
    peaks = {"our process": round(side.memory[0], 1), "mksquashfs": round(side.memory[1], 1)}
    name = "SIF from a layout"
    return [
        Figure(name, took / _median(built), "x", "apptainer build", LIMIT, MODULES, details),
        Figure(name, took / _median(quick), "x", "apptainer build, zstd 3", modules=MODULES),
        Figure(f"{name}, peak memory", sum(side.memory), "MiB", "", LIMIT_MEMORY, MODULES, peaks),
    ]


def _median(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.wall for sample in samples)


def _series(samples: Sequence[Sample]) -> dict[str, Any]:
    return {
        **spread([sample.wall for sample in samples]),
        "processor": spread([sample.cpu for sample in samples]),
    }
