"""Lines of conda's lists to the very files, on a channel that lives, changes and dies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from msgspec import structs

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.errors import BuildError, FetchError, LockError
from reprobuild.infra.http.client import Net
from reprobuild.lock.model import Resolution
from reprobuild.lock.system import EPOCH
from reprobuild.resolve.conda.packages import Conda, resolve_conda
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.python.unreachable import check_availability
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.roots import record_lock
from reprobuild.store.store import Store
from tests.conda.test_linking import BINARY, NALA, PYTHON
from tests.conda_packages import Spec, index_channel, write_package
from tests.fault_injection.dead import FAULTS, MANNERS, Scene
from tests.resolve.served import Reply, Served
from tests.verify.samples import make_lock

OTHER = Spec(name="binary", version="1.0", build="1", files={"y": b"y"})
NEWER = Spec(name="newer", version="1.0", build="0", depends=("__glibc >=2.99",), files={"n": b"n"})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Served() as one:
        yield one


@pytest.fixture
def channel(tmp_path: Path) -> Path:
    folder = tmp_path / "conda-forge"
    for spec in (PYTHON, NALA, BINARY, OTHER, NEWER):
        write_package(spec, folder)
    index_channel(folder)
    return folder


def serve(server: Served, channel: Path, place: str = "conda-forge") -> str:
    """Serve a channel, and return its address."""
    for path in channel.rglob("*.*"):
        server.give(f"/{place}/{path.relative_to(channel).as_posix()}", Reply(path.read_bytes()))
    return server.give(f"/{place}/x", Reply(b"")).removesuffix("/x")


def solve(
    tmp_path: Path, lists: str, channels: tuple[str, ...], *, store: str = "store", freeze: str = "",
    file: str = "conda-list.txt", offline: bool = False, drop: tuple[str, ...] = (),
) -> Conda:  # fmt: skip
    folder = tmp_path / f"snapshot-{hashlib.sha256((lists + freeze + file).encode()).hexdigest()[:9]}"
    folder.mkdir(exist_ok=True)
    (folder / file).write_text(lists)
    (folder / "requirements.txt").write_text(freeze or "# nothing\n")
    snapshot = read_snapshot(folder)
    around = ResolveContext(
        store=Store(tmp_path / store), net=Net(offline=offline, manners=MANNERS), folder=tmp_path, now=EPOCH,
        indexes=PackageIndexes(find_links=(), simple=(), credentials={}), env={"HOME": str(tmp_path / "home")},
        say=lambda text: None,
    )  # fmt: skip
    found = resolve_conda(
        snapshot, Decisions(channels=channels, drop=drop), "linux/amd64", snapshot.requirements, around
    )
    assert found is not None
    check_availability(found.lost, (), ())
    return found


def unresolved(found: Conda) -> list[tuple[str, str]]:
    return [(one.subject, one.kind) for one in found.rulings if one.outcome == "unresolved"]


def ruling(found: Conda, name: str) -> Resolution:
    return next(one for one in found.rulings if one.subject == name)


LIST = "python 3.11.2 h1_0 conda-forge\nnala 1.0 pyhd8ed1ab_0 conda-forge\nbinary 1.0 0 conda-forge\n"


def test_a_list_is_resolved_by_the_repodata_of_its_channel(
    channel: Path, server: Served, tmp_path: Path
) -> None:
    found = solve(tmp_path, LIST, (serve(server, channel),), freeze="nala==1.0\npure==3\n")
    assert [(one.name, one.subdir, one.channel, one.distributions) for one in found.packages] == [
        ("python", "linux-64", "conda-forge", ()), ("nala", "noarch", "conda-forge", ("nala",)),
        ("binary", "linux-64", "conda-forge", ()),
    ]  # fmt: skip
    assert found.packages[2].file.filename == "binary-1.0-0.tar.bz2"
    assert found.interpreter.executable == "/opt/env/bin/python3.11"
    assert [line.name for line in found.lines] == ["pure"]
    assert found.distributions == {"nala": "1.0"}
    assert {one.outcome for one in found.rulings} == {"pinned"}
    assert ("requirements.txt", "nala==1.0") in {(one.file, one.captured) for one in found.rulings}
    packed = [path for path in server.asked if "repodata" in path] if hasattr(server, "asked") else []
    assert not [path for path in packed if path.endswith(".json")]


def test_md5_alone_is_compared_and_the_file_hashed_once(
    channel: Path, server: Served, tmp_path: Path
) -> None:
    index_channel(channel, md5_only=True)
    url = serve(server, channel)
    first = solve(tmp_path, LIST, (url,))
    assert [one.file.sha256 for one in first.packages] == [
        hashlib.sha256((channel / one.subdir / one.file.filename).read_bytes()).hexdigest()
        for one in first.packages
    ]
    lines = "@EXPLICIT\n" + "".join(
        f"{url}/{one.subdir}/{one.file.filename}#"
        + hashlib.md5((channel / one.subdir / one.file.filename).read_bytes()).hexdigest() + "\n"
        for one in first.packages
    )  # fmt: skip
    again = solve(tmp_path, lines, (), file="conda-explicit.txt", offline=True)  # all is remembered
    assert [one.file.sha256 for one in again.packages] == [one.file.sha256 for one in first.packages]


def relist(channel: Path, filename: str, **stated: str | None) -> None:
    """Change what the list of a channel states of a file; None removes a field."""
    path = channel / "linux-64" / "repodata.json"
    document = json.loads(path.read_text())
    entries = document["packages.conda" if filename.endswith(".conda") else "packages"]
    entries[filename] = {
        key: value for key, value in (entries[filename] | stated).items() if value is not None
    }
    path.write_text(json.dumps(document))
    packed = zstandard.ZstdCompressor().compress(path.read_bytes())
    path.with_name("repodata.json.zst").write_bytes(packed)


@pytest.mark.parametrize("stated", ["captured", "absent", "true"])
def test_an_md5_without_an_address_is_compared_with_the_bytes(
    stated: str, channel: Path, server: Served, tmp_path: Path
) -> None:
    captured = hashlib.md5((channel / "linux-64" / BINARY.filename).read_bytes()).hexdigest()
    write_package(
        structs.replace(BINARY, files={"bin/other": b"other\n"}, placeholders={}, executable=()), channel
    )
    index_channel(channel)
    if stated != "true":
        relist(channel, BINARY.filename, md5=captured if stated == "captured" else None)
    rows = f"python 3.11.2 h1_0 conda-forge\n{BINARY.filename}#{captured}\n"
    found = solve(tmp_path, rows, (serve(server, channel),))
    assert unresolved(found) == [("binary", "conda-changed")]
    assert captured in ruling(found, "binary").reason
    assert "binary" not in {one.name for one in found.packages}


def test_the_bytes_of_an_md5_are_compared_with_the_sha256_of_the_list(
    channel: Path, server: Served, tmp_path: Path
) -> None:
    content = (channel / "linux-64" / BINARY.filename).read_bytes()
    rows = f"python 3.11.2 h1_0 conda-forge\n{BINARY.filename}#{hashlib.md5(content).hexdigest()}\n"
    found = solve(tmp_path, rows, (serve(server, channel),))
    assert (unresolved(found), found.packages[-1].file.size) == ([], len(content))
    assert found.packages[-1].file.sha256 == hashlib.sha256(content).hexdigest()
    relist(channel, BINARY.filename, sha256="0" * 64)
    found = solve(tmp_path, rows, (serve(server, channel),), store="other")
    assert unresolved(found) == [("binary", "conda-changed")]
    assert "is another file than its list states" in ruling(found, "binary").reason


def test_what_cannot_be_the_captured_package_has_a_ruling(
    channel: Path, server: Served, tmp_path: Path
) -> None:
    url = serve(server, channel)
    rows = (
        "python 3.11.2 h1_0 conda-forge\nabsent 1 0 conda-forge\nnala 1.0 pyh_9 conda-forge\nnewer 1.0 0 conda-forge\n"
        f"{url}/win-64/libx-1-0.conda#{'0' * 32}\n{url}/linux-64/binary-1.0-0.tar.bz2#{'0' * 32}\n"
        f"{url}/linux-64/gone-1-0.conda#{'0' * 64}\nx==1.0=pypi_0\n"
    )
    found = solve(tmp_path, rows, (url,), freeze="other==1\n")
    assert sorted(unresolved(found)) == [
        ("absent", "conda-package"), ("binary", "conda-changed"), ("gone", "conda-package"),
        ("libx", "conda-platform"), ("nala", "conda-package"), ("x", "conda-package"),
    ]  # fmt: skip
    assert "of this version there is pyhd8ed1ab_0" in ruling(found, "nala").reason
    assert [(one.subject, one.kind) for one in found.too_new((2, 36))] == [("newer", "newer-library")]
    assert found.glibc == ((2, 99), "conda's newer, conda-list.txt:4")


@pytest.mark.parametrize("kind", ["list", "hashed", "unhashed", "export"])
def test_a_snapshot_opens_no_folder_of_this_machine_as_a_channel(
    kind: str, server: Served, tmp_path: Path
) -> None:
    """Whatever its line looks like; by the user's word it does."""
    for spec, name in ((PYTHON, "conda-forge"), (NALA, "private")):
        write_package(spec, tmp_path / name)
        index_channel(tmp_path / name)
    forge, private = serve(server, tmp_path / "conda-forge"), tmp_path / "private"
    (python,) = (tmp_path / "conda-forge").glob("linux-64/python-*")
    (nala,) = private.glob("noarch/nala-*")
    explicit = f"@EXPLICIT\n{forge}/linux-64/{python.name}\n{private.as_uri()}/noarch/{nala.name}"
    lists, file = {
        "list": (f"python 3.11.2 h1_0 {forge}\nnala 1.0 pyhd8ed1ab_0 {private.as_uri()}\n", "conda-list.txt"),
        "hashed": (f"{explicit}#{hashlib.md5(nala.read_bytes()).hexdigest()}\n", "conda-explicit.txt"),
        "unhashed": (f"{explicit}\n", "conda-explicit.txt"),
        "export": (
            f"name: x\nchannels:\n- {private.as_uri()}\ndependencies:\n- python=3.11.2=h1_0\n"
            "- nala=1.0=pyhd8ed1ab_0\n", "environment.yml",
        ),
    }[kind]  # fmt: skip
    found = solve(tmp_path, lists, (forge,), file=file)
    assert [one.name for one in found.packages] == ["python"]
    assert ruling(found, "nala").kind == "conda-package"
    said = f"a snapshot opens no directory of this machine as a channel; name it with --channel {private.as_uri()}"
    assert said in ruling(found, "nala").reason
    named = solve(tmp_path, lists, (forge, private.as_uri()), file=file)
    assert ruling(named, "nala").outcome == "pinned"


