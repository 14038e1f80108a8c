"""The time to resolve 800 captured packages from warm indexes.

It is measured alone, and against apt's own solver.

The list is apt's choice for a machine of a research group; every version is the mirror's. Both sides are whole
processes that read the same lists of one release: ours reads them, chooses the base and rules every line; apt simulates
the installation of the same packages in the same versions on an empty system.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import ROOT, Figure, NotRunError, Sample, alternate, compare, spread, time_process

PACKAGES = 800
PAIRS = 5
LIMIT = 3.0  # seconds
MODULES = ("reprobuild/ecosystems/apt", "reprobuild/resolve", "reprobuild/snapshot")
ASKED = (
    "build-essential", "gfortran", "cmake", "openmpi-bin", "libopenmpi-dev", "ffmpeg", "imagemagick", "octave",
    "default-jdk-headless", "libgtk-3-dev", "qtbase5-dev", "python3-matplotlib", "python3-pandas", "texlive-latex-base",
    "libboost-all-dev", "gnuplot-nox", "r-base-core", "libopencv-dev",
)  # fmt: skip
_OURS = """
import sys
from pathlib import Path
from reprobuild.ecosystems.apt.index import PackagesFile, SystemIndex
from reprobuild.resolve.system.base import find_base
from reprobuild.resolve.system.version_search import Search
from reprobuild.snapshot.parsers.apt import parse
folder = Path(sys.argv[1])
packages, _ = parse((folder / "apt-packages.txt").read_bytes())
lists = sorted(folder.glob("*_Packages"))
files = [PackagesFile(uri="http://mirror.test/", content=path.read_bytes()) for path in lists]
index = SystemIndex("debian", "made", files)
base, rulings, _ = find_base(packages, index, Search(packages, index, None, [], now=0), roots=["python3"])
captured = {package.name: package.version for package in packages}
chosen = {deb.name: deb.version for deb in base.packages}
assert len(packages) == int(sys.argv[2]), len(packages)
assert all(chosen[name] == version for name, version in captured.items() if name in chosen)
assert len(chosen) > 0.9 * len(captured), len(chosen)
"""


def prepare(folder: Path, asked: Sequence[str] = ASKED, count: int = PACKAGES) -> list[str]:
    """Write the lists and the captured list of `count` packages.

    Returns apt's command for the same packages.

    Lists of an earlier call in the directory are used again.

    Raises:
        NotRunError: this machine has no apt with a Debian mirror, or too few packages come together.
    """
    sys.path.insert(0, str(ROOT / "dev"))
    from private_apt import EngineError, PrivateApt, codename

    try:
        apt = PrivateApt(folder / "apt", [codename()])
        whole = apt.folder / "updated"  # an update that failed leaves the directory, too
        if not whole.exists():
            apt.update()
            whole.touch()
        found = apt.closure(["?essential", *asked])
    except (EngineError, subprocess.CalledProcessError) as err:
        raise NotRunError(f"apt of this machine cannot tell: {err}") from None
    finally:
        sys.path.remove(str(ROOT / "dev"))
    if len(found) < count:
        raise NotRunError(f"only {len(found)} packages come together here")
    names = sorted(found, key=lambda name: (name not in asked, name))[:count]
    rows = [
        f"{name}/stable,now {found[name]} amd64 [installed{'' if name in asked else ',automatic'}]\n"
        for name in sorted(names)
    ]
    (folder / "apt-packages.txt").write_text("".join(rows))
    for path in (folder / "apt" / "lists").glob("*_Packages*"):
        if path.suffix in ("", ".gz", ".xz", ".lz4"):
            plain = folder / (path.stem if path.suffix else path.name)
            content = subprocess.run(
                ["/usr/lib/apt/apt-helper", "cat-file", str(path)], stdout=subprocess.PIPE, check=True
            ).stdout
            plain.write_bytes(content)
    exact = [f"{name}={found[name]}" for name in names]
    config = f"APT_CONFIG={apt.env['APT_CONFIG']}"
    return ["env", config, "apt-get", "-s", "-q", "--no-install-recommends", "install", *exact]


def measure(asked: Sequence[str] = ASKED, count: int = PACKAGES, pairs: int = PAIRS) -> list[Figure]:
    """Return two figures: seconds, and the ratio to apt."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        theirs = prepare(folder, asked, count)
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        own = [sys.executable, "-c", _OURS, str(folder), str(count)]
        ours, apts = alternate(lambda: time_process(own, env), lambda: time_process(theirs), pairs)
    return [
        _seconds(f"resolving {count} captured packages", ours),
        compare(
            f"resolving {count} captured packages", ours, apts, "apt-get --simulate install", modules=MODULES
        ),
    ]


def _seconds(name: str, samples: Sequence[Sample]) -> Figure:
    walls = [sample.wall for sample in samples]
    return Figure(
        name, statistics.median(walls), "s", "a whole process, warm indexes", limit=LIMIT, modules=MODULES,
        details={"runs": len(walls), "ours": spread(walls)},
    )  # fmt: skip
