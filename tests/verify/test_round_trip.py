"""The round trip: every captured line is repeated by the image, or has a code that says why not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec import structs

import reprobuild_runtime
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Sdist
from reprobuild.lock.system import BaseImage, EnvVar, ImagePackage
from reprobuild.resolve.environment.environment import read_environment_rules
from reprobuild.resolve.environment.modules import EVIDENCE
from reprobuild.resolve.python.classify import look_up_line
from reprobuild.resolve.python.system_lines import rule_system_line
from reprobuild.snapshot.model import Requirement, Snapshot, SourceLocation
from reprobuild.snapshot.parsers import apt, env
from reprobuild.verify.roundtrip.compare import (
    compare_captured,
    compare_environment,
    compare_folders,
    compare_freeze,
    compare_packages,
    judge_round_trip,
)
from reprobuild.verify.roundtrip.image_freeze import Frozen, read_frozen
from reprobuild.verify.verdict import Code, RoundTripDifference
from tests.verify.samples import (
    artefact,
    conda_package,
    deb,
    encode,
    frozen,
    make_lock,
    realised,
    ruling,
    source,
    wheel,
)


def test_round_trip_values() -> None:
    explained = RoundTripDifference(
        list="requirements.txt", captured="a", image="", reason="excluded", code="decision"
    )
    bare = RoundTripDifference(list="requirements.txt", captured="b", image="", reason="", code="unexplained")
    assert judge_round_trip([]) == "exact"
    assert judge_round_trip([explained]) == "explained"
    assert judge_round_trip([explained, bare]) == "residue"
    assert judge_round_trip([], ["env.txt was not compared"]) == "not-run"
    assert judge_round_trip([explained], ["env.txt was not compared"]) == "not-run"
    assert judge_round_trip([bare], ["env.txt was not compared"]) == "residue"


def said(document: dict[str, Any]) -> Frozen:
    found = read_frozen(encode(document))
    assert isinstance(found, Frozen)
    return found


def freeze(
    captured: str, *inside: tuple[str, str], tree: str | None = None, **more: Any
) -> list[tuple[str, str, str]]:
    """Compare one captured line with what the image says; return (captured, image, reason) of each difference."""
    name = more.pop("subject", "a")
    lock = make_lock(rulings=(ruling(name, captured, **more),))
    items = [{"name": item, "freeze": line, "tree": tree} for item, line in inside]
    found = compare_freeze(lock, said(frozen(*items)))
    assert {difference.list for difference in found} <= {"requirements.txt"}
    assert all((difference.code == "unexplained") == (not difference.reason) for difference in found)
    return [(difference.captured, difference.image, difference.reason) for difference in found]


def test_freeze_the_same() -> None:
    assert freeze("a==1", ("a", "a==1")) == []


def test_freeze_missing() -> None:
    assert freeze("a==1") == [("a==1", "", "")]


def test_freeze_extra() -> None:
    assert freeze("a==1", ("a", "a==1"), ("b", "b==2")) == [("", "b==2", "")]


def test_freeze_another_version() -> None:
    assert freeze("a==1", ("a", "a==2")) == [("a==1", "a==2", "")]


SPELLED = "the same, spelled differently by another version of pip or uv"


@pytest.mark.parametrize(
    ("captured", "image"),
    [
        ("My_Pkg==1.0", "my-pkg==1.0"),
        ("my.pkg===1.0", "my-pkg==1.0"),
        ("my-pkg==1.0-1", "my-pkg==1.0.post1"),
        ("my-pkg==v1.2", "my-pkg==1.2"),
        ("my-pkg==2.0.0RC1", "my-pkg==2.0.0rc1"),
        (
            "-e git+ssh://git@example.org/o/my_pkg@c0ffee#egg=my_pkg",
            "-e git+https://example.org/o/my_pkg@c0ffee#egg=my-pkg",
        ),
    ],
)
def test_freeze_spelled_differently(captured: str, image: str) -> None:
    assert freeze(captured, ("MY_pkg", image), subject="my-pkg") == [(captured, image, SPELLED)]


@pytest.mark.parametrize(
    "image",
    [
        "a==1.0.post1",
        "-e git+https://example.org/o/a@deadbeef#egg=a",
        "-e git+https://example.com/o/a@c0ffee#egg=a",
        "a==1.0",
        "-e /src/a",
    ],
)
def test_freeze_another_commit_place_or_kind_is_no_spelling(image: str) -> None:
    captured = "-e git+https://example.org/o/a@c0ffee#egg=a"
    assert freeze(captured, ("a", image)) == [(captured, image, "")]


def test_freeze_an_editable_install_with_another_tree() -> None:
    line = "-e git+https://example.org/mylib@c#egg=mylib"
    good, other = "7" * 40, "8" * 40
    assert freeze(line, ("mylib", line), tree=good, subject="mylib") == []
    assert freeze(line, ("mylib", line), tree=other, subject="mylib") == [
        (f"{line} with tree {good}", f"tree {other}", "")
    ]
    assert freeze(line, ("mylib", line), subject="mylib") == [(f"{line} with tree {good}", "tree None", "")]


WHEEL = {"wheels": (wheel("a", "2.0"),)}
SDIST = {"wheels": (), "sdists": (Sdist(name="a", version="", file=artefact("a.tar.gz")),),
         "realised": realised(wheel("a", "2.0"))}  # fmt: skip
OF_CONDA = {"wheels": (), "conda": (conda_package("aa", "3", "a"),)}
OF_BASE = {"base": structs.replace(make_lock().base, packages=(deb("python3-a"),))}
SHARED = {"interpreter": structs.replace(make_lock().interpreter, shared=True)}
NOTHING: dict[str, Any] = {"wheels": ()}


@pytest.mark.parametrize(
    ("outcome", "kind", "lock", "image", "explained"),
    [
        # What stands in is there, in its version.
        ("replaced", "other-local-version", WHEEL, "a==2.0", True),
        ("replaced", "other-local-version", WHEEL, "a==2", True),
        ("replaced", "other-local-version", WHEEL, "a==1.0.0", False),
        ("replaced", "other-local-version", WHEEL, "a==1+cu118", False),  # it was captured, and is not locked
        ("replaced", "other-local-version", WHEEL, "", False),
        ("replaced", "archive-line", SDIST, "a==2.0", True),
        ("replaced", "archive-line", SDIST, "a==2.1", False),
        ("replaced", "archive-line", SDIST, "", False),
        ("replaced", "made-up", NOTHING, "a==2.0", False),
        ("replaced", "made-up", NOTHING, "", False),
        # A package of the base stands in, for another Python than the image's.
        ("replaced", "system-version", {**NOTHING, **OF_BASE}, "", True),
        ("replaced", "system-version", {**NOTHING, **OF_BASE}, "a==2.0", False),
        ("in base", "", {**NOTHING, **OF_BASE}, "", True),
        ("in base", "", {**NOTHING, **OF_BASE}, "a==1+cu118", False),
        ("in base", "", NOTHING, "", False),
        # A distribution of the base that the environment sees, and that stands in none of its own directories.
        ("in base", "base-distribution", {**NOTHING, **SHARED}, "", True),
        ("in base", "base-distribution", {**NOTHING, **SHARED}, "a==1+cu118", False),
        ("in base", "base-distribution", NOTHING, "", False),
        ("in base", "", {**OF_CONDA, **OF_BASE}, "a==3", True),
        # Nothing is there but what something else in the lock brings.
        *(
            row for outcome, kind in (("excluded", "decision"), ("excluded", "host-package"),
                                      ("excluded", "marker"), ("unresolved", "no-wheel"))
            for row in (
                (outcome, kind, NOTHING, "", True), (outcome, kind, NOTHING, "a==2.0", False),
                (outcome, kind, NOTHING, "a==1+cu118", False), (outcome, kind, OF_CONDA, "a==3.0", True),
                (outcome, kind, OF_CONDA, "", False), (outcome, kind, WHEEL, "a==2.0", True),
                (outcome, kind, WHEEL, "a==2.1", False),
            )
        ),
    ],
)  # fmt: skip
def test_freeze_a_line_that_is_not_repeated_has_what_the_lock_puts_there(
    outcome: Any, kind: str, lock: dict[str, Any], image: str, explained: bool
) -> None:
    line = ruling("a", "a==1+cu118", outcome=outcome, kind=kind, reason="so it is", accepted=True)
    made = make_lock(**{**lock, "rulings": (line,), "sources": ()})
    items = [{"name": "a", "freeze": image}] if image else []
    (found,) = compare_freeze(made, said(frozen(*items)))
    assert (found.captured, found.image) == ("a==1+cu118", image)
    assert (found.code != "unexplained") == explained
    assert found.reason == (f"{outcome}: so it is" if explained else "")
    assert judge_round_trip([found]) == ("explained" if explained else "residue")


def test_freeze_a_stand_in_that_tells_its_version_apart_from_its_line() -> None:
    line = ruling("a", "a==1", outcome="replaced", kind="archive-line", accepted=True)
    lock = make_lock(**{**WHEEL, "rulings": (line,), "sources": ()})
    for version, code in (("2.0", "replaced-version"), ("2.1", "unexplained"), ("", "unexplained")):
        item = {"name": "a", "freeze": "a @ file:///tmp/a.whl", "version": version}
        assert [found.code for found in compare_freeze(lock, said(frozen(item)))] == [code]


def test_freeze_a_line_for_another_environment_leaves_the_name_to_the_other_line() -> None:
    lines = (
        ruling("a", "a==1; python_version<'3'", outcome="excluded", kind="marker", line=1),
        ruling("a", "a==2.0", line=2),
        ruling("a", "a==3", outcome="unresolved", kind="pinned-twice", accepted=True, line=3),
    )
    lock = make_lock(**{**WHEEL, "rulings": lines, "sources": ()})
    found = compare_freeze(lock, said(frozen({"name": "a", "freeze": "a==2.0"})))
    assert [(one.captured, one.image, one.code) for one in found] == [
        (lines[0].captured, "", "not-needed"), ("a==3", "", "unrecoverable"),
    ]  # fmt: skip
    found = compare_freeze(lock, said(frozen()))
    assert [one.code for one in found] == ["not-needed", "unexplained", "unrecoverable"]


def test_freeze_a_line_of_the_system_as_it_is_really_ruled() -> None:
    line = Requirement(
        place=SourceLocation("requirements.txt", 1), text="PyGObject==3.42.1", kind="index",
        name="PyGObject", version="3.42.1",
    )  # fmt: skip
    lookup = look_up_line(line, {"python3-gi": "3.42.1-0ubuntu1"}, {})
    for version, code in (("3.42.1-2", "base-provided"), ("3.48.2-1", "replaced-version")):
        found = rule_system_line(line, lookup, {"python3-gi": version}, "")
        base = structs.replace(make_lock().base, packages=(deb("python3-gi", version),))
        lock = make_lock(wheels=(), sources=(), rulings=(found,), base=base)
        assert [one.code for one in compare_freeze(lock, said(frozen()))] == [code]
        without = structs.replace(lock, base=make_lock().base)
        assert [one.code for one in compare_freeze(without, said(frozen()))] == ["unexplained"]


def test_freeze_a_kind_of_a_pinned_line_explains_nothing() -> None:
    assert freeze("a==1", kind="path") == [("a==1", "", "")]
    assert freeze("a==1", ("a", "a==2"), kind="path") == [("a==1", "a==2", "")]


def really_frozen(folder: Path, *records: tuple[str, str]) -> Frozen:
    """Return what the runtime's own program says of a directory with these records, (name, content of METADATA)."""
    for name, content in records:
        (folder / name).mkdir(parents=True)
        (folder / name / "METADATA").write_text(content)
    program = Path(reprobuild_runtime.__file__).parent / "freeze.py"
    done = subprocess.run([sys.executable, "-I", program, folder], capture_output=True, check=True)
    found = read_frozen(done.stdout)
    assert isinstance(found, Frozen)
    return found


