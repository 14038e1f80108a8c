"""Decisions, services and the machine's configuration, brought together for the lines of a freeze."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.config.services import read_services
from reprobuild.context import RunContext, open_client
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import Page
from reprobuild.infra.http.netrc import Netrc
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.lock.system import Base, Deb
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.python.classify import make_silent_patterns
from reprobuild.resolve.python.context import filter_index_lines, make_file_lists, make_line_context
from reprobuild.resolve.python.resolve import resolve_requirements
from reprobuild.snapshot.model import Snapshot
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store
from tests.resolve.repositories import requirement
from tests.resolve.served import Reply, Served
from tests.resolve.test_files import Index, sha256
from tests.system.samples import package
from tests.verify.samples import artefact

TARGET = WheelTarget(python="3.11.2", glibc=(2, 36), machine="x86_64")
AT_ONCE = 16  # lines that are looked up at the same time


class CountedNet(Net):
    """A client that counts the pages that it is asked for, by port, and has short pauses between its tries."""

    def __init__(self) -> None:
        super().__init__(manners=RetryPolicy(pause=0.01))
        self.pages: Counter[int | None] = Counter()

    def page(self, url: str, *, accept: str = "*/*", most: int = 0, alone: bool = False) -> Page:
        self.pages[urlsplit(url).port] += 1
        return super().page(url, accept=accept, most=most, alone=alone)


def around_of(tmp_path: Path, said: list[str], *simple: str, net: Net | None = None) -> ResolveContext:
    indexes = PackageIndexes(
        find_links=(), simple=simple, credentials={}, remarks=("pip is told to ask a keyring",)
    )
    return ResolveContext(
        store=Store(tmp_path / "store"), net=net or Net(), env={}, folder=tmp_path, say=said.append, indexes=indexes,
        now=1_700_000_000,
    )  # fmt: skip


@pytest.mark.parametrize("login", ["", "alice:hunter2@"])
def test_a_decided_index_with_a_login_is_asked_with_it_and_written_without(
    served: Served, tmp_path: Path, login: str
) -> None:
    public, private = Index(served, "/public"), Index(served, "/private")
    public.add("mylib-1.0-py3-none-any.whl")
    private.add("mylib-1.0-py3-none-any.whl", hashes={"sha256": "2" * 64})
    page = served.replies["/private/mylib/"][0]
    served.give("/private/mylib/", Reply(page.body, headers=page.headers, login=login.rstrip("@")))
    decisions = Decisions(indexes={"MyLib": f"http://{login}{served.host}/private/"})
    said: list[str] = []
    around = around_of(tmp_path, said, public.url)
    services = read_services({})
    files = make_file_lists(decisions, services, around)
    known = make_line_context(
        Snapshot(digest=""), services, Base(distribution="debian", release="x", packages=()), around
    )
    found = resolve_requirements([requirement("mylib==1.0")], files, TARGET, known)
    assert [one.file.sha256 for one in found.wheels] == ["2" * 64]
    assert said == ["python: pip is told to ask a keyring"]
    assert "hunter2" not in repr((found, decisions.lock_document(), said))


@pytest.mark.parametrize(
    ("address", "asked"),
    [
        ("/private/?access_token=S3CRET", "/private/mylib/?access_token=S3CRET"),
        ("/private?a=1&access_token=S3CRET", "/private/mylib/?a=1&access_token=S3CRET"),
        ("/t/S3CRET/private/", "/t/S3CRET/private/mylib/"),
    ],
)
def test_a_token_in_the_address_of_an_index_is_used_and_written_nowhere(
    served: Served, tmp_path: Path, address: str, asked: str
) -> None:
    private, name = Index(served, "/private"), "mylib-1.0-py3-none-any.whl"
    private.add(name, url=f"{served.url}/private/files/{name}")
    served.give(asked, served.replies.pop("/private/mylib/")[0])
    served.give(asked.replace("mylib/", f"files/{name}"), b"wheel")
    env = {"HOME": str(tmp_path), "PIP_INDEX_URL": f"{served.url}{address}", "PIP_CONFIG_FILE": "/dev/null"}
    session = RunContext(
        store=Store(tmp_path / "store"), net=open_client(env), env=env, folder=tmp_path, say=print, now=0,
        progress=lambda *_, **__: None,
    )  # fmt: skip
    decided = Decisions(indexes={"mylib": f"{served.url}{address}"})
    for decisions, url in ((Decisions(), env["PIP_INDEX_URL"]), (decided, f"{served.url}/none")):
        env["PIP_INDEX_URL"] = url
        around = session.resolve_context()
        files = make_file_lists(decisions, read_services({}), around)
        known = make_line_context(
            Snapshot(digest=""), read_services({}), Base(distribution="x", release="x", packages=()), around
        )
        found = resolve_requirements([requirement("mylib==1.0")], files, TARGET, known)
        assert found.rulings[0].reason.startswith(f"{name} from {served.url}/private")
        assert "S3CRET" not in repr((found, decisions.lock_document()))
        around.net.page(found.wheels[0].file.url)
        with pytest.raises(FetchError) as caught:
            files.named("other", name) or around.net.page(f"{served.url}/private/gone")
        assert "S3CRET" not in str(caught.value)


# Put together here, so that no scanner takes this file for a leak.
PATH_TOKEN = "Xk39bTq7" + "Lw2mZp8R"


@pytest.mark.parametrize("place", ["/{}/org/repo/python/simple", "/{}/me/", "/npm/priv/{}/r/simple"])
def test_a_token_among_the_directories_of_an_index(served: Served, tmp_path: Path, place: str) -> None:
    """Files lie beside the pages, and links may name the token: each is requested with it, and written without."""
    root, name = place.format(PATH_TOKEN).rstrip("/"), "mylib-1.0-py3-none-any.whl"
    above = served.url + root.partition(PATH_TOKEN)[0] + PATH_TOKEN
    for link in (f"../../{name}", f"{above}/files/{name}"):
        index = Index(served, root)
        index.add(name, url=link)
        served.give(urlsplit(urljoin(f"{served.url}{root}/mylib/", link)).path, b"wheel")
        env = {
            "HOME": str(tmp_path),
            "PIP_INDEX_URL": served.url + place.format(PATH_TOKEN),
            "PIP_CONFIG_FILE": "/dev/null",
        }
        session = RunContext(
            store=Store(tmp_path / "store"), net=open_client(env), env=env, folder=tmp_path, say=print, now=0,
            progress=lambda *_: None,
        )  # fmt: skip
        files = make_file_lists(Decisions(), read_services({}), session.resolve_context())
        ((locked,),) = (offer.files for offer in files.offers("mylib", "1.0"))
        assert "/***/" in locked.url
        assert PATH_TOKEN not in repr((locked, session.resolve_context().indexes.configured))
        later = open_client(env)
        read = RunContext(
            store=Store(tmp_path / "store"), net=later, env=env, folder=tmp_path, say=print, now=0,
            progress=lambda *_: None,
        )  # fmt: skip
        read.resolve_context()
        assert later.page(locked.url).content == b"wheel"
        with pytest.raises(FetchError) as caught:
            later.page(f"{locked.url}.gone")
        assert PATH_TOKEN not in str(caught.value)


@pytest.mark.parametrize("query", [f"?st={PATH_TOKEN}", f"?a=1&st={PATH_TOKEN}#x"])
def test_a_query_that_may_be_a_token_is_not_locked(served: Served, tmp_path: Path, query: str) -> None:
    """The index lists the hash, so the file is known without it; the query of a page number stays."""
    index, name = Index(served, "/simple"), "tool-1.0-py3-none-any.whl"
    index.add(name, url=f"{served.url}/{name}{query}")
    index.add("tool-2.0-py3-none-any.whl", url=f"{served.url}/tool-2.0-py3-none-any.whl?download=1")
    files = make_file_lists(Decisions(), read_services({}), around_of(tmp_path, [], index.url))
    assert files.offers("tool", "1.0")[0].files[0].url == f"{served.url}/{name}"
    assert files.offers("tool", "2.0")[0].files[0].url.endswith("?download=1")


def test_what_is_locked_by_a_signed_link_is_fetched_in_the_same_run(served: Served, tmp_path: Path) -> None:
    index, name = Index(served, "/simple"), "tool-1.0-py3-none-any.whl"
    index.add(name, url=f"{served.url}/{name}?Signature=S3CRET", hashes={"sha256": sha256("wheel")})
    served.give(f"/{name}?Signature=S3CRET", b"wheel")
    env = {"HOME": str(tmp_path), "PIP_INDEX_URL": index.url, "PIP_CONFIG_FILE": "/dev/null"}
    session = RunContext(
        store=Store(tmp_path / "store"), net=open_client(env), env=env, folder=tmp_path, say=print, now=0,
        progress=lambda *_, **__: None,
    )  # fmt: skip
    files = make_file_lists(Decisions(), read_services({}), session.resolve_context())
    ((locked,),) = (offer.files for offer in files.offers("tool", "1.0"))
    assert locked.url == f"{served.url}/{name}"
    file, net = files.artefact(locked), session.resolve_context().net
    with pytest.raises(FetchError, match="does not exist"):
        net.page(locked.url)  # the link is for the file's download alone
    assert fetch([file], session.store, net) == 1
    with pytest.raises(FetchError, match="does not exist"):
        fetch([file], Store(tmp_path / "later"), Net())


def test_a_service_that_answers_403_for_what_it_lacks(served: Served, tmp_path: Path) -> None:
    """torch's index stands on S3, which tells nobody what is not there; pip users have it among their indexes, too."""
    public, cuda = Index(served, "/public"), Index(served, "/whl/cu121")
    public.add("tool-1.0-py3-none-any.whl")
    cuda.add("torch-2.3.0+cu121-cp311-cp311-linux_x86_64.whl")
    for path in ("/whl/cu121/tool/", "/whl/cu118/torch/", "/jax/page.html"):
        served.give(path, Reply(b"<Error><Code>AccessDenied</Code></Error>", 403))
    places = {"torch-index": f"{served.url}/whl/{{local}}", "jax-wheels": f"{served.url}/jax/page.html"}
    services, around = read_services(places), around_of(tmp_path, [], cuda.url, public.url)
    files = make_file_lists(Decisions(), services, around)
    known = make_line_context(
        Snapshot(digest=""), services, Base(distribution="debian", release="x", packages=()), around
    )
    texts = ["tool==1.0", "torch==2.3.0+cu121", "torch==2.3.0+cu118", "jaxlib==0.4.23+cuda12.cudnn89"]
    found = resolve_requirements([requirement(text) for text in texts], files, TARGET, known)
    assert [one.file.filename for one in found.wheels] == [
        "tool-1.0-py3-none-any.whl", "torch-2.3.0+cu121-cp311-cp311-linux_x86_64.whl",
    ]  # fmt: skip
    refused = "answered HTTP 403: nothing is there, or access is refused"
    assert found.rulings[0].reason == (
        f"tool-1.0-py3-none-any.whl from {public.url}; {served.url}/whl/cu121/tool/ {refused}"
    )
    assert found.rulings[2].reason == (
        "torch 2.3.0+cu118 is on no index of this machine; there is 2.3.0+cu121; "
        f"{served.url}/whl/cu118/torch/ {refused}"
    )
    assert found.rulings[3].kind == "unknown-project"
    assert f"{served.url}/jax/page.html {refused}" in found.rulings[3].reason
    served.give("/whl/cu121/rare/", Reply(status=401))
    with pytest.raises(FetchError, match=r"the index .*/whl/cu121 gives no list of the files of rare"):
        files.offers("rare", "1.0")


