"""Packages of conda that require each other: compared by rattler, and in real containers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from reprobuild.bisect.atoms import find_atoms
from reprobuild.bisect.conda_depends import link_conda
from reprobuild.ecosystems.conda import matching
from reprobuild.ecosystems.conda.linking import run_rattler
from reprobuild.ecosystems.conda.matching import Question, match_specs
from reprobuild.ecosystems.conda.package import IndexJson
from reprobuild.errors import BuildError
from reprobuild.lock.python import CondaPackage, Interpreter
from reprobuild.store.store import Store
from tests.bisecting.locks import list_needs, lock
from tests.bisecting.small import Bench, guilty_names
from tests.conda.python_package import python_package
from tests.conda_packages import Spec, locked
from tests.verify.samples import conda_package

Row = tuple[str, str, tuple[str, ...]]  # name, version, requirements
APP, NEW_APP = ("app", "1.0", ()), ("app", "2.0", ("libzed >=2.1,<3.0a0",))
ZED, NEW_ZED = ("libzed", "1.0", ()), ("libzed", "2.1", ())


def own_file(name: str, version: str) -> CondaPackage:
    """Return a package with a file of its own content."""
    package = conda_package(name, version)
    sha256 = hashlib.sha256(f"{name} {version}".encode()).hexdigest()
    return msgspec.structs.replace(package, file=msgspec.structs.replace(package.file, sha256=sha256))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([APP, ZED], [NEW_APP, NEW_ZED], {"app": ["libzed"], "libzed": []}),
        # The old one breaks with the new library, so the library goes last.
        ([("app", "1.0", ("libzed <2",)), ZED], [("app", "2.0", ()), NEW_ZED], {"app": [], "libzed": ["app"]}),
        # A package that A does not have, and one that B does not have.
        ([APP], [NEW_APP, NEW_ZED], {"app": ["libzed"], "libzed": []}),
        ([("app", "1.0", ("libzed",)), ZED], [("app", "2.0", ())], {"app": [], "libzed": ["app"]}),
        # A build; the same in a build that B does not have either.
        ([APP, ZED], [("app", "2.0", ("libzed 2.* 0",)), NEW_ZED], {"app": ["libzed"], "libzed": []}),
        ([APP, ZED], [("app", "2.0", ("libzed 2.* mkl",)), NEW_ZED], {"app": [], "libzed": []}),
        # Virtual packages, those of both sides, and a requirement that is not valid.
        ([APP, ZED], [("app", "2.0", ("__glibc >=99", "python", "libzed ????")), NEW_ZED], {"app": [], "libzed": []}),
    ],
)  # fmt: skip
def test_packages_come_with_those_that_they_require(
    first: Sequence[Row], second: Sequence[Row], expected: dict[str, list[str]]
) -> None:
    depends = {(name, version): needs for name, version, needs in (*first, *second)}

    def read_index(package: CondaPackage) -> IndexJson:
        needs = depends[package.name, package.version]
        return IndexJson(name=package.name, version=package.version, build=package.build, depends=needs)

    locks = [lock(conda=tuple(own_file(*row[:2]) for row in side)) for side in (first, second)]
    found = find_atoms(*locks, find_links=lambda slots, differing: link_conda(slots, differing, read_index))
    assert list_needs(found) == expected


def test_two_that_require_each_other_are_one_difference() -> None:
    def read_index(package: CondaPackage) -> IndexJson:
        other = "libzed" if package.name == "app" else "app"
        return IndexJson(
            name=package.name, version=package.version, build="0", depends=(f"{other} =={package.version}",)
        )

    locks = [
        lock(conda=(own_file("app", version), own_file("libzed", version))) for version in ("1.0", "2.0")
    ]
    (atom,) = find_atoms(
        *locks, find_links=lambda slots, differing: link_conda(slots, differing, read_index)
    ).atoms
    assert atom.names == ("app", "libzed")


def test_a_file_that_packages_share_is_read_once() -> None:
    """A lock can name one file for thousands of packages."""
    reads: list[str] = []

    def read_index(package: CondaPackage) -> IndexJson:
        reads.append(package.name)
        return IndexJson(name="a", version="1.0", build="0", depends=("b", "c"))

    file = conda_package("a").file
    first, second = (
        tuple(msgspec.structs.replace(conda_package(name, version), file=file) for name in "abc")
        for version in ("1.0", "2.0")
    )
    found = find_atoms(
        lock(conda=first), lock(conda=second),
        find_links=lambda slots, differing: link_conda(slots, differing, read_index),
    )  # fmt: skip
    assert list_needs(found) == {"a": [], "b": [], "c": []}
    assert reads == ["a"]


def ask(spec: str, build: str = "0") -> Question:
    return Question(spec=spec, name="numpy", version="1.0", build=build, build_number=0)


def test_no_regular_expression_reaches_rattler(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes back without a bound: one package took minutes."""
    monkeypatch.setattr(matching, "run_rattler", lambda *_: pytest.fail("it was compared"))
    questions = [
        ask(r"numpy[build='^(?:(a+?)(?!b))+\1b$']"), ask("numpy ^1.*$"), ask("numpy 1.0 ^0$"),
        ask("numpy " + "(" * 10_000 + "1" + ")" * 10_000), ask("numpy >=2".ljust(201)),
    ]  # fmt: skip
    assert match_specs(questions) == dict.fromkeys(questions, True)


def test_a_requirement_at_which_rattler_fails_is_met() -> None:
    questions = [ask("numpy >=2", "a" * 65), ask("numpy >=2".ljust(200)), ask("numpy >=1")]
    assert list(match_specs(questions).values()) == [True, False, True]


def test_a_comparison_has_a_limit_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def compare(job: object, scratch: Path, purpose: str, timeout: float) -> list[bool]:
        limits.append(timeout)
        return [True]

    with pytest.raises(BuildError, match="`rattler` did not end within 0 s") as caught:
        run_rattler({"match": {"rows": []}}, tmp_path, "compare", 0.01)
    assert (
        caught.value.hint == "leave the package out with `--drop NAME`, or get it from where it was published"
    )
    monkeypatch.setattr(matching, "run_rattler", compare)
    match_specs([ask("numpy")])
    assert limits == [60]


@pytest.mark.long  # each mixture is a new tree of conda, with a Python
def test_a_package_is_found_with_the_one_that_it_requires(bench: Bench, store: Store, tmp_path: Path) -> None:
    def package(row: Row) -> CondaPackage:
        name, version, depends = row
        files = {f"share/{name}": version.encode()}
        return locked(Spec(name=name, version=version, depends=depends, files=files), tmp_path, store)

    python = locked(python_package(), tmp_path, store)
    interpreter = Interpreter(
        version=python.version, executable="/opt/env/bin/python3.11", evidence="", kind="conda"
    )
    sides = ([APP, ZED, ("other", "1.0", ())], [NEW_APP, NEW_ZED, ("other", "2.0", ())])
    locks = [
        msgspec.structs.replace(bench.first, interpreter=interpreter, conda=(*map(package, side), python))
        for side in sides
    ]
    result = bench.bisect(
        "sys.exit(open('/opt/env/share/app').read() == '2.0')", first=locks[0], second=locks[1]
    )
    assert guilty_names(result) == {"app", "libzed"}
    assert [result.differences[number].name for number, _ in result.required] == ["libzed"]
    assert result.is_proved
    assert {trial.answer for trial in result.trials} == {"A", "B"}
