"""The end of resolving: deviations are errors until they are named, and the platform is known."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.ecosystems.pypi.simple_api import NoListError
from reprobuild.errors import FetchError, LockError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.lock.model import Outcome, Resolution
from reprobuild.lock.system import Artefact, Base, Deb
from reprobuild.resolve import resolver
from reprobuild.resolve.acceptance import accept_deviations
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.line_resolutions import rule_unread
from reprobuild.resolve.python.unreachable import check_availability
from reprobuild.resolve.resolver import resolve_snapshot
from reprobuild.resolve.source_lines import lock_sources
from reprobuild.snapshot.model import Snapshot, SourceLocation
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from tests.resolve.repositories import ENV, Project, patch, requirement
from tests.system.samples import index, package, stanza


def ruling(subject: str, outcome: Outcome, kind: str, line: int = 3) -> Resolution:
    return Resolution(
        file="env.txt", line=line, subject=subject, outcome=outcome, reason="because", kind=kind
    )


FINE = (ruling("A", "pinned", ""), ruling("B", "excluded", "secret"), ruling("C", "in base", "added"))
GONE = ruling("numpy", "replaced", "withdrawn", 7)
TORN = ruling("FOO", "unresolved", "suspect-value", 9)


@pytest.mark.parametrize("word", ["withdrawn", "numpy", "env.txt:7"])
def test_a_deviation_is_accepted_by_class_name_or_line(word: str) -> None:
    found = accept_deviations([*FINE, GONE], [word])
    assert [r.accepted for r in found] == [False, False, False, True]
    assert [r.subject for r in found] == ["A", "B", "C", "numpy"]


@pytest.mark.parametrize(
    "word", ["", "env.txt", "env.txt:", "7", "Numpy", "replaced", "env.txt:70", "suspect"]
)
def test_anything_else_accepts_nothing(word: str) -> None:
    with pytest.raises(LockError):
        accept_deviations([*FINE, GONE], [word])


def test_what_nobody_accepted_is_listed_with_the_way_on() -> None:
    with pytest.raises(LockError) as caught:
        accept_deviations([TORN, *FINE, GONE, ruling("BAR", "unresolved", "suspect-value")], ["BAR"])
    assert str(caught.value).splitlines() == [
        "2 captured lines cannot be repeated exactly:",
        "  env.txt:9: FOO: unresolved (suspect-value): because",
        "  env.txt:7: numpy: replaced (withdrawn): because",
    ]
    assert caught.value.hint == ("to go on without exactly these: --accept suspect-value --accept withdrawn")
    accept_deviations([TORN, *FINE, GONE], ["suspect-value", "withdrawn"])


def test_an_absent_file_is_named_once() -> None:
    with pytest.raises(LockError) as error:
        accept_deviations([ruling("env.txt", "replaced", "no-list", 0)], [])
    assert str(error.value).splitlines()[1] == "  env.txt: replaced (no-list): because"


def test_an_install_from_a_directory_may_be_of_a_repository() -> None:
    with pytest.raises(LockError) as caught:
        accept_deviations([ruling("my-lib", "unresolved", "directory-line")], [])
    assert caught.value.hint.splitlines()[0] == (
        "if the directory is a repository, name it with --source my-lib=PATH@COMMIT"
    )


def test_many_lines_of_one_cause_are_summed_up() -> None:
    many = [ruling(f"p{n}", "replaced", "withdrawn", n) for n in range(1, 5)]
    few = [ruling(f"q{n}", "replaced", "unsigned-file", n) for n in range(5, 8)]
    with pytest.raises(LockError) as caught:
        accept_deviations([many[0], *few, *many[1:], TORN], [])
    assert str(caught.value).splitlines() == [
        "8 captured lines cannot be repeated exactly:",
        "  4 of env.txt: replaced (withdrawn):",
        "    env.txt:1: p1: because",
        "    env.txt:2: p2: because",
        "    and 2 more, which --verbose lists",
        *(f"  env.txt:{n}: q{n}: replaced (unsigned-file): because" for n in range(5, 8)),
        "  env.txt:9: FOO: unresolved (suspect-value): because",
    ]
    order = [many[0], *few, *many[1:], TORN]
    lines = [f"  env.txt:{r.line}: {r.subject}: {r.outcome} ({r.kind}): because" for r in order]
    assert caught.value.listing == ("all of them:", *lines)


def test_many_options_of_a_hint_are_shortened_and_the_listing_has_all() -> None:
    far = [
        Resolution(
            file="requirements.txt", line=n, subject=f"r{n}", outcome="unresolved", kind="no-source",
            reason=f"it tells no commit; name it with --source r{n}=https://git.example/r{n}@COMMIT",
        )
        for n in range(300)
    ]  # fmt: skip
    lost = [ruling(f"u{n}", "unresolved", "unreachable-source", n) for n in range(7)]
    local = [ruling(f"d{n}", "unresolved", "directory-line", n) for n in range(300)]
    wrong = [
        msgspec.structs.replace(
            ruling(f"nunpy{n}", "unresolved", "unknown-project", n), reason=f"; did you mean `numpy{n}`?"
        )
        for n in range(300)
    ]
    with pytest.raises(LockError) as caught:
        accept_deviations([*far, *lost, *local, *wrong], [])
    hints = caught.value.hint.splitlines()
    assert max(map(len, hints)) < 500
    assert hints[0].startswith(
        "name each repository with --source r0=https://git.example/r0@COMMIT --source r1="
    )
    assert " r4=https://git.example/r4@COMMIT and 295 more, which --verbose lists, or @HEAD" in hints[0]
    assert "if it is numpy4, write that in place of nunpy4 in env.txt:4" in hints
    assert "and 295 more names like these, which --verbose lists" in hints
    assert not any("nunpy5 " in line for line in hints)
    assert any(line.endswith(" --source u4=PATH|URL and 2 more, which --verbose lists") for line in hints)
    assert any(line.endswith("=PATH@COMMIT and 295 more, which --verbose lists") for line in hints)
    listing = "\n".join(caught.value.listing)
    for subject in ("r299", "u6", "d299", "numpy299", "--source r299=https://git.example/r299@COMMIT"):
        assert subject in listing


def test_lines_that_are_all_shown_are_not_listed_again() -> None:
    with pytest.raises(LockError) as caught:
        accept_deviations([TORN, GONE], [])
    assert caught.value.listing == ()


def test_the_hint_for_another_patch_release_leads_to_a_capture_of_the_interpreter() -> None:
    """The command is followed in `test_captured_interpreter.py`."""
    with pytest.raises(LockError) as caught:
        accept_deviations([ruling("python", "replaced", "python-patch")], [])
    assert caught.value.hint.splitlines() == [
        "if the environment still exists, `reprobuild capture --include interpreter` captures it with its own Python",
        "to go on without exactly these: --accept python-patch",
    ]


def test_the_hint_names_the_packages_that_the_image_would_lack() -> None:
    names = ["torch", "numpy", "pandas", "scipy", "tqdm", "rich"]
    lost = [
        Resolution(
            file="requirements.txt",
            line=n,
            subject=name,
            outcome="unresolved",
            reason="none",
            kind="no-wheel",
        )
        for n, name in enumerate(names, 1)
    ]
    with pytest.raises(LockError) as caught:
        accept_deviations([*lost, GONE, TORN], [])
    assert caught.value.hint.splitlines() == [
        "torch can come from a page or a directory that has the wheel: --index torch=URL",
        "to go on without exactly these: --accept no-wheel --accept suspect-value --accept withdrawn",
        "with --accept no-wheel the image will NOT have torch, numpy, pandas, scipy, tqdm and 1 more",
    ]


def test_the_hint_for_requirements_without_versions_leads_to_a_list_that_locks(
    tmp_path: Path,
) -> None:
    """The command of the hint is run as printed, in the directory of the snapshot."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "tool-1.0-py3-none-any.whl", "w") as made:
        made.writestr("tool-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tool\nVersion: 1.0\n")
        made.writestr("tool-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        made.writestr("tool-1.0.dist-info/RECORD", "")
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "requirements.txt").write_text("tool\n")
    open_line = Resolution(
        file="requirements.txt",
        line=1,
        subject="tool",
        outcome="unresolved",
        reason="no version",
        kind="index-line",
    )
    with pytest.raises(LockError) as caught:
        accept_deviations([open_line], [])
    first, *others = caught.value.hint.splitlines()
    assert first.startswith("requirements.txt has 1 requirements without a version, which no freeze has")
    assert others[-1] == "with --accept tool the image will NOT have tool"
    (command,) = re.findall("`(uv pip compile [^`]*)`", first)
    env = {**os.environ, "UV_FIND_LINKS": str(wheels), "UV_NO_INDEX": "1"}
    program, *arguments = shlex.split(command)
    subprocess.run(
        [sys.executable, "-m", program, *arguments], cwd=snapshot, env=env, check=True, capture_output=True
    )
    (snapshot / "pinned.txt").replace(snapshot / "requirements.txt")
    (line,) = read_snapshot(snapshot).requirements
    assert (line.kind, line.version) == ("index", "1.0")


