"""Versions as of a date, of an index that publishes no upload times."""

from __future__ import annotations

import base64
import gzip
import os
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.errors import BuildError, FetchError, LockError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.resolve.ages.dated_indexes import dated_indexes
from reprobuild.resolve.ages.loopback import check_archive
from reprobuild.resolve.ages.past_releases import PastReleases
from reprobuild.resolve.as_of import SolvedLines, solve_open_lines
from reprobuild.resolve.builds.build_requires import BuildWheelSource
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.python.context import make_file_lists
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.parsers import pip_freeze
from reprobuild.store.store import Store
from tests.resolve.untimed import CONSTANT, UntimedIndex, make_sdist, make_wheel, seconds

ONLY = {"setup.py": "raise SystemExit\n", "PKG-INFO": "Metadata-Version: 2.2\nName: only\nVersion: 1.0\n"}
PROXIES = ("HTTP_PROXY", "http_proxy")


@pytest.fixture
def index() -> Iterator[UntimedIndex]:
    with UntimedIndex() as index:
        index.add(
            make_wheel("top", "1.0", "2022-01-01"),
            make_wheel("top", "1.1", "2023-01-01", requires="below>=1"),
            make_wheel("top", "1.2", "2024-01-01"),
            make_wheel("below", "1.0", "2022-06-01"),
            make_wheel("below", "1.1", CONSTANT),
            make_wheel("below", "2.0", "2023-09-01"),
        )
        yield index


def around(
    folder: Path,
    *roots: str,
    logins: dict[str, tuple[str, str]] | None = None,
    env: dict[str, str] | None = None,
) -> ResolveContext:
    return ResolveContext(
        store=Store(folder / "store"), now=seconds("2026-11-01"), folder=folder, say=lambda text: None,
        net=Net(credentials=logins or {}, manners=RetryPolicy(tries=1, connect=5, read=10)),
        # A proxy of the machine must not see the loopback.
        env={**os.environ, **dict.fromkeys(PROXIES, "http://127.0.0.1:9"), **(env or {})},
        indexes=PackageIndexes(find_links=(), simple=roots, credentials=logins or {}),
    )  # fmt: skip


def solve(text: str, context: ResolveContext, date: str = "2023-06-01", **indexes: str) -> SolvedLines:
    lines = Snapshot(digest="", requirements=pip_freeze.parse(text.encode())[0])
    decisions = Decisions(as_of=date, indexes=indexes)
    files = make_file_lists(decisions, context.services, context)
    return solve_open_lines(lines, decisions, "3.11.2", "x86_64", files, context)


def versions(solved: SolvedLines) -> dict[str, str | None]:
    return {line.name: line.version for line in solved.snapshot.requirements}


def test_files_date_the_releases(index: UntimedIndex, tmp_path: Path) -> None:
    solved = solve("top\n", around(tmp_path, index.root))
    assert versions(solved) == {"top": "1.1", "below": "1.0"}
    when = "as of the end of 2023-06-01 (--as-of), uv chose"
    assert solved.reasons == {
        "top": f"{when} 1.1 (the newest file in top-1.1-py3-none-any.whl is of 2023-01-01) for `top`",
        "below": f"{when} 1.0 (the newest file in below-1.0-py3-none-any.whl is of 2022-06-01; without evidence of "
        "their age: 1.1): the requirements of other lines need it",
    }


def test_uv_gets_nothing_but_what_this_process_fetched(index: UntimedIndex, tmp_path: Path) -> None:
    index.add(make_sdist("only", "1.0", written="2023-01-01", files=ONLY))
    solve("top\nonly\n", around(tmp_path, index.root))
    wheels = [wished for path, wished, _ in index.asked if path.endswith(".whl")]
    assert wheels
    assert all(wheels)  # by Range alone, and each once
    paths = [path for path, _, _ in index.asked if path.endswith((".whl", "/"))]
    assert len(paths) == len(set(paths))


def test_a_captured_version_needs_no_evidence(index: UntimedIndex, tmp_path: Path) -> None:
    assert versions(solve("top\nbelow==1.1\n", around(tmp_path, index.root))) == {
        "top": "1.1",
        "below": "1.1",
    }


