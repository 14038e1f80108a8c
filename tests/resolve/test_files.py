"""What indexes offer: Simple APIs in HTML and JSON from a real server, directories and pages of links."""

from __future__ import annotations

import hashlib
import html
import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.config.services import read_services
from reprobuild.ecosystems.pypi.choose import choose_wheel, find_newest
from reprobuild.ecosystems.pypi.files import FileLists, IndexDistribution
from reprobuild.ecosystems.pypi.indexes import PackageIndex as Place
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.ecosystems.pypi.page_text import read_anchors
from reprobuild.ecosystems.pypi.simple_api import LARGEST
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.ecosystems.pypi.versions import same_version
from reprobuild.errors import FetchError, LockError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.file_scheme import local_hash
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Wheel
from reprobuild.lock.system import Artefact
from reprobuild.resolve.acceptance import accept_deviations
from reprobuild.resolve.python.classify import rule_indexes
from reprobuild.resolve.python.python_versions import format_python_ranges
from reprobuild.resolve.python.resolve import LineContext, ResolvedLines, resolve_requirements
from reprobuild.resolve.python.unreachable import check_availability
from reprobuild.snapshot.merge import apply_conda_versions
from reprobuild.snapshot.parsers import conda_list
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store
from tests.resolve.repositories import requirement
from tests.resolve.served import Reply, Served

TARGET = WheelTarget(python="3.11.2", glibc=(2, 36), machine="x86_64")
HTML = {"Content-Type": "text/html; charset=utf-8"}
JSON = {"Content-Type": "application/vnd.pypi.simple.v1+json"}


