"""Every field of a lock that a remembered result depends on is in its key.

Each field of a lock is changed in turn. A step whose key stays the same names the field, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from reprobuild.image.layers import plan
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.lock.python import Sdist, Source
from reprobuild.realise import base, interpreter
from reprobuild.realise.builds import _required_wheels
from reprobuild.realise.bytecode import bytecode_key
from reprobuild.realise.wheels import wheel_key
from reprobuild.store.roots import _lock_key
from tests.conftest import ROOT
from tests.recipe.full_lock import full_lock

# Other values of words that have a meaning.
WORDS = {"standalone": "conda", "conda": "standalone", "environment": "build", "linux/amd64": "linux/arm64"}


def variants(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, copy of the value) for a change of each field, and for one item more."""
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            for place, new in variants(getattr(value, name), f"{path}.{name}".lstrip(".")):
                yield place, msgspec.structs.replace(value, **{name: new})
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            yield path, (*value, item)
            for place, new in variants(item, path):
                yield place, (*value[:number], new, *value[number + 1 :])
    elif isinstance(value, bool):
        yield path, not value
    elif isinstance(value, str):
        yield path, WORDS.get(value, f"{value}9")
    elif isinstance(value, bytes):
        yield path, value + b"9"
    elif isinstance(value, int):
        yield path, value + 1


def a_lock(**fields: Any) -> SealedLock:
    """Return a lock with something in each field, whose projects import a wheel of role `build`."""
    replace = msgspec.structs.replace
    lock = full_lock()
    assert isinstance(lock, SealedLock)
    tool = replace(lock.wheels[0], name="tool", role="build")
    tool = replace(tool, file=replace(tool.file, filename="tool-1-py3-none-any.whl", sha256="6" * 64))
    return replace(lock, wheels=(*lock.wheels, tool), **fields)


def project_key(lock: Lock, project: Source | Sdist) -> str:
    return wheel_key(project, _required_wheels(project, lock, []), lock, "tree")


def below(name: str, fields: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name}.{field}" for field in fields)


def building(**fields: bool) -> SealedLock:
    """Return a lock whose source is built in a way of its own."""
    replace = msgspec.structs.replace
    lock = a_lock()
    source = lock.sources[0]
    return replace(lock, sources=(replace(source, building=replace(source.building, **fields)),))


# Each field that a step reads is in its key, or here. A base follows from the content of its files: their names,
# sizes and addresses are in messages, and dpkg's names and architectures are compared with the content.
FILE = ("file.size", "file.url")
DEB = ("version", "file.filename", *FILE)
BASE = (
    "distribution", "release",  # for people
    *below("packages", DEB), *below("tools", DEB), "image.reference", "image.digest", "image.config.*",
    "image.layers.file.*", "image.layers.media_type",  # the unpacked layer is compared with its hash
    "image.packages.version",  # dpkg's own list is in the layers
)  # fmt: skip
# Variables are set for builds: `needs` says which other files of the image they name.
PLAIN = (*BASE, "image.environment*")
BUILT_IN = (*BASE, "image.environment", "image.environment.needs")
PYTHON = ("evidence", *below("file", ("filename", "size", "url")), "shared")
# The key has the hash of the interpreter's finished tree.
FINISHED = ("evidence", "file.*")
# "": one item more, which the step does not read.
WHEEL = ("", "yanked", "requires", *FILE)
PROJECT = ("", "yanked", *FILE)
SOURCE = ("", "url", "commit", "tree", "patch", "installed", *FILE)  # they say where its files come from
CONDA = ("name", "version", "build", "subdir", "channel", *FILE)  # of packages that are in the finished tree


class Step(Struct, frozen=True, kw_only=True):
    """A remembered step: the key of its result, and the fields that it reads without an effect, by part."""

    key: Callable[[Lock], str]
    reads: Mapping[str, tuple[str, ...]]
    lock: Lock = a_lock()


