"""Files of which nobody publishes a sha256: brought once and hashed, compared with those of the same name, or said."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from reprobuild.ecosystems.pypi.choose import find_newest
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.lock.model import Resolution
from reprobuild.lock.system import Artefact
from reprobuild.resolve.python.archives import download_file
from reprobuild.resolve.python.resolve import ResolvedLines, resolve_requirements
from reprobuild.store.store import Store
from tests.resolve.repositories import requirement
from tests.resolve.served import Served
from tests.resolve.test_files import AROUND, TARGET, Index, lists, sha256

WHEEL = "tool-1.0-py3-none-any.whl"
BYTES = b"the bytes of a wheel"
HASH = hashlib.sha256(BYTES).hexdigest()
OTHER = "other-1.0-py3-none-any.whl"
BROUGHT = "; no sha256 of it is published, so it is what stood there when the lock was made"

Listing = Callable[..., FileLists]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def listing(store: Store) -> Listing:
    """Give lists of places whose files are fetched for real, and stay in a store."""
    net = Net(manners=RetryPolicy(tries=1))

    def make(*simple: str, links: tuple[str, ...] = ()) -> FileLists:
        places = PackageIndexes(find_links=links, simple=simple, credentials={})
        return FileLists(
            places, net, bring=lambda url, name, link: download_file(url, name, store, net, link)
        )

    return make


def locked(files: FileLists, *texts: str) -> ResolvedLines:
    return resolve_requirements([requirement(text) for text in texts], files, TARGET, AROUND)


def of(found: ResolvedLines, name: str) -> Resolution:
    return next(ruling for ruling in found.rulings if ruling.subject == name)


@pytest.mark.parametrize("hashes", [{}, {"md5": "0" * 32}])
def test_it_is_brought_once_and_locked_by_its_hash(
    served: Served, store: Store, listing: Listing, hashes: dict[str, str]
) -> None:
    index = Index(served)
    index.add(WHEEL, hashes=hashes)
    index.add(OTHER)
    url = served.give(f"/files/{WHEEL}", BYTES)
    found = locked(listing(index.url), "tool==1.0", "other==1.0")
    assert [wheel.file for wheel in found.wheels if wheel.name == "tool"] == [
        Artefact(filename=WHEEL, sha256=HASH, size=len(BYTES), url=url)
    ]
    assert of(found, "tool").reason == f"{WHEEL} from {index.url}{BROUGHT}"
    assert of(found, "other").reason == f"{OTHER} from {index.url}"
    assert store.has(HASH)  # so that nobody fetches it again
    assert [path for path, _ in served.asked].count(f"/files/{WHEEL}") == 1


def test_on_a_page_of_links_without_fragments(served: Served, listing: Listing) -> None:
    page = served.give("/links.html", f'<a href="d/{WHEEL}">x</a> <a href="d/{OTHER}">y</a>'.encode())
    url = served.give(f"/d/{WHEEL}", BYTES)
    found = locked(listing(links=(page,)), "tool==1.0")
    assert [wheel.file.url for wheel in found.wheels] == [url]
    assert of(found, "tool").reason == f"{WHEEL} from {page}{BROUGHT}"


def test_one_that_cannot_be_had_stops_no_other_line(served: Served, listing: Listing) -> None:
    index = Index(served)
    index.add(WHEEL, hashes={})
    index.add(OTHER)
    found = locked(listing(index.url), "tool==1.0", "other==1.0")
    assert [wheel.name for wheel in found.wheels] == ["other"]
    ruling = of(found, "tool")
    assert (ruling.outcome, ruling.kind) == ("unresolved", "no-hash")
    url = f"{served.url}/files/{WHEEL}"
    assert ruling.reason.startswith(
        f"{WHEEL} of {index.url} has no published sha256, and the file itself cannot be had for it ({url} "
    )
    assert ruling.reason.endswith("; name a place that has it: --index tool=URL")


def test_a_file_of_that_name_elsewhere_tells_whether_it_is_the_same(served: Served, listing: Listing) -> None:
    """The first index is a house's own without hashes; a stranger may have put that name on the public one."""
    one, two = Index(served, "/one"), Index(served, "/two")
    one.add(WHEEL, hashes={})
    two.add(WHEEL, hashes={"sha256": HASH})
    served.give(f"/files/{WHEEL}", BYTES)
    found = locked(listing(one.url, two.url), "tool==1.0")
    assert of(found, "tool").reason == f"{WHEEL} from {one.url}{BROUGHT}"
    two.projects.clear()
    two.add(WHEEL, hashes={"sha256": "2" * 64})
    found = locked(listing(one.url, two.url), "tool==1.0")
    assert (found.wheels, of(found, "tool").kind) == ((), "ambiguous-index")
    assert (
        f"on {one.url} (sha256 {HASH[:12]}) and another on {two.url} (sha256 2222" in of(found, "tool").reason
    )


def test_one_with_a_hash_replaces_a_file_of_the_captured_machine(served: Served, listing: Listing) -> None:
    one, two = Index(served, "/one"), Index(served, "/two")
    one.add(WHEEL, hashes={})
    two.add(WHEEL)
    line = f"tool @ file:///w/{WHEEL}"
    found = locked(listing(one.url, two.url), line)
    assert [wheel.file.sha256 for wheel in found.wheels] == [sha256(WHEEL)]
    found = locked(listing(one.url), line)
    assert (of(found, "tool").outcome, of(found, "tool").kind) == ("unresolved", "no-hash")


def test_what_a_build_needs_is_brought_too(served: Served, listing: Listing) -> None:
    index = Index(served)
    index.add(WHEEL, hashes={"md5": "0" * 32})
    served.give(f"/files/{WHEEL}", BYTES)
    assert find_newest("tool", "", listing(index.url), TARGET) == (
        "1.0", Artefact(filename=WHEEL, sha256=HASH, size=len(BYTES), url=f"{served.url}/files/{WHEEL}"),
    )  # fmt: skip
    with pytest.raises(
        FetchError, match=rf"{index.url} publishes no sha256 for {WHEEL} \(an md5 is not"
    ) as err:
        find_newest("tool", "", lists(index.url), TARGET)
    assert err.value.hint == "put the file into a directory, and that directory into pip's find-links"