def sha256(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def root_parts(root: str) -> list[str]:
    return root.strip("/").split("/")


class Index:
    """An index of file names, served in one of the two forms; `facts` are PEP 691's keys."""

    def __init__(self, served: Served, root: str = "/simple", form: str = "json") -> None:
        self.served, self.root, self.form = served, root, form
        self.url = served.url + root
        self.projects: dict[str, list[dict[str, Any]]] = {}

    def add(self, filename: str, **facts: Any) -> None:
        project = filename.split("-")[0].replace("_", "-").lower()
        up = "../" * (len(root_parts(self.root)) + 1)
        file = {"filename": filename, "url": f"{up}files/{filename}", "hashes": {"sha256": sha256(filename)}}
        self.projects.setdefault(project, []).append({**file, **facts})
        files = self.projects[project]
        body = self._json(project, files) if self.form == "json" else self._html(files)
        headers = JSON if self.form == "json" else HTML
        self.served.give(f"{self.root}/{project}/", Reply(body, headers=headers))

    def _json(self, project: str, files: Sequence[dict[str, Any]]) -> bytes:
        return json.dumps({"meta": {"api-version": "1.0"}, "name": project, "files": files}).encode()

    def _html(self, files: Sequence[dict[str, Any]]) -> bytes:
        rows = ""
        for file in files:
            more = ""
            if "requires-python" in file:
                more += f' data-requires-python="{html.escape(file["requires-python"])}"'
            if file.get("yanked"):
                more += f' data-yanked="{file["yanked"] if isinstance(file["yanked"], str) else ""}"'
            digest = "".join(f"#sha256={value}" for value in file["hashes"].values())
            rows += f'<a href="{file["url"].replace("+", "%2B")}{digest}"{more}>{file["filename"]}</a><br>\n'
        return f"<!DOCTYPE html><html><head><title>x</title></head><body>\n{rows}</body></html>".encode()


@pytest.fixture(params=["json", "html"])
def index(request: pytest.FixtureRequest, served: Served) -> Index:
    return Index(served, form=request.param)


def lists(
    *simple: str, links: Sequence[str] = (), torch: str | None = None, net: Net | None = None, **decided: str
) -> FileLists:
    found = PackageIndexes(find_links=tuple(links), simple=simple, credentials={})
    services = read_services({"torch-index": torch} if torch else {})
    only = {name: Place(url) for name, url in decided.items()}
    return FileLists(
        found,
        net or Net(),
        lambda name, version: rule_indexes(name, version, services) if torch else (),
        only,
    )


def nothing(url: str, filename: str, link: str) -> Artefact:
    raise FetchError(f"{url} was to be fetched", hint="not in this test")


AROUND = LineContext(services=read_services({}), bring=nothing)


def resolved(
    files: FileLists, text: str, target: WheelTarget = TARGET, around: LineContext = AROUND
) -> ResolvedLines:
    found = resolve_requirements([requirement(text)], files, target, around)
    check_availability(found.lost, (), ())
    assert [ruling.captured for ruling in found.rulings] == [text]
    return found


def lock(
    files: FileLists, text: str, target: WheelTarget = TARGET, around: LineContext = AROUND
) -> tuple[Wheel | None, Resolution]:
    found = resolved(files, text, target, around)
    return (found.wheels[0] if found.wheels else None), found.rulings[0]


def taken(files: FileLists, text: str, target: WheelTarget = TARGET) -> str:
    wheel, ruling = lock(files, text, target)
    assert wheel is not None, ruling
    return wheel.file.filename


def test_a_line_becomes_one_file(index: Index, served: Served) -> None:
    index.add("tool-1.0-py3-none-any.whl", size=7)
    index.add("tool-1.1-py3-none-any.whl")
    wheel, ruling = lock(lists(index.url), "Tool==1.0")
    name = "tool-1.0-py3-none-any.whl"
    assert wheel == Wheel(
        name="tool", version="1.0", role="environment",
        file=Artefact(
            filename=name, sha256=sha256(name), size=7 if index.form == "json" else 0,
            url=f"{served.url}/files/{name}",
        ),
    )  # fmt: skip
    assert (ruling.outcome, ruling.subject, ruling.reason) == ("pinned", "Tool", f"{name} from {index.url}")
    accepted = served.headers("Accept")[0]
    assert accepted is not None
    assert "application/vnd.pypi.simple.v1+json" in accepted
    assert "text/html" in accepted


@pytest.mark.parametrize(
    ("tags", "best"),
    [
        (["py3-none-any", "cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64"], 1),
        (["cp311-cp311-manylinux_2_17_x86_64", "cp311-cp311-manylinux_2_28_x86_64"], 1),
        (["cp311-cp311-manylinux_2_28_x86_64", "cp311-cp311-manylinux_2_39_x86_64"], 0),
        (["cp311-cp311-musllinux_1_2_x86_64", "cp311-cp311-linux_x86_64"], 1),
        (["cp311-cp311-manylinux1_x86_64", "cp311-cp311-manylinux2010_x86_64"], 1),
        (["cp310-cp310-manylinux_2_17_x86_64", "cp38-abi3-manylinux_2_17_x86_64"], 1),
        (["cp38-abi3-manylinux_2_17_x86_64", "cp311-cp311-manylinux_2_17_x86_64"], 1),
        (["cp311-cp311-manylinux_2_17_aarch64", "py2.py3-none-any"], 1),
        (["cp312-cp312-manylinux_2_17_x86_64", "cp311-none-any"], 1),
        (["cp311-cp311-macosx_11_0_arm64", "cp311-cp311-win_amd64", "py3-none-manylinux_2_17_x86_64"], 2),
    ],
)
def test_the_wheel_that_pip_would_take(served: Served, tags: list[str], best: int) -> None:
    index = Index(served)
    for tag in tags:
        index.add(f"tool-1.0-{tag}.whl")
    assert taken(lists(index.url), "tool==1.0") == f"tool-1.0-{tags[best]}.whl"


def test_another_machine_takes_another_wheel(served: Served) -> None:
    index = Index(served)
    for machine in ("x86_64", "aarch64"):
        index.add(f"tool-1.0-cp311-cp311-manylinux_2_17_{machine}.whl")
    arm = WheelTarget(python="3.11.2", glibc=(2, 36), machine="aarch64")
    assert taken(lists(index.url), "tool==1.0", arm).endswith("aarch64.whl")


@pytest.mark.parametrize(("builds", "best"), [("1 2 10", "10"), ("2a 2b 1z", "2b"), ("3 03b", "03b")])
def test_the_newest_build_is_taken(served: Served, builds: str, best: str) -> None:
    index = Index(served)
    index.add("tool-1.0-py3-none-any.whl")
    for build in builds.split():
        index.add(f"tool-1.0-{build}-py3-none-any.whl")
    assert taken(lists(index.url), "tool==1.0") == f"tool-1.0-{best}-py3-none-any.whl"


def test_what_needs_another_python_is_left(index: Index) -> None:
    index.add("tool-1.0-cp311-cp311-linux_x86_64.whl", **{"requires-python": ">=3.12,<4"})
    index.add("tool-1.0-py3-none-any.whl", **{"requires-python": ">=3.8"})
    index.add("odd-1.0-py3-none-any.whl", **{"requires-python": "nonsense"})
    assert taken(lists(index.url), "tool==1.0") == "tool-1.0-py3-none-any.whl"
    assert taken(lists(index.url), "odd==1.0") == "odd-1.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("yanked", "said"), [("broken on Mondays", "broken on Mondays"), (True, "no reason given")]
)
def test_a_yanked_file_is_taken_and_said_so(index: Index, yanked: str | bool, said: str) -> None:
    index.add("tool-1.0-py3-none-any.whl", yanked=yanked)
    wheel, ruling = lock(lists(index.url), "tool==1.0")
    assert wheel is not None
    assert wheel.yanked == said
    assert ruling.outcome == "pinned"
    assert ruling.reason.endswith(f"; its publisher yanked it: {said}")


