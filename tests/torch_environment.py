"""An environment outside of an image with the example's own distributions: real torch and NumPy, and the start-up hook.

It is made of the build context of the example, by the program that makes it in the image.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent


def make_torch_environment(context: Path, folder: Path) -> Path:
    """Install what the build context of an image names into a directory, and return its interpreter.

    Args:
        context: the directory `context` of an output directory.
        folder: where the environment goes; not there yet.
    """
    (found,) = context.glob("lock-*/install.json")
    facts = json.loads(found.read_text())
    for item in facts["wheels"]:
        item["bytecode"] = None  # it names the paths of the image
    own = folder / "own"
    own.mkdir(parents=True)
    for part in context.iterdir():
        (folder / part.name).symlink_to(part)
    facts["prefix"] = str(folder / "env")
    (own / "install.json").write_text(json.dumps(facts))
    program = ROOT / "reprobuild_runtime" / "install.py"
    subprocess.run(
        [facts["executable"], "-I", "-S", "-B", program, own / "install.json"], check=True, timeout=600
    )
    minor = ".".join(facts["python"].split(".")[:2])
    site = folder / "env" / "lib" / f"python{minor}" / "site-packages"
    (site / "reprobuild.pth").write_text(f"{ROOT}\nimport reprobuild_runtime.startup\n")
    return folder / "env" / "bin" / "python"
