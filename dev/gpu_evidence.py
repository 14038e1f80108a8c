"""An archive to measure the probes on a machine with a GPU.

That machine needs only Python and torch.

    python dev/gpu_evidence.py build/gpu-evidence.pyz      here
    python gpu-evidence.pyz results                        there; send the directory `results` back

The program inside is dev/gpu_there.py.
"""

from __future__ import annotations

import sys
import tempfile
import zipapp
from pathlib import Path
from shutil import copyfile, copytree, ignore_patterns

LARGEST = 10_000_000


def pack(target: Path) -> int:
    """Write the archive, and return its size in bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package = here.parent / "reprobuild_runtime"
        copytree(package, folder / "reprobuild_runtime", ignore=ignore_patterns("__pycache__"))
        copyfile(here / "gpu_there.py", folder / "__main__.py")
        zipapp.create_archive(folder, target, compressed=True)
    return target.stat().st_size


if __name__ == "__main__":
    size = pack(Path(sys.argv[1]))
    if size > LARGEST:
        sys.exit(f"{sys.argv[1]} has {size} bytes; it is to have {LARGEST} at most")
    print(
        f"{sys.argv[1]}: {size / 1000:.0f} kB; run it where the GPU is: python {Path(sys.argv[1]).name} results"
    )
