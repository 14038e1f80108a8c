"""A private index with a login: it serves the whole run, and stands in no byte that the run leaves or says."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from reprobuild.lock.file import read_lock
from reprobuild_portable.hashing import hash_file
from tests.conftest import EXAMPLE, Built, reprobuild
from tests.e2e.test_planted_secrets import below, forms, unpacked
from tests.image.made import make_wheel
from tests.resolve.served import Reply, Served

USER, PASSWORD = "build-bot", "zq7:/w9 %Kx@2v-Lm"
PROJECT = "inhouse"
JSON = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
WHEEL = f"{PROJECT}-1.0-py3-none-any.whl"


def traces() -> list[bytes]:
    """Return the password in every form in which it could be written, with and without its user."""
    login = f"{USER}:{PASSWORD}"
    quoted = [urllib.parse.quote(PASSWORD, safe=safe) for safe in ("", "/", ":/", ":/@ ")]
    found = [form for text in (PASSWORD, login, *quoted) for form in forms(text)]
    found += [json.dumps(PASSWORD).strip('"').encode(), repr(PASSWORD).strip("'").encode()]
    found += [base64.urlsafe_b64encode(login.encode()).rstrip(b"=")]
    found += [urllib.parse.quote_plus(PASSWORD).encode(), login.encode("utf-16-le")]
    return sorted(set(found))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Served, Served]]:
    with Served() as server, Served() as other:
        yield server, other


def page(wheel: Path) -> bytes:
    """Return the page of the project with this one wheel."""
    file = {"filename": WHEEL, "url": f"../../files/{WHEEL}", "hashes": {"sha256": hash_file(wheel)}}
    return json.dumps({"meta": {"api-version": "1.0"}, "name": PROJECT, "files": [file]}).encode()


@pytest.fixture
def private(served: tuple[Served, Served], tmp_path: Path) -> str:
    """An index that answers nobody without the login; its one wheel stands on a host of its own. Its address."""
    server, other = served
    wheel = make_wheel(tmp_path / WHEEL, {f"{PROJECT}/__init__.py": b"VALUE = 1\n"})
    login = f"{USER}:{PASSWORD}"
    server.give(f"/simple/{PROJECT}/", Reply(page(wheel), headers=JSON, login=login))
    elsewhere = other.give(f"/cdn/{WHEEL}?signature=once", wheel.read_bytes()).replace(
        "127.0.0.1", "localhost"
    )
    server.give(f"/files/{WHEEL}", Reply(status=302, headers={"Location": elsewhere}, login=login))
    return f"{server.url}/simple"


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """The system of the example with the one package of the private index."""
    folder = tmp_path / "snapshot"
    folder.mkdir()
    (folder / "apt-packages.txt").write_bytes((EXAMPLE / "snapshot" / "apt-packages.txt").read_bytes())
    (folder / "requirements.txt").write_text(f"{PROJECT}==1.0\n")
    return folder


def with_login(url: str, password: str = PASSWORD) -> str:
    return url.replace("://", f"://{USER}:{urllib.parse.quote(password, safe='')}@")


def clean(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which no index is configured, and every answer is asked of the server itself."""
    (tmp_path / "home").mkdir(exist_ok=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "NETRC"))}
    return {
        **own, "HOME": str(tmp_path / "home"), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1",
        "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost",
    }  # fmt: skip


