"""Talking to this machine's apt: a made repository on disk, and the real sources."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from reprobuild.ecosystems.apt.apt_config import configured_index
from reprobuild.ecosystems.apt.index import SystemIndex
from reprobuild.errors import FetchError, LockError
from reprobuild.lock.system import Base
from reprobuild.resolve.system.packages import resolve_base
from reprobuild.store.store import Store
from tests.system.samples import bring, names_in, package, stanza

NO_SOURCE = (
    "give this machine's apt a source for that release, say `base: DISTRIBUTION/RELEASE` for one that it "
    "has, or lock on a machine or in a container of that release"
)


def make_suite(repository: Path, suite: str, codename: str, *stanzas: str, i386: Sequence[str] = ()) -> None:
    """Write an unsigned suite; it has i386 where there are packages for it."""
    lists = {"amd64": stanzas, **({"i386": i386} if i386 else {})}
    folder = repository / "dists" / suite
    sums = []
    for architecture, listed in lists.items():
        packages = "\n".join(listed).encode()
        name = f"main/binary-{architecture}/Packages"
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(packages)
        sums.append(f" {hashlib.sha256(packages).hexdigest()} {len(packages)} {name}\n")
    (folder / "Release").write_text(
        f"Suite: {suite}\nCodename: {codename}\nComponents: main\nArchitectures: {' '.join(lists)}\n"
        f"Date: Sat, 01 Jan 2022 00:00:00 UTC\nSHA256:\n{''.join(sums)}"
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a release, its updates, its backports, a moving name for it, and another release."""
    made = tmp_path / "repository"
    make_suite(made, "quux", "quux", stanza("tool", "1-1"), i386=[stanza("tool", "1-1", architecture="i386")])
    make_suite(made, "quux-updates", "quux-updates", stanza("tool", "1-2"))
    make_suite(made, "quux-backports", "quux-backports", stanza("tool", "2-1~bpo1"))
    make_suite(made, "stable", "quux", stanza("extra", "5"))
    make_suite(made, "other", "other", stanza("tool", "9-9"))
    return made


def apt_env(tmp_path: Path, sources: str, name: str = "s.sources") -> Mapping[str, str]:
    """Return an environment in which apt has the given sources alone."""
    (tmp_path / name).write_text(sources)
    config = tmp_path / "machine.conf"
    config.write_text(
        f'Dir::Etc::SourceList "{tmp_path / name}";\nDir::Etc::SourceParts "/dev/null";\n'
        f'Dir::State::Lists "{tmp_path / "machine-lists"}";\n'
        'Acquire::http::Proxy "http://user:hunter2@proxy.test:3128";\n'
        f'APT::Update::Pre-Invoke {{ "touch {tmp_path / "hook-ran"}"; }};\n'
    )
    return {**os.environ, "APT_CONFIG": str(config)}


def versions(found: SystemIndex, name: str) -> list[str]:
    return [candidate.version for candidate in found.versions(name)]


SUITES = "Types: deb deb-src\nURIs: file:{0}\nSuites: {1}\nComponents: main\nTrusted: yes\n"


def test_exactly_the_suites_of_the_release_are_read(repository: Path, tmp_path: Path) -> None:
    sources = SUITES.format(repository, "quux quux-updates quux-backports stable other")
    found = configured_index("debian", "quux", env=apt_env(tmp_path, sources), folder=tmp_path / "apt")
    assert versions(found, "tool") == ["2-1~bpo1", "1-2", "1-1"]
    assert [c.automatic for c in found.versions("tool")] == [False, True, True]
    assert found.versions("tool")[1].file.url.endswith(f"{repository}/pool/tool_1-2_amd64.deb")


def test_a_foreign_architecture_is_asked_of_the_same_sources(repository: Path, tmp_path: Path) -> None:
    env = apt_env(tmp_path, SUITES.format(repository, "quux quux-updates"))
    found = configured_index("debian", "quux", env=env, folder=tmp_path / "apt", foreign=("i386",))
    assert (versions(found, "tool"), versions(found, "tool:i386")) == (["1-2", "1-1"], ["1-1"])
    assert found.versions("tool:i386")[0].file.url.endswith("/pool/tool_1-1_i386.deb")
    found = configured_index("debian", "quux", env=env, folder=tmp_path / "apt")
    assert (versions(found, "tool"), versions(found, "tool:i386")) == (["1-2", "1-1"], [])
    with pytest.raises(LockError, match="for `amd64 i386; x` is not a release"):
        configured_index("debian", "quux", env=env, folder=tmp_path / "apt", foreign=("i386; x",))


def test_a_moving_name_is_the_release_that_its_release_file_says(repository: Path, tmp_path: Path) -> None:
    env = apt_env(tmp_path, SUITES.format(repository, "stable other"))
    found = configured_index("debian", "quux", env=env, folder=tmp_path / "apt")
    assert (versions(found, "extra"), versions(found, "tool")) == (["5"], [])
    with pytest.raises(LockError, match="no source for debian/corge"):
        configured_index("debian", "corge", env=env, folder=tmp_path / "apt")


