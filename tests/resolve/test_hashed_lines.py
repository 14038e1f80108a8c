"""Lines with hashes and with markers, as `uv export` and `pip-compile --generate-hashes` write them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.lock.model import Resolution
from reprobuild.resolve.markers import select_environment_lines
from reprobuild.resolve.python.archives import download_file
from reprobuild.resolve.python.resolve import LineContext, ResolvedLines, resolve_requirements
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.parsers import pip_freeze
from reprobuild.store.store import Store
from tests.resolve.served import Served
from tests.resolve.test_files import AROUND, TARGET, Index, lists, sha256

WHEEL = "tool-1.0-py3-none-any.whl"
BEST = "tool-1.0-cp311-cp311-linux_x86_64.whl"
BYTES = b"the bytes of a wheel"
HASH = hashlib.sha256(BYTES).hexdigest()


def resolved(files: FileLists, text: str, around: LineContext = AROUND) -> ResolvedLines:
    lines, _ = pip_freeze.parse(text.encode())
    return resolve_requirements(lines, files, TARGET, around)


def one(found: ResolvedLines) -> tuple[str, str]:
    (ruling,) = found.rulings
    return ruling.outcome, ruling.kind


def test_only_a_file_with_one_of_the_hashes_is_taken(served: Served) -> None:
    index, two = Index(served), Index(served, "/two")
    index.add(WHEEL, hashes={"sha256": sha256(WHEEL).upper()})
    index.add(BEST)
    two.add(WHEEL, hashes={"sha256": "2" * 64})
    files = lists(index.url, two.url)
    found = resolved(files, f"tool==1.0 --hash=sha256:{sha256(WHEEL)}")
    assert [wheel.file.filename for wheel in found.wheels] == [WHEEL]
    assert found.rulings[0].reason == f"{WHEEL} from {index.url}"
    found = resolved(files, f"tool==1.0 \\\n --hash=sha256:{'2' * 64} \\\n --hash=sha256:{'3' * 64}")
    assert [wheel.file.sha256 for wheel in found.wheels] == ["2" * 64]


def test_a_file_that_was_uploaded_again_is_not_taken(served: Served) -> None:
    index = Index(served)
    index.add(WHEEL)
    found = resolved(lists(index.url), f"tool==1.0 --hash=sha256:{'e' * 64}")
    assert (one(found), found.wheels) == (("unresolved", "other-hash"), ())
    assert found.rulings[0].reason == (
        f"no file of tool 1.0 has a hash that the freeze names; there is {WHEEL} from {index.url} (sha256 "
        f"{sha256(WHEEL)[:12]})"
    )


def test_a_file_of_which_no_hash_is_published_is_brought_and_compared(served: Served, tmp_path: Path) -> None:
    index = Index(served)
    index.add(WHEEL, hashes={})
    url = served.give(f"/files/{WHEEL}", BYTES)
    store, net = Store(tmp_path / "store"), Net(manners=RetryPolicy(tries=1))

    def listing() -> FileLists:
        places = PackageIndexes(find_links=(), simple=(index.url,), credentials={})
        return FileLists(
            places, net, bring=lambda url, name, link: download_file(url, name, store, net, link)
        )

    around = msgspec.structs.replace(
        AROUND, bring=lambda url, name, link: download_file(url, name, store, net, link)
    )
    assert one(resolved(listing(), f"tool==1.0 --hash=sha256:{HASH}")) == ("pinned", "")
    assert one(resolved(listing(), f"tool==1.0 --hash=sha256:{'e' * 64}")) == ("unresolved", "other-hash")
    two = f"tool @ {url} --hash=sha256:{'e' * 64} --hash=sha256:"
    assert one(resolved(lists(), f"{two}{HASH}", around)) == ("pinned", "")
    assert one(resolved(lists(), f"{two}{'f' * 64}", around)) == ("unresolved", "other-hash")
    line = f"tool @ {url}#sha256={HASH} --hash=sha256:{'e' * 64}"
    assert one(resolved(lists(), line, around)) == ("unresolved", "other-hash")


def told(*texts: str) -> tuple[list[str], list[Resolution]]:
    lines, _ = pip_freeze.parse("\n".join(texts).encode())
    snapshot, rulings = select_environment_lines(
        Snapshot(digest="d", requirements=lines), "3.11.2", "x86_64", drop=("left",)
    )
    return [f"{line.name} {line.version}" for line in snapshot.requirements], list(rulings)


def test_a_line_for_another_environment_is_left_out_and_said() -> None:
    lines, (ruling,) = told("a==1.0 ; sys_platform == 'win32'", "b==1.0 ; python_version >= '3.9'", "c==1.0")
    assert lines == ["b 1.0", "c 1.0"]
    assert (ruling.outcome, ruling.kind, ruling.line) == ("excluded", "marker", 1)
    assert ruling.reason == (
        'it is for other environments than Python 3.11.2 on Linux and x86_64: sys_platform == "win32"'
    )


def test_one_name_for_two_environments_is_the_one_of_this() -> None:
    texts = ("t==1.0 ; sys_platform == 'darwin'", "t==1.0+cpu ; sys_platform == 'linux'")
    assert told(*texts)[0] == told(*reversed(texts))[0] == ["t 1.0+cpu"]


@pytest.mark.parametrize(
    ("text", "lines", "outcome", "kind"),
    [
        ("a==1.0\na==2.0 ; os_name == 'posix'", ["a 1.0"], "unresolved", "pinned-twice"),
        ("a==1.0\na==1.0 ; os_name == 'posix'", ["a 1.0"], "excluded", "marker"),
        ("a==1.0 ; platform_release ~= 'x'", [], "unresolved", "unread-marker"),
        ("a==1.0\na>=2", ["a 1.0"], "unresolved", "pinned-twice"),
        ("a>=2 ; os_name == 'posix'\na==1.0", ["a 1.0"], "unresolved", "pinned-twice"),
        ("a==1.0 ; os_name == 'posix'\na>=1", ["a 1.0"], "excluded", "marker"),
        ("a<2 ; python_version < '3.9'\na>=2 ; python_version >= '3.9'", ["a None"], "excluded", "marker"),
        ("a==2.0 ; sys_platform == 'win32'\na>=2.1 ; sys_platform == 'linux'", ["a None"], "excluded", "marker"),
        ("a @ https://h/a.zip#subdirectory=x\na @ https://h/a.zip#subdirectory=y ; os_name == 'posix'",
         ["a None"], "unresolved", "pinned-twice"),
    ],
)  # fmt: skip
def test_what_nobody_can_tell_is_unresolved(text: str, lines: list[str], outcome: str, kind: str) -> None:
    found, (ruling,) = told(text)
    assert (found, ruling.outcome, ruling.kind) == (lines, outcome, kind)


def test_what_the_user_leaves_out_is_not_judged() -> None:
    assert told("left==1.0 ; platform_release ~= 'x'") == (["left 1.0"], [])
    assert told("left==1.0", "left>=2") == (["left 1.0", "left None"], [])


def test_lines_of_one_name_without_a_version_stay() -> None:
    assert told("a>=1", "a<2", "b==1") == (["a None", "a None", "b 1"], [])


def test_a_line_that_excludes_a_pin_is_named_with_it() -> None:
    _, (ruling,) = told("a==1.0", "a>=2")
    assert (ruling.line, ruling.reason) == (
        2,
        "requirements.txt:1 is for this environment, too, and pins 1.0, which `a>=2` does not allow; that one is taken",
    )


def test_the_extras_of_a_line_for_this_environment_are_those_of_its_pin() -> None:
    lines, _ = pip_freeze.parse(b"a==1\na[b] ; os_name == 'posix'\na[c] ; os_name == 'nt'")
    snapshot, rulings = select_environment_lines(Snapshot(digest="d", requirements=lines), "3.11.2", "x86_64")
    assert [line.extras for line in snapshot.requirements] == [("b",)]
    assert sorted((ruling.line, ruling.outcome) for ruling in rulings) == [(2, "excluded"), (3, "excluded")]