def by_pip_file(url: str, tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "pip.conf"
    path.write_text(f"[global]\nindex-url = {with_login(url)}\n")
    return {"PIP_CONFIG_FILE": str(path), "PIP_NO_INDEX": "0"}


def by_pip_variable(url: str, tmp_path: Path) -> dict[str, str]:
    return {"PIP_INDEX_URL": with_login(url), "PIP_NO_INDEX": "0"}


def by_netrc(url: str, tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "home" / ".netrc"
    path.write_text(f'machine 127.0.0.1\nlogin {USER}\npassword "{PASSWORD}"\n')
    path.chmod(0o600)
    return {"PIP_INDEX_URL": url, "PIP_NO_INDEX": "0"}


def by_uv_variable(url: str, tmp_path: Path) -> dict[str, str]:
    return {"UV_INDEX": f"own={with_login(url)}", **_nowhere(tmp_path)}


def by_uv_name(url: str, tmp_path: Path) -> dict[str, str]:
    return {
        "UV_INDEX": f"own={url}", "UV_INDEX_OWN_USERNAME": USER, "UV_INDEX_OWN_PASSWORD": PASSWORD,
        **_nowhere(tmp_path),
    }  # fmt: skip


def _nowhere(tmp_path: Path) -> dict[str, str]:
    """Let pip's own index be an empty directory, so that its public one is not asked."""
    (tmp_path / "none").mkdir(exist_ok=True)
    return {"PIP_INDEX_URL": (tmp_path / "none").as_uri(), "PIP_NO_INDEX": "0"}


WAYS = (by_pip_file, by_pip_variable, by_netrc, by_uv_variable, by_uv_name)
QUICK = (by_pip_file, by_netrc, by_uv_name)


def assert_absent(said: str, *folders: Path, known: frozenset[Path] = frozenset()) -> None:
    """Fail where a trace of the password is said, or stands in a name or a byte of a file."""
    wanted = traces()
    assert not [trace for trace in wanted if trace in said.encode()]
    for folder in folders:
        for path in below(folder):
            name = os.fsencode(path)
            assert not [trace for trace in wanted if trace in name], path
            if path.is_file() and path not in known:
                for content in unpacked(path):
                    assert not [trace for trace in wanted if trace in content], path


def forget(store: Path, tmp_path: Path) -> None:
    """Take the wheel out of a store, so that it must be fetched."""
    sha256 = hash_file(tmp_path / WHEEL)
    (store / "blobs" / sha256[:2] / sha256).unlink(missing_ok=True)


def files_of(folder: Path) -> frozenset[Path]:
    return frozenset(path for path in below(folder) if path.is_file())


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, id=way.__name__, marks=[] if way in QUICK else [pytest.mark.long]) for way in WAYS],
)
def test_each_place_of_a_login(
    way: Callable[[str, Path], dict[str, str]], private: str, served: tuple[Served, Served], snapshot: Path,
    tmp_path: Path, built_example: Built,
) -> None:  # fmt: skip
    env = {**clean(tmp_path), **way(private, tmp_path)}
    lock, store = tmp_path / "out" / "x.lock", built_example.store
    known = files_of(store)
    lock.parent.mkdir()
    forget(store, tmp_path)
    done = reprobuild("lock", snapshot, "-o", lock, "--store", store, "--json", env=env)
    assert done.returncode == 0, done.stderr
    forget(store, tmp_path)
    fetched = reprobuild("fetch", lock, "--store", store, "--no-caches", env=env)
    assert fetched.returncode == 0, fetched.stderr
    assert "1 of them fetched now" in fetched.stdout
    (wheel,) = read_lock(lock).wheels
    assert wheel.file.url == private.replace("/simple", f"/files/{WHEEL}")
    said = "".join(one.stdout + one.stderr for one in (done, fetched))
    assert_absent(said, lock.parent, store, known=known)
    server, other = served
    assert [value is not None for value in server.headers("Authorization")].count(True) >= 3
    assert other.headers("Authorization") == [None, None]  # where it leads to, the login does not go