def record(name: str, version: str) -> tuple[str, str]:
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    return f"{name}-{version}.dist-info", text


def test_two_records_of_one_distribution_are_residue(tmp_path: Path) -> None:
    numpy = wheel("numpy", "2.0.0")
    lock = make_lock(wheels=(numpy,), sources=(), rulings=(ruling("numpy", "numpy==2.0.0"),))
    one = really_frozen(tmp_path / "one", record("numpy", "2.0.0"))
    lock = structs.replace(lock, interpreter=structs.replace(lock.interpreter, version=one.python))
    assert compare_freeze(lock, one) == []
    two = really_frozen(tmp_path / "two", record("numpy", "2.0.0"), record("Numpy", "2.1.0"))
    (found,) = compare_freeze(lock, two)
    assert (found.captured, found.image) == ("", "Numpy==2.1.0, a further record of numpy")
    assert judge_round_trip([found]) == "residue"
    older = really_frozen(tmp_path / "older", record("numpy", "1.26.4"), record("numpy", "2.0.0"))
    assert judge_round_trip(compare_freeze(lock, older)) == "residue"
    (broken,) = compare_freeze(lock, really_frozen(tmp_path / "one", ("nothing-1.0.dist-info", "")))
    assert (broken.captured, broken.code) == ("", "unexplained")
    assert broken.image == (
        f"{tmp_path}/one/nothing-1.0.dist-info, whose metadata cannot be used: "
        "ValueError: its metadata gives no name or no version"
    )