def test_a_local_label_is_of_the_version_without_it(index: UntimedIndex, tmp_path: Path) -> None:
    assert versions(solve("top\nbelow==1.1+cpu\n", around(tmp_path, index.root)))["below"] == "1.1+cpu"


def test_an_index_with_upload_times_needs_no_evidence(index: UntimedIndex, tmp_path: Path) -> None:
    index.uploads = {name: "2022-01-01T00:00:00Z" for files in index.files.values() for name in files}
    solved = solve("top\n", around(tmp_path, index.root))
    assert versions(solved)["top"] == "1.2"
    assert solved.reasons["top"].endswith("uv chose 1.2 for `top`")


def test_no_variable_of_the_user_reaches_uv(index: UntimedIndex, tmp_path: Path) -> None:
    """An index chooses the hosts of its files, so a login of a netrc file must not follow them."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login joe password netrc-secret\n")
    index.uploads = {name: "2022-01-01T00:00:00Z" for files in index.files.values() for name in files}
    env = {
        "NETRC": str(netrc),
        "UV_EXTRA_INDEX_URL": "http://127.0.0.1:9/simple",
        "UV_PRERELEASE": "disallow",
    }
    assert versions(solve("top\n", around(tmp_path, index.root, env=env)))["top"] == "1.2"
    assert {login for *_, login in index.asked} == {None}


@pytest.mark.parametrize(("size", "message"), [(300 << 20, "unpacks to"), (-1, None)])
def test_a_source_archive_that_unpacks_to_much_is_not_served(
    size: int, message: str | None, tmp_path: Path
) -> None:
    member = tarfile.TarInfo("only-1.0/PKG-INFO")
    member.size = max(size, 0)
    path = tmp_path / "only-1.0.tar.gz"
    path.write_bytes(gzip.compress(member.tobuf() + b"\0" * 1024))
    if message is None:
        check_archive(path, path.name)
        return
    with pytest.raises(BuildError, match=message):
        check_archive(path, path.name)


def test_a_project_comes_only_from_the_index_that_the_user_names(index: UntimedIndex, tmp_path: Path) -> None:
    index.add(make_wheel("mine", "9.0", "2022-01-01"))
    with UntimedIndex() as own:
        own.add(
            make_wheel("mine", "1.0", "2022-01-01", requires="top"), make_wheel("top", "1.1.5", "2023-02-01")
        )
        solved = solve("mine\n", around(tmp_path, index.root), mine=own.root)
        own.uploads = {"mine-1.0-py3-none-any.whl": "2024-01-01T00:00:00Z"}
        with pytest.raises(LockError, match="mine was not found"):  # its upload was later
            solve("mine\n", around(tmp_path / "later", index.root), mine=own.root)
    assert versions(solved) == {"mine": "1.0", "top": "1.1", "below": "1.0"}


@pytest.mark.parametrize("indexes", [(), ("public",)])
def test_a_directory_that_the_user_names(
    indexes: tuple[str, ...], index: UntimedIndex, tmp_path: Path
) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    files = [
        make_wheel("mine", "1.0", "2022-01-01", size=3 << 20),
        make_wheel("mine", "1.1", "2024-01-01"),
        make_wheel("mine_too", "7.0", "2022-01-01"),
        make_sdist("mine", "1.0.5", written="2023-01-01", newest="2023-01-01", files=ONLY),
    ]
    for name, content in files:
        (folder / name).write_bytes(content)
    solved = solve("mine\n", around(tmp_path, *(index.root for _ in indexes)), mine=str(folder))
    assert versions(solved) == {"mine": "1.0.5"}
    assert "mine-1.0.5.tar.gz was written on 2023-01-01" in solved.reasons["mine"]


def test_the_hint_of_an_unknown_name_is_followed(index: UntimedIndex, tmp_path: Path) -> None:
    index.add(make_wheel("numpy", "1.24.0", "2022-12-18"))
    with pytest.raises(LockError) as misspelt:
        solve("nunpy\n", around(tmp_path, index.root))
    assert misspelt.value.hint == "if it is numpy, write that in place of nunpy in requirements.txt"
    assert versions(solve("numpy\n", around(tmp_path, index.root))) == {"numpy": "1.24.0"}
    with pytest.raises(LockError) as unknown:
        solve("mine\n", around(tmp_path, index.root))
    assert unknown.value.hint == (
        "correct the name, or name the index or the directory that has it: --index mine=URL"
    )
    with UntimedIndex() as own:
        own.add(make_wheel("mine", "1.0", "2022-01-01"))
        assert versions(solve("mine\n", around(tmp_path, index.root), mine=own.root)) == {"mine": "1.0"}


@pytest.mark.parametrize(
    ("uploaded", "hint", "later"),
    [
        (
            "2024-03-02T01:00:00Z",
            "no release of mine is that old: its first file is of 2024-03-02; choose that date or a later one",
            "2024-03-02",
        ),
        ("", "no release of mine is that old: choose a later date", "2024-06-01"),
    ],
)
def test_the_hint_of_a_date_before_the_first_release_is_followed(
    uploaded: str, hint: str, later: str, tmp_path: Path
) -> None:
    with UntimedIndex() as own:
        own.add(make_wheel("mine", "1.0", "2024-01-01"))
        if uploaded:
            own.uploads = {"mine-1.0-py3-none-any.whl": uploaded}
        with pytest.raises(LockError) as early:
            solve("mine\n", around(tmp_path, own.root))
        assert early.value.hint == hint
        assert "exclude-newer" not in str(early.value)
        assert versions(solve("mine\n", around(tmp_path, own.root), date=later)) == {"mine": "1.0"}


@pytest.mark.parametrize("line", ["mine", "mine==1.0"])
def test_the_hint_of_a_local_index_without_times_is_followed(line: str, tmp_path: Path) -> None:
    page = tmp_path / "simple" / "mine" / "index.html"
    page.parent.mkdir(parents=True)
    files = [make_wheel("mine", "1.0", "2022-01-01"), make_wheel("mine", "1.1", "2024-01-01")]
    for name, content in files:
        page.with_name(name).write_bytes(content)
    page.write_text("".join(f'<a href="{name}">{name}</a>' for name, _ in files))
    url = (tmp_path / "simple").as_uri()
    context = around(tmp_path, url)
    with pytest.raises(LockError) as err:
        solve(f"{line}\n", context)
    assert err.value.hint == (
        f"{url} has no upload times; name it for mine, and its files give dates: --index mine={url}"
    )
    assert versions(solve(f"{line}\n", context, mine=url)) == {"mine": "1.0"}


def test_without_an_index_uv_asks_no_other(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="iniconfig was not found in the provided package locations"):
        solve("iniconfig\n", around(tmp_path))


def test_times_of_another_index_are_evidence(index: UntimedIndex, tmp_path: Path) -> None:
    with UntimedIndex() as timed:
        timed.add(make_wheel("below", "1.1", CONSTANT), make_wheel("top", "1.0", CONSTANT))
        timed.uploads = {
            "below-1.1-py3-none-any.whl": "2023-02-01T00:00:00Z",
            "top-1.0-py3-none-any.whl": "2022-01-01T00:00:00Z",
        }
        solved = solve("top\n", around(tmp_path, index.root, timed.root))
    assert versions(solved) == {"top": "1.1", "below": "1.1"}
    assert "uv chose 1.1 (uploaded on 2023-02-01)" in solved.reasons["below"]


def test_releases_without_evidence_are_named_if_no_versions_fit(index: UntimedIndex, tmp_path: Path) -> None:
    with pytest.raises(LockError) as err:
        solve("below>1.0\n", around(tmp_path, index.root))
    assert "releases without evidence of their age: below (1.1)" in str(err.value)
    assert "127.0.0.1" not in str(err.value).replace(index.root, "")
    assert err.value.hint == "write a version into requirements.txt, as in below==VERSION"


def test_a_login_goes_to_its_index_alone(index: UntimedIndex, tmp_path: Path) -> None:
    index.login = "needed"
    context = around(tmp_path, index.root, logins={index.root: ("me", "p4ss-word")})
    solved = solve("top\n", context)
    assert versions(solved)["top"] == "1.1"
    expected = "Basic " + base64.b64encode(b"me:p4ss-word").decode()
    assert {login for _, _, login in index.asked} == {expected}
    assert "p4ss-word" not in str(solved.reasons)


def test_an_index_that_refuses_is_an_error(index: UntimedIndex, tmp_path: Path) -> None:
    index.broken = True
    with pytest.raises(FetchError, match="gives no list of the files of top"):
        solve("top\n", around(tmp_path, index.root))


def test_the_server_answers_nobody_else(index: UntimedIndex, tmp_path: Path) -> None:
    context = around(tmp_path, index.root)
    lines = pip_freeze.parse(b"top\n")[0]
    files = make_file_lists(Decisions(), context.services, context)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with dated_indexes("2023-06-02T00:00:00Z", lines, files, context, ("3.11.2", "x86_64")) as dated:
        (address,) = dated.addresses.values()
        root, _, number = address.rpartition("/")
        assert root.startswith("http://127.0.0.1:")
        host, _, secret = root.rpartition("/")
        assert len(secret) == 32
        with opener.open(f"{address}/top/") as reply:
            page = reply.read()
        assert b"p4ss" not in page
        assert index.host.encode() not in page  # files come from this process, too
        wrong = (
            "", f"x/{number}/top/", f"{secret}/9/top/", f"{secret}/+files/x/top-1.0-py3-none-any.whl",
            f"{secret}/{number}/..%2f..%2fetc/", f"{secret}/{number}/unknown/", f"{secret}/-1/top/",
        )  # fmt: skip
        for path in wrong:
            with pytest.raises(urllib.error.HTTPError) as err:
                opener.open(f"{host}/{path}")
            assert err.value.code == 404
            err.value.close()
    with pytest.raises(urllib.error.URLError):
        opener.open(f"{address}/top/")  # it is gone


def test_files_that_uv_cannot_choose_are_left_out(index: UntimedIndex, tmp_path: Path) -> None:
    """A page of a large project has thousands of them."""
    _, content = make_wheel("top", "1.1", "2023-01-01")
    index.add(
        ("top-1.1-cp311-cp311-win_amd64.whl", content),
        ("top-1.1-cp311-cp311-manylinux_2_17_x86_64.whl", content),
    )
    index.uploads = {name: "2022-01-01T00:00:00Z" for files in index.files.values() for name in files}
    index.uploads["top-1.2-py3-none-any.whl"] = "2024-01-01T00:00:00Z"
    context, lines = around(tmp_path, index.root), pip_freeze.parse(b"top\n")[0]
    files = make_file_lists(Decisions(), context.services, context)
    with dated_indexes("2023-06-02T00:00:00Z", lines, files, context, ("3.11.2", "x86_64")) as dated:
        names = {file.filename for file in dated.page(0, "top")}
    assert "top-1.1-cp311-cp311-manylinux_2_17_x86_64.whl" in names
    assert not names & {"top-1.1-cp311-cp311-win_amd64.whl", "top-1.2-py3-none-any.whl"}


@pytest.mark.parametrize("timed", [False, True])
def test_what_a_build_requires_is_of_the_moment(timed: bool, index: UntimedIndex, tmp_path: Path) -> None:
    """By upload times, or by the evidence in files; a project of no index has no bound."""
    if timed:
        days = {"1.0": "2022-01-01", "1.1": "2023-01-01", "1.2": "2024-01-01", "2.0": "2023-09-01"}
        index.uploads = {
            name: f"{days[name.split('-')[1]]}T00:00:00Z" for files in index.files.values() for name in files
        }
    context = around(tmp_path, index.root)
    files = make_file_lists(Decisions(), context.services, context)
    target = WheelTarget(python="3.11.2", glibc=(2, 36), machine="x86_64")
    for moment, version in (("2023-06-02T00:00:00Z", "1.1"), ("2026-01-01T00:00:00Z", "1.2")):
        past = PastReleases(moment, files, context, ("3.11.2", "x86_64"))
        source = BuildWheelSource(files, target, context.store, lambda _: None, (), past=past)
        wheel = source.pick("top", SpecifierSet())
        assert wheel
        assert wheel.version == version
        assert past.find_versions("unknown") is None
    assert solve("top\n", context).moment == "2023-06-02T00:00:00Z"
