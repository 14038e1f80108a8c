"""Many images by an array job over one store, on a real Slurm, as docs/cluster.md has it: each layer is made once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from reprobuild.image.oci.read import read_layout
from reprobuild.lock.file import write_lock
from tests.cluster.test_step import on_slurm
from tests.conftest import PROGRAM, ROOT
from tests.image.made import Made
from tests.store.sealing import sealed

# Two of a kind: the wheels of the first two are the same, and of the last two; the base is that of all.
WHEELS = {"one": ("alpha", "beta"), "two": ("alpha", "beta"), "three": ("gamma",), "four": ("gamma",)}
# In each process of Python of the job: who makes a layer says so, and takes its time, so that others come meanwhile.
WATCH = """
import os, time
from reprobuild.image.layers import layers
makers = {name: getattr(layers, name) for name in ("copy_layer", "write_layer")}
def watched(name):
    def make(first, title, *rest, **more):
        with open(os.environ["MADE"], "a") as log:
            log.write(f"{os.environ['SLURM_ARRAY_TASK_ID']} {title}\\n")
        time.sleep(1)
        return makers[name](first, title, *rest, **more)
    return make
for name in makers:
    setattr(layers, name, watched(name))
"""


def commands(text: str) -> str:
    """Return the lines of the section on many snapshots that follow the locks: from the list of them on."""
    (section,) = re.findall(r"^## Many snapshots, one store$(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    block = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))
    return block[block.index("ls ") :]


def test_each_layer_is_made_once(tmp_path: Path) -> None:
    made = Made(tmp_path / "made")
    for name, wheels in WHEELS.items():
        (tmp_path / "repro" / name).mkdir(parents=True)
        write_lock(sealed(made, *wheels), tmp_path / "repro" / name / "reprobuild.lock")
    made.store.release()
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    (tmp_path / "reprobuild").write_text(
        f'#!/bin/sh\nPYTHONPATH={tmp_path}:{ROOT} exec {" ".join(PROGRAM)} "$@"\n'
    )
    (tmp_path / "reprobuild").chmod(0o755)
    written = commands((ROOT / "docs" / "cluster.md").read_text()).replace(
        "/shared/store", str(made.store.root)
    )
    on_slurm(tmp_path, f"""
        export PATH="$PWD:$PATH" MADE="$PWD/layers"
        {written}
        while squeue --noheader | grep -q .; do sleep 0.3; done
    """)  # fmt: skip
    said = [(tmp_path / f"build-{number}.log").read_text() for number in range(1, 1 + len(WHEELS))]
    layers = {}
    for name in WHEELS:
        assert (tmp_path / "frozen" / name / "image.json").is_file(), said
        layers[name] = read_layout(tmp_path / "frozen" / name / "image").layers
    lines = (tmp_path / "layers").read_text().splitlines()
    distinct = {layer[1] for found in layers.values() for layer in found}
    titles = Counter(line.partition(" ")[2] for line in lines)
    assert len(lines) == len(distinct) < sum(map(len, layers.values())), titles
    assert len({line.partition(" ")[0] for line in lines}) > 1  # no task made all, one after the other
