"""A known prebuilt wheel first: files of a release that are on no index, for one torch, CUDA and C++ ABI each."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from reprobuild.config.overrides import BuildDecision, Decisions
from reprobuild.config.services import read_services
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.ecosystems.pypi.torch_build import read_torch_build
from reprobuild.errors import BuildError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Sdist, Wheel
from reprobuild.lock.system import Artefact
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.line_resolutions import make_resolution
from reprobuild.resolve.python import prebuilt
from reprobuild.resolve.python.prebuilt import use_prebuilt_wheels
from reprobuild.resolve.python.resolve import ResolvedLines
from reprobuild.resolve.python.rulings import BUILT
from reprobuild.resolve.resolver import resolve_snapshot
from reprobuild.snapshot.model import Snapshot
from reprobuild.store.store import Store
from tests.image.made import make_wheel
from tests.resolve.repositories import requirement
from tests.resolve.served import Reply, Served
from tests.resolve.test_files import Index
from tests.system.samples import index, package, stanza

TARGET = WheelTarget(python="3.11.2", glibc=(2, 36), machine="x86_64")
ERROR = "_ZN3c105ErrorC1ENS_14SourceLocationE"
OLD, NEW = (f"{ERROR}{end}" for end in ("Ss", "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"))
SDIST = "flash_attn-2.6.3.tar.gz"
PLAIN = "flash_attn-2.6.3-cp311-cp311-linux_x86_64.whl"
RELEASE = "flash_attn-2.6.3+cu{}torch2.4cxx11abi{}-cp311-cp311-linux_x86_64.whl"
WHY = "torch 2.4, CUDA 12 and the older C++ ABI"


def torch(folder: Path, symbol: str = OLD, version: str = "2.4.1+cu121") -> Path:
    """Return a wheel of torch with the few files that are read."""
    cuda = f"'{version[-3:-1]}.{version[-1]}'" if "+cu" in version else "None"
    says = f"__version__ = '{version}'\ncuda: Optional[str] = {cuda}\nhip: Optional[str] = None\n"
    library = b"\x7fELF" + b"x" * 300_000 + f"\0{symbol}\0".encode()
    files = {"torch/version.py": says.encode(), "torch/lib/libc10.so": library}
    return make_wheel(folder / "torch-2.4.1-cp311-cp311-linux_x86_64.whl", files)


def wheel(folder: Path, name: str = PLAIN) -> bytes:
    return make_wheel(folder / name, {"flash_attn/__init__.py": b"1\n"}).read_bytes()


class Place:
    """The server of releases, a store, and a freeze that became torch's wheel and the source of flash-attn."""

    def __init__(self, served: Served, folder: Path) -> None:
        self.served, self.folder, self.store = served, folder, Store(folder / "store")
        self.address = f"{served.url}/v2.6.3"
        self.services = {"flash-attn-wheels": f"{served.url}/v{{version}}/"}

    def give(self, name: str, reply: Reply | bytes) -> str:
        return self.served.give(f"/v2.6.3/{name}", reply)

    def found(self, torch: Path | None) -> ResolvedLines:
        wheels = []
        if torch is not None:
            file = Artefact(
                filename=torch.name, sha256=self.store.add(torch.read_bytes()), size=torch.stat().st_size
            )
            wheels = [Wheel(name="torch", version="2.4.1", role="environment", file=file)]
        source = Sdist(
            name="flash-attn", version="2.6.3", file=Artefact(filename=SDIST, sha256="5" * 64, size=1)
        )
        reasons = {"torch==2.4.1": "a wheel", "Flash_attn==2.6.3": f"the source is there{BUILT}"}
        rulings = [make_resolution(requirement(text), "pinned", reason) for text, reason in reasons.items()]
        return ResolvedLines(wheels=tuple(wheels), sdists=(source,), rulings=tuple(rulings))

    def ask(
        self, torch: Path | None, target: WheelTarget = TARGET, *names: str, offline: bool = False
    ) -> tuple[Wheel | None, str]:
        """Return the wheel, if one was found, and what the ruling says more."""
        around = ResolveContext(
            store=self.store, net=Net(offline=offline, manners=RetryPolicy(tries=1)), env={}, folder=self.folder, now=0,
            indexes=PackageIndexes(find_links=(), simple=(), credentials={}), say=lambda text: None,
        )  # fmt: skip
        given = self.found(torch)
        got = use_prebuilt_wheels(
            given, names or ("flash-attn",), target, read_services(self.services), around
        )
        assert got.rulings[0] == given.rulings[0]
        taken = next((one for one in got.wheels if one.name == "flash-attn"), None)
        assert got.sdists == (() if taken else given.sdists)
        assert got.rulings[1].outcome == "pinned"
        return taken, got.rulings[1].reason.removeprefix(f"the source is there{BUILT}").removeprefix("; ")