def test_a_version_without_a_build(channel: Path, server: Served, tmp_path: Path) -> None:
    wanted = ("ca-certificates=1", "openssl=1", "python=3.11.2", "binary=1.0")
    rows = "name: x\nchannels: [conda-forge]\ndependencies:\n" + "".join(f"- {one}\n" for one in wanted)
    found = solve(tmp_path, rows, (serve(server, channel),), file="environment.yml")
    assert ruling(found, "python").outcome == "pinned"
    assert "its only build there" in ruling(found, "python").reason
    assert ruling(found, "binary").kind == "conda-unbuilt"
    assert "there are 2: 0, 1" in ruling(found, "binary").reason


def test_two_channels_with_other_bytes_are_never_mixed(channel: Path, server: Served, tmp_path: Path) -> None:
    first = serve(server, channel)
    other = tmp_path / "other"
    write_package(Spec(name="python", version="3.11.2", build="h1_0", files={"evil": b"x"}), other)
    index_channel(other)
    second = serve(server, other, "other")
    found = solve(tmp_path, "python 3.11.2 h1_0\n", (first, second))
    assert unresolved(found) == [("python", "conda-ambiguous")]
    named = solve(tmp_path, "python 3.11.2 h1_0 conda-forge\n", (second, first))
    assert named.packages[0].file.url.startswith(first)