def test_two_records_that_conda_brings_and_that_say_the_same_are_explained(tmp_path: Path) -> None:
    name, text = record("a", "1")
    (tmp_path / "a-1-py3.11.egg-info").mkdir()
    (tmp_path / "a-1-py3.11.egg-info" / "PKG-INFO").write_text(text)
    found = really_frozen(tmp_path, (name, text))
    lock = make_lock(sources=(), rulings=(ruling("a", "a==1", kind="conda"),), **OF_CONDA)
    lock = structs.replace(lock, interpreter=structs.replace(lock.interpreter, version=found.python))
    (difference,) = compare_freeze(lock, found)
    assert (difference.code, difference.reason) == (
        "base-provided", "conda's aa has two records of it, which say the same",
    )  # fmt: skip
    for conda in ((), lock.conda):  # pip's lies over conda's, or is alone
        of_wheel = structs.replace(lock, conda=conda, wheels=(wheel("a", "1"),))
        assert [one.code for one in compare_freeze(of_wheel, found)] == ["unexplained"]


def test_lines_of_other_lists_are_not_the_freeze() -> None:
    lock = make_lock(rulings=(ruling("bash", ""),))
    assert compare_freeze(lock, said(frozen())) == []


def test_freeze_another_interpreter() -> None:
    def inside(python: str, wanted: str) -> list[str]:
        lock = make_lock(rulings=())
        interpreter = msgspec.structs.replace(lock.interpreter, version=wanted)
        found = compare_freeze(
            msgspec.structs.replace(lock, interpreter=interpreter), said({**frozen(), "python": python})
        )
        assert {(d.list, d.captured, d.code) for d in found} <= {("python", wanted, "unexplained")}
        return [d.image for d in found]

    assert inside("3.11.2", "3.11.2") == inside("3.11.2", "3.11") == []
    assert inside("3.11.9", "3.11.2") == ["3.11.9"]
    assert inside("3.11.2", "3.1") == ["3.11.2"]