@pytest.fixture
def place(served: Served, tmp_path: Path) -> Place:
    return Place(served, tmp_path)


@pytest.mark.parametrize("label", ["12", "123", "122"])
@pytest.mark.parametrize(("symbol", "abi"), [(OLD, "FALSE"), (NEW, "TRUE")])
def test_the_publishers_wheel_is_locked(
    label: str, symbol: str, abi: str, place: Place, tmp_path: Path
) -> None:
    name, content = RELEASE.format(label, abi), wheel(tmp_path)
    url = place.give(name, content)
    found, told = place.ask(torch(tmp_path, symbol))
    sha256 = hashlib.sha256(content).hexdigest()
    assert found == Wheel(
        name="flash-attn", version="2.6.3", role="environment",
        file=Artefact(filename=PLAIN, sha256=sha256, size=len(content), url=url),
    )  # fmt: skip
    which = "the C++11" if abi == "TRUE" else "the older C++"
    assert told == (
        f"{name} from {place.address}, its publisher's prebuilt wheel for torch 2.4, CUDA 12 and {which} ABI; its hash "
        "is published nowhere, so it is what stood there when the lock was made; of the index: the source is there"
    )
    asked = len(place.served.asked)
    assert place.ask(torch(tmp_path, symbol))[0] == found
    assert place.ask(torch(tmp_path, symbol), offline=True)[0] == found
    assert len(place.served.asked) == asked, "it is asked once"


def test_what_was_brought_once_is_there_offline(place: Place, tmp_path: Path) -> None:
    place.give(RELEASE.format("12", "FALSE"), wheel(tmp_path))
    found, _ = place.ask(torch(tmp_path))
    assert found is not None
    place.give(RELEASE.format("12", "FALSE"), wheel(tmp_path) + b"other")
    assert place.ask(torch(tmp_path), offline=True)[0] == found == place.ask(torch(tmp_path))[0]


def test_a_release_without_such_a_wheel_is_built(place: Place, tmp_path: Path) -> None:
    names = [RELEASE.format(label, "FALSE") for label in ("12", "123", "122")]
    assert place.ask(torch(tmp_path)) == (
        None,
        f"its publisher has no prebuilt wheel for {WHY}: at {place.address} there is no {', no '.join(names)}",
    )
    assert place.ask(torch(tmp_path, version="2.4.1+cu130"))[1].endswith(RELEASE.format("13", "FALSE"))


def test_where_it_cannot_be_known_the_source_is_built(place: Place, tmp_path: Path) -> None:
    name = RELEASE.format("12", "FALSE")
    unknown = f"whether its publisher has a wheel for {WHY} is not known: "
    offline = f"{place.address}/{name} is needed, and --offline forbids the network"
    assert place.ask(torch(tmp_path), offline=True) == (None, unknown + offline)
    place.give(name, Reply(status=403))
    assert place.ask(torch(tmp_path)) == (None, f"{unknown}{place.address}/{name} refuses access (HTTP 403)")
    place.give(name, b"<html>log in</html>")
    found, told = place.ask(torch(tmp_path))
    assert found is None
    assert told.startswith(f"{unknown}{name} is not a zip archive")
    place.give(name, wheel(tmp_path))
    assert place.ask(torch(tmp_path))[0] is not None, "what was no wheel is not remembered"


def test_a_wheel_of_something_else_is_not_taken(place: Place, tmp_path: Path) -> None:
    name = RELEASE.format("12", "FALSE")
    place.give(name, wheel(tmp_path, "flash_attn-2.6.4-cp311-cp311-linux_x86_64.whl"))
    found, told = place.ask(torch(tmp_path))
    assert found is None
    assert told.endswith(f"is not known: {name} is no wheel of flash-attn 2.6.3")
    (sdist,) = place.found(None).sdists
    file = Artefact(
        filename=PLAIN, sha256=place.store.add(wheel(tmp_path, "other-2.6.3-py3-none-any.whl")), size=1
    )
    with pytest.raises(BuildError, match="is no wheel of flash-attn") as caught:
        prebuilt._check_wheel(file, name, sdist, place.store)
    assert caught.value.hint == "name another place of such wheels with --service flash-attn-wheels=URL"


