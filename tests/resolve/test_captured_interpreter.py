"""The interpreter that a snapshot holds: checked member by member, its libraries judged, or refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.errors import LockError, SnapshotError
from reprobuild.infra.http.client import Net
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Interpreter, Wheel
from reprobuild.lock.system import Artefact
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.environment.triage import triage_snapshot
from reprobuild.resolve.interpreter import captured
from reprobuild.resolve.interpreter.captured import (
    adopt_captured_interpreter,
    interpreter_elf_files,
    required_system_libraries,
    resolve_missing_libraries,
)
from reprobuild.resolve.system.shared_libraries import Ask
from reprobuild.snapshot.capture_model import CaptureFacts, PackedInterpreter
from reprobuild.snapshot.model import Snapshot, Variable
from reprobuild.snapshot.model import SourceLocation as Site
from reprobuild.store.store import Store
from tests.snapshot.samples import SECRETS
from tests.untrusted.elves import elf

SECRET = next(iter(SECRETS.values()))
PREFIX = "/sw/python/3.11.7"
SYSCONFIG = f"build_time_vars = {{'AR': 'ar',\n 'prefix': '{PREFIX}'}}\n".encode()
DAMAGED = "the snapshot is damaged or made to harm: take it again, or get it from where it was taken"
Member = tuple[str, bytes] | tarfile.TarInfo

PROGRAM: Member = ("python/bin/python3.11", elf(["libc.so.6"]))
MODULE: Member = ("python/lib/python3.11/os.py", b"")
CONFIG: Member = ("python/lib/python3.11/_sysconfigdata__linux_x86_64-linux-gnu.py", SYSCONFIG)
ORDINARY = (PROGRAM, MODULE, CONFIG)
OWN = ("python/lib/libpython3.11.so.1.0", elf(["libc.so.6"], "libpython3.11.so.1.0"))


def archive(members: Iterable[Member]) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 1, packed, 0) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                tar.addfile(info, io.BytesIO(member[1]))
    return packed.getvalue()


def odd(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    return info


class Scene(msgspec.Struct):
    """A snapshot with an archive, and what resolving is given."""

    snapshot: Snapshot
    around: ResolveContext
    said: list[str]

    def take(self) -> Interpreter:
        found = adopt_captured_interpreter(self.snapshot, "x86_64", self.around)
        assert found is not None
        return found


Place = Callable[..., Scene]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    def put(content: bytes, *, sha256: str = "", size: int | None = None) -> Scene:
        folder = tmp_path / "snapshot"
        folder.mkdir()
        (folder / "interpreter.tar.gz").write_bytes(content)
        packed = PackedInterpreter(
            file="interpreter.tar.gz", sha256=sha256 or hashlib.sha256(content).hexdigest(),
            size=len(content) if size is None else size, version="3.11.7", build="3.11.7 (main) [GCC 12]",
            prefix=PREFIX,
        )  # fmt: skip
        said: list[str] = []
        around = ResolveContext(
            store=Store(tmp_path / "store"), net=Net(offline=True), env={}, folder=tmp_path, now=0, captured=folder,
            indexes=PackageIndexes(find_links=(), simple=(), credentials={}), say=said.append,
        )  # fmt: skip
        snapshot = Snapshot(digest="", captured=CaptureFacts(repositories=(), interpreter=packed))
        return Scene(snapshot, around, said)

    return put


def test_it_goes_into_the_store_by_its_digest(place: Place) -> None:
    content = archive(ORDINARY)
    scene = place(content)
    sha256 = hashlib.sha256(content).hexdigest()
    found = scene.take()
    assert found == Interpreter(
        version="3.11.7", executable="/opt/python/bin/python3.11", kind="captured",
        evidence=f"captured: Python 3.11.7 (main) [GCC 12], installed in {PREFIX}",
        file=Artefact(filename="python-3.11.7-captured.tar.gz", sha256=sha256, size=len(content)),
    )  # fmt: skip
    assert found.home == "/opt/python"
    assert scene.around.store.blob(sha256).read_bytes() == content
    assert scene.said == ["python: Python 3.11.7, which the snapshot holds"]
    (scene.around.captured / "interpreter.tar.gz").unlink()
    assert scene.take() == found  # the store has it


def test_a_snapshot_without_one(place: Place) -> None:
    scene = place(archive(ORDINARY))
    for held in (CaptureFacts(repositories=()), CaptureFacts(repositories=(), interpreter=None), None):
        assert adopt_captured_interpreter(Snapshot(digest="", captured=held), "x86_64", scene.around) is None


HOSTILE: list[tuple[Member, str]] = [
    (odd("python/bin/null", tarfile.CHRTYPE), "neither file, directory nor symbolic link"),
    (odd("python/bin/disk", tarfile.BLKTYPE), "neither file, directory nor symbolic link"),
    (odd("python/bin/pipe", tarfile.FIFOTYPE), "neither file, directory nor symbolic link"),
    (
        odd("python/bin/hard", tarfile.LNKTYPE, "python/bin/python3.11"),
        "neither file, directory nor symbolic link",
    ),
    (odd("python/bin/sudo", mode=0o4755), "rights of another user"),
    (odd("python/bin/group", mode=0o2755), "rights of another user"),
    (odd("python/lib", tarfile.DIRTYPE, mode=0o1777), "rights of another user"),
    (odd("python/lib/out", tarfile.SYMTYPE, "/etc/passwd"), "leads out of it"),
    (odd("python/lib/out", tarfile.SYMTYPE, "../../etc/passwd"), "leads out of it"),
    (odd("python/lib/out", tarfile.SYMTYPE, "../.."), "leads out of it"),
    (odd("python/lib/python3.11/os.py"), "twice"),
    (odd("python/../x"), "unsafe path"),
    (odd("/etc/passwd"), "unsafe path"),
    (odd("etc/passwd"), "no part of an interpreter"),
    (odd("python/etc/passwd"), "no part of an interpreter"),
    (odd("python/lib/.wh.os.py"), "deletion"),
    (("python/lib/python3.11/sitecustomize.py", f'TOKEN = "{SECRET}"\n'.encode()), "looks like a secret"),
    (("python/lib/python3.11/.netrc", b"machine a login b password c\n"), "is a secret by its name"),
]


@pytest.mark.parametrize(
    ("member", "why"), HOSTILE, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_no_capture_packs_is_refused(place: Place, member: Member, why: str) -> None:
    scene = place(archive([*ORDINARY, member]))
    with pytest.raises(SnapshotError, match=why) as caught:
        scene.take()
    assert caught.value.hint == DAMAGED
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ((MODULE, CONFIG), "it holds no python/bin/python3.11"),
        ((PROGRAM, CONFIG), "it holds no python/lib/python3.11/os.py"),
        ((odd("python/bin/python3.11", tarfile.SYMTYPE, "x"), MODULE), "it holds no python/bin/python3.11"),
        ((), "it holds no python/bin/python3.11"),
    ],
)
def test_what_holds_no_interpreter(place: Place, members: tuple[Member, ...], why: str) -> None:
    with pytest.raises(SnapshotError, match=why):
        place(archive(members)).take()


@pytest.mark.parametrize("damage", [b"", b"no gzip", archive(ORDINARY)[:-40], archive(ORDINARY)[:30]])
def test_a_damaged_archive(place: Place, damage: bytes) -> None:
    with pytest.raises(SnapshotError) as caught:
        place(damage).take()
    assert caught.value.hint == DAMAGED


@pytest.mark.parametrize(("bound", "value"), [("MOST_MEMBERS", 2), ("MOST_UNPACKED", 10)])
def test_it_is_bounded(place: Place, monkeypatch: pytest.MonkeyPatch, bound: str, value: int) -> None:
    monkeypatch.setattr(captured, bound, value)
    with pytest.raises(SnapshotError, match="it has more than"):
        place(archive(ORDINARY)).take()


def test_a_large_archive_is_not_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "MOST_PACKED", 100)
    scene = place(archive(ORDINARY))
    with pytest.raises(SnapshotError, match="it has more than 100 bytes"):
        scene.take()
    assert not (scene.around.store.root / "blobs").exists()


def test_another_archive_than_the_one_that_was_captured(place: Place) -> None:
    scene = place(archive(ORDINARY), sha256="0" * 64)
    with pytest.raises(SnapshotError, match="not the file that capture"):
        scene.take()
    scene.around.captured.joinpath("interpreter.tar.gz").write_bytes(b"")
    with pytest.raises(SnapshotError, match="not the file that capture"):
        scene.take()


def test_a_link_is_not_followed(place: Place, tmp_path: Path) -> None:
    content = archive(ORDINARY)
    scene = place(content)
    file = scene.around.captured / "interpreter.tar.gz"
    file.rename(tmp_path / "elsewhere")
    with pytest.raises(SnapshotError, match="it cannot be read: No such file"):
        scene.take()
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SnapshotError, match="it cannot be read"):
        scene.take()


@pytest.mark.parametrize("search", [f"{PREFIX}/lib", f"/other:{PREFIX}/lib", "$ORIGIN/../lib"])
def test_a_program_that_finds_its_own_library(place: Place, search: str) -> None:
    program = ("python/bin/python3.11", elf(["libpython3.11.so.1.0", "libc.so.6"], search=search))
    assert place(archive([program, MODULE, CONFIG, OWN])).take().kind == "captured"


@pytest.mark.parametrize("search", ["", "/usr/lib", "/sw/python/3.11.70/lib"])
def test_a_program_that_would_not_find_its_own_library(place: Place, search: str) -> None:
    program = ("python/bin/python3.11", elf(["libpython3.11.so.1.0", "libc.so.6"], search=search))
    with pytest.raises(LockError, match=r"needs libpython3\.11\.so\.1\.0 of its own") as caught:
        place(archive([program, MODULE, CONFIG, OWN])).take()
    assert caught.value.hint == "take a standalone build of the same version: --python 3.11.7"


def test_what_it_needs_of_the_system(place: Place) -> None:
    ssl = ("python/lib/python3.11/lib-dynload/_ssl.so", elf(["libssl.so.3", "libmine.so.1"]))
    scene = place(archive([*ORDINARY, ssl, ("python/lib/libmine.so.1", elf(["libz.so.1"]))]))
    python = scene.take()
    asked = required_system_libraries(interpreter_elf_files(python, "x86_64", scene.around.store))
    assert {ask.soname: ask.path.rpartition("/")[2] for ask in asked} == {
        "libc.so.6": "python3.11", "libssl.so.3": "_ssl.so", "libz.so.1": "libmine.so.1",
    }  # fmt: skip
    assert all(ask.imported for ask in asked)
    assert (
        interpreter_elf_files(
            msgspec.structs.replace(python, kind="standalone"), "x86_64", scene.around.store
        )
        == ()
    )


def test_a_library_that_no_package_brings() -> None:
    file = Artefact(filename="python-3.11.7-captured.tar.gz", sha256="1" * 64, size=1)
    wheel = Wheel(name="python", version="3.11.7", role="environment", file=file)
    module = Ask(
        soname="libtk.so", wheel=wheel, path="python/lib/python3.11/lib-dynload/_tk.so", imported=True
    )
    program = Ask(soname="libsite.so.2", wheel=wheel, path="python/bin/python3.11", imported=True)
    rulings = [
        Resolution(file=file.filename, line=0, subject=ask.soname, outcome="excluded", reason="why",
                   kind="missing-library")
        for ask in (module, program)
    ]  # fmt: skip
    python = Interpreter(
        version="3.11.7", executable="/opt/python/bin/python3.11", kind="captured", evidence="", file=file
    )
    (found,) = resolve_missing_libraries(python, (rulings[0],), (module, program))
    assert (found.outcome, found.kind, found.subject) == ("unresolved", "interpreter-library", "libtk.so")
    assert found.reason == "why: that module cannot be imported"
    with pytest.raises(LockError, match=r"does not start without libsite\.so\.2") as caught:
        resolve_missing_libraries(python, (rulings[1],), (module, program))
    assert caught.value.hint == "take a standalone build of the same version: --python 3.11.7"


def test_the_folder_of_its_libraries_is_that_of_the_image(place: Place) -> None:
    """A site's module puts it into LD_LIBRARY_PATH."""
    row = Variable(place=Site("env.nul", 1), name="LD_LIBRARY_PATH", value=f"{PREFIX}/lib")
    snapshot = msgspec.structs.replace(place(archive(ORDINARY)).snapshot, variables=(row,))
    (setting,) = triage_snapshot(snapshot, Decisions()).settings
    assert (setting.name, setting.value) == ("LD_LIBRARY_PATH", "/opt/python/lib")
    below = msgspec.structs.replace(row, value=f"{PREFIX}/lib/other")
    for other, decisions in ((below, Decisions()), (row, Decisions(python="3.11.7"))):
        triage = triage_snapshot(msgspec.structs.replace(snapshot, variables=(other,)), decisions)
        assert triage.settings == ()
        (ruling,) = triage.rulings
        assert (ruling.outcome, ruling.kind) == ("unresolved", "site-library-path")