def test_a_version_is_compared_as_pep_440_has_it(index: Index) -> None:
    index.add("tool-1.0.0rc1-py3-none-any.whl")
    assert taken(lists(index.url), "tool==1.0rc1") == "tool-1.0.0rc1-py3-none-any.whl"
    assert same_version("1.0", "1.0.0")
    assert not same_version("1.0", "1.0+cpu")
    assert same_version("odd version", "odd version")


def test_an_unknown_version_names_those_that_are_near(index: Index) -> None:
    for version in ("1.0", "1.1", "1.10", "1.9", "1.2"):
        index.add(f"tool-{version}-py3-none-any.whl")
    index.add("local-2.0+cu118-py3-none-any.whl")
    wheel, ruling = lock(lists(index.url), "tool==3.0")
    assert wheel is None
    assert (ruling.outcome, ruling.kind) == ("unresolved", "unknown-version")
    assert ruling.reason == "tool 3.0 is on no index of this machine; there is 1.2, 1.9, 1.10"
    assert lock(lists(index.url), "local==2.0+cpu")[1].reason.endswith("there is 2.0+cu118")


def test_an_unknown_project(index: Index) -> None:
    _, ruling = lock(lists(index.url), "tool==3.0")
    assert (ruling.outcome, ruling.kind) == ("unresolved", "unknown-project")
    assert ruling.reason == "no index of this machine has tool"


def test_no_wheel_for_the_interpreter_and_source_only(index: Index) -> None:
    index.add("tool-1.0-cp312-cp312-manylinux_2_17_x86_64.whl")
    index.add("src-1.0.tar.gz", **{"requires-python": ">=3.12"})
    _, ruling = lock(lists(index.url), "src==1.0")
    assert (ruling.outcome, ruling.kind) == ("unresolved", "source-only")
    assert ruling.reason == (
        "no source of src 1.0 fits Python 3.11.2 on x86_64 with glibc 2.36; its sources are for Python 3.12 to 3.16"
    )
    _, ruling = lock(lists(index.url), "tool==1.0")
    assert (ruling.outcome, ruling.kind) == ("unresolved", "no-wheel")
    assert ruling.reason == (
        "no wheel of tool 1.0 fits Python 3.11.2 on x86_64 with glibc 2.36; its wheels are for Python 3.12"
    )


def test_the_pythons_that_every_pin_has_a_file_for_are_proposed(index: Index) -> None:
    index.add("tool-1.0-cp312-cp312-manylinux_2_17_x86_64.whl")
    for minor in (11, 12, 13):
        index.add(f"lib-2.0-cp3{minor}-cp3{minor}-manylinux_2_17_x86_64.whl")
    index.add("src-1.0.tar.gz", **{"requires-python": ">=3.9"})
    lines = [requirement(text) for text in ("tool==1.0", "lib==2.0", "src==1.0")]
    found = resolve_requirements(lines, lists(index.url), TARGET, AROUND)
    assert found.pythons == ("3.12",)
    with pytest.raises(LockError) as err:
        accept_deviations(found.rulings, (), found.pythons)
    assert err.value.hint.splitlines()[0] == (
        "every pinned release has a file for Python 3.12: the environment ran one of them; name it, such as "
        "`--python 3.12`"
    )
    followed = msgspec.structs.replace(TARGET, python="3.12.1")
    found = resolve_requirements(lines, lists(index.url), followed, AROUND)
    assert accept_deviations(found.rulings, (), found.pythons) == found.rulings
    assert found.pythons == ()


def test_ranges_of_pythons() -> None:
    assert (
        format_python_ranges(["3.5", "3.6", "3.7", "3.9", "3.11", "3.12"]) == "3.5 to 3.7, 3.9, 3.11 to 3.12"
    )


def test_a_local_label_has_an_index_of_its_own(served: Served) -> None:
    plain, torch = Index(served), Index(served, "/whl/cpu", "html")
    plain.add("torch-2.3.0-py3-none-any.whl")
    torch.add("torch-2.3.0+cpu-cp311-cp311-linux_x86_64.whl")
    files = lists(plain.url, torch=served.url + "/whl/{local}")
    wheel, _ = lock(files, "torch==2.3.0+cpu")
    assert wheel is not None
    assert wheel.file.filename == "torch-2.3.0+cpu-cp311-cp311-linux_x86_64.whl"
    assert wheel.file.url == f"{served.url}/files/torch-2.3.0%2Bcpu-cp311-cp311-linux_x86_64.whl"
    before = len(served.asked)
    assert taken(files, "torch==2.3.0") == "torch-2.3.0-py3-none-any.whl"
    assert [path for path, _ in served.asked[before:] if "/whl/" in path] == []
    assert lock(files, "torch==2.3.0+cu121")[1].kind == "other-local-version"
    assert "/whl/cu121/torch/" in [path for path, _ in served.asked]


