"""Links with a token or a signature: each is requested for the file that its index lists, and for nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.config.services import read_services
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.lock.system import Artefact, Base
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.python.context import make_file_lists, make_line_context
from reprobuild.resolve.python.resolve import ResolvedLines, resolve_requirements
from reprobuild.snapshot.model import Snapshot
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store
from tests.resolve.repositories import requirement
from tests.resolve.served import Reply, Served
from tests.resolve.test_files import Index

TARGET = WheelTarget(python="3.11.2", glibc=(2, 36), machine="x86_64")
WHEEL = "pkg-1.0-py3-none-any.whl"
HONEST, OTHER = b"the file of the address", b"another file"
# Put together here, so that no scanner takes this file for a leak.
TOKEN = "Xk39bTq7" + "Lw2mZp8R"


@pytest.fixture
def second() -> Iterator[Served]:
    """A server of another party."""
    with Served() as server:
        yield server


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def context_of(tmp_path: Path, *simple: str) -> ResolveContext:
    return ResolveContext(
        store=Store(tmp_path / "store"), net=Net(manners=RetryPolicy(tries=1)), env={}, folder=tmp_path, say=print,
        indexes=PackageIndexes(find_links=(), simple=simple, credentials={}), now=1_700_000_000,
    )  # fmt: skip


def resolve(context: ResolveContext, *texts: str) -> tuple[ResolvedLines, FileLists]:
    services = read_services({})
    files = make_file_lists(Decisions(), services, context)
    base = Base(distribution="x", release="x", packages=())
    known = make_line_context(Snapshot(digest=""), services, base, context)
    return resolve_requirements([requirement(text) for text in texts], files, TARGET, known), files


def test_a_link_of_an_index_changes_no_request_of_another_index(
    served: Served, second: Served, tmp_path: Path
) -> None:
    """The server of the first index answers 404 to a query, so the later index would have the only file."""
    first, later = Index(served), Index(second)
    first.add("numpy-1.0-py3-none-any.whl")
    later.add("numpy-1.0-py3-none-any.whl", hashes={"sha256": "e" * 64})
    later.add("helper-1.0-py3-none-any.whl")
    later.add("helper-1.0-cp27-none-any.whl", url=f"{first.url}/numpy/?versionId={TOKEN}")
    context = context_of(tmp_path, first.url, later.url)
    files = make_file_lists(Decisions(), read_services({}), context)
    assert len(files.list_files("helper", "1.0")) == 2
    assert [item.sha256 for item in files.list_files("numpy", "1.0")][1:] == ["e" * 64]
    found, _ = resolve(context, "helper==1.0", "numpy==1.0")
    assert [(ruling.subject, ruling.kind) for ruling in found.rulings] == [
        ("helper", ""), ("numpy", "ambiguous-index"),
    ]  # fmt: skip
    assert {path for path, _ in served.asked if "numpy" in path} == {"/simple/numpy/"}


@pytest.mark.parametrize("link", ["/t/other/owner/{}", "/owner/{}?generation=1700000000123456&sig=abc"])
@pytest.mark.parametrize("hashed", [False, True])
def test_a_link_of_an_index_changes_no_download_from_an_address(
    served: Served, second: Served, tmp_path: Path, link: str, hashed: bool
) -> None:
    index, path = Index(second), link.format(WHEEL)
    index.add(WHEEL, url=served.give(path, OTHER), hashes={"sha256": digest(OTHER)} if hashed else {})
    url = served.give(f"/owner/{WHEEL}", HONEST)
    context = context_of(tmp_path, index.url)
    found, files = resolve(context, f"pkg @ {url}")
    assert [item.url for item in files.named("pkg", WHEEL)] == [url]
    assert [(wheel.file.url, wheel.file.sha256) for wheel in found.wheels] == [(url, digest(HONEST))]
    assert found.rulings[0].reason.startswith(f"{WHEEL} from its own address; the freeze tells no hash of it")
    assert fetch([wheel.file for wheel in found.wheels], context.store, context.net) == 0
    assert [path for path, _ in served.asked] == [f"/owner/{WHEEL}"]


def test_a_link_changes_no_download_of_another_hash(served: Served, second: Served, tmp_path: Path) -> None:
    """A lock, or another index, states the same address."""
    index = Index(second)
    index.add(WHEEL, url=served.give(f"/{WHEEL}?sig=abc", OTHER), hashes={"sha256": digest(OTHER)})
    url = served.give(f"/{WHEEL}", HONEST)
    context = context_of(tmp_path, index.url)
    found, _ = resolve(context, "pkg==1.0")
    file = Artefact(filename=WHEEL, sha256=digest(HONEST), size=len(HONEST), url=url)
    fetch([file, *(wheel.file for wheel in found.wheels)], context.store, context.net)
    assert sorted(path for path, _ in served.asked) == [f"/{WHEEL}", f"/{WHEEL}?sig=abc"]


def test_a_line_with_an_md5_tries_the_link_of_an_index_after_its_address(
    served: Served, second: Served, tmp_path: Path
) -> None:
    index = Index(second)
    index.add(WHEEL, url=served.give(f"/{WHEEL}?sig=abc", OTHER), hashes={})
    url = served.give(f"/{WHEEL}", HONEST)
    md5 = hashlib.md5(OTHER, usedforsecurity=False).hexdigest()
    found, _ = resolve(context_of(tmp_path, index.url), f"pkg @ {url}#md5={md5}")
    assert [wheel.file.sha256 for wheel in found.wheels] == [digest(OTHER)]
    assert [path for path, _ in served.asked] == [f"/{WHEEL}", f"/{WHEEL}?sig=abc"]


@pytest.mark.parametrize(
    ("query", "hashed"), [("X-Amz-Signature={}", True), ("X-Amz-Signature={}", False), ("st={}", True)]
)
def test_a_signed_link_is_used_for_its_file_and_written_nowhere(
    served: Served, tmp_path: Path, query: str, hashed: bool
) -> None:
    index, path = Index(served), f"/files/{WHEEL}"
    signed = f"{path}?{query.format(TOKEN)}"
    index.add(WHEEL, url=served.url + signed, hashes={"sha256": digest(HONEST)} if hashed else {})
    served.give(signed, Reply(b"", 302, {"Location": "store/x?sig=abc"}))
    served.give("/files/store/x?sig=abc", HONEST)
    context = context_of(tmp_path, index.url)
    found, files = resolve(context, "pkg==1.0")
    (file,) = (wheel.file for wheel in found.wheels)
    assert (file.url, file.sha256) == (served.url + path, digest(HONEST))
    assert fetch([file], context.store, context.net) == (1 if hashed else 0)
    assert TOKEN not in repr((found, files.list_files("pkg", "1.0")))
    assert not [name for name in (tmp_path / "store").rglob("*") if name.is_file() and TOKEN in str(name)]
    with pytest.raises(FetchError, match=rf"{path} does not exist"):
        fetch([file], Store(tmp_path / "later"), Net())


@pytest.mark.parametrize(
    "answer",
    [
        Reply(status=403),
        Reply(status=500),
        Reply(b"x", cut=0),
        Reply(b"", 302, {"Location": "http://127.0.0.1:1/"}),
    ],
)
@pytest.mark.parametrize("hashed", [False, True])
def test_no_error_about_a_signed_link_has_its_secret(
    served: Served, tmp_path: Path, answer: Reply, hashed: bool
) -> None:
    index, signed = Index(served), f"/files/{WHEEL}?X-Amz-Signature={TOKEN}"
    index.add(WHEEL, url=served.give(signed, answer), hashes={"sha256": digest(HONEST)} if hashed else {})
    context = context_of(tmp_path, index.url)
    found, _ = resolve(context, "pkg==1.0")
    assert TOKEN not in repr(found)
    if hashed:
        with pytest.raises(FetchError) as caught:
            fetch([wheel.file for wheel in found.wheels], context.store, context.net)
        assert TOKEN not in f"{caught.value} {caught.value.hint}"
    assert signed in [path for path, _ in served.asked]


def test_no_error_about_a_link_to_a_bad_port_has_its_secret(served: Served, tmp_path: Path) -> None:
    index = Index(served)
    index.add(WHEEL, url=f"http://127.0.0.1:1/{WHEEL}?st={TOKEN}")
    context = context_of(tmp_path, index.url)
    found, _ = resolve(context, "pkg==1.0")
    with pytest.raises(FetchError, match="cannot be reached") as caught:
        fetch([wheel.file for wheel in found.wheels], context.store, context.net)
    assert TOKEN not in str(caught.value)
