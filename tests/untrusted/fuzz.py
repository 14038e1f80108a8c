"""A bounded, seeded fuzzer of all that reads archives: `python -m tests.untrusted.fuzz --seconds 600`.

Case N of a seed is always the same. Every outcome must be a tree that stays inside, or a ReproError that has a hint
and names the file; in bounded time, memory and disk, with nothing changed outside.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from reprobuild.builders.native import build_image
from reprobuild.ecosystems.apt.deb import open_part, read_control
from reprobuild.errors import ReproError
from reprobuild.image.formats.docker_archive import write_docker_archive
from reprobuild.image.layers.blobs import copy_layer, read_listing, write_layer
from reprobuild.image.layers.content import tar_items
from reprobuild.image.layers.wheel import wheel_entries
from reprobuild.image.oci.read import layout_tree, read_layout
from reprobuild.infra.tar.reading import list_tar
from reprobuild.infra.untrusted import names
from reprobuild.infra.untrusted.names import check_path
from reprobuild.lock.python import Interpreter, Wheel
from reprobuild.lock.system import PREFIX, Artefact
from reprobuild.realise.bytecode import _unpack_modules
from reprobuild.realise.normalise import rewrite
from reprobuild.realise.prefix import make_prefix
from reprobuild.realise.unpack import extract, unpack_root
from reprobuild.store.store import Store
from tests.image.made import Made, file, folder, make_tar, make_wheel, symlink
from tests.untrusted import mutations

ALLOWANCE = 8 << 20  # instead of 256 MiB, so that small bombs are bombs
DISK = 48 << 20
MEMORY = 500 << 20
SECONDS = 20
PYTHON = Interpreter(version="3.11.2", executable="/usr/bin/python3.11", evidence="made")


class FoundError(Exception):
    """An outcome that must not be."""


class Seeds:
    """What the cases begin with: a small wheel, tar and layout, and more of a directory where one is given."""

    def __init__(self, place: Path, more: Path | None) -> None:
        made = {
            "p/__init__.py": b"x = 1\n" * 50,
            "p/a.so": b"\x7fELF" * 99,
            "p-1.0.data/scripts/run": b"#!python\n",
        }
        path = make_wheel(place / "p-1.0-py3-none-any.whl", made, scripts="[console_scripts]\np = p:main\n")
        self.wheels = [path.read_bytes()]
        self.tars = [
            make_tar([folder("d"), file("d/f", b"text"), symlink("link", "d"), file("run", b"#!/bin/sh\n", 0o755)]),
            make_tar([folder("usr"), folder("usr/bin"), symlink("bin", "usr/bin"), file("bin/sh", b"#!"),
                      file("x" * 150, b"x")]),
        ]  # fmt: skip
        subject = Made(place / "made")
        subject.wheel("pkg", {"pkg/a.py": b"a"})
        build_image(subject.lock(), subject.store, place, files={}, reference="x")
        self.layout = place / "image"
        for found in sorted(more.iterdir()) if more else []:
            (self.wheels if found.suffix == ".whl" else self.tars).append(found.read_bytes())


def wheel(random: Random, seeds: Seeds, place: Path) -> None:
    name = "p-1.0-py3-none-any.whl"
    content = random.choice(seeds.wheels)
    content = mutations.wheel(random, content, place) if random.random() < 0.8 else content
    content = mutations.any_bytes(random, content) if random.random() < 0.3 else content
    (place / name).write_bytes(content)
    store = Store(place / "store")
    file_ = Artefact(filename=name, sha256=store.add(content), size=len(content))
    given = Wheel(name="p", version="1.0", role="environment", file=file_)

    def install() -> None:
        with wheel_entries(place / name, name, "3.11") as items:
            layer = write_layer(items, name, 0, store)
        inside(read_listing(layer, store), f"{PREFIX[1:]}/")

    def modules() -> None:
        _unpack_modules(given, store, place / "in" / "modules")

    def build() -> None:
        (place / "in" / "site").mkdir()
        make_prefix(place / "in" / "site", "/opt/build", [given], PYTHON, store)

    outcomes(name, [install, modules, build])


def deb(random: Random, seeds: Seeds, place: Path) -> None:
    name = "tool_1_amd64.deb"
    path = place / name
    content = mutations.deb(random, random.choice(seeds.tars), place)
    path.write_bytes(mutations.any_bytes(random, content) if random.random() < 0.1 else content)

    def unpack() -> None:
        with open_part(path, "data.tar", name) as tar:
            extract(tar, place / "in", name, packed=path.stat().st_size)

    outcomes(name, [lambda: read_control(path, name), unpack])


def tar(random: Random, seeds: Seeds, place: Path) -> None:
    name = "source.tar"
    path = place / name
    content = mutations.tar(random, random.choice(seeds.tars), place)
    path.write_bytes(mutations.any_bytes(random, content) if random.random() < 0.3 else content)
    store = Store(place / "store")

    def layer() -> None:
        with tar_items(path, name, prefix="src/p") as items:
            inside(read_listing(write_layer(items, name, 0, store), store), "src/p/")

    def finished() -> None:
        rewrite(path, place / "in" / "tree.tar", 0)
        with (place / "in" / "tree.tar").open("rb") as stream:
            inside(list(list_tar(stream)), "")

    (place / "in" / "root").mkdir()
    kept = store.add(path.read_bytes())
    outcomes(
        name, [layer, lambda: unpack_root(path, place / "in" / "root"), lambda: copy_layer(kept, name, store)]
    )
    outcomes("the tree that the packages made", [finished])


def layout(random: Random, seeds: Seeds, place: Path) -> None:
    target = place / "in" / "image"
    shutil.copytree(seeds.layout, target)
    mutations.layout(random, target, place)

    def tree() -> None:
        inside(layout_tree(read_layout(target)).values(), "", whiteouts=True)

    def archive() -> None:
        write_docker_archive(read_layout(target), io.BytesIO())

    outcomes("image", [tree, archive], other=("layer", "a layer"))


TARGETS = {"wheel": wheel, "deb": deb, "tar": tar, "layout": layout}


def inside(listing: object, below: str, *, whiteouts: bool = False) -> None:
    """Check that every path of a tree is one that stays in its directory."""
    for entry in listing:  # type: ignore[attr-defined]  # of any reader
        if entry.path and not whiteouts:
            check_path(entry.path, "the tree")
        if entry.path and not f"{entry.path}/".startswith(below) and entry.type != "directory":
            raise FoundError(f"{entry.path!r} is not below {below}")


def outcomes(name: str, uses: list[Callable[[], object]], other: tuple[str, ...] = ()) -> None:
    """Use a file in each way; whatever is refused must be refused by name and with a hint."""
    for use in uses:
        try:
            use()
        except ReproError as err:
            if not err.hint or not any(word in str(err) for word in (name, *other)):
                raise FoundError(f"the error names no file or has no hint: {err}") from err
            Case.refused += 1
        else:
            Case.accepted += 1


class Case:
    """Counts of all cases of this process."""

    refused = 0
    accepted = 0


def one(target: str, seed: int, number: int, seeds: Seeds) -> None:
    """Do one case.

    Raises:
        FoundError: its outcome must not be.
    """
    random = Random(f"{seed}/{target}/{number}")
    top = Path(tempfile.mkdtemp(prefix="fuzz-"))
    place = top / "place"
    (place / "in").mkdir(parents=True)
    (top / "secret").write_text("s")
    (place / "secret").write_text("s")
    try:
        signal.alarm(SECONDS)
        TARGETS[target](random, seeds, place)
        signal.alarm(0)
        expected = {"in", "secret", "store", "p-1.0-py3-none-any.whl", "tool_1_amd64.deb", "source.tar"}
        outside = {path.name for path in place.iterdir()} - expected
        outside |= {path.name for path in top.iterdir()} - {"place", "secret"}
        if outside or (top / "secret").read_text() + (place / "secret").read_text() != "ss":
            raise FoundError(f"written outside: {outside}")
        size = sum(os.lstat(f"{above}/{name}").st_size for above, _, files in os.walk(top) for name in files)
        given = sum(path.stat().st_size for path in place.iterdir() if path.is_file())
        if size > DISK + 5 * given:
            raise FoundError(f"{size} bytes on the disk")
        if list((place / "store" / "tmp").glob("*")):
            raise FoundError("private files are left")
    except FoundError:
        raise
    except Exception as err:
        raise FoundError("".join(traceback.format_exception(err)[-4:])) from err
    finally:
        signal.alarm(0)
        shutil.rmtree(top, ignore_errors=True)


def hang(signum: int, frame: object) -> None:
    raise FoundError(f"not done after {SECONDS} s:\n{''.join(traceback.format_stack()[-6:])}")


def resident(field: str) -> int:
    """Return the memory of this process in bytes: VmRSS now, VmHWM at its peak."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))


