"""Run the commands that work on macOS and Windows, on the machine at hand, and compare their exit codes.

    python dev/check_host.py BUNDLE                 # of `reprobuild bundle`, on any machine
    python dev/check_host.py --bundle DIRECTORY     # write a small one; needs the tests and Linux

It needs an installed reprobuild, and a checkout for the example snapshots. Output goes to a temporary directory.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SNAPSHOTS = [str(ROOT / "examples" / name / "snapshot") for name in ("cpu-train", "gpu-train")]


def commands(bundle: Path, folder: Path) -> dict[tuple[str, ...], tuple[int, ...]]:
    """Return each command line with its expected exit codes."""
    freeze, captured, store = folder / "requirements.txt", str(folder / "captured"), str(folder / "store")
    freeze.write_text("six==1.16.0\n", encoding="utf-8")
    return {
        ("--version",): (0,),
        ("--help",): (0,),
        ("doctor", "--offline"): (0, 6, 9),
        ("show", SNAPSHOTS[0]): (0,),
        ("compare", *SNAPSHOTS): (1,),
        ("import", str(freeze), "-o", str(folder / "imported")): (0,),
        ("capture", "-o", captured): (0,),
        ("show", captured): (0,),
        ("compare", captured, captured): (0,),
        ("unbundle", str(bundle), "-o", str(folder / "unpacked"), "--store", store): (0,),
    }


def check(bundle: Path) -> int:
    """Run all commands, and return the number of wrong exit codes."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for words, expected in commands(bundle.resolve(), Path(folder)).items():
            code = subprocess.run([sys.executable, "-m", "reprobuild", *words], check=False).returncode
            wrong += code not in expected
            print(f"{'ok' if code in expected else 'WRONG'}: code {code}: {' '.join(words)}", flush=True)
    return wrong


def write_bundle(folder: Path) -> int:
    """Write a small bundle as FOLDER/frozen.tar."""
    sys.path.insert(0, str(ROOT))
    make_results = importlib.import_module("tests.distribute.conftest").make_results
    with tempfile.TemporaryDirectory() as scratch:
        make_results(Path(scratch)).bundle(folder.resolve() / "frozen.tar")
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--bundle":
        sys.exit(write_bundle(Path(sys.argv[2])))
    sys.exit(check(Path(sys.argv[1])))