def test_a_service_that_cannot_be_reached_is_asked_once_and_loses_its_own_lines_alone(
    served: Served, tmp_path: Path
) -> None:
    public = Index(served, "/public")
    public.add("tool-1.0-py3-none-any.whl")
    places = {"torch-index": "http://127.0.0.1:1/whl/{local}"}
    net = CountedNet()
    services, around = read_services(places), around_of(tmp_path, [], public.url, net=net)
    files = make_file_lists(Decisions(), services, around)
    known = make_line_context(
        Snapshot(digest=""), services, Base(distribution="debian", release="x", packages=()), around
    )
    texts = [f"torch{number}==2.3.0+cu121" for number in range(40)]
    found = resolve_requirements([requirement(text) for text in ("tool==1.0", *texts)], files, TARGET, known)
    assert 0 < net.pages[1] <= AT_ONCE
    assert [one.file.filename for one in found.wheels] == ["tool-1.0-py3-none-any.whl"]
    assert {(one.outcome, one.kind) for one in found.rulings[1:]} == {("unresolved", "unreachable-index")}
    assert len({one.reason for one in found.rulings[1:]}) == 1


def test_an_index_of_the_machine_that_cannot_be_reached_is_said_once(tmp_path: Path) -> None:
    """No line of it can be found then: one error is better than one for each line."""
    closed = ("http://127.0.0.1:1/simple", "http://127.0.0.1:2/simple")
    net = CountedNet()
    around = around_of(tmp_path, [], *closed, net=net)
    places = {"torch-index": "http://127.0.0.1:3/whl/{local}"}
    files = make_file_lists(Decisions(), read_services(places), around)
    known = make_line_context(
        Snapshot(digest=""), read_services(places), Base(distribution="x", release="x", packages=()), around
    )
    texts = ("torch==2.3.0+cu121", "open", *(f"tool{number}==1.0" for number in range(40)))
    assert (
        files.list_files("tool0", "1.0") == []
    )  # what a base is chosen by, before the lines are resolved and refused
    found = resolve_requirements([requirement(text) for text in texts], files, TARGET, known)
    assert net.pages == {1: 1, 2: 1, 3: 1}
    assert [(ruling.subject, ruling.kind) for ruling in found.rulings] == [
        ("torch", "unreachable-index"), ("open", "index-line"),
    ]  # fmt: skip
    assert [err.place for err in found.lost] == list(closed)