def test_without_deviations_nothing_needs_a_word() -> None:
    assert accept_deviations(FINE, []) == FINE


@pytest.fixture
def around(tmp_path: Path) -> ResolveContext:
    return ResolveContext(
        store=Store(tmp_path / "store"), net=Net(offline=True), env=ENV, folder=tmp_path, say=lambda text: None,
        indexes=PackageIndexes(find_links=(), simple=(), credentials={}), now=1_700_000_000,
    )  # fmt: skip


def test_a_platform_that_is_not_known(around: ResolveContext) -> None:
    with pytest.raises(LockError, match="the platform linux/riscv64 is not known") as caught:
        resolve_snapshot(Snapshot(digest=""), Decisions(platform="linux/riscv64"), around)
    assert caught.value.hint == "use one of linux/amd64, linux/arm64"


def test_a_base_without_a_c_library() -> None:
    with pytest.raises(LockError, match="the base has no libc6") as caught:
        resolver.base_glibc(Base(distribution="debian", release="x", packages=()))
    assert caught.value.hint == "choose another with --base"
    file = Artefact(filename="libc6.deb", sha256="0" * 64, size=1)
    libc = Deb(name="libc6", version="1:2", architecture="amd64", essential=True, file=file)
    with pytest.raises(LockError, match="the base has libc6 1:2, which is no version") as caught:
        resolver.base_glibc(Base(distribution="debian", release="x", packages=(libc,)))
    assert caught.value.hint == "choose another with --base"


