"""Pack what a machine with a GPU needs to measure the probes into one file that needs only Python and torch.

    python dev/gpu_evidence.py build/gpu-evidence.pyz      here
    python gpu-evidence.pyz > gpu.json                     there; send gpu.json back as docs/evidence/gpu-DATE.json

There, each mode (default and strict) is run in three fresh processes on the GPU and the CPU, and the control once.
"""

from __future__ import annotations

import sys
import tempfile
import zipapp
from pathlib import Path
from shutil import copytree, ignore_patterns

MAIN = '''\
"""Runs the probes in fresh processes of this very file, and prints one JSON document."""

import json
import subprocess
import sys


def ask(**options):
    command = [sys.executable, sys.argv[0], json.dumps(options)]
    done = subprocess.run(command, stdout=subprocess.PIPE)
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"ran": False, "why": "exit code %d" % done.returncode}


def main():
    if len(sys.argv) > 1:
        from reprobuild_runtime.probes import answer

        print(json.dumps(answer(sys.argv[1])))
        return
    found = {"format": 1, "control": ask(device="cpu", seed=7, control=True)}
    for device in ("cpu", "cuda"):
        for strict in (False, True):
            name = device + (" strict" if strict else " default")
            print(name, file=sys.stderr)
            found[name] = [ask(device=device, seed=7, strict=strict, repeats=5) for _ in range(3)]
    print(json.dumps(found, indent=1, sort_keys=True))


main()
'''


def pack(target: Path) -> int:
    """Write the archive and return its size in bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package = Path(__file__).parent.parent / "reprobuild_runtime"
        copytree(package, folder / "reprobuild_runtime", ignore=ignore_patterns("__pycache__"))
        (folder / "__main__.py").write_text(MAIN)
        zipapp.create_archive(folder, target, compressed=True)
    return target.stat().st_size


if __name__ == "__main__":
    size = pack(Path(sys.argv[1]))
    print(
        f"{sys.argv[1]}: {size / 1000:.0f} kB; run it where the GPU is: python {Path(sys.argv[1]).name} > gpu.json"
    )