def test_offline_reads_only_the_sources_of_this_machine(repository: Path, tmp_path: Path) -> None:
    env = apt_env(tmp_path, SUITES.format(repository, "quux"))
    index = configured_index("debian", "quux", env=env, folder=tmp_path / "apt", offline=True)
    assert versions(index, "extra") == versions(
        configured_index("debian", "quux", env=env, folder=tmp_path / "apt"), "extra"
    )
    remote = SUITES.format(repository, "quux").replace("file:", "http://user:hunter2@mirror.test")
    with pytest.raises(FetchError, match="--offline forbids the network") as caught:
        configured_index(
            "debian", "quux", env=apt_env(tmp_path, remote), folder=tmp_path / "apt", offline=True
        )
    assert "hunter2" not in str(caught.value)
    assert caught.value.hint == "run without --offline once"


def test_hooks_do_not_run_and_no_secret_stays(repository: Path, tmp_path: Path) -> None:
    env = apt_env(tmp_path, SUITES.format(repository, "quux"))
    configured_index("debian", "quux", env=env, folder=tmp_path / "apt")
    assert not (tmp_path / "hook-ran").exists()
    assert not (tmp_path / "machine-lists").exists()
    kept = [path for path in (tmp_path / "apt").rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if b"hunter2" in path.read_bytes()]


def test_options_of_one_line_sources_are_kept(repository: Path, tmp_path: Path) -> None:
    line = f"# a comment\ndeb [arch=amd64 trusted=yes] file:{repository} quux main\n"
    env = apt_env(tmp_path, line, "s.list")
    assert versions(configured_index("debian", "quux", env=env, folder=tmp_path / "apt"), "tool") == ["1-1"]


def test_an_untrusted_source_stays_untrusted(repository: Path, tmp_path: Path) -> None:
    env = apt_env(tmp_path, f"deb file:{repository} quux main\n", "s.list")
    with pytest.raises(FetchError, match="could not fetch the package lists") as err:
        configured_index("debian", "quux", env=env, folder=tmp_path / "apt")
    assert err.value.hint == "`apt-get update` must work on this machine for the sources of that release"
    assert not (tmp_path / "apt/quux-amd64/apt.conf").exists()


def test_a_release_without_a_source_is_named(repository: Path, tmp_path: Path) -> None:
    env = apt_env(tmp_path, SUITES.format(repository, "quux"))
    with pytest.raises(LockError, match="no source for ubuntu/jammy") as err:
        configured_index("ubuntu", "jammy", env=env, folder=tmp_path / "apt")
    assert err.value.hint == NO_SOURCE


def test_a_machine_without_apt_is_told_where_to_lock(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="`apt-get` is not on PATH") as err:
        configured_index("debian", "bookworm", env={"PATH": str(tmp_path)}, folder=tmp_path / "apt")
    assert err.value.hint == "lock on a Debian or Ubuntu machine, or in a container of one"


def test_names_that_would_break_the_configuration_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="not a release that apt could know") as err:
        configured_index("debian", 'bookworm"; x', env=os.environ, folder=tmp_path)
    assert err.value.hint == NO_SOURCE
    with pytest.raises(LockError, match="apt cannot use the directory") as err:
        configured_index("debian", "bookworm", env=os.environ, folder=tmp_path / 'a";b')
    assert err.value.hint == "choose a store with a plainer path"


def test_the_system_is_left_alone(store: Store, bookworm: SystemIndex) -> None:
    lists = Path("/var/lib/apt")
    before = {name: (lists / name).lstat().st_mtime_ns for name in names_in(lists)}
    configured_index("debian", "bookworm", env=os.environ, folder=store.root / "apt")
    assert {name: (lists / name).lstat().st_mtime_ns for name in names_in(lists)} == before


def test_the_real_release_has_its_essential_packages(bookworm: SystemIndex) -> None:
    assert {"base-files", "bash", "dpkg", "libc-bin"} <= set(bookworm.essential)
    assert "mawk" in bookworm.providers("awk")


def test_real_packages_are_the_bytes_that_the_index_names(bookworm: SystemIndex, store: Store) -> None:
    captured = (package("hostname", "3.23+nmu1", "manual"), package("no-such-package", "1", "manual"))
    base, rulings = resolve_base(captured, index=bookworm, roots=["python3.11"])
    assert {r.outcome for r in rulings if r.subject == "hostname"} <= {"pinned", "replaced"}
    some = [deb for deb in base.packages if deb.name in ("hostname", "media-types")]
    assert len(some) == 2
    bring(some, store)


def test_a_real_base_is_closed(base: Base) -> None:
    names = {deb.name for deb in base.packages}
    assert {"python3.11", "libc6", "mawk", "usr-is-merged"} <= names
    assert "usrmerge" not in names
    assert [deb.name for deb in base.tools] == ["fakeroot", "libfakeroot"]