@pytest.mark.long
def test_the_whole_run(
    private: str, served: tuple[Served, Served], snapshot: Path, tmp_path: Path, built_example: Built
) -> None:
    env = {**clean(tmp_path), **by_pip_file(private, tmp_path)}
    out, store = tmp_path / "out", built_example.store
    known = files_of(store)
    (snapshot / "env.txt").write_text(f"PIP_INDEX_URL={with_login(private)}\nLANG=C.UTF-8\n")
    forget(store, tmp_path)
    shown = reprobuild("show", snapshot, "--json", env=env)
    done = reprobuild(
        "from-snapshot", snapshot, "-o", out, "--store", store, "--no-probes", "--json", env=env
    )
    assert done.returncode == 9, done.stderr
    reference = json.loads(done.stdout)["image"]["reference"]
    checked = reprobuild("verify", out, "--no-probes", "--store", store, env=env)
    history = subprocess.run(
        ["docker", "history", "--no-trunc", reference], capture_output=True, text=True, check=True
    ).stdout
    said = "".join(one.stdout + one.stderr for one in (shown, done, checked)) + history
    assert_absent(said, out, store, known=known)
    written = {path.name for path in files_of(out)}
    assert {"reprobuild.lock", "verdict.json", "report.html", "Dockerfile", "image.json"} <= written
    assert (out / "context" / "wheels" / WHEEL).read_bytes() == (tmp_path / WHEEL).read_bytes()


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("path", ["/simple/inhouse/", f"/files/{WHEEL}"], ids=["page", "file"])
def test_a_refusal_names_the_index_and_not_the_login(
    private: str, served: tuple[Served, Served], snapshot: Path, tmp_path: Path, status: int, path: str,
    built_example: Built,
) -> None:  # fmt: skip
    server, _ = served
    env = {**clean(tmp_path), **by_pip_variable(private, tmp_path)}
    words = f"Wrong login {USER}:{PASSWORD}".encode()  # some servers say it all again
    server.give(path, Reply(words, status, {"WWW-Authenticate": f'Basic realm="{PASSWORD}"'}))
    forget(built_example.store, tmp_path)
    done = reprobuild(
        "lock", snapshot, "-o", tmp_path / "x.lock", "--store", built_example.store, "--json", env=env
    )
    assert done.returncode == 5, done.stderr
    assert f"{server.url}{path} refuses access (HTTP {status})" in done.stderr
    assert "hint: put the credentials where pip finds them" in done.stderr
    assert_absent(done.stdout + done.stderr)
    assert not (tmp_path / "x.lock").exists()


def test_the_same_name_on_a_public_index_is_never_mixed_in(
    private: str, served: tuple[Served, Served], snapshot: Path, tmp_path: Path, built_example: Built
) -> None:
    """Somebody registers the name of the private project elsewhere: which index is meant must be said."""
    _, other = served
    (tmp_path / "theirs").mkdir()
    theirs = make_wheel(tmp_path / "theirs" / WHEEL, {f"{PROJECT}/__init__.py": b"import evil\n"})
    other.give(f"/files/{WHEEL}", theirs.read_bytes())
    other.give(f"/simple/{PROJECT}/", Reply(page(theirs), headers=JSON))
    public = f"{other.url}/simple"
    env = {**clean(tmp_path), **by_pip_variable(private, tmp_path), "PIP_EXTRA_INDEX_URL": public}
    locked, store = tmp_path / "x.lock", built_example.store
    known = files_of(store)
    refused = reprobuild("lock", snapshot, "-o", locked, "--store", store, env=env)
    assert refused.returncode == 4, refused.stderr
    assert f"{PROJECT}: unresolved (ambiguous-index)" in refused.stderr
    assert f"--index {PROJECT}=" in refused.stderr
    assert not locked.exists()
    assert not store.joinpath("blobs", hash_file(theirs)[:2], hash_file(theirs)).exists()
    asked = len(other.asked)
    chosen = reprobuild(
        "lock", snapshot, "-o", locked, "--store", store, "--index", f"{PROJECT}={private}", env=env
    )
    assert chosen.returncode == 0, chosen.stderr
    (wheel,) = read_lock(locked).wheels
    assert wheel.file.sha256 == hash_file(tmp_path / WHEEL)
    assert [path for path, _ in other.asked[asked:] if "/simple/" in path] == []
    said = "".join(one.stdout + one.stderr for one in (refused, chosen)) + locked.read_text()
    assert_absent(said, store, known=known)


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    """The control: each form of the password is found, packed and not, and in a name."""
    for number, trace in enumerate(traces()):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "layer").write_bytes(zstandard.compress(b"x" * 100 + trace + b"y"))
        with pytest.raises(AssertionError, match="layer"):
            assert_absent("", folder)
    with pytest.raises(AssertionError):
        assert_absent(f"cannot reach {with_login('http://index.test')}")
