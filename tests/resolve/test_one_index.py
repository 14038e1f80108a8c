"""One index for each line: never a silent mix of two, and what else there was is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reprobuild.ecosystems.pypi.choose import find_newest
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.errors import LockError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.netrc import Netrc
from reprobuild.resolve.acceptance import accept_deviations
from tests.resolve.served import Reply, Served
from tests.resolve.test_files import TARGET, Index, lists, lock, resolved, sha256, taken

WHEEL = "tool-1.0-py3-none-any.whl"
BEST = "tool-1.0-cp311-cp311-linux_x86_64.whl"


@pytest.fixture
def one(served: Served) -> Index:
    return Index(served, "/one")


@pytest.fixture
def two(served: Served) -> Index:
    return Index(served, "/two", "html")


def test_one_name_with_two_contents_is_nobodys_choice(one: Index, two: Index) -> None:
    one.add(WHEEL)
    two.add(WHEEL, hashes={"sha256": "2" * 64})
    wheel, ruling = lock(lists(one.url, two.url), "tool==1.0")
    assert (wheel, ruling.outcome, ruling.kind) == (None, "unresolved", "ambiguous-index")
    assert ruling.reason == (
        f"{WHEEL} is one file on {one.url} (sha256 {sha256(WHEEL)[:12]}) and another on {two.url} (sha256 "
        f"222222222222): decide it, --index tool={one.url} or --index tool={two.url}"
    )
    with pytest.raises(LockError) as caught:
        accept_deviations([ruling], ())
    assert caught.value.hint == (
        "to go on without exactly these: --accept tool\nwith --accept tool the image will NOT have tool"
    )
    for index, expected in ((one, sha256(WHEEL)), (two, "2" * 64)):
        wheel, ruling = lock(lists(one.url, two.url, tool=index.url), "tool==1.0")
        assert wheel is not None
        assert wheel.file.sha256 == expected
        assert ruling.reason == f"{WHEEL} from {index.url}, which was decided"


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [
        ({"size": 7}, {"hashes": {"md5": "1" * 32}, "size": 8}, ("size 7", "size 8")),
        (
            {"hashes": {"sha256": "a" * 64, "md5": "1" * 32}},
            {"hashes": {"md5": "2" * 32}},
            ("md5 1111", "md5 2222"),
        ),
    ],
)
def test_two_contents_are_told_apart_by_all_that_is_published(
    one: Index, served: Served, mine: dict[str, Any], theirs: dict[str, Any], said: tuple[str, str]
) -> None:
    two = Index(served, "/two")
    one.add(WHEEL, **mine)
    two.add(WHEEL, **theirs)
    wheel, ruling = lock(lists(one.url, two.url), "tool==1.0")
    assert (wheel, ruling.kind) == (None, "ambiguous-index")
    assert f"on {one.url} ({said[0]}" in ruling.reason
    assert f"on {two.url} ({said[1]}" in ruling.reason


def test_files_that_nothing_can_be_compared_by_are_told(one: Index, served: Served) -> None:
    two = Index(served, "/two")
    one.add(WHEEL, size=7)
    two.add(WHEEL, hashes={"md5": "1" * 32}, size=7)
    files = lists(one.url, two.url)
    assert lock(files, "tool==1.0")[1].reason == (
        f"{WHEEL} from {one.url}; {two.url} has a file of this name, too, and nothing tells whether it is the same"
    )
    two.add("same-1.0-py3-none-any.whl", hashes={"md5": "1" * 32}, size=7)
    one.add("same-1.0-py3-none-any.whl", hashes={"sha256": "a" * 64, "md5": "1" * 32}, size=7)
    assert lock(files, "same==1.0")[1].reason == f"same-1.0-py3-none-any.whl from {one.url}"


def test_the_same_bytes_on_two_indexes_are_fine(one: Index, two: Index) -> None:
    one.add(WHEEL)
    two.add(WHEEL)
    assert lock(lists(one.url, two.url), "tool==1.0")[1].reason == f"{WHEEL} from {one.url}"


def test_a_clash_with_a_folder_is_seen_by_its_bytes(one: Index, tmp_path: Path) -> None:
    one.add(WHEEL)
    (tmp_path / WHEEL).write_bytes(b"mine")
    files = lists(one.url, links=[tmp_path.as_uri()])
    _, ruling = lock(files, "tool==1.0")
    assert ruling.kind == "ambiguous-index"
    assert "None" not in ruling.reason


def test_all_files_of_a_line_come_from_one_index(one: Index, two: Index) -> None:
    """The better wheel of a later index is not mixed in, as pip would do."""
    one.add(WHEEL)
    two.add(BEST)
    for index, expected in ((one, WHEEL), (two, BEST)):
        assert taken(lists(one.url, two.url, tool=index.url), "tool==1.0") == expected
    wheel, ruling = lock(lists(two.url, one.url), "tool==1.0")
    assert wheel is not None
    said = f"; {one.url} has {WHEEL}: decide it with --index tool={one.url}"
    assert (wheel.file.filename, ruling.reason) == (BEST, f"{BEST} from {two.url}{said}")


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (WHEEL, "tool-1.0-cp311-cp311-linux_x86_64.whl"), (WHEEL, "tool-1.0-1-py3-none-any.whl"),
        ("tool-1.0-cp311-cp311-manylinux_2_17_x86_64.whl", "tool-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"),
        ("tool-1.0.tar.gz", WHEEL),
    ],
)  # fmt: skip
def test_what_pip_would_have_taken_of_a_later_index_is_nobodys_choice(
    one: Index, two: Index, first: str, later: str
) -> None:
    """The bytes that were captured are probably those of the later one."""
    one.add(first)
    two.add(later)
    files = lists(one.url, two.url)
    wheel, ruling = lock(files, "tool==1.0")
    assert (wheel, ruling.outcome, ruling.kind) == (None, "unresolved", "ambiguous-index")
    assert ruling.reason == (
        f"{one.url} has {first}, and {two.url}, which comes after it, has {later}: pip, which knows no order of "
        f"indexes, would have taken that one: decide it, --index tool={one.url} or --index tool={two.url}"
    )
    assert resolved(lists(one.url, two.url, tool=two.url), "tool==1.0").rulings[0].outcome == "pinned"
    two.add("tool-1.0-cp39-cp39-linux_x86_64.whl")
    one.add(later)  # a mirror that has it, too
    assert lock(lists(one.url, two.url), "tool==1.0")[1].reason == f"{later} from {one.url}"


def test_uv_takes_the_first_of_its_own_indexes(one: Index, two: Index) -> None:
    one.add(WHEEL)
    two.add(BEST)
    places = PackageIndexes(find_links=(), simple=(one.url, two.url), uv_alone=(one.url,), credentials={})
    _, ruling = lock(FileLists(places, Net()), "tool==1.0")
    said = f"; {two.url} has {BEST}: decide it with --index tool={two.url}"
    assert (ruling.outcome, ruling.reason) == ("pinned", f"{WHEEL} from {one.url}{said}")


def test_a_rules_wheel_stands_behind_another_wheel_of_a_configured_index(one: Index, served: Served) -> None:
    two, rule = Index(served, "/two"), Index(served, "/whl/cpu")
    one.add("torch-1.0+cpu.tar.gz")
    rule.add("torch-1.0+cpu-py3-none-any.whl")
    torch = served.url + "/whl/{local}"
    files = lists(one.url, two.url, torch=torch)
    assert taken(files, "torch==1.0+cpu") == "torch-1.0+cpu-py3-none-any.whl"
    two.add("torch-1.0+cpu-py3-none-any.whl")
    assert taken(lists(one.url, two.url, torch=torch), "torch==1.0+cpu") == "torch-1.0+cpu-py3-none-any.whl"
    two.add("torch-1.0+cpu-cp311-cp311-linux_x86_64.whl")
    assert lock(lists(one.url, two.url, torch=torch), "torch==1.0+cpu")[1].kind == "ambiguous-index"


def test_of_one_version_what_was_not_yanked_is_taken(one: Index, two: Index) -> None:
    one.add(BEST, yanked="broken")
    one.add(WHEEL)
    assert taken(lists(one.url), "tool==1.0") == WHEEL
    one.add("rare-1.0-py3-none-any.whl", yanked="broken")
    two.add("rare-1.0-1-py3-none-any.whl")
    assert lock(lists(one.url, two.url), "rare==1.0")[1].kind == "ambiguous-index"


def test_a_version_that_only_a_later_index_has_is_taken_and_said(one: Index, two: Index) -> None:
    """This is what a confused dependency looks like, so it must be seen."""
    one.add("tool-0.9-py3-none-any.whl")
    two.add(WHEEL)
    wheel, ruling = lock(lists(one.url, two.url), "tool==1.0")
    assert wheel is not None
    assert (ruling.outcome, ruling.reason) == (
        "pinned",
        f"{WHEEL} from {two.url}; {one.url}, which comes before it, has tool, too, but not this version",
    )
    one.add("tool-1.0-cp39-cp39-win_amd64.whl")
    _, ruling = lock(lists(one.url, two.url), "tool==1.0")
    assert ruling.reason.endswith("has tool, too, but no file of this version that fits")
    two.add("rare-1.0-py3-none-any.whl")
    assert lock(lists(one.url, two.url), "rare==1.0")[1].reason == f"rare-1.0-py3-none-any.whl from {two.url}"


def test_the_source_of_the_first_index_comes_before_that_of_the_second(one: Index, two: Index) -> None:
    one.add("tool-1.0.zip", yanked="wrong licence")
    one.add("tool-1.0.tar.gz", yanked="wrong licence")
    two.add("tool-1.0.zip")
    found = resolved(lists(one.url, two.url), "tool==1.0")
    (sdist,) = found.sdists
    assert (sdist.file.filename, sdist.version, sdist.yanked) == ("tool-1.0.tar.gz", "1.0", "wrong licence")
    assert found.rulings[0].reason == (
        f"tool-1.0.tar.gz from {one.url}; {two.url} has tool-1.0.zip: decide it with --index tool={two.url}; its "
        "publisher yanked it: wrong licence; built from its source, once"
    )
    assert found.wheels == ()
    one.add("mine-1.0.tar.gz", yanked="wrong licence")
    one.add("mine-1.0.zip")
    (sdist,) = resolved(lists(one.url), "mine==1.0").sdists
    assert sdist.file.filename == "mine-1.0.zip"


def test_a_newer_release_of_a_later_index_is_not_taken_for_a_build(
    one: Index, two: Index, tmp_path: Path
) -> None:
    """Nobody wrote down its version, so a stranger's project of that name must not win by a high one."""
    one.add("tool-1.0-py3-none-any.whl")
    two.add("tool-99.0-py3-none-any.whl")
    two.add("rare-2.0-py3-none-any.whl")
    files = lists(one.url, two.url)
    assert (find_newest("tool", "", files, TARGET) or ("",))[0] == "1.0"
    assert (find_newest("rare", "", files, TARGET) or ("",))[0] == "2.0"
    assert find_newest("tool", ">1", files, TARGET) is None
    assert (find_newest("tool", ">1", lists(one.url, tool=two.url), TARGET) or ("",))[0] == "99.0"
    (tmp_path / "tool-1.5-py3-none-any.whl").write_bytes(b"a wheel")
    both = lists(one.url, two.url, links=[tmp_path.as_uri()])
    assert (find_newest("tool", "", both, TARGET) or ("",))[0] == "1.5"