def test_the_first_index_wins_and_each_is_asked_once(served: Served) -> None:
    one, two = Index(served, "/one"), Index(served, "/two")
    one.add("tool-1.0-py3-none-any.whl", hashes={"sha256": "1" * 64})
    two.add("tool-1.0-py2.py3-none-any.whl")
    two.add("rare-1.0-py3-none-any.whl")
    files = lists(one.url, two.url)
    assert taken(files, "tool==1.0") == "tool-1.0-py3-none-any.whl"
    assert taken(files, "rare==1.0") == "rare-1.0-py3-none-any.whl"
    lock(files, "tool==1.0")
    asked = [path for path, _ in served.asked]
    assert len(asked) == len(set(asked)) == 4


def test_a_folder_comes_before_every_index(served: Served, tmp_path: Path) -> None:
    index = Index(served)
    index.add("tool-1.0-py2.py3-none-any.whl")
    path = tmp_path / "tool-1.0-py3-none-any.whl"
    path.write_bytes(b"wheel")
    (tmp_path / "README").write_bytes(b"")
    (tmp_path / "bad-name.whl").write_bytes(b"")
    wheel, ruling = lock(lists(index.url, links=[tmp_path.as_uri()]), "tool==1.0")
    assert wheel is not None
    assert wheel.file == Artefact(
        filename=path.name, sha256=hashlib.sha256(b"wheel").hexdigest(), size=5, url=path.as_uri()
    )
    assert ruling.reason == (
        f"{path.name} from {tmp_path.as_uri()}; {index.url} has tool-1.0-py2.py3-none-any.whl: decide it with "
        f"--index tool={index.url}"
    )


def test_a_page_of_links(served: Served) -> None:
    name = "tool-1.0+cpu-py3-none-any.whl"
    page = f'<A class="x" HREF="d/{name.replace("+", "%2B")}#sha256={"a" * 64}">x</A> <a href="other-1.0.zip">y</a>'
    wheel, _ = lock(lists(links=[served.give("/links.html", page.encode())]), "tool==1.0+cpu")
    assert wheel is not None
    assert wheel.file == Artefact(
        filename=name, sha256="a" * 64, size=0, url=f"{served.url}/d/{name.replace('+', '%2B')}"
    )
    assert lock(lists(links=[f"{served.url}/no-page"]), "tool==1.0")[1].kind == "unknown-project"


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"hello", headers={"Content-Type": "application/json"}),
        Reply(b"{}", headers=JSON),
        Reply(b"\xff\xfe", headers=HTML),
        Reply(
            json.dumps({"meta": {"api-version": "2.0"}, "name": "tool", "files": []}).encode(), headers=JSON
        ),
    ],
)
def test_what_is_no_simple_api(served: Served, reply: Reply) -> None:
    served.give("/simple/tool/", reply)
    with pytest.raises(FetchError, match=rf"{served.url}/simple does not answer as a Simple API") as caught:
        lock(lists(f"{served.url}/simple"), "tool==1.0")
    assert caught.value.hint == "check pip's index-url"


# PEP 503's parser reads 1 MiB in a second, so a page is cut to the links that count before it is parsed.
LINK = f'<a href="tool-1.0-py3-none-any.whl#sha256={"a" * 64}">tool-1.0-py3-none-any.whl</a>'
OTHER = '<a href="tool-2.0-py3-none-any.whl">tool-2.0-py3-none-any.whl</a>'


@pytest.mark.parametrize(
    "body",
    ["<a>" * (1 << 19), "<!-- " + "x" * (2 << 20) + " -->" + LINK, LINK * (17 * (1 << 20) // len(LINK))],
    ids=["tags", "head", "links"],
)
def test_a_page_that_would_take_minutes_to_parse_is_refused(served: Served, body: str) -> None:
    served.give("/simple/tool/", Reply(f"<!DOCTYPE html><body>{body}</body>".encode(), headers=HTML))
    with pytest.raises(FetchError, match="it is no list of files of a project: it is too long"):
        lock(lists(f"{served.url}/simple"), "tool==1.0")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("<a href='tool-1.0.zip&#" + "9" * 5000 + ";'>x</a>", "Exceeds the limit"),
        ("<a b " * 200_002, "more than 200000 links"),
        ("x" * (17 << 20), "it is too long"),
    ],
    ids=["digits", "count", "size"],
)
def test_a_page_of_links_that_harms_is_refused(served: Served, body: str, words: str) -> None:
    served.give("/links", Reply(body.encode(), headers=HTML))
    with pytest.raises(FetchError, match=rf"{served.url}/links is no page of links: .*{words}") as caught:
        lock(lists(links=[f"{served.url}/links"]), "tool==1.0")
    assert caught.value.hint == "check pip's find-links"


