"""The release that stands in where no package list was captured: rpm hosts, conda, a freeze alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.apt.apt_config import configured_releases
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.errors import LockError
from reprobuild.infra.http.client import Net
from reprobuild.infra.untrusted.wheels import list_wheel_tags
from reprobuild.lock.model import Lock
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.interpreter.choice import resolve_interpreter
from reprobuild.resolve.interpreter.evidence import gather_evidence
from reprobuild.resolve.python.wheel_glibc import find_wheel_glibc, glibc_of
from reprobuild.resolve.resolver import resolve_snapshot
from reprobuild.resolve.system.base_fallback import (
    ReleaseNeed,
    choose_default_release,
    derive_release_need,
)
from reprobuild.resolve.system.release import known_releases
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from tests.resolve.repositories import requirement
from tests.system.samples import EPOCH
from tests.system.test_apt_index import apt_env, make_suite

ALL = [one.codename for one in known_releases()]
# Only their names matter to which glibc is needed.
WHEELS = (
    "plain-1-py3-none-any.whl",
    "fast-1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
    "fast-1-cp311-cp311-manylinux_2_34_x86_64.whl",
    "fast-1-cp312-cp312-manylinux_2_39_x86_64.whl",
    "fast-2-cp311-cp311-manylinux_2_39_aarch64.whl",
    "fast-2-cp311-cp311-manylinux_2_28_x86_64.whl",
    "fast-2-cp311-cp311-musllinux_1_2_x86_64.whl",
    "late-1-cp311-abi3-manylinux_2_35_x86_64.whl",
    "local-1-cp311-cp311-linux_x86_64.whl",
)


def captured(folder: Path, **files: str) -> Snapshot:
    """Write a snapshot of files whose dots and dashes are `_` here, and read it."""
    names = {
        "freeze": "requirements.txt", "rpm": "rpm-packages.txt", "conda": "conda-explicit.txt",
        "collect_env": "collect_env.txt", "capture": "capture.json",
    }  # fmt: skip
    folder.mkdir()
    for name, text in files.items():
        (folder / names[name]).write_text(text)
    return read_snapshot(folder)


@pytest.fixture
def lists(tmp_path: Path) -> FileLists:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in WHEELS:
        (folder / name).touch()
    links = PackageIndexes(find_links=(folder.as_uri(),), simple=(), credentials={})
    return FileLists(links, Net(offline=True))


def needed(snapshot: Snapshot, lists: FileLists, python: str | None = "3.11") -> ReleaseNeed:
    interpreter = resolve_interpreter(gather_evidence(snapshot), python)
    of_wheels = find_wheel_glibc(snapshot.requirements, interpreter, lists, "x86_64")
    return derive_release_need(snapshot, interpreter, of_wheels)


def test_the_wheels_of_a_free_threaded_python(tmp_path: Path) -> None:
    for tag, glibc in (("cp313", "28"), ("cp313t", "39")):
        (tmp_path / f"fast-1-cp313-{tag}-manylinux_2_{glibc}_x86_64.whl").touch()
    links = FileLists(
        PackageIndexes(find_links=(tmp_path.as_uri(),), simple=(), credentials={}), Net(offline=True)
    )
    given = Snapshot(digest="", requirements=(requirement("fast==1"),))
    assert needed(given, links, "3.13").glibc == (2, 28)
    assert needed(given, links, "3.13t").glibc == (2, 39)


@pytest.mark.parametrize(
    ("freeze", "glibc", "told"),
    [
        ("plain==1", (0, 0), "plain-1-py3-none-any.whl, requirements.txt:1"),
        ("local==1", (0, 0), "local-1-cp311-cp311-linux_x86_64.whl, requirements.txt:1"),
        ("gone==1", (0, 0), "nothing tells one"),
        ("plain==1\nfast==1", (2, 17), "fast-1-cp311-cp311-manylinux2014_x86_64"),
        ("fast==2", (2, 28), "fast-2-cp311-cp311-manylinux_2_28_x86_64.whl, requirements.txt:1"),
        ("fast==2\nlate==1\nplain==1", (2, 35), "late-1-cp311-abi3-manylinux_2_35_x86_64.whl, requirements.txt:2"),
        ("-e /home/u/late", (0, 0), "nothing tells one"),
    ],
)  # fmt: skip
def test_the_glibc_that_the_wheels_need(
    freeze: str, glibc: tuple[int, int], told: str, lists: FileLists, tmp_path: Path
) -> None:
    need = needed(captured(tmp_path / "s", freeze=freeze), lists)
    assert need.glibc == glibc
    assert need.glibc_from.startswith(told)


@pytest.mark.parametrize(
    ("filename", "glibc"),
    [
        ("a-1-cp36-cp36m-manylinux1_x86_64.whl", (2, 5)),
        ("a-1-cp36-cp36m-manylinux2010_x86_64.whl", (2, 12)),
        ("a-1-cp36-cp36m-manylinux2010_x86_64.manylinux_2_28_x86_64.whl", (2, 12)),
        ("a-1-py3-none-manylinux_2_999_x86_64.whl", (2, 999)),
        ("a-1-py3-none-any.whl", (0, 0)),
    ],
)
def test_the_glibc_of_a_tag(filename: str, glibc: tuple[int, int]) -> None:
    assert glibc_of(tag[2] for tag in list_wheel_tags(filename)) == glibc


def test_what_the_host_had_counts(lists: FileLists, tmp_path: Path) -> None:
    rpm = captured(
        tmp_path / "rpm",
        freeze="fast==2",
        rpm="bash 5.1-2.el9 x86_64\nglibc 2.34-60.el9 x86_64\npython3 3.9.18-3.el9 x86_64\n"
        "python3.11 3.11.7-1.el9 x86_64\n",
    )
    need = needed(rpm, lists, None)
    assert (need.python, need.glibc, need.family) == ("3.9", (2, 34), "")
    assert need.glibc_from == "the captured host had glibc 2.34-60.el9, rpm-packages.txt:2"
    assert need.python_from == "rpm's python3 3.9.18-3.el9, rpm-packages.txt:3"
    taken = captured(
        tmp_path / "capture",
        capture='{"capture": 1, "repositories": [], "python": {"version": "3.11.5", "implementation": "CPython", '
        '"libc": "glibc 2.36"}}',
    )
    need = needed(taken, lists, None)
    assert (need.python, need.glibc, need.glibc_from) == (
        "3.11", (2, 36), "the captured host had glibc 2.36, capture.json:1",
    )  # fmt: skip
    assert need.python_from == "capture, capture.json:1"
    torch = captured(
        tmp_path / "torch",
        collect_env="PyTorch version: 2.5.1\nOS: Ubuntu 22.04.3 LTS (x86_64)\nLibc version: glibc-2.35\n"
        "Python version: 3.10.12 (main) [GCC 11.4.0] (64-bit runtime)\n",
    )
    need = needed(torch, lists, None)
    assert (need.python, need.glibc, need.family, need.number) == ("3.10", (2, 35), "ubuntu", "22.04")
    conda = captured(
        tmp_path / "conda",
        conda="@EXPLICIT\nhttps://conda.example/linux-64/python-3.12.4-h1_0.conda\n",
    )
    assert needed(conda, lists, None).python == "3.12"


@pytest.mark.parametrize(
    ("need", "available", "label"),
    [
        (ReleaseNeed(python="3.11", python_from="x", glibc=(2, 34), glibc_from="y"), ALL, "debian/bookworm"),
        (ReleaseNeed(python="3.12", python_from="x", glibc=(2, 28), glibc_from="y"), ALL, "ubuntu/noble"),
        (
            ReleaseNeed(python="3.13", python_from="x"),
            ["unknown", "bookworm", "trixie", "trixie"],
            "debian/trixie",
        ),
    ],
)
def test_the_release_that_fits(need: ReleaseNeed, available: list[str], label: str) -> None:
    release = choose_default_release(need, available)
    assert f"{release.distribution}/{release.codename}" == label
    assert release.evidence.startswith(f"{label} has Python {need.python} and glibc ")


def test_the_family_comes_before_the_nearest_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    """No two releases of one Python are known today but for their patch releases; so the table is a made one."""
    rows = {one.codename: one for one in known_releases()}
    made = tuple(
        type(rows["jammy"])(
            **{f: getattr(rows[name], f) for f in rows[name].__struct_fields__} | {"python": "3.10"}
        )
        for name in ("bookworm", "trixie", "jammy", "noble")
    )
    monkeypatch.setattr("reprobuild.resolve.system.base_fallback.known_releases", lambda: made)
    names = [one.codename for one in made]

    def chosen(family: str, number: str, glibc: tuple[int, int]) -> str:
        need = ReleaseNeed(python="3.10", python_from="x", glibc=glibc, family=family, number=number)
        return choose_default_release(need, names).codename

    assert chosen("", "", (2, 30)) == "jammy"
    assert chosen("", "", (2, 36)) == "bookworm"
    assert chosen("debian", "", (2, 30)) == "bookworm"
    assert chosen("debian", "13", (2, 30)) == "trixie"
    assert chosen("ubuntu", "22.04", (2, 36)) == "noble"


def test_where_nothing_fits_it_is_said_what_was_needed_and_what_there_is() -> None:
    need = ReleaseNeed(python="3.12", python_from="capture.json:1", glibc=(2, 28), glibc_from="torch.whl")
    with pytest.raises(LockError) as err:
        choose_default_release(need, ["bookworm", "jammy"])
    assert str(err.value) == (
        "no list of apt's packages was captured, and no release that can be had fits; needed: Python 3.12 "
        "(capture.json:1) and glibc 2.28 or later (torch.whl); debian/bookworm has Python 3.11 and glibc 2.36; "
        "ubuntu/jammy has Python 3.10 and glibc 2.35"
    )
    assert err.value.hint == (
        "give this machine's apt a source for a release that fits (ubuntu/noble would fit), or decide: "
        "`--base debian/bookworm`, or another Python, `--python X.Y`"
    )
    with pytest.raises(LockError, match=r"there is none$") as err:
        choose_default_release(ReleaseNeed(python="3.2", python_from="x"), [])
    assert err.value.hint.startswith("give this machine's apt a source for a release that fits, or decide")


def test_dated_archives_are_asked_where_apt_has_nothing_that_fits() -> None:
    need = ReleaseNeed(python="3.12", python_from="x", family="debian")
    found = choose_default_release(need, ["bookworm"], ALL)
    assert found.codename == "noble"
    assert "2034-04-25), and is not in this machine's apt sources; needed: Python 3.12" in found.evidence
    need = ReleaseNeed(python="3.11", python_from="x")
    assert "apt sources" not in choose_default_release(need, ["bookworm"], ALL).evidence
    with pytest.raises(
        LockError, match=r"needed: Python 3\.99 .*; debian/bookworm has .*; debian/buster has"
    ) as err:
        choose_default_release(ReleaseNeed(python="3.99", python_from="x"), ["bookworm"], ALL)
    assert err.value.hint.endswith("`--python X.Y`")


def test_the_releases_of_this_machines_apt(tmp_path: Path) -> None:
    made = tmp_path / "repository"
    for suite, codename in (("quux", "quux"), ("quux-updates", "quux-updates"), ("stable", "quux")):
        make_suite(made, suite, codename)
    env = apt_env(
        tmp_path, f"Types: deb\nURIs: file:{made}\nSuites: stable quux-updates quux\nComponents: main\n"
    )
    assert configured_releases(env) == ("quux",)
    assert configured_releases({"PATH": str(tmp_path)}) == ()


@pytest.fixture
def around(store: Store, tmp_path: Path) -> ResolveContext:
    return ResolveContext(
        store=store, net=Net(), env=os.environ, folder=tmp_path, say=lambda text: None, now=EPOCH,
        indexes=PackageIndexes(find_links=(), simple=(), credentials={}),
    )  # fmt: skip


def locked(snapshot: Snapshot, around: ResolveContext, accept: tuple[str, ...] = ("no-apt-list",)) -> Lock:
    return resolve_snapshot(snapshot, Decisions(accept=accept), around)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"rpm": "glibc 2.34-60.el9 x86_64\npython3.11 3.11.7-1.el9 x86_64\n"},
         "needed: Python 3.11 (rpm's python3.11 3.11.7-1.el9, rpm-packages.txt:2) and glibc 2.34 or later"),
    ],
)  # fmt: skip
def test_a_lock_without_a_package_list(
    files: dict[str, str], told: str, around: ResolveContext, tmp_path: Path
) -> None:
    snapshot = captured(tmp_path / "s", **files)
    with pytest.raises(LockError) as err:
        locked(snapshot, around, ())
    assert "no package list" not in str(err.value)
    assert (
        "  rpm-packages.txt: replaced (no-apt-list): the host had 2 packages of rpm, and the image, of Debian or "
        "Ubuntu, will have none of them; the base is what debian/bookworm holds now of what is needed; "
    ) in str(err.value)
    assert err.value.hint.endswith("--accept no-apt-list --accept python-patch")
    lock = locked(snapshot, around, ("no-apt-list", "python-patch"))
    assert (lock.base.distribution, lock.base.release) == ("debian", "bookworm")
    assert lock.interpreter.version.startswith("3.11.")  # whole, as the base has it
    (ruling,) = (one for one in lock.rulings if one.kind == "no-apt-list")
    assert ruling.accepted
    assert told in ruling.reason


def test_a_freeze_alone_needs_the_python_to_be_said(around: ResolveContext, tmp_path: Path) -> None:
    snapshot = captured(tmp_path / "s", freeze="# nothing\n")
    with pytest.raises(LockError, match="no file of the snapshot shows which Python it was") as err:
        locked(snapshot, around)
    assert err.value.hint.startswith("say it: --python")
    lock = resolve_snapshot(snapshot, Decisions(python="3.11", accept=("no-apt-list",)), around)
    assert lock.base.release == "bookworm"