def test_only_the_decided_index_is_asked(one: Index, two: Index, served: Served) -> None:
    one.add(WHEEL)
    _, ruling = lock(lists(one.url, Tool_=two.url), "tool==1.0")
    assert ruling.outcome == "pinned"  # another name: the decision of `tool-` is not for `tool`
    before = len(served.asked)
    _, ruling = lock(lists(one.url, TOOL=two.url), "tool==1.0")
    assert (ruling.outcome, ruling.kind) == ("unresolved", "unknown-project")
    assert {path.split("/")[1] for path, _ in served.asked[before:]} == {"two"}


def test_two_logins_on_one_host(one: Index, two: Index, served: Served) -> None:
    one.add(WHEEL)
    two.add("rare-1.0-py3-none-any.whl")
    for path, login in (
        ("/one/tool/", "al:1"),
        ("/two/rare/", "bo:2"),
        ("/one/rare/", "al:1"),
        ("/two/tool/", "bo:2"),
    ):
        known = served.replies.get(path, [Reply(b"", 404)])[0]
        served.give(path, Reply(known.body, known.status, known.headers, login=login))
    net = Net(credentials={f"{served.url}/one": ("al", "1"), f"{served.url}/two": ("bo", "2")})
    files = lists(one.url, two.url, net=net)
    assert taken(files, "tool==1.0") == WHEEL
    assert taken(files, "rare==1.0") == "rare-1.0-py3-none-any.whl"