def fuzz(
    seed: int, *, seconds: float = 1e9, cases: int = 1 << 60, more: Path | None = None
) -> dict[str, object]:
    """Do cases of all targets in turn until the time or the number is reached; return counts and what was found."""
    allowance, names.ALLOWANCE = names.ALLOWANCE, ALLOWANCE
    handler = signal.signal(signal.SIGALRM, hang)
    began, done, found = time.monotonic(), Counter[str](), []
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew: proc_pid_clear_refs(5)
    before = resident("VmRSS")
    try:
        with tempfile.TemporaryDirectory() as scratch:
            seeds = Seeds(Path(scratch), more)
            for number in range(cases):
                target = list(TARGETS)[number % len(TARGETS)]
                try:
                    one(target, seed, number, seeds)
                except FoundError as err:
                    found.append({"target": target, "number": number, "what": str(err)})
                done[target] += 1
                if time.monotonic() - began > seconds:
                    break
    finally:
        names.ALLOWANCE = allowance
        signal.signal(signal.SIGALRM, handler)
    peak = resident("VmHWM") - before
    if peak > MEMORY:
        found.append({"target": "all", "number": -1, "what": f"{peak} bytes of memory"})
    spent = time.monotonic() - began
    return {
        "seed": seed, "seconds": round(spent, 1), "cases": dict(done), "cases/s": round(sum(done.values()) / spent, 1),
        "refused": Case.refused, "accepted": Case.accepted, "peak MiB": peak >> 20, "found": found,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--cases", type=int, default=1 << 60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--more", type=Path, help="a directory of further small wheels and tars to begin with"
    )
    parser.add_argument("--only", metavar="TARGET:N", help="do one case")
    given = parser.parse_args()
    if given.only:
        target, number = given.only.split(":")
        names.ALLOWANCE = ALLOWANCE
        signal.signal(signal.SIGALRM, hang)
        with tempfile.TemporaryDirectory() as scratch:
            one(target, given.seed, int(number), Seeds(Path(scratch), given.more))
        return 0
    told = fuzz(given.seed, seconds=given.seconds, cases=given.cases, more=given.more)
    sys.stdout.write(json.dumps(told, indent=1) + "\n")
    return 1 if told["found"] else 0


if __name__ == "__main__":
    sys.exit(main())
