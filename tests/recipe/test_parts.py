"""What a build put beside the files of an editable: in the image of every builder, and no part of the source's tree."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from reprobuild.builders.native import build_image
from reprobuild.compare.images.attribute import Origins, built_paths, candidate_inputs
from reprobuild.image.oci.read import layout_tree, read_layout
from reprobuild.infra.tar.reading import list_tar
from reprobuild.lock.model import BuildRecord, Lock
from reprobuild.recipe.build_context import write_context
from reprobuild.recipe.payload import origin_file, pack_runtime
from reprobuild.recipe.render import render_recipe
from reprobuild_runtime.gittree import tree_id
from tests.image.made import Made, file, folder, make_tar

PARTS = [folder("pkg"), file("pkg/_c[1].so", b"ELF", 0o755), file("top.so", b"ELF")]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    made = Made(tmp_path)
    made.source("proj", [folder("pkg"), file("pkg/__init__.py", b"x")])
    return made


@pytest.fixture
def lock(made: Made) -> Lock:
    lock = made.lock()
    parts = made.store.add(make_tar(PARTS))
    built = BuildRecord(name="proj", wheel="7" * 64, parts=parts, files=("pkg/_c[1].so", "top.so"))
    runtime = pack_runtime(made.store)
    return msgspec.structs.replace(
        lock, realised=msgspec.structs.replace(lock.realised, builds=(built,), runtime=runtime)
    )


def test_the_recipes_lay_it_over_the_source(lock: Lock, made: Made, tmp_path: Path) -> None:
    """Every builder gives the files of the native one: each recipe's own lines, carried out one after the other."""
    build_image(lock, made.store, tmp_path / "out", files={}, reference="demo:1")
    native = layout_tree(read_layout(tmp_path / "out/image"))
    wanted = {
        path: (one.type, one.mode, one.sha256) for path, one in native.items() if path.startswith("src/proj")
    }
    assert wanted["src/proj/pkg/_c[1].so"][:2] == ("file", 0o755)
    texts = render_recipe(lock)
    context = write_context(lock, made.store, tmp_path / "context", texts)
    added = re.findall(r'^ADD (\["sources/.*\])$', texts["Dockerfile"], re.MULTILINE)
    lines = [shlex.split(line) for line in texts["Apptainer.def"].splitlines() if "/mnt/sources/" in line]
    unpacked = [[line[line.index("--file") + 1].removeprefix("/mnt/"), line[-1]] for line in lines]
    assert [json.loads(line)[0] for line in added] == [name for name, _ in unpacked]
    assert {place for _, place in unpacked} == {"/src/proj"}
    found = {}
    for name, place in map(json.loads, added):
        assert place == "/src/proj/"
        with (context / name).open("rb") as stream:
            found |= {
                f"{place}{one.path}".strip("/"): (one.type, one.mode, one.sha256) for one in list_tar(stream)
            }
    assert found | {"src/proj": ("directory", 0o755, "")} == wanted


def unpack(tar: Path, target: Path) -> None:
    subprocess.run(["tar", "-xf", tar, "-C", target], check=True)


def test_it_is_no_part_of_the_tree_that_was_captured(lock: Lock, made: Made, tmp_path: Path) -> None:
    source = lock.sources[0]
    place, alone = tmp_path / "proj", tmp_path / "alone"
    for target in (place, alone):
        target.mkdir()
        unpack(made.store.blob(source.file.sha256), target)
    unpack(made.store.blob(lock.realised.builds[0].parts), place)
    facts = json.loads(origin_file(source, lock)[1])
    assert tree_id(str(place), facts["generated"]) == tree_id(str(alone))
    (place / "pkg/_c1.so").write_bytes(b"another")
    assert tree_id(str(place), facts["generated"]) != tree_id(str(alone))


def test_a_difference_in_it_is_known_by_its_input(lock: Lock) -> None:
    origins = Origins({}, {}, {"src/proj": ("source", "proj")}, lock, built_paths(lock))
    assert candidate_inputs("src/proj/top.so", origins) == [
        ("source", "proj"),
        ("realised", "compiled parts of proj"),
    ]
    assert candidate_inputs("src/proj/pkg/__init__.py", origins) == [("source", "proj")]


def test_many_paths_of_many_sources_take_time_that_grows_with_their_number(lock: Lock) -> None:
    count = 20_000
    sources = {f"src/p{number}": ("source", f"p{number}") for number in range(count)}
    built = frozenset((f"p{number}", "a.so") for number in range(count))
    origins = Origins({}, {}, sources, lock, built)
    begun = time.monotonic()
    for number in range(count):
        owner = ("source", f"p{number}")
        assert candidate_inputs(f"src/p{number}", origins) == [owner]
        assert candidate_inputs(f"src/p{number}/a.so", origins)[0] == owner
        assert candidate_inputs(f"usr/bin/p{number}", origins)[0][0] == "realised"
    assert time.monotonic() - begun < 5  # looking at each source for each path took minutes