def test_a_login_of_netrc_reaches_its_index(one: Index, served: Served, tmp_path: Path) -> None:
    one.add(WHEEL)
    page = served.replies["/one/tool/"][0]
    served.give("/one/tool/", Reply(page.body, headers=page.headers, login="alice:hunter2"))
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login alice password hunter2\n")
    netrc = Netrc({"NETRC": str(tmp_path / "netrc")})
    wheel, ruling = lock(lists(one.url, net=Net(configured=[one.url], netrc=netrc)), "tool==1.0")
    assert wheel is not None
    assert "hunter2" not in repr((wheel, ruling))


@pytest.mark.parametrize(
    ("target", "best"),
    [
        (WheelTarget(python="3.13.1", glibc=(2, 36), machine="x86_64"), "cp313-cp313-manylinux_2_28_x86_64"),
        (WheelTarget(python="3.13.1", glibc=(2, 27), machine="x86_64"), "cp313-cp313-manylinux2014_x86_64"),
        (
            WheelTarget(python="3.13.1", glibc=(2, 36), machine="aarch64"),
            "cp313-cp313-manylinux_2_28_aarch64",
        ),
        (WheelTarget(python="3.13.1", glibc=(2, 17), machine="aarch64"), "cp313-cp313-manylinux2014_aarch64"),
        (
            WheelTarget(python="3.13.1", glibc=(2, 36), machine="x86_64", free_threaded=True),
            "cp313-cp313t-manylinux_2_28_x86_64",
        ),
        (WheelTarget(python="3.12.1", glibc=(2, 36), machine="aarch64"), "cp38-abi3-manylinux_2_17_aarch64"),
        (WheelTarget(python="3.14.0", glibc=(2, 36), machine="x86_64", free_threaded=True), "py3-none-any"),
    ],
)
def test_files_are_chosen_by_interpreter_glibc_and_machine(
    one: Index, target: WheelTarget, best: str
) -> None:
    for machine in ("x86_64", "aarch64"):
        for tags in ("cp313-cp313-manylinux_2_28", "cp313-cp313-manylinux2014", "cp38-abi3-manylinux_2_17"):
            one.add(f"tool-1.0-{tags}_{machine}.whl")
        one.add(f"tool-1.0-cp313-cp313t-manylinux_2_28_{machine}.whl")
        one.add(f"tool-1.0-cp313-cp313-musllinux_1_2_{machine}.whl")
    one.add(WHEEL)
    assert taken(lists(one.url), "tool==1.0", target) == f"tool-1.0-{best}.whl"


