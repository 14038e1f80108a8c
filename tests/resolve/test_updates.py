"""Today's versions of a lock, from an index on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.errors import FetchError, LockError, UsageError
from reprobuild.infra.http.client import Net
from reprobuild.infra.proc.run import run
from reprobuild.lock.file import read_lock, write_new_lock
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Sdist, Wheel
from reprobuild.lock.recorded import RecordedDecisions
from reprobuild.lock.system import Base
from reprobuild.resolve import solve_versions
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.updates import find_top_level, list_requested_extras, update_lock
from tests.bisecting.locks import deb
from tests.counted import CountedName, counted_names
from tests.resolve.test_as_of_untimed import around
from tests.resolve.untimed import UntimedIndex, make_sdist, make_wheel
from tests.verify.samples import artefact, conda_package, make_lock, ruling, source, wheel

HINT = "give a second lock instead of --since: `reprobuild bisect A B -- CMD`"
DAY = "2026-11-01"


@pytest.fixture
def index() -> Iterator[UntimedIndex]:
    with UntimedIndex() as index:
        index.add(
            make_wheel("top", "1.0", "2022-01-01", requires="below>=1"),
            make_wheel("top", "1.1", "2026-01-01", requires="below>=2"),
            make_wheel("below", "1.0", "2022-06-01"),
            make_wheel("below", "2.0", "2026-09-01", requires="new"),
            make_wheel("new", "3.0", "2026-09-01"),
            make_wheel("alone", "1.0", "2022-06-01"),
        )
        yield index


def near(folder: Path, index: UntimedIndex) -> ResolveContext:
    return around(folder, index.root, env=dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1"))


def old_lock(*wheels: Wheel, **more: Any) -> Lock:
    base = Base(distribution="debian", release="bookworm", packages=(deb("libc6", "2.36-9"),))
    some = wheel("top", "1.0", requires=("below>=1",)), wheel("below", "1.0")
    return make_lock(base=base, wheels=wheels or some, **more)


def test_the_top_level_is_what_no_other_requires() -> None:
    def named(name: str, *requires: str) -> Wheel:
        return wheel(name, "1", requires=requires)

    assert find_top_level([named("a", "b>=1"), named("b"), named("c")]) == ["a", "c"]
    assert find_top_level([named("a", "B.x[extra]<2"), named("b-x")]) == ["a"]
    # b and c require each other, and a requires neither of them; d requires itself
    assert find_top_level([named("a"), named("b", "c"), named("c", "b"), named("d", "d")]) == ["a", "b", "d"]
    assert find_top_level([named("a", "?? no requirement")]) == ["a"]
    assert find_top_level([]) == []


def test_the_top_level_of_many_wheels_takes_few_comparisons() -> None:
    """A search of a list for each name compared 2,000 names two million times."""
    names = counted_names(2000)
    assert find_top_level([wheel(name, "1") for name in names]) == sorted(names)
    assert CountedName.comparisons < 20_000


def test_only_distributions_of_the_index_change(index: UntimedIndex, tmp_path: Path) -> None:
    said: list[str] = []
    context = msgspec.structs.replace(near(tmp_path, index), say=said.append)
    tools = wheel("setuptools", "60", role="build")
    building = msgspec.structs.replace(source("mylib", "8" * 40).building, requires=(tools.file.sha256,))
    mylib = msgspec.structs.replace(source("mylib", "8" * 40), building=building)
    rulings = (ruling("top", "top==1.0"), ruling("below", "below==1.0"), ruling("X", "", file="env.txt"))
    old = old_lock(
        wheel("top", "1.0", requires=("below>=1",)), wheel("below", "1.0"), wheel("alone", "1.0"), tools,
        sources=(mylib,), rulings=rulings,
    )  # fmt: skip
    update = update_lock(old, DAY, context, foreign=False)
    assert update.requirements == ("alone", "top")
    assert update.changes == {"below": ("1.0", "2.0"), "new": (None, "3.0"), "top": ("1.0", "1.1")}
    assert said == ["python: today's versions of alone, top, by uv"]
    new = update.lock
    fields = set(Lock.__struct_fields__) - {"wheels", "rulings", "decisions"}
    assert {name: getattr(new, name) for name in fields} == {name: getattr(old, name) for name in fields}
    assert {item.name: item.role for item in new.wheels if item.role == "build"} == {"setuptools": "build"}
    assert next(item for item in new.wheels if item.name == "top").requires == ("below>=2",)
    assert {item.subject: item.outcome for item in new.rulings} == {
        "X": "pinned", "alone": "solved", "below": "solved", "new": "solved", "top": "solved",
    }  # fmt: skip
    assert (
        "as of 2026-11-01 (--since), uv chose it: of the lock's top-level requirements"
        in {item.subject: item.reason for item in new.rulings}["top"]
    )
    assert new.decisions.as_of == DAY
    write_new_lock(new, tmp_path / "new.lock")
    assert read_lock(tmp_path / "new.lock") == new


def test_versions_of_conda_bind_the_others(index: UntimedIndex, tmp_path: Path) -> None:
    """The package of conda stays, and no wheel of it comes beside it."""
    conda = msgspec.structs.replace(conda_package("below", "1.0"), distributions=("below",))
    old = old_lock(wheel("top", "1.0", requires=("below>=1",)), conda=(conda,))
    update = update_lock(old, DAY, near(tmp_path, index), foreign=False)
    assert update.changes == {}
    assert [item.name for item in update.lock.wheels] == ["top"]


def test_extras_of_captured_lines_are_asked_for_again(index: UntimedIndex, tmp_path: Path) -> None:
    index.add(make_wheel("more", "1.0", "2022-01-01", requires='below>=1; extra == "fast"'))
    old = old_lock(
        wheel("more", "1.0", requires=("below>=1",)), wheel("below", "1.0"),
        rulings=(
            ruling("more", "more[fast]==1.0"), ruling("below", "below==1.0"),
            ruling("more", "more[slow]==1.0 ; sys_platform == 'win32'"),
        ),
    )  # fmt: skip
    assert list_requested_extras(old) == {"more": {"fast"}}
    update = update_lock(old, DAY, near(tmp_path, index), foreign=False)
    assert update.changes == {"below": ("1.0", "2.0"), "new": (None, "3.0")}
    assert next(item for item in update.lock.wheels if item.name == "more").requires == ("below>=1",)


def test_a_source_archive_is_built_with_todays_wheels(index: UntimedIndex, tmp_path: Path) -> None:
    files = {"pyproject.toml": '[build-system]\nrequires = ["new"]\nbuild-backend = "new"\n[project]\nname = "src"\n'
             'version = "2.0"\n', "PKG-INFO": "Metadata-Version: 2.2\nName: src\nVersion: 2.0\n"}  # fmt: skip
    index.add(make_sdist("src", "2.0", written="2026-01-01", files=files))
    sdist = Sdist(name="src", version="1.0", file=artefact("src-1.0.tar.gz"))
    update = update_lock(
        old_lock(wheel("alone", "1.0"), sdists=(sdist,)), DAY, near(tmp_path, index), foreign=False
    )
    assert update.changes == {"src": ("1.0", "2.0")}
    assert {item.name: item.role for item in update.lock.wheels} == {"alone": "environment", "new": "build"}
    files = {name: text.replace("2.0", "2.1") for name, text in files.items()}
    files["setup.py"] = "setup(ext_modules=[Extension('src', ['src.c'])])\n"
    index.add(make_sdist("src", "2.1", written="2026-01-01", files={**files, "src.c": ""}))
    with pytest.raises(LockError, match="today's versions need a compiler, and the lock has none") as error:
        update_lock(
            old_lock(wheel("alone", "1.0"), sdists=(sdist,)), DAY, near(tmp_path, index), foreign=False
        )
    assert error.value.hint == HINT


def test_what_cannot_be_updated(index: UntimedIndex, tmp_path: Path) -> None:
    def fail(old: Lock, context: ResolveContext, kind: type[Exception], text: str) -> Any:
        with pytest.raises(kind, match=text) as error:
            update_lock(old, DAY, context, foreign=False)
        return error.value

    context = near(tmp_path, index)
    error = fail(
        make_lock(wheels=()), context, UsageError, "--since: the lock has no distribution of an index"
    )
    assert error.hint == HINT
    offline = msgspec.structs.replace(context, net=Net(offline=True))
    error = fail(old_lock(), offline, FetchError, "and --offline forbids it")
    assert error.hint == f"leave --offline out, or {HINT}"
    error = fail(old_lock(wheel("lost", "1")), context, LockError, "no versions as of today fit together")
    assert error.hint == HINT
    index.add(make_wheel("bound", "1.0", "2022-01-01", requires="top<1.1"), make_wheel("other", "1.0", "2022-01-01",
              requires="top>=1.1"))  # fmt: skip
    error = fail(old_lock(wheel("bound", "1"), wheel("other", "1")), context, LockError, "bound")
    assert "other" in str(error)


@pytest.mark.parametrize("foreign", [True, False])
def test_indexes_of_a_lock_from_elsewhere_are_not_asked(
    foreign: bool, index: UntimedIndex, tmp_path: Path
) -> None:
    """They count as decided, so a login of netrc would go to any host that the lock names."""
    said: list[str] = []
    context = msgspec.structs.replace(near(tmp_path, index), say=said.append)
    with UntimedIndex() as other:
        other.add(make_wheel("alone", "1.0", "2022-06-01"))
        decided = RecordedDecisions(indexes={"alone": other.root})
        old = old_lock(wheel("alone", "1.0"), decisions=decided)
        update = update_lock(old, DAY, context, foreign=foreign)
    (new,) = update.lock.wheels
    assert new.file.url.startswith(index.root.partition("/simple")[0] if foreign else other.url)
    assert bool(other.asked) is not foreign
    line = "python: the lock was not made here, so its indexes are not asked: alone"
    assert (line in said) is foreign


def test_uv_gets_no_login_of_an_index(
    index: UntimedIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks this process, which bounds the pages and archives, too."""
    seen = []

    def observe(argv: Any, **options: Any) -> bytes:
        seen.append((options["cwd"] / "uv.toml").read_text())
        return run(argv, **options)

    monkeypatch.setattr(solve_versions, "run", observe)
    index.login = "needed"
    context = around(
        tmp_path, index.root, logins={index.root: ("me", "p4ss-word")},
        env=dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1"),
    )  # fmt: skip
    update_lock(old_lock(wheel("alone", "1.0")), DAY, context, foreign=False)
    assert len(seen) == 1
    assert "p4ss-word" not in seen[0]
    assert index.url not in seen[0]


def test_the_token_of_an_index_is_not_printed(index: UntimedIndex, tmp_path: Path) -> None:
    """The addresses in uv's messages are those of this process, and are replaced by the indexes' own."""
    token = "q7Zk2mX9" + "vB4nT8wL1cR6yH3j"
    index.add(make_wheel("lonely", "1.1", "2022-06-01", requires="unknown>=1"))
    indexes = PackageIndexes(
        find_links=(),
        simple=(index.root,),
        credentials={},
        tokens={index.root: f"{index.root}/?token={token}"},
    )
    context = msgspec.structs.replace(near(tmp_path, index), indexes=indexes)
    context.net.learn({}, indexes.tokens)
    with pytest.raises(LockError, match="No solution found") as error:
        update_lock(old_lock(wheel("lonely", "1.0")), DAY, context, foreign=False)
    assert any(token in path for path, *_ in index.asked)
    assert token not in str(error.value)