def test_freeze_a_folder_becomes_its_place_in_the_image() -> None:
    captured, image = (
        "-e /home/ada/mylib",
        "# Editable Git install with no remote (mylib==1.0)\n-e /src/mylib",
    )
    reason = "the same files, at their place in the image"
    assert freeze(captured, ("mylib", image), tree="7" * 40, subject="mylib") == [(captured, image, reason)]
    other = image.replace("/src/mylib", "/src/other")
    assert freeze(captured, ("mylib", other), tree="7" * 40, subject="mylib") == [(captured, other, "")]


def test_the_folder_of_the_job() -> None:
    lock = make_lock(sources=(msgspec.structs.replace(source("job", "7" * 40), installed=False),))
    good = {"name": "job", "path": "/src/job", "tree": "7" * 40}
    assert compare_folders(lock, said({**frozen(), "sources": [good]})) == []
    for answer in ({**frozen(), "sources": [{**good, "tree": "8" * 40}]}, frozen()):
        (found,) = compare_folders(lock, said(answer))
        assert (found.list, found.code) == ("sources", "unexplained")


def again(packages: str = "", variables: str = "") -> Snapshot:
    """Return what a capture inside an image says."""
    found, _ = apt.parse(packages.encode())
    values, _ = env.parse(variables.encode())
    return Snapshot(digest="", packages=found, variables=values)


def test_packages() -> None:
    lock = make_lock()
    installed = "bash/now {} amd64 [installed,local]\n{}/now {} amd64 [installed,local]\n"
    assert compare_packages(lock, again(installed.format("1-1", "dpkg", "1-1"))) == []
    found = compare_packages(lock, again(installed.format("2-1", "zsh", "3")))
    assert [(d.captured, d.image, d.code, d.list) for d in found] == [
        ("bash 1-1", "bash 2-1", "unexplained", "apt-packages.txt"),
        ("dpkg 1-1", "dpkg", "unexplained", "apt-packages.txt"),
        ("zsh", "zsh 3", "unexplained", "apt-packages.txt"),
    ]
    assert deb("bash").version == "1-1"


def on_image(**variables: str) -> Lock:
    """Return a lock whose base begins with an image: bash over it, and dpkg in another version below."""
    below = [ImagePackage(name=name, version="0", architecture="amd64") for name in ("bash", "coreutils")]
    image = BaseImage(
        reference="registry.test/x:1", digest="sha256:" + "a" * 64, config=artefact("config"), layers=(),
        packages=tuple(below), environment=tuple(EnvVar(name=n, value=v) for n, v in variables.items()),
    )  # fmt: skip
    return make_lock(environment=(), base=structs.replace(make_lock().base, image=image))