def test_where_nothing_is_looked_for(place: Place, tmp_path: Path) -> None:
    free = WheelTarget(python="3.13.1", glibc=(2, 36), machine="x86_64", free_threaded=True)
    assert place.ask(None) == (None, "")
    assert place.ask(torch(tmp_path), TARGET, "other") == (None, "")
    assert place.ask(torch(tmp_path), free) == (None, "")
    assert place.ask(torch(tmp_path, version="2.4.1+cpu")) == (None, "")
    assert place.ask(torch(tmp_path, "_ZN3c105ErrorC1ERKS0_")) == (
        None, "no prebuilt wheel was looked for, as torch's wheel does not state the C++ ABI",
    )  # fmt: skip
    assert place.served.asked == []


def test_a_login_of_the_place_is_in_no_lock(place: Place, tmp_path: Path) -> None:
    url = place.give(RELEASE.format("12", "FALSE"), Reply(wheel(tmp_path), login="alice:hunter2"))
    place.services = {
        "flash-attn-wheels": f"{place.served.url}/v{{version}}".replace("//", "//alice:hunter2@")
    }
    found, told = place.ask(torch(tmp_path))
    assert found is not None
    assert found.file.url == url
    assert "hunter2" not in f"{found} {told}"


def test_torch_tells_its_abi(place: Place, tmp_path: Path) -> None:
    for symbol, expected in ((OLD, False), (NEW, True), ("nothing", None)):
        (one,) = place.found(torch(tmp_path, symbol)).wheels
        assert read_torch_build(one.file, place.store).cxx11 is expected


def sdist() -> bytes:
    files = {"PKG-INFO": b"", "pyproject.toml": b"[build-system]\nrequires = []\n", "flash_attn.py": b"1\n"}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"flash_attn-2.6.3/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize("build", [{}, {"Flash_Attn": BuildDecision(environment=False)}])
def test_a_whole_lock(
    build: dict[str, BuildDecision], place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the user decides to build is built; else the publisher's wheel is one of the environment."""
    lines, simple = ("torch==2.4.1", "flash-attn==2.6.3"), Index(place.served)
    for name, content in (
        ("torch-2.4.1-cp311-cp311-linux_x86_64.whl", torch(tmp_path).read_bytes()),
        (SDIST, sdist()),
    ):
        simple.add(name, hashes={"sha256": hashlib.sha256(content).hexdigest()})
        place.served.give(f"/files/{name}", content)
    place.give(RELEASE.format("123", "FALSE"), wheel(tmp_path))
    snapshot = Snapshot(
        digest="5" * 64, requirements=tuple(map(requirement, lines)),
        packages=(package("python3.11", "3.11.2-6"), package("libc6", "2.36-9", line=3)),
    )  # fmt: skip
    made = index(
        stanza("libc6", "2.36-9", "", "Essential: yes"), stanza("python3.11", "3.11.2-6", "libc6"),
        stanza("fakeroot", "1"), stanza("libfakeroot", "1"),
    )  # fmt: skip
    monkeypatch.setattr("reprobuild.resolve.system.base.configured_index", lambda *_, **__: made)
    around = ResolveContext(
        store=place.store, net=Net(), env={}, folder=tmp_path, now=0, say=lambda text: None,
        indexes=PackageIndexes(find_links=(), simple=(simple.url,), credentials={}),
    )  # fmt: skip
    lock: Lock = resolve_snapshot(
        snapshot, Decisions(base="debian/bookworm", services=place.services, build=build), around
    )
    wheels = [one.file.filename for one in lock.wheels if one.name == "flash-attn"]
    assert (wheels, [one.name for one in lock.sdists]) == (([], ["flash-attn"]) if build else ([PLAIN], []))
    (ruling,) = (one for one in lock.rulings if one.subject == "flash-attn")
    assert ("its publisher's prebuilt wheel" in ruling.reason) == (not build)