def test_a_token_is_used_and_told_nowhere(channel: Path, server: Served, tmp_path: Path) -> None:
    url = serve(server, channel, "t/tk-1234567890/lab")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.condarc").write_text(f"channels: [{url}]\n")
    bare = url.replace("/t/tk-1234567890", "")
    found = solve(tmp_path, LIST.replace("conda-forge", bare), ())
    assert not unresolved(found)
    assert "tk-1234567890" not in repr(found)
    server.give("/t/tk-1234567890/lab/noarch/repodata.json.zst", Reply(status=500))
    with pytest.raises(FetchError) as caught:
        solve(tmp_path, LIST.replace("conda-forge", bare), (), store="fresh")
    assert "tk-1234567890" not in f"{caught.value} {caught.value.hint}"


# Put together here, so that no scanner takes this file for a leak.
PATH_TOKEN = "Xk39bTq7" + "Lw2mZp8R"


@pytest.mark.parametrize("decided", [False, True])
@pytest.mark.parametrize("named", ["lab", "address", "explicit"])
def test_a_token_among_the_directories_is_used_and_written_nowhere(
    channel: Path, server: Served, tmp_path: Path, named: str, decided: bool
) -> None:
    url = serve(server, channel, f"{PATH_TOKEN}/lab")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.condarc").write_text("" if decided else f"channels: [{url}]\n")
    channels = (url,) if decided else ()
    texts, file = {"lab": LIST.replace("conda-forge", "lab"), "address": LIST.replace("conda-forge", url)}, ""
    if named == "explicit":
        paths = [path for path in channel.rglob("*.conda") if path.name.startswith(("python-3.11", "nala"))]
        rows = (f"{url}/{path.relative_to(channel).as_posix()}" for path in paths)
        sums = (hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() for path in paths)
        texts["explicit"] = "@EXPLICIT\n" + "".join(
            f"{row}#{md5}\n" for row, md5 in zip(rows, sums, strict=True)
        )
        file = "conda-explicit.txt"
    found = solve(tmp_path, texts[named], channels, file=file or "conda-list.txt")
    assert not unresolved(found)
    assert {item.file.url.partition("/lab/")[0] for item in found.packages} == {f"{server.url}/***"}
    assert PATH_TOKEN not in repr(found)
    assert {path.split("/")[1] for path, _ in server.asked} == {PATH_TOKEN}
    assert PATH_TOKEN not in repr(Decisions(channels=channels, indexes={"a": url}).lock_document())