STEPS = {
    "base": Step(
        key=lambda lock: base._key(lock.base, lock.epoch), reads={"base": PLAIN, "epoch": ()}
    ),
    "standalone": Step(
        key=interpreter._key, reads={"base": PLAIN, "epoch": (), "interpreter": PYTHON}
    ),
    "conda": Step(
        lock=a_lock(interpreter=msgspec.structs.replace(full_lock().interpreter, kind="conda")),
        key=interpreter._key,
        reads={"base": PLAIN, "epoch": (), "interpreter": PYTHON, "conda": (), "platform": ()},
    ),
    "sdist": Step(
        key=lambda lock: project_key(lock, lock.sdists[0]),
        reads={
            "base": BUILT_IN, "interpreter": FINISHED, "platform": (), "wheels": ("role", *WHEEL), "sdists": PROJECT,
        },
    ),
    "source": Step(
        lock=building(environment=True),
        key=lambda lock: project_key(lock, lock.sources[0]),
        reads={
            "base": BUILT_IN, "interpreter": FINISHED, "platform": (), "wheels": WHEEL, "sources": SOURCE,
            "conda": CONDA,
        },
    ),
    "compiled": Step(
        lock=building(compiles=True),
        key=lambda lock: project_key(lock, lock.sources[0]),
        reads={
            "build_base": BUILT_IN, "interpreter": FINISHED, "platform": (), "wheels": ("role", *WHEEL),
            "sources": SOURCE,
        },
    ),
    "bytecode": Step(
        key=lambda lock: bytecode_key(lock.wheels[0], lock.base, lock.interpreter, "tree"),
        reads={
            "base": PLAIN, "interpreter": (*FINISHED, "shared"),
            "wheels": ("role", "name", "version", "file.filename", *WHEEL),
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_each_field_that_a_step_reads_is_in_its_key_or_has_no_effect(name: str) -> None:
    step = STEPS[name]
    former, has_effect = step.key(step.lock), {}
    for path, lock in variants(step.lock):
        has_effect[path] = has_effect.get(path, False) or step.key(lock) != former
    documented = [f"{part}.{field}".rstrip(".") for part, fields in step.reads.items() for field in fields]
    unkeyed = {
        path for path, effect in has_effect.items() if not effect and path.partition(".")[0] in step.reads
    }
    assert {
        path for path in unkeyed if not any(fnmatchcase(path, pattern) for pattern in documented)
    } == set()
    assert {
        pattern for pattern in documented if not any(fnmatchcase(path, pattern) for path in unkeyed)
    } == set()


def test_the_record_of_a_lock_has_each_field() -> None:
    lock = a_lock()
    same = {path for path, new in variants(lock) if _lock_key(new) == _lock_key(lock)}
    assert same == set()


@pytest.mark.parametrize(
    "part",
    [
        plan.BasePart("1" * 64), plan.WheelPart("a.whl", "2" * 64, "url"), plan.TarPart("tar", "3" * 64, "src", "src"),
        plan.GivenPart("a", target="b"), plan.GivenPart("a", content=b"c"), plan.GivenPart("a"),
    ],
)  # fmt: skip
def test_the_key_of_a_layer_has_each_field_but_its_title(part: plan.Part) -> None:
    layer = plan.LayerPlan(title="title", parts=(part,), python="3.11", epoch=1, omit=("a",))
    same = {path for path, new in variants(layer) if new.key(3) == layer.key(3)}
    assert same == {"title"}


# The modules that remember a result. Those of the second group make it of the bytes of files whose hashes are in the
# key, or of what a server says of an address in the key: no other text of a lock is read.
OF_LOCKS = {
    "realise/base.py", "realise/interpreter.py", "realise/builds.py", "realise/realise.py", "realise/runtime.py",
    "image/layers/layers.py", "store/roots.py",
    "bisect/trial.py",  # the key has the hash of the whole lock
}  # fmt: skip
OF_CONTENT = {
    "realise/rootfs.py", "store/tar_listing.py", "output/directory.py", "image/formats/single_file.py", "run/pyxis.py",
    "ecosystems/pypi/requires.py", "ecosystems/pypi/torch_build.py", "ecosystems/pypi/page_cache.py",
    "ecosystems/apt/snapshot_archive.py", "resolve/ages/evidence.py", "resolve/conda/files.py",
    "resolve/interpreter/captured.py", "resolve/interpreter/standalone.py", "resolve/python/prebuilt.py",
    "resolve/system/calls.py", "resolve/system/wheel_libraries.py",
}  # fmt: skip


def test_each_module_that_remembers_is_known() -> None:
    root = ROOT / "reprobuild"
    modules = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"\.remember\(", path.read_text())
    }
    assert modules == OF_LOCKS | OF_CONTENT
