"""Lines that name one file: wheels and sources at addresses, with and without a hash, files of the captured host."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.lock.python import Sdist
from reprobuild.lock.system import Artefact
from reprobuild.resolve.python.archives import download_file, hash_blob
from reprobuild.resolve.python.resolve import LineContext, ResolvedLines, resolve_requirements
from reprobuild.store.store import Store
from tests.resolve.repositories import requirement
from tests.resolve.served import Reply, Served
from tests.resolve.test_files import AROUND, TARGET, Index, lists, lock, resolved, sha256, taken

WHEEL = "tool-1.0-py3-none-any.whl"
BYTES = b"the bytes of a file"
HASH = hashlib.sha256(BYTES).hexdigest()


@pytest.fixture
def around(tmp_path: Path) -> LineContext:
    """Files are fetched for real, and stay in a store."""
    store, net = Store(tmp_path / "store"), Net(manners=RetryPolicy(tries=1))
    return msgspec.structs.replace(
        AROUND,
        bring=lambda url, name, link: download_file(url, name, store, net, link),
        hash_file=lambda digest, algorithm: hash_blob(store, digest, algorithm),
    )


def one(found: ResolvedLines) -> tuple[str, str, str]:
    (ruling,) = found.rulings
    return ruling.outcome, ruling.kind, ruling.reason


def test_with_a_hash_it_is_that_very_file(served: Served) -> None:
    index = Index(served)
    index.add(WHEEL)
    index.add("tool-1.0-cp311-cp311-linux_x86_64.whl")
    at = f"tool @ https://files.test/{WHEEL}"
    wheel, _ = lock(lists(index.url), f"{at}#sha256={sha256(WHEEL)}")
    assert wheel is not None
    assert wheel.file.url == f"{served.url}/files/{WHEEL}"
    wheel, ruling = lock(lists(index.url), f"{at}#sha256={'e' * 64}")
    assert wheel is not None
    assert wheel.file == Artefact(filename=WHEEL, sha256="e" * 64, size=0, url=f"https://files.test/{WHEEL}")
    assert (ruling.outcome, ruling.reason) == ("pinned", f"{WHEEL} from its own address")


def test_a_yank_of_that_very_file_is_said(served: Served) -> None:
    index = Index(served)
    index.add(WHEEL, yanked=True)
    wheel, ruling = lock(lists(index.url), f"tool @ https://files.test/{WHEEL}#sha256={sha256(WHEEL)}")
    assert wheel is not None
    assert wheel.yanked == "no reason given"
    assert ruling.reason == f"{WHEEL} from {index.url}; its publisher yanked it: no reason given"


def test_without_a_hash_the_address_is_asked_and_that_is_said(served: Served, around: LineContext) -> None:
    index = Index(served)
    index.add(WHEEL)
    url = served.give(f"/elsewhere/{WHEEL}", BYTES)
    found = resolved(lists(index.url), f"tool @ {url}", around=around)
    (wheel,) = found.wheels
    assert wheel.file == Artefact(filename=WHEEL, sha256=HASH, size=len(BYTES), url=url)
    said = "the freeze tells no hash of it, so it is what stood there when the lock was made"
    assert one(found) == ("pinned", "", f"{WHEEL} from its own address; {said}")


ALGORITHMS = ["md5", "sha1", "sha224", "sha384", "sha512"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_another_hash_than_sha256_is_compared_with_the_bytes(
    algorithm: str, served: Served, around: LineContext
) -> None:
    url = served.give(f"/elsewhere/{WHEEL}", BYTES)
    true, false = (hashlib.new(algorithm, content).hexdigest() for content in (BYTES, b"another file"))
    found = resolved(lists(), f"tool @ {url}#{algorithm}={true}", around=around)
    assert one(found) == ("pinned", "", f"{WHEEL} from its own address")
    assert [wheel.file.sha256 for wheel in found.wheels] == [HASH]
    found = resolved(lists(), f"tool @ {url}#{algorithm}={false}", around=around)
    assert found.wheels == ()
    assert one(found) == (
        "unresolved", "other-hash",
        f"{WHEEL} from its own address has the {algorithm} {true[:12]}, which is none of its hashes",
    )  # fmt: skip
    found = resolved(lists(), f"tool @ {url}#sha256={HASH}&{algorithm}={false}", around=around)
    assert one(found)[:2] == ("unresolved", "other-hash")
    line = requirement(f"tool @ {url}#{algorithm}={true} --hash=sha256:{'e' * 64}")
    found = resolve_requirements([line], lists(), TARGET, around)
    assert one(found)[:2] == ("unresolved", "other-hash")


def test_what_an_index_states_of_another_hash_proves_nothing(served: Served, around: LineContext) -> None:
    md5 = hashlib.md5(BYTES).hexdigest()
    index = Index(served)
    index.add(WHEEL, hashes={"sha256": sha256("another file"), "md5": md5})
    served.give(f"/files/{WHEEL}", b"another file")
    for place in (f"{served.url}/gone", "file:///gone"):
        found = resolved(lists(index.url), f"tool @ {place}/{WHEEL}#md5={md5}", around=around)
        assert one(found)[:2] == ("unresolved", "other-hash")
    served.give(f"/files/{WHEEL}", BYTES)
    found = resolved(lists(index.url), f"tool @ file:///gone/{WHEEL}#md5={md5}", around=around)
    assert one(found) == ("pinned", "", f"{WHEEL} from {index.url}")
    assert [wheel.file.sha256 for wheel in found.wheels] == [HASH]
    index = Index(served, root="/other")
    index.add(OUT)  # no file of that name
    assert one(resolved(lists(index.url), f"tool @ file:///gone/{WHEEL}#md5={md5}", around=around)) == (
        "unresolved", "archive-line",
        "it was installed from one file, and no index of this machine has that very file",
    )  # fmt: skip


def test_an_index_that_lists_the_very_address_tells_its_hash(served: Served) -> None:
    index = Index(served)
    index.add(WHEEL)
    _, ruling = lock(lists(index.url), f"tool @ {served.url}/files/{WHEEL}")  # nothing can be fetched here
    said = f"{WHEEL} from its own address, with the hash that {index.url} publishes for it"
    assert (ruling.outcome, ruling.reason) == ("pinned", said)


def test_a_file_of_the_same_name_elsewhere_is_a_replacement(
    served: Served, around: LineContext, tmp_path: Path
) -> None:
    index = Index(served)
    index.add(WHEEL)
    outcome, kind, reason = one(
        resolved(lists(index.url), f"tool @ {served.url}/gone/{WHEEL}", around=around)
    )
    assert (outcome, kind) == ("replaced", "archive-line")
    assert reason.startswith(f"{WHEEL} is not at its own address any more ({served.url}/gone/{WHEEL} ")
    assert reason.endswith("the freeze tells no hash of it, so nobody can tell whether it is the same")
    index.add("google_colab-1.0.0.tar.gz")
    found = resolved(lists(index.url), "google-colab @ file:///colabtools/dist/google_colab-1.0.0.tar.gz")
    assert one(found) == (
        "replaced", "archive-line",
        f"it was installed from a file of the captured machine; {index.url} has one of that name; the freeze tells no "
        "hash of it, so nobody can tell whether it is the same",
    )  # fmt: skip
    assert [sdist.version for sdist in found.sdists] == ["1.0.0"]


def test_what_is_nowhere_is_unresolved(served: Served, around: LineContext, tmp_path: Path) -> None:
    index = Index(served)
    index.add("tool-1.0-cp311-cp311-linux_x86_64.whl")
    for text in (f"tool @ file:///gone/{WHEEL}#sha256={'e' * 64}", f"tool @ file:///C:/x/{WHEEL}"):
        assert one(resolved(lists(index.url), text)) == (
            "unresolved", "archive-line",
            "it was installed from one file, and no index of this machine has that very file",
        )  # fmt: skip
    outcome, kind, reason = one(
        resolved(lists(index.url), f"tool @ {served.url}/gone/{WHEEL}", around=around)
    )
    assert (outcome, kind) == ("unresolved", "archive-line")
    assert reason.startswith("it was installed from one address, which does not answer (")
    (tmp_path / WHEEL).write_bytes(BYTES)
    files = lists(index.url, links=[tmp_path.as_uri()])
    assert taken(files, f"tool @ file:///gone/{WHEEL}#sha256={HASH}") == WHEEL


@pytest.mark.parametrize(
    ("path", "filename", "version"),
    [
        ("/o/tool/archive/refs/tags/v1.2.tar.gz", "v1.2.tar.gz", ""),
        ("/o/tool-1.2.tar.gz", "tool-1.2.tar.gz", "1.2"),
        ("/o/master.zip?raw=true", "master.zip", ""),
        ("/o/a%2Fb%20.tar.bz2", "tool.tar.bz2", ""),
    ],
)
def test_a_source_at_an_address_is_built_once(
    served: Served, around: LineContext, path: str, filename: str, version: str
) -> None:
    served.give(path, BYTES)
    line = f"tool @ {served.url}{path}"
    with_hash = resolved(lists(), f"{line}#sha256={HASH}&subdirectory=py/x")
    without = resolved(lists(), line, around=around)
    file = Artefact(filename=filename, sha256=HASH, size=0, url=f"{served.url}{path}")
    assert with_hash.sdists == (Sdist(name="tool", version=version, file=file, subdirectory="py/x"),)
    assert with_hash.rulings[0].reason.endswith("from its own address; built from its source, once")
    (sdist,) = without.sdists
    assert sdist.file == msgspec.structs.replace(file, size=len(BYTES))
    assert without.rulings[0].reason.endswith("when the lock was made; built from its source, once")


def test_a_wheel_that_does_not_fit_or_is_another_projects(served: Served) -> None:
    other = "tool-1.0-cp39-cp39-win_amd64.whl"
    ruled = one(resolved(lists(), f"tool @ {served.url}/{other}#sha256={HASH}"))
    assert ruled == (
        "unresolved", "no-wheel", f"{other} does not fit Python 3.11.2 on x86_64 with glibc 2.36",
    )  # fmt: skip
    ruled = one(resolved(lists(), f"tool @ {served.url}/tools-1.0-py3-none-any.whl#sha256={HASH}"))
    assert ruled == (
        "unresolved", "archive-line", "tools-1.0-py3-none-any.whl is no name of a wheel of tool",
    )  # fmt: skip


def test_a_login_in_the_address_of_an_unhashed_file_is_nowhere(served: Served, tmp_path: Path) -> None:
    served.give(f"/p/{WHEEL}", Reply(BYTES, login="alice:hunter2"))
    store, net = Store(tmp_path / "store"), Net(credentials={f"{served.url}/p": ("alice", "hunter2")})
    around = msgspec.structs.replace(
        AROUND, bring=lambda url, name, link: download_file(url, name, store, net, link)
    )
    found = resolved(lists(), f"tool @ {served.url}/p/{WHEEL}", around=around)
    assert [wheel.file.sha256 for wheel in found.wheels] == [HASH]
    assert "hunter2" not in repr(found)


OUT = "tool-1.0-1%2F..%2F..%2Fvictim-py3-none-any.whl"


def test_an_encoded_slash_is_no_directory(served: Served, around: LineContext) -> None:
    """A build tag takes any text, so that packaging reads `tool-1.0-1/../../victim-py3-none-any.whl` as a wheel."""
    index = Index(served)
    url = served.give(f"/elsewhere/{OUT}", BYTES)
    for text in (
        f"tool @ {url}",
        f"tool @ {url}#sha256={HASH}",
        f"tool @ file:///elsewhere/{OUT}#sha256={HASH}",
    ):
        found = resolved(lists(index.url), text, around=around)
        assert found.wheels == ()
        assert one(found)[:2] == ("unresolved", "archive-line")
    assert (
        "is no name of a wheel of tool" in one(resolved(lists(index.url), f"tool @ {url}", around=around))[2]
    )


def test_an_index_that_lists_a_path_lists_no_file(served: Served) -> None:
    index = Index(served)
    index.add(OUT.replace("%2F", "/"))
    assert one(resolved(lists(index.url), "tool==1.0"))[0] == "unresolved"


def test_an_encoded_slash_in_the_name_of_a_source_is_left_out(served: Served, around: LineContext) -> None:
    url = served.give("/elsewhere/tool-1.0%2F..%2Fvictim.tar.gz", BYTES)
    (sdist,) = resolved(lists(Index(served).url), f"tool @ {url}", around=around).sdists
    assert sdist.file.filename == "tool.tar.gz"