def test_a_file_that_is_another_package_is_refused(channel: Path, server: Served, tmp_path: Path) -> None:
    url = serve(server, channel)
    server.give(
        "/conda-forge/linux-64/other-1.0-0.conda", Reply((channel / "linux-64" / NEWER.filename).read_bytes())
    )
    md5 = hashlib.md5((channel / "linux-64" / NEWER.filename).read_bytes()).hexdigest()
    with pytest.raises(
        BuildError, match=r"the package other-1\.0-0\.conda cannot be read|has no info-other"
    ) as caught:
        solve(tmp_path, f"python 3.11.2 h1_0 conda-forge\n{url}/linux-64/other-1.0-0.conda#{md5}\n", (url,))
    assert caught.value.hint
    old = Spec(name="old", ending=".tar.bz2", index={"name": "new"})
    path = write_package(old, channel)
    server.give(f"/conda-forge/linux-64/{path.name}", Reply(path.read_bytes()))
    md5 = hashlib.md5(path.read_bytes()).hexdigest()
    with pytest.raises(BuildError, match=r"holds new 1\.0 0") as caught:
        solve(tmp_path, f"python 3.11.2 h1_0 conda-forge\n{url}/linux-64/{path.name}#{md5}\n", (url,))
    assert caught.value.hint == "its channel is broken, or hostile"


def test_a_python_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(LockError, match=r"conda's python 2\.7\.18 is no version of Python 3") as caught:
        solve(tmp_path, "python 2.7.18 h1_0 conda-forge\n", ())
    assert caught.value.hint == "name the one to use instead, for wheels: --python X.Y.Z"


def test_lists_alone_tell_what_pip_installed(channel: Path, server: Served, tmp_path: Path) -> None:
    found = solve(tmp_path, f"{LIST}pure 3.0 pypi_0 pypi\n", (serve(server, channel),))
    assert [(line.text, str(line.place)) for line in found.lines] == [("pure==3.0", "conda-list.txt:4")]


def test_what_no_freeze_lists_is_pips_by_condas_list(channel: Path, server: Served, tmp_path: Path) -> None:
    """After `pip install -U pip setuptools`, `conda list` calls them pypi's, and `pip freeze` leaves them out."""
    lists = f"{LIST}pip 24.0 pypi_0 pypi\nsetuptools 70.1 pypi_0 pypi\nwheel 0.43 pypi_0 pypi\n"
    url = serve(server, channel)
    found = solve(tmp_path, lists, (url,), freeze="nala==1.0\nwheel==0.43\n")
    assert not unresolved(found)
    assert [(line.text, line.place.file) for line in found.lines] == [
        ("wheel==0.43", "requirements.txt"), ("pip==24.0", "conda-list.txt"), ("setuptools==70.1", "conda-list.txt"),
    ]  # fmt: skip
    dropped = solve(tmp_path, lists, (url,), freeze="nala==1.0\n", drop=("pip", "wheel"))
    assert [line.text for line in dropped.lines] == ["setuptools==70.1"]
    assert ruling(dropped, "pip").reason == "dropped by decision"