def page_of_tags(count: int) -> bytes:
    """Return a page of wheels whose names stand for 512 tags each."""
    more = ".".join(f"a{letter}" for letter in "bcdefgh")
    names = (f"tool-1.0-{number}-py3.{more}-none.{more}-any.{more}.whl" for number in range(count))
    files = [{"filename": name, "url": "x.whl", "hashes": {"sha256": "a" * 64}} for name in names]
    return json.dumps({"name": "tool", "files": files}).encode()


def test_tags_of_the_names_on_a_page_are_not_kept(served: Served) -> None:
    served.give("/simple/tool/", Reply(page_of_tags(1900), headers=JSON))
    files = lists(f"{served.url}/simple")
    files.list_files("tool", "1.0")  # reads and remembers the page
    tracemalloc.start()
    items = files.list_files("tool", "1.0")
    wheel = choose_wheel(items, TARGET)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert wheel is not None
    assert wheel.build == (1899, "")
    assert peak < 32 << 20, peak  # with all tags: 200 MiB


def test_a_page_of_many_files_with_few_tags_is_read(served: Served) -> None:
    """The largest projects have some ten thousand files, with up to ten tags in a name."""
    tags = "cp310.cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.manylinux_2_28_x86_64"
    names = (f"tool-1.0-{number}-{tags}.whl" for number in range(50_000))
    files = [{"filename": name, "url": "x.whl", "hashes": {"sha256": "a" * 64}} for name in names]
    served.give("/simple/tool/", Reply(json.dumps({"name": "tool", "files": files}).encode(), headers=JSON))
    wheel = choose_wheel(lists(f"{served.url}/simple").list_files("tool", "1.0"), TARGET)
    assert wheel is not None
    assert wheel.build == (49_999, "")


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(b"<body><a href='tool-1.0.zip'><![</a></body>", headers=HTML), ""),
        (Reply(b"<body>" + b"<a " * 200_002 + b"</body>", headers=HTML), "more than 200000 links"),
        (Reply(b'{"name":"a","files":[' + b"1," * 2_000_000 + b"1]}", headers=JSON), "more than 2000000"),
        (Reply(b'{"name":"a","files":[' + b"1," * 200_000 + b"1]}", headers=JSON), "more than 200000 links"),
        (Reply(page_of_tags(2000), headers=JSON), "names of wheels stand for more than 1000000 tags"),
    ],
    ids=["declaration", "links", "values", "entries", "tags"],
)
def test_a_page_that_harms_is_refused(served: Served, reply: Reply, words: str) -> None:
    served.give("/simple/tool/", reply)
    with pytest.raises(FetchError, match=rf"does not answer as a Simple API: .*{words}"):
        lock(lists(f"{served.url}/simple"), "tool==1.0")


def test_attributes_of_a_link_are_bounded() -> None:
    (attributes,) = read_anchors("<a href=x " + " ".join(f"a{number}" for number in range(1000)))
    assert len(attributes) == 100
    assert attributes["href"] == "x"


def test_a_page_of_links_has_a_bound(served: Served) -> None:
    served.give("/simple/tool/", Reply(OTHER.encode() * 1000, headers=HTML, endless=True))
    with pytest.raises(FetchError, match=rf"gives more than {LARGEST} bytes"):
        lock(lists(f"{served.url}/simple"), "tool==1.0")


def test_a_long_page_with_few_links_that_count_is_read(served: Served) -> None:
    page = f"<!DOCTYPE html><body>{OTHER * 100_000}{LINK}</body>"
    served.give("/simple/tool/", Reply(page.encode(), headers=HTML))
    wheel, _ = lock(lists(f"{served.url}/simple"), "tool==1.0")
    assert wheel is not None
    assert wheel.file.sha256 == "a" * 64


@pytest.mark.parametrize(
    "query",
    [
        "X-Amz-Expires=9&X-Amz-Signature=S3CRET&X-Amz-Security-Token=S3CRET", "token=S3CRET", "v=1&%74oken=S3CRET",
        "se=2030&sp=r&sv=2022&sr=b&sig=S3CRET", "Expires=1&Signature=S3CRET&Key-Pair-Id=K", "hdnts=S3CRET",
    ],
)  # fmt: skip
def test_a_signed_link_is_used_and_not_locked(
    index: Index, served: Served, tmp_path: Path, query: str
) -> None:
    name = "tool-1.0-py3-none-any.whl"
    index.add(name, url=f"{served.url}/files/{name}?{query}", hashes={"sha256": sha256("wheel")})
    served.give(f"/files/{name}?{query.replace('%74', 't')}", b"wheel")
    net, store = Net(), Store(tmp_path)
    wheel, ruling = lock(lists(index.url, net=net), "tool==1.0")
    assert wheel is not None
    assert wheel.file.url == f"{served.url}/files/{name}"
    assert "S3CRET" not in repr((wheel, ruling))
    assert fetch([wheel.file], store, net) == 1


