"""Check a release: build wheel and sdist, install each into a fresh environment, and run the demo from the wheel.

    python dev/release_check.py [--folder build/release] [--no-demo]

uv builds and installs. The last lines are the installed sizes, with and without the extra for conda.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "cpu-train"
UV = (sys.executable, "-m", "uv")


def main() -> None:
    """Run every check; the first that fails ends the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--no-demo", action="store_true", help="leave out the demo, which takes minutes")
    options = parser.parse_args()
    folder: Path = options.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run(*UV, "build", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder / "dist", ROOT)
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    run(*UV, "tool", "run", "twine", "check", "--strict", wheel, sdist)
    sizes = {}
    for name, requirement in {
        "wheel": f"{wheel}",
        "sdist": f"{sdist}",
        "wheel[conda]": f"{wheel}[conda]",
    }.items():
        program = install(folder / name, requirement)
        sizes[name] = size_of(folder / name)
        run(program, "--version", cwd=folder)
        run(program, "show", EXAMPLE / "snapshot", cwd=folder)
        if name == "wheel" and not options.no_demo:
            run(
                program, "from-snapshot", EXAMPLE / "snapshot", "--decisions", EXAMPLE / "reprobuild.yaml",
                "-o", folder / "frozen", "--store", folder / "store", cwd=folder,
            )  # fmt: skip
    for name, size in sizes.items():
        print(f"release-check: {name}: {size / 1e6:.0f} MB installed")


def install(folder: Path, requirement: str) -> Path:
    """Install a requirement into a new environment, and return the program `reprobuild` of it."""
    run(*UV, "venv", "--python", sys.executable, folder)
    run(*UV, "pip", "install", "--python", folder / "bin" / "python", requirement)
    return folder / "bin" / "reprobuild"


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a directory."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command without the variables of this checkout's environment."""
    env: Mapping[str, str] = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    print("release-check:", *command, file=sys.stderr)
    subprocess.run([*map(str, command)], cwd=cwd, env=env, check=True)


if __name__ == "__main__":
    main()