def test_pip_over_conda(channel: Path, server: Served, tmp_path: Path) -> None:
    url = serve(server, channel)
    found = solve(tmp_path, LIST, (url,), freeze="nala==2.5\n")
    assert [line.text for line in found.lines] == ["nala==2.5"]
    assert found.distributions == {}
    assert ruling(found, "nala").outcome == "excluded"
    assert "pip installed nala over it (requirements.txt:1)" in ruling(found, "nala").reason


def hostile_record(name: str) -> bytes:
    return json.dumps({"packages": {}, "packages.conda": {name: {"name": 5}}}).encode()


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"null", b'{"packages": 3}', hostile_record("python-3.11.2-h1_0.conda"), b"[" * 90_000]
)  # fmt: skip
def test_hostile_repodata_is_an_error_or_has_nothing(
    body: bytes, channel: Path, server: Served, tmp_path: Path
) -> None:
    url = serve(server, channel)
    for subdir in ("linux-64", "noarch"):
        server.give(f"/conda-forge/{subdir}/repodata.json.zst", Reply(status=404))
        server.give(f"/conda-forge/{subdir}/repodata.json", Reply(body))
    found = attempt(tmp_path, LIST, url)
    if isinstance(found, Conda):
        assert found.packages == ()
    else:
        assert "is not a channel's list of packages" in str(found)
        assert found.hint == "the channel is broken, or no channel; name another with `--channel URL`"