@pytest.mark.parametrize(
    ("python", "tag"), [("3.6.15", "cp36-cp36m"), ("3.7.9", "cp37-cp37m"), ("3.8.20", "cp38-cp38")]
)
def test_the_flag_of_pymalloc_was_in_the_abi_until_3_7(one: Index, python: str, tag: str) -> None:
    for abi in ("cp36-cp36m", "cp37-cp37m", "cp37-cp37", "cp38-cp38", "cp38-cp38m"):
        one.add(f"tool-1.0-{abi}-manylinux_2_17_x86_64.whl")
    target = WheelTarget(python=python, glibc=(2, 36), machine="x86_64")
    assert taken(lists(one.url), "tool==1.0", target) == f"tool-1.0-{tag}-manylinux_2_17_x86_64.whl"


def test_a_manylinux2010_is_for_intel_alone() -> None:
    arm = WheelTarget(python="3.11.2", glibc=(2, 36), machine="aarch64")
    platforms = {tag.platform for tag in arm.tags()}
    assert {"manylinux2014_aarch64", "linux_aarch64", "manylinux_2_36_aarch64"} <= platforms
    assert not {"manylinux2010_aarch64", "manylinux1_aarch64"} & platforms
    assert {"manylinux2010_x86_64", "manylinux1_x86_64"} <= {tag.platform for tag in TARGET.tags()}