def test_a_harmless_query_stays(index: Index, served: Served) -> None:
    index.add("tool-1.0-py3-none-any.whl", url=f"{served.url}/tool-1.0-py3-none-any.whl?v=1")
    wheel, _ = lock(lists(index.url), "tool==1.0")
    assert wheel is not None
    assert wheel.file.url == f"{served.url}/tool-1.0-py3-none-any.whl?v=1"


@pytest.mark.parametrize("status", [401, 403])
def test_an_index_that_refuses_access_is_named(served: Served, status: int) -> None:
    url = f"{served.url}/simple"
    served.give("/simple/tool/", Reply(status=status))
    with pytest.raises(FetchError) as caught:
        lock(lists(url), "tool==1.0")
    assert str(caught.value) == (
        f"the index {url} gives no list of the files of tool: {url}/tool/ refuses access (HTTP {status})"
    )
    assert caught.value.hint == (
        "put the credentials where pip finds them (its configuration, or ~/.netrc); an index that answers so where it "
        "has nothing is not asked for what is decided: --index tool=URL"
    )
    (served.give("/links.html", Reply(status=status)))
    with pytest.raises(FetchError, match=rf"links.html refuses access \(HTTP {status}\)"):
        lock(lists(links=[f"{served.url}/links.html"]), "tool==1.0")


def test_a_later_minor_version_of_the_api_is_read(served: Served) -> None:
    name = "tool-1.0-py3-none-any.whl"
    meta = '<meta name="pypi:repository-version" content="1.99">'
    page = f'<html><head>{meta}</head><body><a href="{name}#sha256={"a" * 64}">{name}</a></body></html>'
    served.give("/html/tool/", Reply(page.encode(), headers=HTML))
    assert taken(lists(f"{served.url}/html"), "tool==1.0") == name
    files = [{"filename": name, "url": name, "hashes": {"sha256": "a" * 64}, "new": 1}]
    body = json.dumps({"meta": {"api-version": "1.99"}, "name": "tool", "files": files})
    served.give("/json/tool/", Reply(body.encode(), headers=JSON))
    assert taken(lists(f"{served.url}/json"), "tool==1.0") == name


def test_credentials_reach_their_host_and_no_lock(index: Index, served: Served) -> None:
    index.add(
        "tool-1.0-py3-none-any.whl", url=f"http://bob:hunter2@{served.host}/files/tool-1.0-py3-none-any.whl"
    )
    page = served.replies["/simple/tool/"][0]
    served.give("/simple/tool/", Reply(page.body, headers=page.headers, login="alice:pw"))
    wheel, ruling = lock(lists(index.url, net=Net(credentials={served.url: ("alice", "pw")})), "tool==1.0")
    assert wheel is not None
    assert wheel.file.url == f"{served.url}/files/tool-1.0-py3-none-any.whl"
    assert "hunter2" not in repr((wheel, ruling))
    with pytest.raises(FetchError, match="refuses access"):
        lock(lists(index.url), "tool==1.0")


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("tool", "index-line", "the freeze tells no version"),
        ("tool @ https://h.test/tool.egg", "archive-line", "its name does not state what kind of file it is"),
        ("tool @ git+https://h.test/x@" + "a" * 40, "vcs-line", "locked as a source"),
        ("-e git+https://h.test/x@" + "a" * 40 + "#egg=tool", "editable-line", "locked as a source"),
        ("tool @ file:///home/user/tool", "directory-line", "installed from a directory"),
        ("tool @ file:///croot/tool_1700000000000/work", "conda-line", "conda wrote its own build path"),
    ],
)
def test_a_line_that_names_no_file(text: str, kind: str, reason: str) -> None:
    wheel, ruling = lock(lists(), text)
    assert wheel is None
    assert (ruling.outcome, ruling.kind) == ("unresolved", kind)
    assert reason in ruling.reason