def test_a_list_that_was_refused_once_is_not_had_later(served: Served, tmp_path: Path) -> None:
    """A base that was chosen without a list must not become that of a lock that has the list."""
    public = Index(served, "/public")
    public.add("tool-1.0-py3-none-any.whl")
    files = make_file_lists(Decisions(), read_services({}), around_of(tmp_path, [], public.url))
    path = f"{public.url.removeprefix(served.url)}/tool/"
    kept = served.replies[path]
    served.give(path, Reply(status=401))
    assert files.list_files("tool", "1.0") == []
    served.replies[path] = kept
    with pytest.raises(FetchError, match="gives no list of the files of tool"):
        files.offers("tool", "1.0")


def test_netrc_serves_the_indexes_of_http_that_pip_is_told(served: Served, tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login alice password hunter2\n")
    url = served.give("/simple/tool/", Reply(b"list", login="alice:hunter2"))
    env = {"HOME": str(tmp_path), "PIP_INDEX_URL": f"{served.url}/simple", "PIP_CONFIG_FILE": "/dev/null"}
    env["NETRC"] = str(tmp_path / "netrc")
    session = RunContext(
        store=Store(tmp_path / "store"), net=open_client(env), env=env, folder=tmp_path, say=print, now=0,
        progress=lambda *_, **__: None,
    )  # fmt: skip
    assert session.resolve_context().net.page(url).content == b"list"
    with pytest.raises(FetchError, match="refuses access"):
        Net(netrc=Netrc(env)).page(url)


def test_a_service_that_the_user_put_elsewhere_is_silent_only_by_its_rule(
    served: Served, tmp_path: Path
) -> None:
    """The server of a company answers 403 where the login is wrong: its indexes must not be passed over."""
    places = {"torch-index": f"{served.url}/{{local}}/simple"}
    for path in ("/cpu/simple/tool/", "/cu121/simple/torch/", "/own/simple/torch/"):
        served.give(path, Reply(status=403))
    around = around_of(tmp_path, [], f"{served.url}/cpu/simple")
    files = make_file_lists(Decisions(services=places), read_services(places), around)
    with pytest.raises(FetchError, match=r"the index .*/cpu/simple gives no list of the files of tool"):
        files.offers("tool", "1.0")
    assert [one.files for one in files.service_offers("torch", "2.3.0+cu121")] == [()]
    assert files.refused("torch", "2.3.0+cu121").startswith(f"; {served.url}/cu121/simple/torch/ answered")


def test_which_indexes_are_silent_services() -> None:
    url = "https://download.pytorch.org/whl"
    silent = ["https://pypi.nvidia.com", url, f"{url}/cu121", f"{url}/nightly/cu126"]
    loud = ["https://pypi.nvidia.com/x", f"{url}x", "https://download.pytorch.org", "https://a.test/cpu/x"]
    found = make_silent_patterns(read_services({"pyg-wheels": "https://a.test/{local}/x"}), ["pyg-wheels"])
    assert [one for one in (*silent, *loud) if any(place.fullmatch(one) for place in found)] == silent


def test_what_the_lines_know_of_system_and_network(served: Served, tmp_path: Path) -> None:
    deb = Deb(
        name="python3-apt", version="2.6.0", architecture="amd64", essential=False, file=artefact("a.deb")
    )
    snapshot = Snapshot(digest="", packages=(package("python3-apt", "2.6.0"),))
    base = Base(distribution="debian", release="bookworm", packages=(deb,))
    known = make_line_context(snapshot, read_services({}), base, around_of(tmp_path, []))
    assert (dict(known.packages), dict(known.base)) == ({"python3-apt": "2.6.0"}, {"python3-apt": "2.6.0"})
    assert known.image == ""
    file = known.bring(served.give("/x.zip", b"bytes"), "x.zip", "")
    assert (file.filename, file.size) == ("x.zip", 5)
    assert known.earlier("tool", "1.0") == ""


def test_only_lines_of_indexes_tell_what_a_release_must_have() -> None:
    texts = ("six==1.16.0", "python-apt==2.6.0", "torch==2.3.1+cpu", "-umpy==1.0", "tool", "ufw==0.36")
    asked = filter_index_lines([requirement(text) for text in texts], read_services({}))
    assert [line.name for line in asked] == ["six", "torch"]