def test_a_made_system_and_a_source_become_a_lock(
    around: ResolveContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(
        tmp_path / "proj", {"pyproject.toml": b"[build-system]\nrequires = []\n", "a.py": b"1\n"}
    )
    project.write("a.py", b"2\n")
    snapshot = Snapshot(
        digest="5" * 64, patches=(patch(project.diff()),),
        packages=(package("python3.11", "3.11.2-6"), package("libc6", "2.36-9", line=3)),
        requirements=(requirement(f"-e git+https://h.test/proj@{project.head}#egg=proj"),),
    )  # fmt: skip
    made = index(
        stanza("libc6", "2.36-9", "", "Essential: yes"), stanza("python3.11", "3.11.2-6", "libc6"),
        stanza("fakeroot", "1"), stanza("libfakeroot", "1"),
    )  # fmt: skip
    monkeypatch.setattr(
        "reprobuild.resolve.system.base.configured_index", lambda *_, **__: made
    )  # apt's own tests are elsewhere
    decisions = Decisions(base="debian/bookworm", sources={"Proj": "proj"}, seed=3)
    lock = resolve_snapshot(snapshot, decisions, around)
    assert [s.tree for s in lock.sources] == [project.worktree_id()]
    assert (lock.workdir, lock.epoch, lock.seed) == ("/src/proj", lock.sources[0].epoch, 3)
    assert lock.decisions.as_dict() == {"base": "debian/bookworm", "sources": {"Proj": "proj"}, "seed": 3}
    assert {r.subject: r.outcome for r in lock.rulings} == {
        "python3.11": "pinned", "libc6": "pinned", "proj": "pinned", "apt-packages.txt": "in base",
    }  # fmt: skip
    dropped, rulings = lock_sources(snapshot, Decisions(drop=("proj",)), around)
    assert dropped == ()
    assert [r.kind for r in rulings] == ["stray-diff"]


def test_all_that_cannot_be_had_is_one_error(around: ResolveContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index, a repository, an address and an open version: one run names each, and one decides each."""
    closed = "http://127.0.0.1:1"
    around = msgspec.structs.replace(around, net=Net(manners=RetryPolicy(pause=0.01)))
    lines = [
        "torch==2.4.1+cu121", "torchvision==0.19.1+cu121", "numpy", f"tool @ {closed}/tool-1.0-py3-none-any.whl",
        f"-e git+{closed}/a.git@{'a' * 40}#egg=a", f"-e git+{closed}/b.git@{'b' * 40}#egg=b",
    ]  # fmt: skip
    snapshot = Snapshot(
        digest="5" * 64, packages=(package("python3.11", "3.11.2-6"), package("libc6", "2.36-9", line=3)),
        requirements=tuple(
            msgspec.structs.replace(requirement(text), place=SourceLocation("requirements.txt", number))
            for number, text in enumerate(lines, 1)
        ),
    )  # fmt: skip
    made = index(
        stanza("libc6", "2.36-9", "", "Essential: yes"), stanza("python3.11", "3.11.2-6", "libc6"),
        stanza("fakeroot", "1"), stanza("libfakeroot", "1"),
    )  # fmt: skip
    monkeypatch.setattr("reprobuild.resolve.system.base.configured_index", lambda *_, **__: made)
    decisions = Decisions(base="debian/bookworm", services={"torch-index": f"{closed}/whl/{{local}}"})
    with pytest.raises(LockError) as caught:
        resolve_snapshot(snapshot, decisions, around)
    said = re.findall(r"  requirements\.txt:(\d): ([\w-]+): unresolved \(([\w-]+)\): (.+)", str(caught.value))
    assert sorted((int(number), name, kind) for number, name, kind, _ in said) == [
        (1, "torch", "unreachable-index"), (2, "torchvision", "unreachable-index"), (3, "numpy", "index-line"),
        (4, "tool", "archive-line"), (5, "a", "unreachable-source"), (6, "b", "unreachable-source"),
    ]  # fmt: skip
    (reason,) = {reason for _, _, kind, reason in said if kind == "unreachable-index"}
    assert reason.startswith(f"{closed}/whl/cu121 cannot be reached: ")
    assert reason.endswith(
        "check the network and the proxy settings, or name a mirror: --service torch-index=URL"
    )
    assert (
        "with --accept torch --accept torchvision the image will NOT have torch, torchvision\n"
        in f"{caught.value.hint}\n"
    )
    words = ("unreachable-index", "unreachable-source", "index-line", "archive-line")
    lock = resolve_snapshot(snapshot, msgspec.structs.replace(decisions, accept=words), around)
    assert (lock.wheels, lock.sources) == ((), ())


def test_an_index_of_the_machine_is_said_with_all_else(
    around: ResolveContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's index, a service, a repository and an open version: one run names each."""
    closed = "http://127.0.0.1:1"
    around = msgspec.structs.replace(
        around, net=Net(manners=RetryPolicy(pause=0.01)),
        indexes=PackageIndexes(find_links=(), simple=(f"{closed}/simple",), credentials={}),
    )  # fmt: skip
    lines = ["six==1.16.0", "torch==2.4.1+cu121", "numpy", f"-e git+{closed}/a.git@{'a' * 40}#egg=a"]
    snapshot = Snapshot(
        digest="5" * 64, packages=(package("python3.11", "3.11.2-6"), package("libc6", "2.36-9", line=3)),
        requirements=tuple(
            msgspec.structs.replace(requirement(text), place=SourceLocation("requirements.txt", number))
            for number, text in enumerate(lines, 1)
        ),
    )  # fmt: skip
    made = index(
        stanza("libc6", "2.36-9", "", "Essential: yes"), stanza("python3.11", "3.11.2-6", "libc6"),
        stanza("fakeroot", "1"), stanza("libfakeroot", "1"),
    )  # fmt: skip
    monkeypatch.setattr("reprobuild.resolve.system.base.configured_index", lambda *_, **__: made)
    decisions = Decisions(base="debian/bookworm", services={"torch-index": f"{closed}/whl/{{local}}"})
    with pytest.raises(FetchError) as caught:
        resolve_snapshot(snapshot, decisions, around)
    first, besides, *more = str(caught.value).splitlines()
    assert first.startswith(f"{closed}/simple cannot be reached: ")
    assert besides == "beside that, 3 captured lines cannot be repeated exactly:"
    said = re.findall(r"  requirements\.txt:(\d): ([\w-]+): unresolved \(([\w-]+)\): ", "\n".join(more))
    assert sorted(said) == [
        ("2", "torch", "unreachable-index"), ("3", "numpy", "index-line"), ("4", "a", "unreachable-source"),
    ]  # fmt: skip
    network, *hints = caught.value.hint.splitlines()
    assert network == "check the network and the proxy settings, or name another address with --service"
    assert "name a bundle, a clone or another remote with --source a=PATH|URL" in hints
    # What is accepted is said no more; without the index there is no lock all the same.
    words = ("unreachable-index", "unreachable-source", "index-line")
    with pytest.raises(FetchError) as caught:
        resolve_snapshot(snapshot, msgspec.structs.replace(decisions, accept=words), around)
    assert str(caught.value) == first
    assert caught.value.hint == network


def test_an_index_that_refuses_each_project_is_told_in_short() -> None:
    lost = [NoListError(f"refused {number}", hint=f"login {number}", place="x") for number in range(9)]
    with pytest.raises(FetchError) as caught:
        check_availability(lost, FINE, ())
    assert str(caught.value).splitlines() == [
        *(f"refused {number}" for number in range(5)), "and 4 more answers like these",
    ]  # fmt: skip
    assert caught.value.listing == tuple(str(err) for err in lost)
    check_availability((), FINE, ())


@pytest.mark.parametrize(
    ("apt", "freeze"), [("apt-packages.txt", "requirements.txt"), ("dpkg_list.txt", "pip-freeze.txt")]
)
def test_a_line_of_a_list_that_nobody_understands_must_be_accepted(
    apt: str, freeze: str, tmp_path: Path
) -> None:
    """A package may have stood there, and would be missing without a word."""
    (tmp_path / apt).write_text(
        "Listing...\nnano/stable,now 7.2-1+deb12u1 amd64 [instal\nless/stable,now a:590 amd64 [installed]\n"
    )
    (tmp_path / freeze).write_text("six==1.16.0\n???\n")
    rulings = rule_unread(read_snapshot(tmp_path))
    assert {(ruling.file, ruling.line) for ruling in rulings} == {
        (apt, 2), (apt, 3), (freeze, 2),
    }  # fmt: skip
    with pytest.raises(LockError, match="3 captured lines cannot be repeated exactly") as caught:
        accept_deviations(rulings, [])
    assert caught.value.hint.splitlines() == [
        f"correct {', '.join(f'{ruling.file}:{ruling.line}' for ruling in rulings)}",
        "to go on without exactly these: --accept unread-line",
    ]
    assert all(ruling.accepted for ruling in accept_deviations(rulings, ["unread-line"]))
