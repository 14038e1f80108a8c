"""Projects whose index dies before they are locked: a ruling or an error that names it, and never another file."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from reprobuild.config.services import read_services
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Wheel
from reprobuild.lock.system import Artefact
from reprobuild.resolve.python.resolve import LineContext, resolve_requirements
from reprobuild.resolve.python.unreachable import check_availability
from tests.fault_injection.dead import FAULTS, LOGIN, MANNERS, Scene, like
from tests.resolve.repositories import requirement
from tests.resolve.served import Reply, Served

TARGET = WheelTarget(python="3.11.2", glibc=(2, 36), machine="x86_64")
BEST, PLAIN, OTHER = (
    f"tool-1.0-{tag}.whl" for tag in ("cp311-cp311-linux_x86_64", "py3-none-any", "py3-none-linux_x86_64")
)
HASHES = {BEST: "b" * 64, PLAIN: "1" * 64, OTHER: "0" * 64}
TYPES = {"json": "application/vnd.pypi.simple.v1+json", "html": "text/html; charset=utf-8"}

# What each page brings: the file, a ruling of this class, or an error that says this.
API = "does not answer as a Simple API: "
UNREACHED = "cannot be reached: "
EXPECTED: dict[str, str | None] = {
    "404": "unknown-project", "410": "unknown-project", "401": "refuses access (HTTP 401)",
    "403": "refuses access (HTTP 403)", "503": "answered HTTP 503", "hangs": UNREACHED, "cut": "broke off: ",
    "cut twice": None, "announced short": API, "leads to a mirror": None, "leads to a login page": API,
    "a login page": API, "leads to a file": UNREACHED, "leads in a loop": "redirects in a loop",
    "another media type": API, "claims gzip": "broke off: ", "gzip": None, "empty": API,
}  # fmt: skip


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Served, Served]]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Served() as server, Served() as other:
        yield server, other


def page(form: str, *names: str, **facts: Any) -> Reply:
    """Return the page of a project with these files, in one of the two forms."""
    files = [
        {"filename": n, "url": f"/files/{n}", "hashes": {"sha256": HASHES[n]}, "size": 9, **facts}
        for n in names
    ]
    return Reply(body_of(form, files), headers={"Content-Type": TYPES[form]})


def body_of(form: str, files: Sequence[Mapping[str, Any]]) -> bytes:
    if form == "json":
        return json.dumps({"meta": {"api-version": "1.0"}, "name": "tool", "files": files}).encode()
    rows = ""
    for file in files:
        digest = "".join(f"#sha256={value}" for value in file["hashes"].values())
        yanked = f' data-yanked="{html.escape(file["yanked"])}"' if "yanked" in file else ""
        rows += f'<a href="{file["url"]}{digest}"{yanked}>{file["filename"]}</a><br/>\n'
    return f"<!DOCTYPE html>\n<html><body>\n{rows}</body></html>\n".encode()


def lock(*roots: str, line: str = "tool==1.0") -> tuple[Wheel | None, Resolution]:
    indexes = PackageIndexes(find_links=(), simple=roots, credentials={})
    files = FileLists(indexes, Net(manners=MANNERS))
    around = LineContext(services=read_services({}), bring=never)
    found = resolve_requirements([requirement(line)], files, TARGET, around)
    check_availability(found.lost, (), ())
    return (found.wheels[0] if found.wheels else None), found.rulings[0]


def never(url: str, filename: str, link: str) -> Artefact:
    raise AssertionError(f"{filename} has a hash, and was fetched from {url} to get one")


@pytest.mark.parametrize("form", TYPES)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_page_of_a_project_dies(served: tuple[Served, Served], fault: str, form: str) -> None:
    """Another index that has another file of the same version does not stand in for one that fails."""
    server, other = served
    place = Scene("/simple/tool/", page(form, PLAIN, BEST), server, other)
    server.give(place.path, *FAULTS[fault](place))
    expected = EXPECTED[fault]
    if expected is None:
        wheel, ruling = lock(f"{server.url}/simple")
        assert wheel is not None
        assert (wheel.file.filename, wheel.file.sha256, ruling.outcome) == (BEST, HASHES[BEST], "pinned")
        return
    if " " not in expected:
        wheel, ruling = lock(f"{server.url}/simple")
        assert (wheel, ruling.outcome, ruling.kind) == (None, "unresolved", expected)
        assert ruling.reason == "no index of this machine has tool"
        return
    other.give("/simple/tool/", page(form, OTHER))
    with pytest.raises(FetchError) as caught:
        lock(f"{server.url}/simple", f"{other.url}/simple")
    assert f"{server.url}/simple" in str(caught.value)
    assert expected in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("form", TYPES)
def test_a_page_may_break_off_anywhere(served: tuple[Served, Served], form: str) -> None:
    """A server that announces less than there is: the best wheel may be in the part that is missing."""
    server, _ = served
    whole = page(form, PLAIN, BEST)
    for length in range(0, len(whole.body.rstrip()), 7):
        server.give("/simple/tool/", like(whole, whole.body[:length]))
        if form == "html" and b"</body>" in whole.body[:length]:  # all links are there
            wheel, _ = lock(f"{server.url}/simple")
            assert wheel is not None
            assert wheel.file.filename == BEST
            continue
        with pytest.raises(FetchError, match="does not answer as a Simple API"):
            lock(f"{server.url}/simple")


@pytest.mark.parametrize("form", TYPES)
def test_files_are_deleted_and_yanked(served: tuple[Served, Served], form: str) -> None:
    server, _ = served
    root = f"{server.url}/simple"
    server.give("/simple/tool/", page(form, PLAIN, BEST, yanked="broken <on> Mondays"))
    wheel, ruling = lock(root)
    assert wheel is not None
    assert (wheel.file.sha256, wheel.yanked) == (HASHES[BEST], "broken <on> Mondays")
    assert ruling.reason.endswith("its publisher yanked it: broken <on> Mondays")
    assert lock(root, line="tool==2.0")[1].reason.startswith(
        "tool 2.0 is on no index of this machine; there is 1.0"
    )
    server.give("/simple/tool/", page(form))
    assert lock(root)[1].kind == "unknown-project"


@pytest.mark.parametrize("form", TYPES)
def test_a_file_is_uploaded_again(served: tuple[Served, Served], form: str) -> None:
    """Where the freeze tells a hash nothing else is taken; a file without a hash is not believed."""
    server, _ = served
    root, url = f"{server.url}/simple", f"{server.url}/files/{BEST}"
    again = page(form, BEST, hashes={"sha256": "e" * 64})
    server.give("/simple/tool/", again)
    wheel, _ = lock(root, line=f"tool @ {url}#sha256={HASHES[BEST]}")
    assert wheel is None or wheel.file.sha256 == HASHES[BEST]  # whatever stands there, this is what is locked
    server.give("/simple/tool/", page(form, BEST, hashes={}))
    wheel, ruling = lock(root)
    assert (wheel, ruling.kind) == (None, "no-hash")


@pytest.mark.parametrize("form", TYPES)
@pytest.mark.parametrize("target", ["/etc/hostname", "/dev/zero", "/nonexistent"])
@pytest.mark.parametrize("hashes", [{}, {"sha256": "f" * 64}], ids=["no hash", "a hash"])
def test_a_page_of_a_server_leads_to_no_file_of_this_machine(
    served: tuple[Served, Served], form: str, target: str, hashes: dict[str, str]
) -> None:
    server, _ = served
    server.give("/simple/tool/", page(form, BEST, url=f"file://{target}?/{BEST}", hashes=hashes))
    wheel, ruling = lock(f"{server.url}/simple")
    assert (wheel, ruling.kind) == (None, "unknown-project")


def test_a_login_page_of_an_index_says_so(served: tuple[Served, Served]) -> None:
    server, _ = served
    server.give("/simple/tool/", Reply(LOGIN, headers={"Content-Type": "text/html"}))
    with pytest.raises(
        FetchError, match="but a web page: is a login needed, or a proxy in between"
    ) as caught:
        lock(f"{server.url}/simple")
    assert caught.value.hint


@pytest.mark.parametrize("hashes", ["", "#sha256=" + "1" * 64], ids=["no hash", "a hash"])
def test_a_folder_of_an_index_loses_a_file(tmp_path: Path, hashes: str) -> None:
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool" / "index.html").write_text(f'<a href="../{PLAIN}{hashes}">{PLAIN}</a>')
    with pytest.raises(FetchError, match=f"{tmp_path}/{PLAIN} does not exist") as caught:
        lock(tmp_path.as_uri())
    assert caught.value.hint == "it may have been removed"
    os.mkfifo(tmp_path / PLAIN)
    with pytest.raises(FetchError, match=f"{tmp_path}/{PLAIN} cannot be read: it is no plain file") as odd:
        lock(tmp_path.as_uri())
    assert odd.value.hint == "check the index in pip's configuration"