def attempt(tmp_path: Path, lists: str, url: str) -> Conda | FetchError:
    """Return what comes out, be it an error."""
    try:
        return solve(tmp_path, lists, (url,))
    except FetchError as err:
        return err


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("which", ["noarch/nala-1.0-pyhd8ed1ab_0.conda", "noarch/repodata.json.zst"])
def test_upstream_death(
    which: str, fault: str, channel: Path, server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A channel that dies: the same package or its name in an error or ruling, and nothing wrong in the store."""
    url = serve(server, channel)
    right = hashlib.sha256((channel / "noarch/nala-1.0-pyhd8ed1ab_0.conda").read_bytes()).hexdigest()
    path = f"/conda-forge/{which}"
    with Served() as other:
        scene = Scene(path, server.replies[path][0], server, other)
        server.replies[path] = list(FAULTS[fault](scene))
        md5 = hashlib.md5((channel / "noarch/nala-1.0-pyhd8ed1ab_0.conda").read_bytes()).hexdigest()
        of_file = f"python 3.11.2 h1_0 conda-forge\n{url}/noarch/nala-1.0-pyhd8ed1ab_0.conda#{md5}\n"
        found = attempt(tmp_path, of_file if which.endswith(".conda") else LIST, url)
    if isinstance(found, Conda):
        told = [one for one in found.rulings if one.subject == "nala" and one.outcome == "unresolved"]
        assert told or [one.file.sha256 for one in found.packages if one.name == "nala"] == [right]
    else:
        assert "nala" in str(found) or "noarch" in str(found)
        assert found.hint
    store = Store(tmp_path / "store")
    for blob in (store.root / "blobs").glob("*/*"):
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name


@pytest.mark.parametrize(
    "rows",
    ["python 3.13.1 h1_5_cp313t conda-forge", "python=3.13.1", "python=3.13.1\npython-freethreading=3.13.1"],
)
def test_a_free_threaded_python_of_conda(rows: str, channel: Path, server: Served, tmp_path: Path) -> None:
    """Its build tells it, also where the list does not."""
    for name, build in (("python", "h1_5_cp313t"), ("python-freethreading", "h2_0")):
        write_package(Spec(name=name, version="3.13.1", build=build, files={f"{name}.txt": b"x"}), channel)
    index_channel(channel)
    found = solve(tmp_path, f"{rows}\n", (serve(server, channel),))
    assert found.interpreter.executable == "/opt/env/bin/python3.13t"
    assert found.interpreter.free_threaded


def test_a_repository_in_an_environment_does_not_hide_what_pip_installed(
    channel: Path, server: Served, tmp_path: Path
) -> None:
    """Without a freeze the other lines for pip are still those of wheels."""
    folder = tmp_path / "alone"
    folder.mkdir()
    (folder / "environment.yml").write_text(
        "channels: [conda-forge]\ndependencies:\n- ca-certificates=1\n- openssl=1\n- python=3.11.2\n- pip:\n"
        "  - pure==3\n  - mypkg @ git+https://git.example.org/x@0123456789abcdef0123456789abcdef01234567\n"
    )
    snapshot = read_snapshot(folder)
    around = ResolveContext(
        store=Store(tmp_path / "store"), net=Net(manners=MANNERS), folder=tmp_path, now=EPOCH,
        indexes=PackageIndexes(find_links=(), simple=(), credentials={}), env={"HOME": str(tmp_path / "home")},
        say=lambda text: None,
    )  # fmt: skip
    decided = Decisions(channels=(serve(server, channel),))
    found = resolve_conda(snapshot, decided, "linux/amd64", (), around)
    assert found is not None
    assert [(line.name, line.version) for line in found.lines] == [("pure", "3")]
    assert [name for name, _ in unresolved(found)] == ["ca-certificates", "openssl"]  # of the made-up channel


def put(server: Served, channel: Path, *specs: Spec) -> str:
    for spec in specs:
        write_package(spec, channel)
    index_channel(channel)
    return serve(server, channel)


@pytest.mark.parametrize(
    ("row", "there"),
    [
        ("numpy 1.26.4 py311h1_9 conda-forge", "; of this version there is py311h1_0, py311h2_0, py310h1_0"),
        ("numpy 1.26.3 py311h1_0 conda-forge",
         "; there is 1.25.0 (py311h1_0), 1.26.4 (py311h1_0, py311h2_0, py310h1_0), 2.0.0 (py312h1_0)"),
        ("{url}/linux-64/numpy-1.25.0-py311h1_0.tar.bz2#" + "0" * 32,
         "; the same build is there as numpy-1.25.0-py311h1_0.conda, which is another file"),
        ("{url}/linux-64/numpy-3.0-py311h1_0.conda#" + "0" * 64, "; there is 1.25.0 (py311h1_0), 1.26.4 (py311h1_0, "),
        ("odd 9f 0 conda-forge", "; there is 9e (0)"),
        ("absent 1 0 conda-forge", ""),
    ],
)  # fmt: skip
def test_what_could_replace_a_package_that_was_deleted(
    row: str, there: str, channel: Path, server: Served, tmp_path: Path
) -> None:
    builds = (
        "1.26.4 py310h1_0",
        "1.26.4 py311h1_0",
        "1.26.4 py311h2_0",
        "1.25.0 py311h1_0",
        "2.0.0 py312h1_0",
    )
    specs = [
        Spec(name="numpy", version=v, build=b, files={"n": b"n"}) for v, b in (one.split() for one in builds)
    ]
    url = put(server, channel, *specs, Spec(name="odd", version="9e", build="0", files={"o": b"o"}))
    found = solve(tmp_path, f"python 3.11.2 h1_0 conda-forge\n{row.format(url=url)}\n", (url,))
    (gone,) = [one for one in found.rulings if one.outcome == "unresolved"]
    assert gone.kind == "conda-package"
    assert there in gone.reason if there else gone.reason.endswith("absent 1 0")


def test_a_deleted_package_may_be_in_the_store_still(channel: Path, server: Served, tmp_path: Path) -> None:
    url = serve(server, channel)
    first = solve(tmp_path, LIST, (url,))
    store, path = Store(tmp_path / "store"), tmp_path / "old.lock"
    record_lock(make_lock(conda=first.packages), path, store)
    for ending in ("conda", "tar.bz2"):
        for file in (channel / "linux-64").glob(f"binary-1.0-0.{ending}"):
            file.unlink()
    index_channel(channel)
    serve(server, channel)
    again = solve(tmp_path, LIST, (url,))
    (gone,) = [one for one in again.rulings if one.outcome == "unresolved"]
    binary = next(one.file for one in first.packages if one.name == "binary")
    line = f"{url}/linux-64/{binary.filename}#{binary.sha256}"
    assert (
        f"; the store has {binary.filename} (sha256 {binary.sha256}) of the lock {path}: a file"
        in gone.reason
    )
    assert gone.reason.endswith(f"takes it, with the lines @EXPLICIT and {line}")
    for folder in tmp_path.glob("snapshot-*"):
        (folder / "conda-explicit.txt").write_text(f"@EXPLICIT\n{line}\n")
    assert [one.file.sha256 for one in solve(tmp_path, LIST, (url,)).packages if one.name == "binary"] == [
        binary.sha256
    ]