@pytest.mark.parametrize(
    ("specifier", "version"),
    [
        ("", "70.1"),
        (">=40.8.0", "70.1"),
        ("<60", "59.8"),
        ("==59.*", "59.8"),
        (">=71.0rc1", "71.0rc1"),
        (">80", None),
    ],
)
def test_the_newest_release_that_fits(index: Index, specifier: str, version: str | None) -> None:
    for release in ("59.8", "9.1", "70.1", "71.0rc1"):
        index.add(f"setuptools-{release}-py3-none-any.whl")
    index.add("setuptools-73.0-py3-none-any.whl", yanked="no")
    index.add("setuptools-74.0-py3-none-any.whl", **{"requires-python": ">=3.12"})
    index.add("setuptools-75.0.tar.gz")
    found = find_newest("setuptools", specifier, lists(index.url), TARGET)
    assert (found and found[0]) == version
    assert found is None or found[1].filename == f"setuptools-{version}-py3-none-any.whl"


def test_files_of_another_project_are_not_taken(tmp_path: Path) -> None:
    for name in ("tool_more-1.0-py3-none-any.whl", "tool-1.0.tar.gz", "Tool-2.0-py3-none-any.whl"):
        (tmp_path / name).write_bytes(b"")
    found: list[IndexDistribution] = lists(links=[tmp_path.as_uri()]).releases("TOOL")
    assert [item.filename for item in found] == ["Tool-2.0-py3-none-any.whl", "tool-1.0.tar.gz"]


CONDA = "tool @ file:///croot/tool_1700000000000/work"


def test_condas_build_is_replaced_by_the_wheel_of_its_version(index: Index) -> None:
    index.add("tool-1.0-py3-none-any.whl")
    index.add("tool-1.1-py3-none-any.whl")
    packages, _ = conda_list.parse(b"tool  1.0  py311h1_0", "conda-list.txt")
    (line,) = apply_conda_versions([requirement(CONDA)], packages)
    found = resolve_requirements([line], lists(index.url), TARGET, AROUND)
    (wheel,), (ruling,) = found.wheels, found.rulings
    assert (wheel.file.filename, wheel.version) == ("tool-1.0-py3-none-any.whl", "1.0")
    assert (ruling.outcome, ruling.kind, ruling.captured) == ("replaced", "conda-build", CONDA)
    assert ruling.reason == (
        "conda's build 1.0 (conda-list.txt:1) is replaced by the wheel of the same version: "
        f"tool-1.0-py3-none-any.whl from {index.url}"
    )
    with pytest.raises(LockError) as err:
        accept_deviations([ruling], ())
    assert err.value.hint == "to go on without exactly these: --accept conda-build"
    assert accept_deviations([ruling], ["conda-build"])[0].accepted


def test_condas_build_without_its_list_and_without_a_wheel(index: Index) -> None:
    index.add("tool-1.0-py3-none-any.whl")
    wheel, ruling = lock(lists(index.url), CONDA)
    assert (wheel, ruling.outcome, ruling.kind) == (None, "unresolved", "conda-line")
    assert ruling.reason == "conda wrote its own build path; the version is in no file of the snapshot"
    line = msgspec.structs.replace(requirement(CONDA), version="9.9")
    found = resolve_requirements([line], lists(index.url), TARGET, AROUND)
    (ruling,) = found.rulings
    assert (found.wheels, ruling.outcome, ruling.kind) == ((), "unresolved", "unknown-version")


def test_condas_build_whose_line_tells_its_version(index: Index) -> None:
    index.add("tool-1.0-py3-none-any.whl")
    text = "tool @ file:///build/1a2b3c4d/tool_1644875935023/work/py-dist/tool-1.0-py2.py3-none-any.whl"
    wheel, ruling = lock(lists(index.url), text)
    assert wheel is not None
    assert (ruling.outcome, ruling.reason.partition(":")[0]) == (
        "replaced",
        "conda's build 1.0 is replaced by the wheel of the same version",
    )


@pytest.mark.parametrize(
    ("filename", "line"),
    [("tool-2016.02.28-py3-none-any.whl", "tool==2016.2.28"), ("tool-1.0-py3-none-any.whl", "tool==1.0.0")],
)
def test_a_folder_spells_a_version_in_another_way(
    served: Served, tmp_path: Path, filename: str, line: str
) -> None:
    index = Index(served)
    index.add(f"tool-{line.partition('==')[2]}-py3-none-any.whl")
    (tmp_path / filename).write_bytes(b"mine")
    wheel, _ = lock(lists(index.url, links=[tmp_path.as_uri()]), line)
    assert wheel is not None
    assert (wheel.file.filename, wheel.file.url) == (filename, (tmp_path / filename).as_uri())


