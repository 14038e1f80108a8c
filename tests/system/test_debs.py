"""What is read from `.deb` files, and the order that follows from it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
import zstandard

from reprobuild.ecosystems.apt.deb import DebControl, open_part, read_control
from reprobuild.ecosystems.apt.relations import parse_relations
from reprobuild.errors import BuildError
from reprobuild.realise import order
from tests.system.samples import ar_bytes, member, tar_bytes

CONTROL = (
    b"Package: tool\nVersion: 1\nArchitecture: i386\nMulti-Arch: same\n"
    b"Pre-Depends: aa\nDepends: bb | cc (>= 1)\nProvides: dd (= 1), ee\n"
)


def control(
    name: str, needs: str = "", before: str = "", provides: tuple[str, ...] = (), architecture: str = "amd64",
    multi_arch: str = "",
) -> DebControl:  # fmt: skip
    return DebControl(
        name=name, architecture=architecture, multi_arch=multi_arch, needs=parse_relations(needs),
        before=parse_relations(before), provides=provides,
    )  # fmt: skip


def batches(controls: Sequence[DebControl], essential: Iterable[str]) -> list[list[str]]:
    return order.plan_batches(controls, essential, "amd64")


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".bz2", ".zst"])
def test_every_compression_of_a_package_is_read(tmp_path: Path, suffix: str) -> None:
    plain = [(member("./control"), CONTROL)]
    packed = tar_bytes(plain, suffix[1:] if suffix != ".zst" else "")
    if suffix == ".zst":
        packed = zstandard.compress(packed)
    deb = tmp_path / "tool.deb"
    deb.write_bytes(ar_bytes([("debian-binary", b"2.0\n"), (f"control.tar{suffix}", packed)]))
    found = read_control(deb, "tool.deb")
    assert found == DebControl(
        name="tool", architecture="i386", multi_arch="same", before=parse_relations("aa"),
        needs=parse_relations("bb | cc (>= 1)"),
        provides=("dd", "ee"),
    )  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not an archive",
        ar_bytes([("debian-binary", b"2.0\n")]),
        ar_bytes([("debian-binary", b"2.0\n"), ("control.tar.xz", b"garbage")]),
        ar_bytes([("debian-binary", b"2.0\n"), ("control.tar.zst", b"garbage")]),
        ar_bytes([("control.tar", tar_bytes([(member("./other"), b"")]))]),
    ],
)
def test_what_is_no_package_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    deb = tmp_path / "blob"
    deb.write_bytes(content)
    with pytest.raises(BuildError, match=r"tool_1\.deb is not a Debian package") as err:
        read_control(deb, "tool_1.deb")
    assert err.value.hint == "remove the file from the store and run `reprobuild fetch LOCK` again"


def read_all(deb: Path) -> None:
    with open_part(deb, "data.tar", "tool_1.deb") as tar:
        for info in tar:
            stream = tar.extractfile(info)
            assert stream is not None
            stream.read()


def test_a_truncated_package_is_refused(tmp_path: Path) -> None:
    data = tar_bytes([(member(f"./f{n}"), random.Random(n).randbytes(9999)) for n in range(20)], "xz")
    deb = tmp_path / "blob"
    parts = [("debian-binary", b"2.0\n"), ("control.tar", tar_bytes([])), ("data.tar.xz", data)]
    deb.write_bytes(ar_bytes(parts))
    read_all(deb)
    deb.write_bytes(deb.read_bytes()[:-50000])
    with pytest.raises(BuildError, match=r"tool_1\.deb is not a Debian package"):
        read_all(deb)


FORMAT, CONTROL_TAR, DATA_TAR = (
    ("debian-binary", b"2.0\n"),
    ("control.tar", tar_bytes([])),
    ("data.tar", tar_bytes([])),
)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([CONTROL_TAR, FORMAT, DATA_TAR], "'control.tar' stands in the place of debian-binary"),
        ([FORMAT, DATA_TAR, CONTROL_TAR], "'data.tar' stands in the place of control.tar"),
        ([FORMAT, CONTROL_TAR, CONTROL_TAR, DATA_TAR], "'control.tar' stands in the place of data.tar"),
        ([FORMAT, CONTROL_TAR, ("data", b""), DATA_TAR], "'data' stands in the place of data.tar"),
        (
            [FORMAT, CONTROL_TAR, ("../data.tar", b""), DATA_TAR],
            "'../data.tar' stands in the place of data.tar",
        ),
        ([("_first", b""), FORMAT, CONTROL_TAR, DATA_TAR], "'_first' stands in the place of debian-binary"),
        ([("debian-binary", b"3.0\n"), CONTROL_TAR, DATA_TAR], "its format is not 2.0"),
        ([FORMAT, CONTROL_TAR], "a member is cut off, or there are too few"),
    ],
)
def test_members_out_of_order_are_refused_as_dpkg_refuses_them(
    tmp_path: Path, parts: list[tuple[str, bytes]], words: str
) -> None:
    deb = tmp_path / "blob"
    deb.write_bytes(ar_bytes(parts))
    with pytest.raises(BuildError, match=r"tool_1\.deb is not a Debian package") as caught:
        read_all(deb)
    assert words in str(caught.value)


def test_members_that_dpkg_passes_over_are_passed_over(tmp_path: Path) -> None:
    deb = tmp_path / "blob"
    deb.write_bytes(ar_bytes([FORMAT, ("_sig", b"odd"), CONTROL_TAR, ("_more", b""), DATA_TAR, CONTROL_TAR]))
    read_all(deb)


@pytest.mark.parametrize("size", [b"-60       ", b"9999999999", b"x         ", b"          "])
def test_a_member_whose_size_lies(tmp_path: Path, size: bytes) -> None:
    """A negative one must not lead backwards for ever."""
    content = ar_bytes([FORMAT, CONTROL_TAR, DATA_TAR])
    at = content.find(b"control.tar") + 48
    deb = tmp_path / "blob"
    deb.write_bytes(content[:at] + size + content[at + 10 :])
    with pytest.raises(BuildError, match=r"tool_1\.deb is not a Debian package"):
        read_all(deb)


def test_a_control_file_may_not_fill_the_memory(tmp_path: Path) -> None:
    packed = tar_bytes([(member("./control"), CONTROL + b"Description: " + b"x" * (5 << 20))], "xz")
    deb = tmp_path / "blob"
    deb.write_bytes(ar_bytes([FORMAT, ("control.tar.xz", packed), DATA_TAR]))
    with pytest.raises(BuildError, match=r"tool_1\.deb is not a Debian package: it has no control file"):
        read_control(deb, "tool_1.deb")


def test_essential_packages_are_the_first_batch() -> None:
    assert batches([control("bb"), control("aa"), control("zz")], ["zz"]) == [["zz"], ["aa", "bb"]]


def test_a_package_comes_after_what_it_needs() -> None:
    found = batches([control("aa", "bb"), control("bb", "cc"), control("cc")], [])
    assert found == [["cc", "bb", "aa"]]


def test_a_batch_ends_where_others_must_be_configured() -> None:
    found = batches([control("aa", before="bb"), control("bb"), control("dd", "aa")], [])
    assert found == [["bb"], ["aa", "dd"]]


def test_what_is_essential_is_configured_already() -> None:
    assert batches([control("aa", before="ee"), control("ee")], ["ee"]) == [["ee"], ["aa"]]


def test_packages_that_need_each_other_stay_together() -> None:
    found = batches([control("aa", "bb", before="cc"), control("bb", "aa"), control("cc"), control("dd")], [])
    assert found == [["cc", "dd"], ["aa", "bb"]]


def test_provided_names_and_alternatives_count() -> None:
    found = batches([control("aa", "missing | virtual"), control("zz", provides=("virtual",))], [])
    assert found == [["zz", "aa"]]


def test_the_order_does_not_depend_on_the_order_given() -> None:
    controls = [control(f"p{n}", f"p{n * 7 % 20}", before=f"p{n * 3 % 20}") for n in range(20)]
    assert batches(controls, ["p0"]) == batches(controls[::-1], ["p0"])
    assert sorted(name for batch in batches(controls, ["p0"]) for name in batch) == sorted(
        c.name for c in controls
    )


def test_a_foreign_package_comes_after_what_may_serve_it() -> None:
    controls = [
        control("app", "lib, tool, py:any", architecture="i386"),
        control("lib", multi_arch="same"),
        control("lib", "bare", multi_arch="same", architecture="i386"),
        control("bare", architecture="i386"),
        control("tool", "zz", multi_arch="foreign"),
        control("py", "tool", multi_arch="allowed"),
        control("zz"),
    ]
    (found,) = batches(controls, [])
    assert sorted(found) == ["app:i386", "bare:i386", "lib", "lib:i386", "py", "tool", "zz"]
    assert found.index("bare:i386") < found.index("lib:i386") < found.index("app:i386")
    assert found.index("zz") < found.index("tool") < found.index("py") < found.index("app:i386")
