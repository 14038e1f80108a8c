"""Lines that no index is asked for, or that none has: Debian's, vendors', labels', leftovers, and what was deleted."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from reprobuild.config.services import read_services
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.errors import LockError, UsageError
from reprobuild.infra.http.client import Net
from reprobuild.lock.python import Wheel
from reprobuild.lock.system import Artefact
from reprobuild.resolve.acceptance import accept_deviations
from reprobuild.resolve.python.classify import rule_indexes
from reprobuild.resolve.python.context import is_isolated_env
from reprobuild.resolve.python.debian_names import versions_of
from reprobuild.resolve.python.previous_locks import KeptWheels
from reprobuild.resolve.python.resolve import LineContext
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.roots import record_lock
from reprobuild.store.store import Store
from tests.resolve.served import Reply, Served
from tests.resolve.test_files import AROUND, HTML, TARGET, Index, lists, lock, resolved, taken
from tests.system.samples import package
from tests.verify.samples import make_lock


def around(
    packages: dict[str, str] | None = None, base: dict[str, str] | None = None, image: str = ""
) -> LineContext:
    return msgspec.structs.replace(AROUND, packages=packages or {}, base=base or {}, image=image)


def captured(prefix: str) -> str:
    return json.dumps({"capture": 1, "repositories": [], "python": {"prefix": prefix, "version": "3.11.2"}})


def rules(served: Served, *simple: str, **services: str) -> FileLists:
    """Return lists that reach services of this server by their rules."""
    known = {name.replace("_", "-"): served.url + path for name, path in services.items()}
    shipped = read_services(known)
    only = {name: one for name, one in shipped.items() if name in known}
    indexes = PackageIndexes(find_links=(), simple=simple, credentials={})
    return FileLists(indexes, Net(), lambda name, version: rule_indexes(name, version, only))


def test_debians_own_distributions_are_asked_of_no_index(served: Served) -> None:
    index = Index(served)
    index.add("ubuntu_advantage_tools-8001-py3-none-any.whl")  # what an attacker would publish
    ubuntu = {"python3-apt": "2.7.7ubuntu5.2", "python3-gi": "3.48.2-1"}
    files = lists(index.url)
    found = [
        lock(files, text, around=around(ubuntu, {"python3-apt": "2.7.7ubuntu5.2"}))[1]
        for text in ("python-apt==2.7.7+ubuntu5.2", "PyGObject==3.48.2", "ubuntu-advantage-tools==8001")
    ]
    assert served.asked == []
    assert [(ruling.outcome, ruling.kind, ruling.reason) for ruling in found] == [
        (
            "in base", "",
            "satisfied by the system's package python3-apt 2.7.7ubuntu5.2, for the system's own Python",
        ),
        (
            "excluded", "host-package",
            "the captured host had it from its package python3-gi; the image has no use for it",
        ),
        (
            "excluded", "host-package",
            "the captured host had it from a package of its system, ubuntu-advantage-tools by name; "
            "the image has no use for it",
        ),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "packages", "base", "said"),
    [
        ("PyGObject==3.42.1", {"python3-gi": "3.42.1-0ubuntu1"}, {"python3-gi": "3.48.2-1"},
         "the captured host had PyGObject 3.42.1 from its package python3-gi 3.42.1-0ubuntu1, and the base has "
         "python3-gi 3.48.2-1, for the system's own Python"),
        ("PyGObject==3.42.1", {"python3-gi": "3.42.1-0ubuntu1"}, {"python3-gi": "1:3.42.1-2"}, ""),
        ("PyGObject==3.42.1+ubuntu1", {}, {"python3-gi": "3.48.2-1"},
         "the captured host had PyGObject 3.42.1+ubuntu1, and the base has python3-gi 3.48.2-1, for"),
        ("python-apt==2.6.0+ubuntu1", {}, {"python3-apt": "2.6.0"}, ""),
        # its own version never changes, and its package's does
        ("ubuntu-advantage-tools==8001", {"ubuntu-advantage-tools": "31.2"}, {"ubuntu-advantage-tools": "31.2-1"}, ""),
        ("ubuntu-advantage-tools==8001", {"ubuntu-advantage-tools": "31.2"}, {"ubuntu-advantage-tools": "32"},
         "8001 from its package ubuntu-advantage-tools 31.2, and the base has ubuntu-advantage-tools 32"),
        ("odd==1.0", {"python3-odd": "1.0-1"}, {"python3-odd": "1.1-1"},
         "the captured host had odd 1.0, and the base has python3-odd 1.1-1"),
    ],
)  # fmt: skip
def test_the_bases_own_release_is_compared(
    line: str, packages: dict[str, str], base: dict[str, str], said: str, served: Served
) -> None:
    _, ruling = lock(lists(Index(served).url), line, around=around(packages, base))
    if not said:
        assert (ruling.outcome, ruling.kind) == ("in base", "")
        return
    assert (ruling.outcome, ruling.kind) == ("replaced", "system-version")
    assert said in ruling.reason
    with pytest.raises(LockError) as caught:
        accept_deviations([ruling], ())
    assert caught.value.hint == "to go on without exactly these: --accept system-version"


def test_what_pip_brought_into_an_environment_of_its_own_is_not_debians(served: Served) -> None:
    index = Index(served)
    index.add("pycairo-1.20.1-py3-none-any.whl")
    packages = {"python3-cairo": "1.20.1-5", "python3-gi": "3.42.2-3"}
    apart = msgspec.structs.replace(around(packages), apart=True)
    wheel, ruling = lock(lists(index.url), "pycairo==1.20.1", around=apart)
    assert wheel is not None
    assert ruling.outcome == "pinned"
    assert lock(lists(index.url), "pycairo==1.20.1", around=around(packages))[1].kind == "host-package"
    assert lock(lists(index.url), "PyGObject==3.42.2", around=apart)[1].kind == "host-package"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"env.txt": "VIRTUAL_ENV=/home/u/venv\n"}, True), ({"env.txt": "CONDA_PREFIX=/home/u/conda\n"}, True),
        ({"env.txt": "HOME=/home/u\n"}, False), ({}, False),
        ({"env.txt": "VIRTUAL_ENV=/v\n", "requirements.txt": "pycairo==1.20.1\npython-apt==2.7.7+ubuntu5.2\n"}, False),
        ({"env.txt": "VIRTUAL_ENV=/v\n", "requirements.txt": "ufw==0.36\n"}, False),
        ({"capture.json": captured("/home/u/venv")}, True),
        ({"capture.json": captured("/usr"), "env.txt": "CONDA_PREFIX=/c\n"}, False),
    ],
)  # fmt: skip
def test_which_freeze_is_of_an_environment_of_its_own(
    files: dict[str, str], expected: bool, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text("pycairo==1.20.1\n")
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert is_isolated_env(read_snapshot(tmp_path)) is expected


def test_an_ordinary_distribution_of_debian_comes_from_an_index_where_one_has_it(served: Served) -> None:
    index = Index(served)
    index.add("six-1.16.0-py3-none-any.whl")
    known = around({"python3-six": "1.16.0-4", "python3-odd": "1.0-1"})
    assert taken(lists(index.url), "six==1.16.0") == "six-1.16.0-py3-none-any.whl"
    _, ruling = lock(lists(index.url), "six==1.16.0", around=known)
    assert ruling.outcome == "pinned"
    _, ruling = lock(lists(index.url), "odd==1.0", around=known)
    assert (ruling.outcome, ruling.kind) == ("excluded", "host-package")
    assert lock(lists(index.url), "odd==1.1", around=known)[1].kind == "unknown-project"


def test_packages_that_are_not_installed_any_more_brought_nothing() -> None:
    listed = [package("python3-gi", "3.42.1-1"), package("python3-dbus", "1.2", mark="residual")]
    assert versions_of(listed) == {"python3-gi": "3.42.1-1"}


@pytest.mark.parametrize(
    ("line", "image", "said"),
    [
        (
            "torch==2.6.0a0+ecf3bae40a.nv25.1", "",
            "NVIDIA's own build, which is in its image: --base nvcr.io/nvidia/pytorch:25.01-py3 has it, for the "
            "system's own Python; to install its wheel, name a page or a directory that has it: --index torch=URL",
        ),
        (
            "tensorflow==2.17.0+nv25.2", "nvcr.io/nvidia/tensorflow:25.02-tf2-py3",
            "NVIDIA's own build, which is in its image; whether the base nvcr.io/nvidia/tensorflow:25.02-tf2-py3 has "
            "it is not known, and the image's environment does not see it there; to install its wheel, name a page or "
            "a directory that has it: --index tensorflow=URL",
        ),
        (
            "torch==2.0.0+nv23.5", "",
            "NVIDIA's own build for Jetson, of which only its page of wheels has files; to install its wheel, name a "
            "page or a directory that has it: --index torch=URL",
        ),
    ],
)  # fmt: skip
def test_a_vendors_build_leads_to_its_image(line: str, image: str, said: str) -> None:
    wheel, ruling = lock(lists(), line, around=around(image=image))
    assert (wheel, ruling.outcome, ruling.kind) == (None, "unresolved", "vendor-build")
    assert ruling.reason == f"{line.replace('==', ' ')} is {said}"
    name = line.partition("==")[0]
    with pytest.raises(LockError) as caught:
        accept_deviations([ruling], ())
    assert caught.value.hint == (
        f"{name} can come from a page or a directory that has the wheel: --index {name}=URL\n"
        f"to go on without exactly these: --accept {name}\n"
        f"with --accept {name} the image will NOT have {name}"
    )


def test_a_vendors_wheel_may_come_from_a_decided_folder(served: Served, tmp_path: Path) -> None:
    name = "torch-2.0.0+nv23.5-cp311-cp311-linux_aarch64.whl"
    page = f'<html><body><a href="{name}#sha256={"a" * 64}">x</a></body></html>'
    served.give("/jetson/torch/", Reply(page.encode(), headers=HTML))
    target = msgspec.structs.replace(TARGET, machine="aarch64")
    assert taken(lists(Torch=f"{served.url}/jetson"), "torch==2.0.0+nv23.5", target) == name


def test_labels_lead_to_their_services(served: Served) -> None:
    plain, night, pyg = Index(served), Index(served, "/night/cu126", "html"), "torch_scatter-2.1.2+pt24cu121"
    night.add("torch-2.6.0.dev20241112+cu126-cp311-cp311-linux_x86_64.whl")
    page = f'<html><body><a href="{pyg}-cp311-cp311-linux_x86_64.whl#sha256={"a" * 64}">x</a></body></html>'
    served.give("/pyg/2.4/cu121.html", Reply(page.replace("+", "%2B").encode(), headers=HTML))
    files = rules(
        served, plain.url, torch_nightly="/night/{local}", pyg_wheels="/pyg/{major}.{minor}/{local}.html",
        torch_index="/whl/{local}",
    )  # fmt: skip
    assert taken(files, "torch==2.6.0.dev20241112+cu126").startswith("torch-2.6.0.dev20241112+cu126-")
    assert taken(files, "torch-scatter==2.1.2+pt24cu121") == f"{pyg}-cp311-cp311-linux_x86_64.whl"
    _, ruling = lock(files, "torch==2.6.0.dev20240101+cu126")
    assert ruling.reason == (
        "torch 2.6.0.dev20240101+cu126 is on no index of this machine; there is 2.6.0.dev20241112+cu126; nightly "
        "builds are removed after about 60 days"
    )


def test_a_service_by_name_has_the_wheel_of_which_an_index_has_only_a_source(served: Served) -> None:
    one, nvidia = Index(served, "/one"), Index(served, "/nvidia", "html")
    one.add("cuml_cu12-26.2.0.tar.gz")
    nvidia.add("cuml_cu12-26.2.0-py3-none-any.whl")
    files = rules(served, one.url, nvidia_index="/nvidia")
    _, ruling = lock(files, "cuml-cu12==26.2.0")
    assert ruling.reason == (
        f"cuml_cu12-26.2.0-py3-none-any.whl from {nvidia.url}; {one.url}, which comes before it, has cuml-cu12, too, "
        "but only a source of this version"
    )
    one.add("tensorrt-1.0.tar.gz")
    assert [one.file.filename for one in resolved(files, "tensorrt==1.0").sdists] == ["tensorrt-1.0.tar.gz"]


def test_the_same_version_without_its_label_must_be_accepted(served: Served) -> None:
    index, torch = Index(served), Index(served, "/whl/cu121", "html")
    for label in ("", "+cpu", "+cu118"):
        index.add(f"torch-2.3.0{label}-py3-none-any.whl")
    torch.add("torch-2.3.1+cu121-py3-none-any.whl")
    files = rules(served, index.url, torch_index="/whl/{local}")
    wheel, ruling = lock(files, "torch==2.3.0+cu121")
    assert wheel is not None
    assert (wheel.version, ruling.outcome, ruling.kind) == ("2.3.0", "replaced", "other-local-version")
    assert ruling.reason == (
        "torch 2.3.0+cu121 is on no index of this machine; there is 2.3.0, 2.3.0+cpu, 2.3.0+cu118; 2.3.0 stands in: "
        f"torch-2.3.0-py3-none-any.whl from {index.url}"
    )
    with pytest.raises(LockError) as caught:
        accept_deviations([ruling], ["unknown-version"])
    assert caught.value.hint == "to go on without exactly these: --accept other-local-version"
    assert accept_deviations([ruling], ["other-local-version"])[0].accepted
    index.add("odd-1.0-cp39-cp39-win_amd64.whl")
    _, ruling = lock(files, "odd==1.0+cu121")
    assert ruling.kind == "no-wheel"
    assert ruling.reason.startswith(
        "odd 1.0+cu121 is on no index of this machine; there is 1.0; no wheel of odd 1.0 "
    )


def test_a_build_of_a_work_tree_says_so(served: Served) -> None:
    index = Index(served)
    index.add("torch-2.9.0-py3-none-any.whl")
    _, ruling = lock(lists(index.url), "torch==2.9.0a0+git1234567")
    assert (ruling.outcome, ruling.kind) == ("unresolved", "unknown-version")
    assert ruling.reason == (
        "torch 2.9.0a0+git1234567 is on no index of this machine; there is 2.9.0; it was built from commit 1234567 of "
        "its source: give its wheel with pip's find-links"
    )


@pytest.mark.parametrize("line", ["-ool==1.0", "~ool==1.0", "pkg-resources==0.0.0"])
def test_what_was_never_there_is_dropped_and_said(line: str, served: Served) -> None:
    wheel, ruling = lock(lists(served.url), line)
    assert (wheel, ruling.outcome, ruling.kind) == (None, "excluded", "leftover")
    assert ruling.reason.startswith("dropped: ")
    assert accept_deviations([ruling], ()) == (ruling,)
    assert served.asked == []


def test_what_was_deleted_may_be_in_the_store_still(served: Served, tmp_path: Path) -> None:
    store, path, name = Store(tmp_path / "store"), tmp_path / "old lock.lock", "tool-1.0-py3-none-any.whl"
    sha = store.add(b"the wheel of then")
    file = Artefact(filename=name, sha256=sha, size=17)
    record_lock(
        make_lock(wheels=(Wheel(name="tool", version="1.0", role="environment", file=file),)), path, store
    )
    known = msgspec.structs.replace(AROUND, earlier=KeptWheels(store))
    files, gone = lists(f"{served.url}/simple"), "no index of this machine has tool"
    _, ruling = lock(files, "tool==1.0", around=known)
    assert ruling.kind == "unknown-project"
    assert ruling.reason == (
        f"{gone}; the store has {name} (sha256 {sha}) of the lock {path}: copy {store.blob(sha)} under that name into "
        "a directory, and name that with --index tool=FOLDER"
    )
    assert lock(files, "tool==1.1", around=known)[1].reason == gone
    store.blob(sha).unlink()
    later = msgspec.structs.replace(AROUND, earlier=KeptWheels(store))
    assert lock(files, "tool==1.0", around=later)[1].reason == gone


def test_an_own_address_of_a_service_with_a_placeholder_that_nothing_fills() -> None:
    services = read_services({"torch-index": "https://mirror.test/{label}"})
    with pytest.raises(
        UsageError, match=r"the address https://mirror\.test/\{label\} of a service has a "
    ) as caught:
        rule_indexes("torch", "2.0+cpu", services)
    assert caught.value.hint == "it may have: {local}"