def test_the_links_of_a_page_are_read_with_their_attributes(served: Served) -> None:
    name, newer = "tool-1.0-py3-none-any.whl", "tool-1.0-cp311-cp311-linux_x86_64.whl"
    mark = f"#sha256={'a' * 64}"
    page = f'<a data-requires-python=">=3.12" href="{newer}{mark}">x</a>'
    page += f'<a data-requires-python="&gt;=3.12" href="{newer}{mark}">x</a>'
    page += f"<a\nHREF={name}?v=1&amp;w=2&region=3{mark} data-yanked='a &lt;b'>y</a><a data-x>z</a>"
    wheel, _ = lock(lists(links=[served.give("/links.html", page.encode())]), "tool==1.0")
    assert wheel is not None
    assert (wheel.file.url, wheel.yanked) == (f"{served.url}/{name}?v=1&w=2&region=3", "a <b")


def test_a_link_that_is_no_address_is_passed_over(served: Served) -> None:
    made = Index(served)
    made.add("pkg-1.0-py3-none-any.whl", url="https://[x")
    made.add("pkg-1.0-py2.py3-none-any.whl")
    found = lists(made.url).list_files("pkg", "1.0")
    assert [item.filename for item in found] == ["pkg-1.0-py2.py3-none-any.whl"]


@pytest.mark.parametrize("port", ["99999", "x"])
def test_a_file_with_a_bad_port_hides_no_other(port: str, index: Index) -> None:
    index.add("tool-1.0-py3-none-any.whl", url=f"http://files.test:{port}/tool-1.0-py3-none-any.whl")
    index.add("tool-2.0-py3-none-any.whl")
    assert taken(lists(index.url), "tool==2.0") == "tool-2.0-py3-none-any.whl"
    wheel, ruling = lock(lists(index.url), "tool==3.0")
    assert wheel is None
    assert ruling.reason == "tool 3.0 is on no index of this machine; there is 2.0"


def test_the_pages_in_memory_are_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reprobuild.ecosystems.pypi.simple_api._MOST_KEPT", 2500)
    index, names = Index(served), ["a", "b", "c", "d"]
    for name in names:
        index.add(f"{name}-1.0-py3-none-any.whl", **{"x-note": "x" * 1000})
    files = lists(index.url)
    for name in names:
        assert taken(files, f"{name}==1.0") == f"{name}-1.0-py3-none-any.whl"
    kept = [page for page in files._pages._pages.values() if page]
    assert sum(len(page.content) for page in kept) <= 2500
    assert len(kept) == 2
    assert taken(files, "a==1.0") == "a-1.0-py3-none-any.whl"  # it is fetched again


def test_a_page_of_links_with_one_that_is_no_address(served: Served) -> None:
    name = "pkg-1.0-py3-none-any.whl"
    url = served.give("/links", f'<a href="https://[x/{name}">a</a> <a href="{name}">b</a>'.encode())
    assert [item.url for item in lists(links=(url,)).list_files("pkg", "1.0")] == [f"{served.url}/{name}"]


@pytest.mark.parametrize("name", ["pytorch", "PyTorch", "pytorch_gpu"])
def test_condas_name_of_torch_is_torch_and_no_other_project(index: Index, name: str) -> None:
    index.add("torch-2.0.0-py3-none-any.whl")
    index.add("pytorch-2.0.0-py3-none-any.whl")
    found, ruling = lock(lists(index.url), f"{name}==2.0.0")
    assert found is not None
    assert (found.name, found.file.filename) == ("torch", "torch-2.0.0-py3-none-any.whl")
    assert (ruling.outcome, ruling.kind, ruling.subject) == ("replaced", "conda-build", "torch")
    assert ruling.captured == f"{name}==2.0.0"
    assert ruling.reason.startswith(f"{name} is conda's name of torch: torch-2.0.0-py3-none-any.whl")
    found, ruling = lock(lists(index.url), f"{name}==9.9.9")
    assert (found, ruling.outcome, ruling.kind) == (None, "unresolved", "unknown-version")


def test_python_in_a_list_is_the_interpreter(index: Index) -> None:
    index.add("python-3.8.10-py3-none-any.whl")
    found, ruling = lock(lists(index.url), "python==3.8.10")
    assert (found, ruling.outcome, ruling.kind) == (None, "excluded", "interpreter")


@pytest.mark.parametrize("kind", ["holes", "empty", "proc"])
def test_a_file_that_is_no_archive_is_not_hashed(kind: str, tmp_path: Path) -> None:
    """Terabytes of holes take days, and a link into /proc leads to this process's variables."""
    path = tmp_path / "made-1.0.tar.gz"
    if kind == "holes":
        with path.open("wb") as stream:
            stream.truncate(1 << 40)
    elif kind == "empty":
        path.touch()
    else:
        path.symlink_to("/proc/self/environ")
    with pytest.raises(FetchError, match="is no archive of a distribution: it states") as error:
        local_hash(path.as_uri())
    assert error.value.hint == "remove it, or name another directory"
    path.unlink()
    path.write_bytes(b"x")
    assert local_hash(path.as_uri()) == hashlib.sha256(b"x").hexdigest()