def test_packages_of_an_image_are_expected_where_nothing_is_over_them() -> None:
    lock, line = on_image(), "{}/now {} amd64 [installed,local]\n"
    right = line.format("bash", "1-1") + line.format("dpkg", "1-1")
    assert compare_packages(lock, again(right + line.format("coreutils", "0"))) == []
    assert [(d.captured, d.image) for d in compare_packages(lock, again(right))] == [
        ("coreutils 0", "coreutils")
    ]


def test_variables_of_an_image_are_expected() -> None:
    lock = on_image(PATH="/vendor", OMP_NUM_THREADS="3")
    assert compare_environment(lock, again(variables="OMP_NUM_THREADS=3\nPATH=/opt/env/bin:/vendor\n")) == []
    found = compare_environment(lock, again(variables="OMP_NUM_THREADS=4\nMKL_NUM_THREADS=1\n"))
    assert [(d.captured, d.image) for d in found] == [
        ("OMP_NUM_THREADS", "another value"), ("", "MKL_NUM_THREADS"),
    ]  # fmt: skip


def test_packages_of_two_architectures_are_told_apart() -> None:
    two = (deb("zlib1g"), msgspec.structs.replace(deb("zlib1g", "1-2"), architecture="i386"))
    lock = make_lock(base=msgspec.structs.replace(make_lock().base, packages=two))
    both = "zlib1g/now 1-1 amd64 [installed]\nzlib1g/now {} i386 [installed]\n"
    assert compare_packages(lock, again(both.format("1-2"))) == []
    (found,) = compare_packages(lock, again(both.format("1-1")))
    assert (found.captured, found.image, found.code) == ("zlib1g:i386 1-2", "zlib1g:i386 1-1", "unexplained")
    (found,) = compare_packages(lock, again("zlib1g/now 1-1 amd64 [installed]\n"))
    assert (found.captured, found.image) == ("zlib1g:i386 1-2", "zlib1g:i386")


def test_environment() -> None:
    lock = make_lock(environment=(EnvVar(name="A", value="secret-looking"), EnvVar(name="B", value="")))
    own = "PATH=/bin\nPYTHONHASHSEED=7\nHOME=/\n"
    assert compare_environment(lock, again(variables=f"A=secret-looking\nB=\n{own}")) == []
    found = compare_environment(lock, again(variables=f"A=other\nLD_PRELOAD=/x.so\nOMP_NUM_THREADS=1\n{own}"))
    assert [(d.captured, d.image, d.code, d.list) for d in found] == [
        ("A", "another value", "unexplained", "env.txt"),
        ("B", "", "unexplained", "env.txt"),
        ("", "LD_PRELOAD", "unexplained", "env.txt"),
        ("", "OMP_NUM_THREADS", "unexplained", "env.txt"),
    ]


@pytest.mark.parametrize(
    ("outcome", "kind", "reason", "code"),
    [
        ("pinned", "numerics", "", None), ("pinned", "path", "rewritten", "path-rewritten"),
        ("excluded", "secret", "", "secret-withheld"), ("excluded", "scheduler", "", "site-variable"),
        ("excluded", "cache", "", "not-baked"), ("excluded", "host-package", "", "host-only"),
        ("excluded", "module", "torch brings it", "base-provided"), ("excluded", "module", EVIDENCE, "unrecoverable"),
        ("excluded", "decision", "", "decision"), ("excluded", "not-needed", "", "not-needed"),
        ("in base", "added", "", "base-provided"), ("replaced", "withdrawn", "", "replaced-version"),
        ("unresolved", "site-library", "", "unrecoverable"), ("excluded", "", "", "unexplained"),
        ("excluded", "made-up", "", "unexplained"), ("in base", "release", "", None),
        ("excluded", "host-library", "", "host-only"), ("excluded", "plugin-library", "", "not-needed"),
        ("excluded", "missing-library", "", "not-needed"), ("excluded", "cuda", "", None),
    ],
)  # fmt: skip
def test_every_captured_line_has_its_code(outcome: Any, kind: str, reason: str, code: str | None) -> None:
    lock = make_lock(rulings=(ruling("x", "", outcome=outcome, kind=kind, reason=reason),))
    assert [d.code for d in compare_captured(lock)] == ([code] if code else [])


def test_every_class_of_variable_has_a_code() -> None:
    for _, rule in read_environment_rules():
        lock = make_lock(rulings=(ruling("x", "", outcome="excluded", kind=rule.kind),))
        found = [d.code for d in compare_captured(lock)]
        assert rule.kind == "numerics" or found != ["unexplained"], rule.kind


def test_the_page_has_every_code() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "round-trip.md").read_text()
    assert tuple(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == get_args(Code)
