"""A captured base with all that maintainer scripts do, a PPA and a foreign architecture, installed twice.

As root now, and as an ordinary user more than a year later. The forty of `make proof` are these and more.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from proof import clock
from proof.subjects import FEW, FORTY, captured_base
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.reading import list_tar, read_tar
from reprobuild.lock.file import read_lock
from reprobuild.lock.model import Resolution
from reprobuild.lock.system import Base
from reprobuild.realise.base import realise_base
from reprobuild.store.store import Store
from tests.conftest import reprobuild
from tests.system.samples import EPOCH, ORDINARY_USER, bring_all

CHECKOUT = Path(__file__).resolve().parents[2]
REALISE = """
import sys
from pathlib import Path
import msgspec
from proof.clock import live_later
from reprobuild.lock.system import Base
from reprobuild.realise.base import realise_base
from reprobuild.store.store import Store
live_later()
base = msgspec.json.decode(sys.stdin.buffer.read(), type=Base)
print(realise_base(base, Store(Path(sys.argv[1])), int(sys.argv[2])))
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the archive, the configuration of apt and the snapshot are."""
    return tmp_path_factory.mktemp("made") / "work"


@pytest.fixture(scope="module")
def captured(work: Path, store: Store) -> tuple[Base, tuple[Resolution, ...]]:
    """The base, every file in the store, and the rulings of the captured list."""
    base, rulings = captured_base(FEW, ("python3.11", "openssh-server"), work)
    bring_all((*base.packages, *base.tools), store)
    return base, rulings


@pytest.fixture(scope="module")
def digest(captured: tuple[Base, tuple[Resolution, ...]], store: Store) -> str:
    """The sha256 of the realised base."""
    return realise_base(captured[0], store, EPOCH)


@pytest.fixture(scope="module")
def entries(digest: str, store: Store) -> Mapping[str, tuple[TarEntry, bytes]]:
    with store.blob(digest).open("rb") as stream:
        return {
            entry.path: (entry, content() if entry.type == "file" and entry.size < 1 << 20 else b"")
            for entry, content in read_tar(stream)
        }


def test_every_captured_package_is_pinned(captured: tuple[Base, tuple[Resolution, ...]]) -> None:
    base, rulings = captured
    assert {ruling.outcome for ruling in rulings} == {"pinned"}
    assert len(rulings) == len(base.packages) > 100
    named = {f"{deb.name}:{deb.architecture}" for deb in base.packages}
    assert {"libc6:amd64", "libc6:i386", "zlib1g:i386", "made-lib:amd64", "made-lib:i386"} <= named
    assert set(FEW) <= {*FORTY, "fonts-dejavu-core"}


def test_the_command_line_locks_the_captured_list(
    captured: tuple[Base, tuple[Resolution, ...]], work: Path, store: Store, tmp_path: Path
) -> None:
    argv = ("lock", work / "snapshot", "-o", tmp_path / "lock", "--store", store.root, "--python", "3.11",
            "--system", "all")  # fmt: skip
    done = reprobuild(*argv, env={**os.environ, "APT_CONFIG": str(work / "apt.conf")})
    assert done.returncode == 0, done.stderr
    lock = read_lock(tmp_path / "lock")
    left = {
        ruling.subject: (ruling.outcome, ruling.kind)
        for ruling in lock.rulings
        if ruling.line and ruling.outcome != "pinned"
    }
    # Nobody had asked for the service and what it needs; the other base has it as something of the environment's.
    assert left.pop("openssh-server") == left.pop("openssh-sftp-server") == ("excluded", "daemon")
    assert set(left.values()) == {("excluded", "not-needed")}
    assert "openssh-client" in left
    gone = {"openssh-server", "openssh-sftp-server", *left}
    assert lock.base.packages == tuple(deb for deb in captured[0].packages if deb.name not in gone)
    assert [deb.file.url for deb in lock.base.packages if deb.name == "made-service"] == [
        f"file://{work}/archive/pool/made-service_1.0-1~ppa1_amd64.deb"
    ]


def test_packages_that_no_code_calls_are_named_with_the_options_that_install_them(
    work: Path, store: Store, tmp_path: Path
) -> None:
    """The option of the message is followed for the first package that it names."""
    argv = ("lock", work / "snapshot", "-o", tmp_path / "lock", "--store", store.root, "--python", "3.11")
    env = {**os.environ, "APT_CONFIG": str(work / "apt.conf")}
    done = reprobuild(*argv, env=env)
    assert done.returncode == 0, done.stderr
    found = re.search(
        r"system: (\d+) manually installed packages are left out, because no code calls them: "
        r"(\S+), .*; `--system all` installs every one, `--package NAME` one of them\n",
        done.stderr,
    )
    assert found is not None
    fewer = read_lock(tmp_path / "lock")
    reasons = [ruling.reason for ruling in fewer.rulings if ruling.kind == "not-needed"]
    called = "not needed by the environment: no code of it calls a program of it"
    assert reasons.count(called) == int(found[1]) > 1
    name = found[2]
    assert name not in fewer.base.installed
    assert reprobuild(*argv, "--package", name, env=env).returncode == 0
    assert name in read_lock(tmp_path / "lock").base.installed


@pytest.mark.long
def test_root_and_an_ordinary_user_a_year_later_get_the_same_bytes(
    captured: tuple[Base, tuple[Resolution, ...]], store: Store, digest: str, shared_tmp: Path, tmp_path: Path
) -> None:
    library = Path(shutil.copy(clock.find_library(tmp_path / "clock"), shared_tmp))
    for deb in (*captured[0].packages, *captured[0].tools):
        copy = shared_tmp / "blobs" / deb.file.sha256[:2] / deb.file.sha256
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(store.blob(deb.file.sha256), copy)
    for path in [shared_tmp, *shared_tmp.rglob("*")]:
        os.chown(path, 12345, 12345)
    later = clock.variables(library, 400)
    done = subprocess.run(
        [*ORDINARY_USER, "env", *(f"{name}={value}" for name, value in later.items()), sys.executable, "-c", REALISE,
         shared_tmp, str(EPOCH)],
        input=msgspec.json.encode(captured[0]), capture_output=True, check=False, cwd="/", umask=0o077,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1", "TZ": "Asia/Tokyo",
             "LC_ALL": "C", "SOURCE_DATE_EPOCH": "1", "HOME": "/nowhere"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    other = done.stdout.decode().strip()
    assert not list((shared_tmp / "tmp").iterdir())
    with store.blob(digest).open("rb") as one, (shared_tmp / "blobs" / other[:2] / other).open("rb") as two:
        first, second = ({entry.path: entry for entry in list_tar(stream)} for stream in (one, two))
    assert {path for path in {*first, *second} if first.get(path) != second.get(path)} == set()
    assert other == digest


def test_what_the_scripts_of_the_archive_did_is_there(entries: Mapping[str, tuple[TarEntry, bytes]]) -> None:
    def text(path: str) -> str:
        return entries[path][1].decode()

    assert text("var/lib/dpkg/arch").split() == ["amd64", "i386"]
    assert text("etc/made.conf") == "greeting = good day\n"
    assert text("var/lib/made/libraries").splitlines() == [
        "/usr/lib/i386-linux-gnu/libmade.so.1", "/usr/lib/x86_64-linux-gnu/libmade.so.1",
    ]  # fmt: skip
    assert "made.plain" in text("var/lib/dpkg/diversions")
    assert "made-service root 4750 /usr/bin/made-service" in text("var/lib/dpkg/statoverride")
    assert entries["etc/alternatives/made-tool"][0].target == "/usr/bin/made-service"
    assert "etc/rc2.d/S01made-service" in entries
    assert "var/lib/made/was-started" not in entries
    user = next(
        line.split(":") for line in text("etc/passwd").splitlines() if line.startswith("made-service:")
    )
    service, folder = entries["usr/bin/made-service"][0], entries["var/lib/made"][0]
    assert (service.uid, oct(service.mode)) == (int(user[2]), "0o4750")
    assert (folder.uid, folder.gid, oct(folder.mode)) == (int(user[2]), int(user[3]), "0o2750")


def test_the_foreign_libraries_are_found_by_the_linker(entries: Mapping[str, tuple[TarEntry, bytes]]) -> None:
    cache = entries["etc/ld.so.cache"][1]
    assert b"/lib/i386-linux-gnu/libz.so.1\0" in cache
    assert b"/lib/x86_64-linux-gnu/libz.so.1\0" in cache
