"""Names of wheel files: as packaging reads them, and never more tags than a wheel has."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path

import msgspec
import packaging.tags
import packaging.utils
import pytest
from packaging.utils import InvalidWheelFilename

import reprobuild
from reprobuild.bisect.atoms import _is_universal
from reprobuild.doctor.preflight.glibc import check_glibc
from reprobuild.ecosystems.pypi.files import _parse_distribution
from reprobuild.ecosystems.pypi.page_cache import ListedFile
from reprobuild.errors import LockError
from reprobuild.infra.untrusted.wheels import (
    MOST_TAGS,
    WheelTagParts,
    list_wheel_tags,
    read_wheel_filename,
    read_wheel_tag_parts,
)
from reprobuild.lock.file import read_lock, write_lock
from reprobuild.lock.python import Wheel
from reprobuild.snapshot.parsers.pip_freeze_url import _file_version
from tests.verify.samples import artefact, deb, make_lock, wheel

ALL = ".".join("a" * 40)
BOMB = f"first-1-{ALL}-{ALL}-{ALL}.whl"  # 64,000 tags
NAMES = [
    "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl",
    "six-1.17.0-py2.py3-none-any.whl",
    "Foo_Bar-1!2.0rc1-2b-cp36.cp37.cp38-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "a-1-py3-none-any.tar.gz",
    "a-1-py3-none.whl",
    "a-1-1-1-py3-none-any.whl",
    "a-x-py3-none-any.whl",
    "a-1-b-py3-none-any.whl",
    "a__b-1-py3-none-any.whl",
    "-1-py3-none-any.whl",
    "a-1-py3.-none-any.whl",
    "a-1-3py-none-any.whl",
    "a-1-py3--any.whl",
    "a-1-py3-none-any.whl.whl",
    ".whl",
    "",
]


def outcome(read: object, name: str) -> object:
    try:
        return read(name)  # type: ignore[operator]  # either reader
    except InvalidWheelFilename as err:
        return str(err)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_read_as_packaging_reads_them(name: str) -> None:
    theirs = outcome(packaging.utils.parse_wheel_filename, name)
    first = theirs if isinstance(theirs, str) else theirs[:3]  # type: ignore[index]  # a tuple where it is no text
    assert outcome(read_wheel_filename, name) == first


def test_as_many_tags_as_are_read() -> None:
    parts = [".".join(f"a{number}" for number in range(count)) for count in (2, 16, 16, 17)]
    assert len(list(list_wheel_tags(f"a-1-{parts[0]}-{parts[1]}-{parts[2]}.whl"))) == MOST_TAGS
    with pytest.raises(InvalidWheelFilename, match=r"544 tags, and at most 512 are read"):
        list_wheel_tags(f"a-1-{parts[0]}-{parts[1]}-{parts[3]}.whl")


@pytest.mark.parametrize("name", [BOMB, f"a-1-{'.'.join('a' * 9999)}-{'.'.join('a' * 9999)}-{ALL}.whl"])
def test_a_name_of_many_tags_takes_no_time(name: str) -> None:
    times = []
    for _ in range(3):  # other work on the machine only adds time
        start = time.process_time()
        for read in (list_wheel_tags, read_wheel_filename):
            with pytest.raises(InvalidWheelFilename):
                read(name)
        times.append(time.process_time() - start)
    assert min(times) < 0.02, times


def built(name: str, count: int) -> tuple[Wheel, ...]:
    """Return wheels of role `build` of one file name, each with other bytes."""
    digests = (hashlib.sha256(str(number).encode()).hexdigest() for number in range(count))
    files = (msgspec.structs.replace(artefact(name), sha256=digest) for digest in digests)
    return tuple(msgspec.structs.replace(wheel("first"), role="build", file=file) for file in files)


def test_a_lock_of_such_names_is_refused_at_once(tmp_path: Path) -> None:
    write_lock(make_lock(wheels=built(BOMB, 200)), tmp_path / "lock")
    start = time.process_time()
    with pytest.raises(LockError, match=r"64000 tags.* at `\$\.wheels\[0\]\.file\.filename`"):
        read_lock(tmp_path / "lock")
    assert time.process_time() - start < 1


def test_a_lock_of_names_at_the_bound_is_read_without_making_tags(tmp_path: Path) -> None:
    part = ".".join("a" * 8)
    name = f"first-1-{part}-{part}-{part}.whl"
    write_lock(make_lock(wheels=built(name, 5000)), tmp_path / "lock")
    start = time.process_time()
    read_lock(tmp_path / "lock")
    assert time.process_time() - start < 2  # with tags: 3 s and more


@pytest.mark.parametrize("name", NAMES)
def test_parts_of_tags_are_those_of_the_tags(name: str) -> None:
    theirs = outcome(lambda name: packaging.utils.parse_wheel_filename(name)[3], name)
    parts = outcome(read_wheel_tag_parts, name)
    if isinstance(theirs, frozenset):
        assert isinstance(parts, WheelTagParts)
        parts = frozenset(packaging.tags.Tag(*tag) for tag in list_wheel_tags(name))
    assert parts == theirs


def test_a_check_of_such_a_lock_makes_no_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock of 64 MiB can have 100,000 such names."""
    part = ".".join(f"a{number}" for number in range(16))
    platforms = ".".join(f"manylinux_2_{number}_x86_64" for number in range(8, 16))
    (first,) = built(f"first-1-{part}-{'.'.join('abcd')}-{platforms}.whl", 1)
    base = msgspec.structs.replace(make_lock().base, packages=(deb("libc6", "2.7-1"),))
    made: list[tuple[str, ...]] = []
    monkeypatch.setattr(packaging.tags, "Tag", lambda *tag: made.append(tag))
    with pytest.raises(LockError, match=r"needs glibc 2\.8, and the base has 2\.7"):
        check_glibc(make_lock(base=base, wheels=(first,)))
    assert not _is_universal(first)
    assert set(made) == {("py3", "none", "any")}  # of another name, for its version


def test_a_freeze_and_an_index_with_such_names() -> None:
    assert _file_version(f"https://files.example.org/{BOMB}") is None
    assert _file_version("https://files.example.org/first-1.0-py3-none-any.whl") == "1.0"
    listed = ListedFile(filename=BOMB, url=f"https://files.example.org/{BOMB}", hashes={})
    assert _parse_distribution("first", listed, "https://index.example.org", 0) is None


def test_each_name_goes_through_the_guard() -> None:
    folder = Path(reprobuild.__file__).parent
    users = [
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if re.search(
            r"from packaging\.utils import (\([^)]*|[^\n(]*)\bparse_wheel_filename", path.read_text()
        )
    ]
    assert users == ["infra/untrusted/wheels.py"]
