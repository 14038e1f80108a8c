"""Two environments of any kind: what differs, what does not, and what was not compared."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.builders.native import build_image
from reprobuild.compare.environments.comparison import EnvironmentComparison, EnvironmentDifference
from reprobuild.compare.environments.lock import UNNEEDED
from reprobuild.compare.environments.model import KINDS
from reprobuild.compare.environments.open import compare
from reprobuild.errors import EngineError, InconclusiveError, LockError, SnapshotError, UsageError
from reprobuild.image.choices.record import CacheSize
from reprobuild.image.formats.single_file import write_singles
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock, RealisedOutputs
from reprobuild.lock.system import EnvVar
from reprobuild.recipe.image_config import environ_file
from reprobuild.report.comparison import SHOWN, render_comparison
from reprobuild.verify.roundtrip.compare import _EXCLUDED
from tests.choices.samples import CACHE, PLATFORM, save_choices
from tests.compare.samples import NOBODY, SNAPSHOT, compared, info, make_image, make_snapshot, repository
from tests.image.images import archived, make_layout, saved
from tests.image.layouts import image_of, write_image
from tests.image.made import Made, file, folder
from tests.verify.samples import deb, make_lock, ruling, source, wheel

FOREIGN = {**CACHE, "inductor/ab/cab.so": b"another kernel"}
TOKEN = "hf_" + "abcdefGHIJ" * 3 + "klmn"


def names(found: EnvironmentComparison) -> list[tuple[str, str]]:
    return [(difference.kind, difference.name) for difference in found.differences]


def unsaid(found: EnvironmentComparison) -> dict[tuple[str, str], tuple[str, ...]]:
    return {(item.kind, item.reason): item.names for item in found.not_compared}


def only(found: EnvironmentComparison) -> EnvironmentDifference:
    (difference,) = found.differences
    return difference


# --- snapshots -------------------------------------------------------------------------------


def test_a_snapshot_and_itself() -> None:
    found = compared(SNAPSHOT, SNAPSHOT)
    assert (found.differences, found.is_same) == ([], True)
    assert ("environment", "values of secrets are not kept") in unsaid(found)
    assert {item.kind for item in found.not_compared if item.reason == "neither side records it"} == {
        "interpreter", "conda", "job", "gpu", "machine", "release", "recipe", "realised",
    }  # fmt: skip
    assert render_comparison(found).splitlines()[0] == "no difference"


def test_what_a_recipe_does_not_tell_is_no_difference(tmp_path: Path) -> None:
    one = make_snapshot(tmp_path / "one", requirements_txt="a==1\n", env_txt="A=1\n")
    other = make_snapshot(tmp_path / "other", requirements_txt="A==1.0\npip==25.0\n")
    found = compared(one, other)
    assert found.differences == []
    assert unsaid(found)["environment", "B does not record it"] == ()
    assert unsaid(found)["python", "A does not list them, even if it has them"] == ("pip",)


def test_names_and_versions_are_compared_as_python_does(tmp_path: Path) -> None:
    one = make_snapshot(
        tmp_path / "one", requirements_txt="Ruamel.Yaml==0.18.0\ntorch==2.13.0\nx @ file:///x\n"
    )
    other = make_snapshot(tmp_path / "other", requirements_txt="ruamel_yaml==0.18\ntorch==2.13.0+cpu\nx==1\n")
    found = compared(one, other)
    difference = only(found)
    assert (difference.name, difference.one, difference.other) == ("torch", "2.13.0", "2.13.0+cpu")
    assert difference.note == "another build of one version"
    assert unsaid(found)["python", "other facts are known of A than of B"] == ("x",)


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("torch-2.5.1-cuda126_py311_306", "torch-2.5.1-cuda126_py311_306", None),
        (
            "pytorch-2.5.1-cuda126_py311_306", "pytorch-2.5.1-cpu_generic_py311_6",
            ("build cuda126_py311_306", "build cpu_generic_py311_6"),
        ),
        # conda-forge's own version of its build, as the freeze has it below
        (
            "pytorch-2.5-cuda126_py311_1", "pytorch-2.5-cuda118_py311_1",
            ("build cuda126_py311_1", "build cuda118_py311_1"),
        ),
    ],
)  # fmt: skip
def test_builds_of_conda_are_no_one_version(
    one: str, other: str, shown: tuple[str, str] | None, tmp_path: Path
) -> None:
    sides = [
        make_snapshot(
            tmp_path / called,
            requirements_txt=f"torch=={'2.5.post1' if '2.5-' in build else '2.5.1'}\nnumpy==2.1\n",
            # pip has put its NumPy over conda's
            conda_explicit_txt=f"@EXPLICIT\nhttps://c.example.org/{build}.conda\n"
            f"https://c.example.org/numpy-2.0-py311_{called}.conda\n",
        )
        for called, build in (("one", one), ("other", other))
    ]  # fmt: skip
    found = compared(*sides)
    seen = [(d.name, d.group, d.one, d.other, d.note) for d in found.differences]
    assert seen == ([("torch", "framework", *shown, "another build of one version")] if shown else [])


WHEEL = "torch-2.5.1-cp311-cp311-linux_x86_64.whl"
SUM = f"#sha256={'a' * 64}"
OTHER_SUM = f"#sha256={'b' * 64}"


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("torch==2.5.1", "torch==2.5.1", False),
        ("torch==2.5.1", f"torch @ file:///home/ada/mybuild/{WHEEL}", True),
        (f"torch @ https://w.example.org/{WHEEL}", f"torch @ file:///home/ada/mybuild/{WHEEL}", True),
        (f"torch @ https://w.example.org/{WHEEL}{SUM}", f"torch @ file:///home/ada/{WHEEL}{SUM}", False),
        (f"torch @ file:///a/{WHEEL}{SUM}", f"torch @ file:///a/{WHEEL}{OTHER_SUM}", True),
        (f"torch @ file:///home/ada/{WHEEL}", f"torch @ file:///home/bob/{WHEEL}", False),
    ],
)
def test_where_a_distribution_comes_from(one: str, other: str, differ: bool, tmp_path: Path) -> None:
    sides = [
        make_snapshot(tmp_path / called, requirements_txt=f"{line}\n")
        for called, line in (("one", one), ("other", other))
    ]
    found = compared(*sides)
    assert [(d.name, d.note) for d in found.differences] == [
        ("torch", "another build of one version")
    ] * differ


def test_files_of_one_name_may_be_one_file(tmp_path: Path) -> None:
    sides = [
        make_snapshot(tmp_path / who, requirements_txt=f"torch @ file:///home/{who}/{WHEEL}\n")
        for who in ("ada", "bob")
    ]
    found = compared(*sides)
    assert found.differences == []
    assert unsaid(found)["python", "files of one name in two places, whose sha256 is not recorded"] == (
        "torch",
    )


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        (f".conda#{'a' * 32}", f".conda#{'a' * 32}", None),
        (f".conda#{'a' * 32}", f".conda#{'b' * 32}", ("md5", f"md5 {'a' * 32}", f"md5 {'b' * 32}")),
        (f".conda#{'a' * 64}", f".conda#{'b' * 64}", ("sha256", f"sha256 {'a' * 64}", f"sha256 {'b' * 64}")),
        (f".conda#{'a' * 32}", f".tar.bz2#{'b' * 32}", None),  # one build in two forms
        (f".conda#{'a' * 32}", ".conda", None),
    ],
)
def test_files_of_one_build_of_conda(
    one: str, other: str, shown: tuple[str, str, str] | None, tmp_path: Path
) -> None:
    sides = [
        make_snapshot(
            tmp_path / channel,
            requirements_txt="torch==2.5.1\n",
            conda_explicit_txt="@EXPLICIT\n"
            + "".join(
                f"https://c.example.org/main/linux-64/{name}{rest}\n"
                for name in ("pytorch-2.5.1-cuda126_py311_306", "mkl-2023.1.0-h_1")
            ),
        )
        for channel, rest in (("forge", one), ("own", other))
    ]
    found = compared(*sides)
    seen = [(d.kind, d.name, *d.aspects, d.one, d.other) for d in found.differences]
    assert seen == ([("python", "torch", *shown), ("conda", "mkl", *shown)] if shown else [])
    assert found.is_same == (shown is None)


def test_one_version_of_conda_and_of_pip(tmp_path: Path) -> None:
    listed = {"conda": "pytorch 2.5.1 cuda126_py311_306 conda-forge\n", "pip": "torch 2.5.1 pypi_0 pypi\n"}
    conda, pip = (
        make_snapshot(tmp_path / who, requirements_txt="torch==2.5.1\n", conda_list_txt=text)
        for who, text in listed.items()
    )
    difference = only(compared(conda, pip))
    assert (difference.name, difference.one, difference.other, difference.note) == (
        "torch", "origin conda", "origin an index", "another build of one version",
    )  # fmt: skip
    freeze = make_snapshot(tmp_path / "freeze", requirements_txt="torch==2.5.1\n")  # of either
    assert compared(pip, freeze).differences == []
    found = compared(conda, freeze)
    assert found.differences == []
    assert unsaid(found)["python", "B does not state whether conda brought them"] == ("torch",)
    assert unsaid(found)["python", "only A records the build"] == ("torch",)


def test_what_one_side_alone_has_is_shown_with_the_origins_that_tell_something(tmp_path: Path) -> None:
    lines = f"rich==13.7.1\ntorch @ https://w.example.org/{WHEEL}\n"
    one = make_snapshot(tmp_path / "one", requirements_txt=f"a==1\n{lines}")
    found = compared(one, make_snapshot(tmp_path / "other", requirements_txt="a==1\n"))
    shown = {"rich": "13.7.1", "torch": f"2.5.1, origin https://w.example.org/{WHEEL}"}
    assert {d.name: d.one for d in found.only_in_one} == shown


def test_three_tables(tmp_path: Path) -> None:
    one = make_snapshot(
        tmp_path / "one", env_txt="A=1\nB=1\n", modules_txt="Currently Loaded Modules:\n  1) gcc/12   2) StdEnv\n",
        apt_packages_txt="bash/stable,now 5 amd64 [installed]\nzsh/stable,now 5 amd64 [installed]\n",
    )  # fmt: skip
    other = make_snapshot(
        tmp_path / "other", env_txt="A=2\nC=1\n", modules_txt="Currently Loaded Modules:\n  1) gcc/13   2) StdEnv\n",
        apt_packages_txt="bash/stable,now 6 amd64 [installed]\n",
    )  # fmt: skip
    found = compared(one, other)
    assert [(d.name, d.one, d.other) for d in found.differ] == [
        ("A", "1", "2"),
        ("bash", "5", "6"),
        ("gcc", "12", "13"),
    ]
    assert [(d.name, d.one, d.other) for d in found.only_in_one] == [("B", "1", None), ("zsh", "5", None)]
    assert [(d.name, d.one, d.other) for d in found.only_in_other] == [("C", None, "1")]
    ranks = [difference.rank for difference in found.differences]
    assert ranks == sorted(ranks)
    lines = render_comparison(found).splitlines()
    assert [line for line in lines if line in ("differ: 3", "only in A: 2", "only in B: 1")] == [
        "differ: 3", "only in A: 2", "only in B: 1",
    ]  # fmt: skip
    assert "  module       gcc   12 -> 13  sets variables, which are compared themselves" in lines


def test_noise_alone_is_no_difference(tmp_path: Path) -> None:
    one = make_snapshot(tmp_path / "one", env_txt="A=1\nSLURM_JOB_ID=1\nPWD=/a\n")
    other = make_snapshot(tmp_path / "other", env_txt="A=1\nSLURM_JOB_ID=2\n")
    found = compared(one, other)
    assert found.is_same
    assert names(found) == [("environment", "PWD"), ("environment", "SLURM_JOB_ID")]
    text = render_comparison(found)
    assert text.startswith(
        "no difference but noise: 2, of the session, the job or the host: --verbose lists them\n"
    )
    assert "SLURM_JOB_ID" not in text
    assert "SLURM_JOB_ID" in render_comparison(found, everything=True)


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    one = make_snapshot(tmp_path / "one", env_txt=f"A=1\nMY_TOKEN={TOKEN}\nHF_TOKEN={TOKEN}\n")
    other = make_snapshot(tmp_path / "other", env_txt=f"A=1\nHF_TOKEN={TOKEN[::-1]}\n")
    found = compared(one, other)
    difference = only(found)
    assert (difference.name, difference.one, difference.other) == ("MY_TOKEN", "(secret)", None)
    assert unsaid(found)["environment", "values of secrets are not kept"] == ("HF_TOKEN",)
    assert TOKEN not in render_comparison(found, everything=True) + msgspec.json.encode(found).decode()


def test_of_lists_the_entries_that_differ_are_shown(tmp_path: Path) -> None:
    path = ":".join(f"/opt/tool{number}/bin" for number in range(100))
    one = make_snapshot(tmp_path / "one", env_txt=f"PATH={path}:/old\nPYTHONPATH=/a:/b\nLD_PRELOAD=/a.so\n")
    other = make_snapshot(
        tmp_path / "other", env_txt=f"PATH=/new:{path}\nPYTHONPATH=/b:/a\nLD_PRELOAD=/b.so\n"
    )
    lines = render_comparison(compared(one, other)).splitlines()
    assert lines[0].startswith("likeliest: LD_PRELOAD: /a.so -> /b.so (loaded into every process")
    (shown,) = [line.split() for line in lines if " PATH " in line]
    assert shown[:8] == ["environment", "PATH", "only", "A", "/old,", "only", "B", "/new"]
    assert any("moved /a (from 1 to 2)" in line for line in lines)


def test_what_is_empty(tmp_path: Path) -> None:
    one = make_snapshot(tmp_path / "one", env_txt="A=\nB=\nLD_PRELOAD=\nC=1\n")
    found = compared(one, make_snapshot(tmp_path / "other", env_txt="A=1\nC=1\n"))
    assert [(d.name, d.one, d.other) for d in found.differences] == [("A", "", "1"), ("B", "", None)]
    assert "A  (empty) -> 1" in render_comparison(found)


def test_of_long_values_the_part_that_differs_is_shown(tmp_path: Path) -> None:
    text = "{}, nothing but words" + " and words" * 50
    one = make_snapshot(tmp_path / "one", env_txt=f"A={'same ' * 50}{text.format('one')}\n")
    other = make_snapshot(tmp_path / "other", env_txt=f"A={'same ' * 50}{text.format('other')}\n")
    (line,) = [
        line for line in render_comparison(compared(one, other)).splitlines() if line.startswith("  env")
    ]
    assert "  ...e same one, nothing" in line
    assert " -> ...e same other, noth" in line
    assert len(line) < 200


def test_repositories(tmp_path: Path) -> None:
    freeze = "-e git+https://git.example.org/a/mylib.git@{}#egg=mylib\n"
    one = make_snapshot(tmp_path / "one", requirements_txt=freeze.format("1" * 40), mylib_diff="")
    other = make_snapshot(tmp_path / "other", requirements_txt=freeze.format("2" * 40))
    difference = only(compared(one, other))
    assert (difference.kind, difference.name, difference.aspects) == ("source", "mylib", ("commit",))
    assert "commit 111111111111 -> commit 222222222222" in render_comparison(compared(one, other))
    assert unsaid(compared(one, other))["source", "only A records the changes"] == ("mylib",)
    changes = (SNAPSHOT / "tinytrain.diff").read_text()
    third = make_snapshot(tmp_path / "third", requirements_txt=freeze.format("1" * 40), mylib_diff=changes)
    difference = only(compared(one, third))
    assert (difference.aspects, difference.one) == (("changes",), "changes none")
    assert re.fullmatch("changes sha256:[0-9a-f]{64}", difference.other or "")


# --- locks -----------------------------------------------------------------------------------


def write(lock: Lock, path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    write_lock(lock, path)
    return path


@pytest.mark.parametrize(
    ("fields", "kind", "name"),
    [
        (
            {"environment": (EnvVar(name="A", value="2"), EnvVar(name="LINES", value="one\ntwo"))},
            "environment",
            "A",
        ),
        ({"wheels": (wheel("torch", "1.1"),)}, "python", "torch"),
        ({"wheels": (wheel("torch"), wheel("hatch", role="build"))}, "recipe", "build with hatch"),
        ({"sources": (source("mylib", "8" * 40),)}, "source", "mylib"),
        ({"seed": 3}, "recipe", "seed"),
        ({"epoch": 10**10}, "recipe", "epoch"),
        ({"workdir": "/"}, "recipe", "workdir"),
        ({"snapshot": "6" * 64}, "recipe", "snapshot"),
    ],
)
def test_one_field_of_a_lock(fields: dict[str, object], kind: str, name: str, tmp_path: Path) -> None:
    one = write(make_lock(), tmp_path / "one" / "reprobuild.lock")
    other = write(make_lock(**fields), tmp_path / "other.lock")
    assert compared(one, one.parent).differences == []
    assert (only(compared(one.parent, other)).kind, only(compared(one, other)).name) == (kind, name)


def test_the_bytes_of_an_input_count(tmp_path: Path) -> None:
    lock = make_lock()
    base = msgspec.structs.replace(lock.base, packages=(deb("bash"), deb("dpkg", "2")))
    changed = msgspec.structs.replace(wheel("torch").file, sha256="b" * 64)
    one = write(lock, tmp_path / "one.lock")
    other = write(make_lock(base=base, wheels=(wheel("torch", file=changed),)), tmp_path / "other.lock")
    found = compared(one, other)
    assert [(d.name, d.aspects) for d in found.differences] == [
        ("torch", ("sha256",)),
        ("dpkg", ("version",)),
    ]


def test_of_two_output_directories_only_the_locks_are_compared_and_that_is_said(tmp_path: Path) -> None:
    """An image that is damaged is not noticed: the first line must not say more than what was read."""
    for name in ("one", "other"):
        write(make_lock(), tmp_path / name / "reprobuild.lock")
        (tmp_path / name / "image").mkdir()
        (tmp_path / name / "image" / "index.json").write_bytes(b"destroyed")
    found = compared(tmp_path / "one", tmp_path / "other")
    assert found.is_same
    first = render_comparison(found).splitlines()[0]
    assert first == "no difference between the two locks; no image was read"


def test_a_sealed_lock_and_the_same_one_before_it_was_sealed(tmp_path: Path) -> None:
    realised = RealisedOutputs(base="0" * 64, runtime="2" * 64, wheels=(wheel("mylib", "3.0"),), bytecode=())
    one, other = write(make_lock(), tmp_path / "one"), write(make_lock(realised=realised), tmp_path / "other")
    found = compared(one, other)
    assert found.differences == []
    assert ("realised", "A does not record it") in unsaid(found)


def test_what_nothing_needs_comes_last(tmp_path: Path) -> None:
    snapshot = make_snapshot(tmp_path / "snapshot", requirements_txt="Torch==1.0\nzlib-ng==1\ntriton==2\n")
    host = msgspec.structs.replace(
        ruling("triton", "triton==2", "excluded", "of the host"), kind="host-package"
    )
    lock = write(make_lock(rulings=(host,)), tmp_path / "lock")
    names = [d.name for d in compared(snapshot, lock).only_in_one]
    assert names == ["zlib-ng", "triton"]
    (last,) = [d for d in compared(lock, snapshot).only_in_other if d.name == "triton"]
    assert (last.group, last.note) == ("left out on purpose", "A leaves it out, excluded: of the host")
    solved = write(make_lock(rulings=(msgspec.structs.replace(host, kind="decision"),)), tmp_path / "other")
    assert [d.name for d in compared(snapshot, solved).only_in_one] == ["triton", "zlib-ng"]


def test_the_classes_that_nothing_needs_are_those_of_the_round_trip() -> None:
    codes = _EXCLUDED.items()
    assert {kind for kind, code in codes if code in ("host-only", "not-needed")} == UNNEEDED


def test_a_snapshot_and_its_lock(tmp_path: Path) -> None:
    snapshot = make_snapshot(
        tmp_path / "snapshot",
        requirements_txt="Torch==1.0\n-e git+https://git.example.org/mylib@"
        + "c" * 40
        + "#egg=mylib\ngone==1\n",
        apt_packages_txt="bash/stable,now 1-1 amd64 [installed]\n",
        env_txt="A=1\nLANG=C.UTF-8\nLD_LIBRARY_PATH=/apps/lib\nPATH=/opt/env/bin\n",
        modules_txt="Currently Loaded Modules:\n  1) gcc/12\n",
    )
    rulings = (
        ruling("gone", "gone==1", "excluded", "dropped by decision"),
        msgspec.structs.replace(
            ruling("LD_LIBRARY_PATH", "", "excluded", "paths of the machine"), file="env.nul"
        ),
    )
    lock = write(make_lock(rulings=rulings), tmp_path / "lock")
    found = compared(snapshot, lock)
    assert [(d.name, d.note) for d in found.only_in_one] == [
        ("LD_LIBRARY_PATH", "B leaves it out, excluded: paths of the machine"),
        ("gone", "B leaves it out, excluded: dropped by decision"),
    ]
    assert [d.name for d in found.only_in_other] == ["LINES", "REPROBUILD_PROFILE", "dpkg"]
    assert [d.name for d in found.differ] == ["PATH"]
    assert ("module", "B does not record it") in unsaid(found)
    assert ("interpreter", "A does not record it") in unsaid(found)
    back = compared(lock, snapshot)
    assert [d.note for d in back.only_in_other][1] == "A leaves it out, excluded: dropped by decision"
    assert names(back) == names(found)


BUILD = {
    "version": "3.13.1", "implementation": "CPython", "build": ["main", "Dec  3 2024 17:59:52"], "abiflags": "",
    "compiler": "GCC 12.2.0", "platform": "linux-x86_64",
}  # fmt: skip
PRINTED = "Python 3.13.1 (main, Dec  3 2024, 17:59:52) [GCC 12.2.0]\nlinux-x86_64\n"


@pytest.mark.parametrize(
    ("captured", "printed", "aspects"),
    [
        (
            {"build": ["main", "Jan  1 2024 10:00:00"]},
            ("Dec  3 2024, 17:59:52", "Jan  1 2024, 10:00:00"),
            ["build"],
        ),
        ({"compiler": "Clang 17.0.6"}, ("GCC 12.2.0", "Clang 17.0.6"), ["build"]),
        ({"platform": "linux-aarch64"}, None, ["platform"]),
        ({"abiflags": "d"}, None, ["ABI flags"]),
        ({"abiflags": "t"}, None, ["threading", "ABI flags"]),
        (None, ("3.13.1 (main", "3.13.1 experimental free-threading build (main"), ["build", "threading"]),
    ],
)
def test_builds_of_one_version_differ(
    captured: dict[str, object] | None, printed: tuple[str, str] | None, aspects: list[str], tmp_path: Path
) -> None:
    one = make_snapshot(tmp_path / "one", {"python": BUILD}, env_txt="PATH=\n")
    if captured is not None:
        other = make_snapshot(tmp_path / "other", {"python": {**BUILD, **captured}}, env_txt="PATH=\n")
        assert list(only(compared(one, other)).aspects) == aspects
    printed_one = make_snapshot(tmp_path / "printed one", python_txt=PRINTED, env_txt="PATH=\n")
    assert compared(one, printed_one).differences == []  # one build, told by either
    if printed is not None:
        text = PRINTED.replace(*printed)
        printed_other = make_snapshot(tmp_path / "printed other", python_txt=text, env_txt="PATH=\n")
        assert list(only(compared(printed_one, printed_other)).aspects) == aspects


def test_a_compiler_on_a_row_of_its_own_is_no_other_build(tmp_path: Path) -> None:
    """Python 3.9 and older print it so."""
    python = {
        **BUILD,
        "version": "3.8.10",
        "build": ["default", "Jun  2 2021 10:49:15"],
        "compiler": "GCC 9.4.0",
    }
    captured = make_snapshot(tmp_path / "captured", {"python": python}, env_txt="PATH=\n")
    text = "Python 3.8.10 (default, Jun  2 2021, 10:49:15) \n[GCC 9.4.0]\nlinux-x86_64\n"
    printed = make_snapshot(tmp_path / "printed", python_txt=text, env_txt="PATH=\n")
    assert compared(captured, printed).differences == []


def test_a_file_of_variables_that_is_too_large_is_no_sameness(tmp_path: Path) -> None:
    content = b'{"x":[' + b'{"":{}},' * (1 << 17) + b"0]}"
    image = make_image(tmp_path / "image", file("opt/reprobuild/environ.json", content))
    found = compared(image, image)
    assert unsaid(found)["environment", "A has a file that is too large to be one of its lists"] == (
        "/opt/reprobuild/environ.json",
    )
    assert any(item.grave for item in found.not_compared)


@pytest.mark.parametrize(("implementation", "differ"), [("CPython", []), ("PyPy", ["python"])])
def test_a_lock_is_of_cpython(implementation: str, differ: list[str], tmp_path: Path) -> None:
    """What a snapshot tells beyond the version is no difference by itself."""
    lock = write(make_lock(), tmp_path / "lock")
    python = {"version": make_lock().interpreter.version, "implementation": implementation}
    snapshot = make_snapshot(tmp_path / "snapshot", {"python": python}, requirements_txt="torch==1.0\n")
    found = compared(snapshot, lock)
    assert [each.name for each in found.differ if each.kind == "interpreter"] == differ
    only = [each for each in (*found.only_in_one, *found.only_in_other) if each.kind == "interpreter"]
    assert only == []


# --- images ----------------------------------------------------------------------------------


def test_an_image_in_every_form(tmp_path: Path) -> None:
    torch = info("torch", "2.13.0+cpu")
    layout = make_image(tmp_path / "layout", *torch, env={"OMP_NUM_THREADS": "2", "HF_TOKEN": TOKEN})
    snapshot = make_snapshot(
        tmp_path / "snapshot", requirements_txt="torch==2.13.0+cpu\n",
        apt_packages_txt="bash/stable,now 5.2.15-2+b7 amd64 [installed]\nlibc6/stable,now 2.36-9 amd64 [installed]\n"
        "libc6/stable,now 2.36-9 i386 [installed]\n",
        env_txt=f"OMP_NUM_THREADS=4\nPATH=/opt/env/bin:/usr/bin\nHF_TOKEN={TOKEN}\n",
    )  # fmt: skip
    forms = {
        layout: "image, OCI layout",
        archived(layout, tmp_path / "oci.tar.gz", "gzip"): "image, OCI archive",
        saved(layout, tmp_path / "saved.tar"): "image, docker archive",
    }
    for path, form in forms.items():
        found = compared(snapshot, path)
        assert found.other.form == form
        assert (only(found).name, only(found).one, only(found).other) == ("OMP_NUM_THREADS", "4", "2")
        assert TOKEN not in msgspec.json.encode(found).decode()
        assert compared(layout, path).differences == []


def test_a_sif_and_a_squashfs(tmp_path: Path, squashfs: dict[str, str]) -> None:
    entries = [file("opt/env/bin/python3", b""), *info("torch", "2.13.0")]
    layout = write_image(tmp_path / "image", [[folder(""), *entries]], {"Env": ["PATH=/opt/env/bin:/bin"]})
    write_singles(
        image_of(layout), tmp_path, ("sif", "sqsh"), "Bootstrap: scratch\n", squashfs, lambda text: None
    )
    for name, form in (("image.sif", "image, SIF"), ("image.sqsh", "image, squashfs")):
        lock = write(make_lock(wheels=(wheel("torch", "2.14.0"),), sources=()), tmp_path / "lock")
        found = compare(str(tmp_path / name), str(lock), NOBODY, squashfs, lambda text: None)
        assert found.one.form == form
        assert [(d.name, d.one, d.other) for d in found.differ if d.kind == "python"] == [
            ("torch", "2.13.0", "2.14.0")
        ]
        assert (("environment", "A does not record it") in unsaid(found)) == (name == "image.sqsh")


def test_which_python_of_an_image_is_meant(tmp_path: Path) -> None:
    one = make_image(tmp_path / "one")
    other = make_image(tmp_path / "other", env={"PATH": "/bin:/usr/local/bin:/usr/bin"})
    found = compared(one, other)
    assert [(d.name, d.one, d.other) for d in found.differences if d.kind == "python"] == [
        ("pip", None, "23.0")
    ]
    assert unsaid(found)["interpreter", "B does not record it"] == ()
    nothing = compared(one, make_image(tmp_path / "nothing", env={"PATH": "/sbin"}))
    assert ("python", "B does not record it") in unsaid(nothing)


@pytest.mark.parametrize(
    ("entries", "env", "version"),
    [
        ([file("opt/conda/bin/python", b"")], {"PATH": "/opt/conda/bin"}, None),
        (
            [file("opt/conda/bin/python", b""), file("opt/conda/conda-meta/python-3.12.4-h_1.json", b"{}")],
            {"PATH": "/opt/conda/bin"}, "3.12.4",
        ),
        ([file("usr/local/bin/python3", b"")], {"PATH": "/usr/local/bin", "PYTHON_VERSION": "3.12.5"}, "3.12.5"),
        (
            [file("usr/local/bin/python3", b""), *info("a", "1", "usr/local/lib/python3.12/site-packages")],
            {"PATH": "/usr/local/bin"}, "series 3.12",
        ),
        ([file("bin/python3", b"")], {"PATH": "/bin"}, None),
    ],
)  # fmt: skip
def test_the_version_of_an_images_python(
    entries: Any, env: dict[str, str], version: str | None, tmp_path: Path
) -> None:
    config = {"Env": [f"{name}={value}" for name, value in env.items()]}
    one = make_snapshot(tmp_path / "one", {"python": {"version": "3.11.2"}}, env_txt="PATH=\n")
    found = compared(one, make_layout(tmp_path / "image", entries, config=config))
    values = [d.other for d in found.differences if d.name == "python"]
    assert values == ([version] if version else [])


def test_lists_that_are_hard_links(tmp_path: Path) -> None:
    (metadata, record) = info("torch", "1", metadata="Name: Torch\nVersion: 1.0.0+cpu\n")
    link = TarEntry(path=metadata[0].path, type="hardlink", mode=0o644, target="root/cache/METADATA")
    one = make_image(tmp_path / "one", file("root/cache/METADATA", metadata[1]), (link, b""), record)
    other = make_image(tmp_path / "other", *info("torch", "1.0.0+cpu"))
    assert compared(one, other).differences == []


def test_conda_in_an_image(tmp_path: Path) -> None:
    path = "opt/conda/conda-meta"
    entries = [
        file("opt/conda/bin/python3", b""),
        file(f"{path}/pytorch-2.3.1-py3.11_0.json", b"{}"),
        file(f"{path}/mkl-2023.1.0-h_1.json", b"{}"),
        *info("torch", "2.3.1", "opt/conda/lib/python3.11/site-packages"),
    ]
    image = make_layout(tmp_path / "image", entries, config={"Env": ["PATH=/opt/conda/bin"]})
    parts = {"conda": {"outcome": "not-there", "seconds": 0}}
    snapshot = make_snapshot(
        tmp_path / "pip", {"parts": parts}, requirements_txt="torch==2.3.1\nmkl==2023.1.0\n"
    )
    found = compared(snapshot, image)
    assert names(found) == [("python", "torch"), ("conda", "mkl"), ("python", "mkl")]
    assert found.differ[0].note == "another build of one version"
    listed = "@EXPLICIT\nhttps://c.example.org/pytorch-2.3.1-py3.11_0.conda\nhttps://c.example.org/mkl-2023.1.0-h_1.conda\n"
    conda = make_snapshot(tmp_path / "conda", requirements_txt="torch==2.3.1\n", conda_explicit_txt=listed)
    assert compared(conda, image).differences == []


def test_where_an_image_has_a_distribution_from(tmp_path: Path) -> None:
    def image(called: str, **record: object) -> Path:
        return make_image(tmp_path / called, *info("torch", "2.5.1", direct_url=json.dumps(record)))

    plain = make_image(tmp_path / "plain", *info("torch", "2.5.1"))
    site = image("site", url=f"https://w.example.org/{WHEEL}", archive_info={"hashes": {"sha256": "a" * 64}})
    own = image("own", url=f"file:///build/{WHEEL}", archive_info={"hash": f"sha256={'b' * 64}"})
    built = image("built", url="file:///croot/torch_1700000000000/work", dir_info={})
    damaged = image("damaged", url=[1], archive_info="a")
    difference = only(compared(site, own))
    assert (difference.name, difference.aspects) == ("torch", ("origin", "sha256"))
    assert difference.note == "another build of one version"
    for quiet in (plain, built, damaged):  # our own images keep no such record of an index
        found = compared(own, quiet)
        assert found.differences == []
        assert unsaid(found)["python", "only A records the origin"] == ("torch",)
    snapshot = make_snapshot(
        tmp_path / "snapshot", requirements_txt=f"torch @ file:///a/{WHEEL}{OTHER_SUM}\n"
    )
    assert [d for d in compared(snapshot, own).differences if d.kind == "python"] == []


def test_a_lock_and_the_image_that_is_built_of_it(tmp_path: Path) -> None:
    made = Made(tmp_path / "made")
    torch = made.wheel("torch", {"torch/__init__.py": b""})
    lock = made.lock(environment=(EnvVar(name="A", value="1"), EnvVar(name="LINES", value="one\ntwo")))
    sealed = msgspec.structs.replace(lock, wheels=(torch,))
    build_image(sealed, made.store, tmp_path / "out", files=environ_file(sealed), reference="small:1")
    write(sealed, tmp_path / "out" / "reprobuild.lock")
    found = compared(tmp_path / "out", tmp_path / "out" / "image")
    assert found.differences == []
    assert (found.one.form, found.other.form) == ("lock", "image, OCI layout")
    assert unsaid(found)["python", "only A records the sha256"] == ("torch",)
    assert ("system", "B does not record it") in unsaid(found)
    assert ("interpreter", "B does not record it") not in unsaid(found)
    other = msgspec.structs.replace(sealed, environment=(EnvVar(name="LINES", value="one\nthree"),))
    differing = compared(write(other, tmp_path / "other.lock"), tmp_path / "out" / "image")
    assert names(differing) == [("environment", "A"), ("environment", "LINES")]


def test_sources_of_an_image(tmp_path: Path) -> None:
    origin = json.dumps({"url": "https://x", "vcs_info": {"vcs": "git", "commit_id": "c" * 40}})
    told = json.dumps({"name": "mylib", "commit": "c" * 40, "tree": "8" * 40})
    image = make_image(
        tmp_path / "image", *info("a", "1", direct_url=origin), *info("quiet", "1"),
            *info("mylib", "1"),
        file("opt/reprobuild/sources/src-mylib.json", told.encode()),
        file("opt/reprobuild/sources/damaged.json", b"[" * 100_000),
    )  # fmt: skip
    lock = make_lock(sources=(source("mylib", "7" * 40), source("a", "7" * 40), source("quiet", "7" * 40)))
    found = compared(write(lock, tmp_path / "lock"), image)
    (code,) = [d for d in found.differences if d.kind == "source"]
    assert (code.name, code.aspects) == ("mylib", ("tree",))
    assert unsaid(found)["source", "B does not list them, even if it has them"] == ("quiet",)


# --- what the machine says -------------------------------------------------------------------

FIELDS = ["index", "name", "uuid", "driver_version", "memory.total", "mig.mode.current"]
MACHINE: dict[str, Any] = {
    "uname": ["Linux", "n1", "6.1.0-31-amd64", "#1 SMP", "x86_64"],
    "cpu": {"usable": [0, 1], "model name": "EPYC", "cpu family": "25", "flags": "avx avx2", "future": [1]},
    "limits": {"nofile": [1024, -1], "ofile": [1, 1]},
    "release": {"ID": "debian", "VERSION_ID": "12"},
    "cgroup": {"group": "/job_1", "cpu.max": ""},
    "host": "n1",
    "memory_bytes": 1024,
}


def captured(tmp_path: Path, name: str, **changes: Any) -> Path:
    gpu = {
        "driver": "", "headers": {"/apps/cuda/version.json": "12.4", "/usr/include/nccl.h": "2.21.5"},
        "nvidia_smi": [f"{i}, NVIDIA H100 80GB HBM3, GPU-{i}, 550.54, 81559 MiB, Disabled" for i in range(2)],
        "nvidia_smi_fields": FIELDS,
    }  # fmt: skip
    document = {"python": {"version": "3.11.2"}, "gpu": gpu, "machine": MACHINE, **changes}
    return make_snapshot(tmp_path / name, document, env_txt="A=1\n")


def test_gpu_and_machine(tmp_path: Path) -> None:
    one = captured(tmp_path, "one")
    smi = ["0, NVIDIA H200, GPU-9, 560.28, 143771 MiB, Disabled"]
    machine = {
        **MACHINE, "host": "n2", "cgroup": {"group": "/job_2"}, "limits": {"nofile": [4096, -1]},
        "uname": ["Linux", "n2", "6.8.0", "#1 SMP", "x86_64"],
        "cpu": {**MACHINE["cpu"], "flags": "avx avx512f"},
    }  # fmt: skip
    gpu = {
        "nvidia_smi": smi,
        "nvidia_smi_fields": FIELDS,
        "libraries": ["/x/libcudnn.so.9"],
        "torch": {"cuda": "12.4"},
    }
    found = compared(one, captured(tmp_path, "other", gpu=gpu, machine=machine))
    assert [(d.group, d.name, d.one, d.other) for d in found.differences] == [
        ("CUDA", "CUDA", "12.4", None),
        ("CUDA", "NCCL", "2.21.5", None),
        ("GPU", "GPU", "2 x NVIDIA H100 80GB HBM3", "1 x NVIDIA H200"),
        ("GPU", "GPU memory", "81559 MiB", "143771 MiB"),
        ("driver", "driver", "550.54", "560.28"),
        ("processor", "processor flags", "avx avx2", "avx avx512f"),
        ("noise", "control group", "/job_1", "/job_2"),
        ("noise", "host", "n1", "n2"),
        ("kernel and limits", "kernel", "6.1.0-31-amd64", "6.8.0"),
        ("kernel and limits", "limit nofile", "1024, at most unlimited", "4096, at most unlimited"),
    ]
    silent = unsaid(found)["gpu", "A does not list them, even if it has them"]
    assert silent == ("CUDA of torch", "loaded libraries")
    assert "only A avx2, only B avx512f" in render_comparison(found)


def test_a_machine_without_a_gpu_and_one_that_was_not_asked(tmp_path: Path) -> None:
    one = captured(tmp_path, "one")
    without = captured(tmp_path, "without", gpu=None, parts={"gpu": {"outcome": "not-there", "seconds": 0}})
    assert {d.name for d in compared(one, without).only_in_one} == {
        "GPU",
        "GPU memory",
        "driver",
        "MIG",
        "CUDA",
        "NCCL",
    }
    hung = captured(tmp_path, "hung", gpu=None, parts={"gpu": {"outcome": "timed-out", "seconds": 5}})
    assert compared(one, hung).differences == []
    assert ("gpu", "B does not record it") in unsaid(compared(one, hung))


def test_reports_of_other_programs(tmp_path: Path) -> None:
    said = "GPU 0: NVIDIA H100 80GB HBM3\nGPU 1: NVIDIA H100 80GB HBM3\nNvidia driver version: 550.90\n"
    collected = (
        "PyTorch version: 2.3.1+cu121\nCUDA used to build PyTorch: 12.1\nPython version: 3.11.4 (main)\n"
        f"GPU models and configuration: \n{said}"
    )
    one = make_snapshot(tmp_path / "one", collect_env_txt=collected, env_txt="A=1\n")
    found = compared(one, captured(tmp_path, "other"))
    assert [(d.name, d.one, d.other) for d in found.differences] == [
        ("python", "3.11.4", "3.11.2"), ("driver", "550.90", "550.54"),
    ]  # fmt: skip
    silent = unsaid(found)["gpu", "A does not list them, even if it has them"]
    assert silent == ("CUDA", "GPU memory", "MIG", "NCCL")


def test_packages_of_rpm(tmp_path: Path) -> None:
    one = make_snapshot(tmp_path / "one", rpm_packages_txt="bash 5.1.8-6.el9 x86_64\nzsh 5.8-9.el9 x86_64\n")
    other = make_snapshot(tmp_path / "other", rpm_packages_txt="bash 5.1.8-9.el9 x86_64\n")
    found = compared(one, other)
    assert [(d.kind, d.name, d.one, d.other) for d in found.differences] == [
        ("system", "bash", "5.1.8-6.el9", "5.1.8-9.el9"), ("system", "zsh", "5.8-9.el9", None),
    ]  # fmt: skip


def test_a_driver_without_its_program(tmp_path: Path) -> None:
    gpu = {
        "driver": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n",
        "cards": [{"Model": "NVIDIA A100"}],
    }
    found = compared(
        captured(tmp_path, "one", gpu=gpu), captured(tmp_path, "other", gpu={"driver": "", "cards": []})
    )
    assert {d.name: d.one for d in found.only_in_one} == {"GPU": "1 x NVIDIA A100", "driver": "550.54.15"}


def test_repositories_of_a_capture(tmp_path: Path) -> None:
    def one(name: str, tree: str, inner: str = "") -> Path:
        diff = {"file": "mylib-src.diff", "from": "b" * 40, "reason": "done"}
        mylib = repository("mylib-src", tree * 40, distributions=["MyLib"], diff=diff)
        rows = [mylib, repository("job", tree * 40)]
        if inner:
            rows.append(repository("inner", inner * 40, parent="job", path="third_party/inner"))
        made = captured(tmp_path, name, repositories=rows)
        (made / "requirements.txt").write_text(f"-e git+https://git.example.org/mylib@{'b' * 40}#egg=mylib\n")
        (made / "mylib-src.diff").write_bytes((SNAPSHOT / "tinytrain.diff").read_bytes())
        return made

    found = compared(one("one", "1"), one("other", "2"))
    assert [(d.kind, d.name, d.aspects) for d in found.differences] == [
        ("job", "job", ("tree",)), ("source", "mylib", ("tree",)),
    ]  # fmt: skip
    found = compared(one("third", "1", "3"), one("fourth", "1", "4"))
    assert [(d.kind, d.name, d.aspects) for d in found.differences] == [("job", "job", ("trees",))]
    sources = (
        msgspec.structs.replace(source("mylib", "1" * 40), commit="b" * 40, patch="9" * 64),
        msgspec.structs.replace(source("job", "5" * 40), installed=False),
    )
    found = compared(one("fifth", "1"), write(make_lock(sources=sources), tmp_path / "lock"))
    differing = [(d.kind, d.name, d.aspects) for d in found.differences if d.kind in ("source", "job")]
    assert differing == [("job", "job", ("tree",))]


def test_where_a_nested_repository_lies_is_compared(tmp_path: Path) -> None:
    """The parent of a repository could change without a word."""

    def one(name: str, root: str, parent: str) -> Path:
        rows = [
            repository(root, "1" * 40, distributions=["tinytrain"]),
            repository("bbb", "2" * 40, parent=root, path="x"),
            repository("ccc", "3" * 40, parent=parent, path="y"),
        ]
        return captured(tmp_path, name, repositories=rows)

    flat, deep = one("flat", "tinytrain", "tinytrain"), one("deep", "tinytrain", "bbb")
    found = compared(flat, deep)
    assert [(d.kind, d.name, d.aspects) for d in found.differences] == [("source", "tinytrain", ("trees",))]
    assert compared(deep, one("same", "tinytrain", "bbb")).differences == []
    assert compared(flat, one("renamed", "other-folder", "other-folder")).differences == []


def test_the_freeze_counts_where_the_capture_tells_more(tmp_path: Path) -> None:
    installed = [{"name": name, "version": "2"} for name in ("Numpy", "mylib", "pip", "gone")]
    freeze = "numpy==1\n-e /home/ada/mylib\n"
    one = captured(tmp_path, "one", distributions={"found": installed})
    (one / "requirements.txt").write_text(freeze)
    lock = write(make_lock(wheels=(wheel("numpy", "1"),), sources=()), tmp_path / "lock")
    found = compared(one, lock)
    assert [(d.name, d.one, d.other) for d in found.differences if d.kind == "python"] == [
        ("mylib", "2", None)
    ]
    assert unsaid(found)["python", "B does not list them, even if it has them"] == ("pip",)
    assert ("python", "1 more lines of A repeat a name") in unsaid(found)


def test_a_diff_that_could_not_be_taken_is_not_no_change(tmp_path: Path) -> None:
    def one(name: str, reason: str) -> Path:
        diff = {"file": None, "from": "c" * 40, "reason": reason}
        return captured(
            tmp_path, name, repositories=[repository("a", "1" * 40, distributions=["a"], diff=diff)]
        )

    found = compared(one("clean", "done"), one("large", "too-large"))
    assert found.differences == []
    assert unsaid(found)["source", "only A records the changes"] == ("a",)


# --- errors ----------------------------------------------------------------------------------

DAMAGED = "the snapshot is damaged or made to harm: take it again, or get it from where it was taken"
GIVE = (
    "give a snapshot, a lock, an output directory, an image, or the word `here`; `reprobuild compare --help` says"
    " which images"
)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", '{"capture": "1"}', "[" * 100_000, '{"capture": 1, "parts": []}',
        '{"capture": 1, "repositories": [], "parts": {}, "machine": {"limits": {"nofile": ["a", 1]}}}',
        '{"capture": 1, "repositories": [], "parts": {}, "gpu": {"nvidia_smi": "text"}}',
        '{"capture": 1, "repositories": [], "parts": {}, "python": {"version": 3}}',
        '{"capture": 1, "repositories": [], "parts": {"\x1b[31m": 1}}',
    ],
)  # fmt: skip
def test_a_damaged_capture(text: str, tmp_path: Path) -> None:
    one = make_snapshot(tmp_path / "one", env_txt="A=1\n")
    (one / "capture.json").write_text(text)
    with pytest.raises(SnapshotError, match=r"capture\.json: ") as failed:
        compared(one, SNAPSHOT)
    assert failed.value.hint == DAMAGED
    assert "\x1b" not in str(failed.value)


def test_a_capture_of_a_later_version(tmp_path: Path) -> None:
    one = make_snapshot(tmp_path / "one", {"capture": 2}, env_txt="A=1\n")
    with pytest.raises(SnapshotError, match="is of version 2, and this reprobuild reads 1"):
        compared(one, SNAPSHOT)


def test_what_is_no_file_of_the_snapshot(tmp_path: Path) -> None:
    one = make_snapshot(tmp_path / "one", env_txt="A=1\n")
    (one / "folder").mkdir()
    os.mkfifo(one / "pipe")
    for target in ("/etc/hostname", "folder", "pipe", "capture.json", "absent"):
        (one / "capture.json").unlink(missing_ok=True)
        (one / "capture.json").symlink_to(target)
        with pytest.raises(SnapshotError, match=r"capture\.json"):
            compared(one, SNAPSHOT)


def test_nothing_of_that_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is nothing at /nonexistent") as failed:
        compared("/nonexistent", SNAPSHOT)
    assert failed.value.hint == GIVE
    (tmp_path / "text").write_text("a lock?\n")
    with pytest.raises(LockError, match="is not a lock"):
        compared(tmp_path / "text", SNAPSHOT)
    with pytest.raises(UsageError, match="there is no image at an empty name"):
        compared("", SNAPSHOT)


def test_nothing_is_known_of_both(tmp_path: Path) -> None:
    one = make_snapshot(tmp_path / "one", modules_txt="No modules loaded\n")
    with pytest.raises(InconclusiveError, match="nothing is known of both") as failed:
        compared(one, write(make_lock(), tmp_path / "lock"))
    assert failed.value.hint == "take a whole snapshot with `reprobuild capture`"


def test_the_running_environment_cannot_be_captured() -> None:
    with pytest.raises(EngineError):
        compared("here", SNAPSHOT, NOBODY)


# --- hostile ---------------------------------------------------------------------------------


def test_what_steers_a_terminal_is_escaped(tmp_path: Path) -> None:
    bad = "\x1b[2J\u202e\u0085\n"
    entries = [
        file("opt/env/bin/python3", b""),
        *info("x", "1", metadata=f"Name: x{bad[:5]}\nVersion: 1{bad[:5]}\n"),
    ]
    config = {"Env": ["PATH=/opt/env/bin", f"A{bad}B={bad}", "NOTHING"]}
    one = make_layout(tmp_path / "one", entries, config=config)
    found = compared(one, make_layout(tmp_path / "other", entries[:1], config={"Env": ["PATH=/opt/env/bin"]}))
    text = render_comparison(found, everything=True)
    assert len(found.differences) == 3
    assert all(character.isprintable() or character == "\n" for character in text)
    text.encode()


def test_very_many_distributions(tmp_path: Path) -> None:
    rows = [{"name": f"p{number}", "version": "1"} for number in range(20_000)]
    one = make_snapshot(tmp_path / "one", {"distributions": {"found": rows}}, env_txt="A=1\n")
    again = [{"name": "a", "version": str(number)} for number in range(10_000)]
    again.append({"name": "torch", "version": "1"})
    other = make_snapshot(tmp_path / "other", {"distributions": {"found": again}}, env_txt="A=1\n")
    found = compared(one, other)
    assert len(found.only_in_one) == 20_000
    text = render_comparison(found)
    assert text.startswith("likeliest: torch, only in B: 1 (")
    assert f"  ... and {20_000 - SHOWN} more: --verbose or --json lists them" in text.splitlines()
    assert len(text) < 20_000
    assert ("python", "9999 more lines of B repeat a name") in unsaid(found)


def test_a_capture_that_was_made_to_harm(tmp_path: Path) -> None:
    machine = {
        "cpu": {"flags": "a " * 50_000, "model name": "\x1b[2J " + TOKEN},
        "limits": {f"\x1b{number}": [0, 0] for number in range(2_000)},
        "release": {"ID": "\u202e"},
    }
    gpu = {
        "nvidia_smi": ["\x1b, 2, 3"] * 5_000,
        "nvidia_smi_fields": ["name", "driver_version"],
        "driver": "(" * 10_000,
    }
    one = make_snapshot(tmp_path / "one", {"machine": machine, "gpu": gpu}, env_txt="A=1\n")
    other = make_snapshot(tmp_path / "other", {"machine": {}, "gpu": {}}, env_txt="A=1\n")
    found = compared(one, other)
    text = render_comparison(found, everything=True)
    assert len(found.only_in_one) > 2_000
    assert all(character.isprintable() or character == "\n" for character in text)
    assert TOKEN not in text + msgspec.json.encode(found).decode()


def test_every_kind_has_its_words(tmp_path: Path) -> None:
    found = compared(
        make_snapshot(tmp_path / "one", env_txt="A=1\n"), make_snapshot(tmp_path / "two", env_txt="A=1\n")
    )
    assert {item.kind for item in found.not_compared} == set(KINDS) - {"environment", "choices"}
    (line,) = [line for line in render_comparison(found).splitlines() if "neither side records it" in line]
    assert line == (
        "  neither side records it: interpreter; distributions of Python; other packages of conda; "
        "system packages; modules; repositories of what is installed; the job's own repositories; GPU and driver; "
        "processor, kernel and limits; "
        "release of the system; settings of the lock; what the lock was sealed with"
    )


# --- choices of compilers -------------------------------------------------------------------------------


def test_saved_choices_of_output_directories(tmp_path: Path) -> None:
    for name in ("one", "other", "third"):
        write(make_lock(), tmp_path / name / "reprobuild.lock")
    assert compared(tmp_path / "one", tmp_path / "other").is_same
    save_choices(tmp_path / "one")
    (found,) = compared(tmp_path / "one", tmp_path / "other").only_in_one
    assert (found.kind, found.name) == ("choices", "one, 2 processors")
    save_choices(tmp_path / "other", {**CACHE, "inductor/ab/cab.so": b"another kernel"})
    difference = only(compared(tmp_path / "one", tmp_path / "other"))
    assert (difference.kind, difference.aspects) == ("choices", ("sha256",))
    assert difference.group == "choices"
    save_choices(tmp_path / "third")
    assert compared(tmp_path / "one", tmp_path / "third").is_same


def test_no_difference_of_choices_hides_behind_another_record(tmp_path: Path) -> None:
    """A description leaves out the driver, so that several records can have the same one."""
    for name in ("one", "other", "third"):
        write(make_lock(), tmp_path / name / "reprobuild.lock")
        last = save_choices(tmp_path / name)
        for number in range(100 if name != "one" else 0):
            platform = msgspec.structs.replace(PLATFORM, driver=str(number))
            file = save_choices(tmp_path / name, FOREIGN, platform)
            if file.digest < last.digest:  # so that the common record is the last one
                break
            file.record.unlink()
    difference = only(compared(tmp_path / "one", tmp_path / "other"))
    assert (difference.kind, difference.aspects) == ("choices", ("sha256",))
    assert compared(tmp_path / "other", tmp_path / "third").is_same


@pytest.mark.parametrize(
    "changed", [{"driver": "1"}, {"flags": ("avx2", "avx512f")}, {"packages": {"torch": "2.14"}}]
)
def test_exchanged_choices_of_two_platforms_differ(changed: dict[str, Any], tmp_path: Path) -> None:
    """Each directory has both archives, and a run uses the other one of them."""
    platforms = PLATFORM, msgspec.structs.replace(PLATFORM, **changed)
    for name, order in (("one", 1), ("other", -1), ("third", 1)):
        write(make_lock(), tmp_path / name / "reprobuild.lock")
        for platform, contents in zip(platforms, (CACHE, FOREIGN)[::order], strict=True):
            save_choices(tmp_path / name, contents, platform)
    difference = only(compared(tmp_path / "one", tmp_path / "other"))
    assert (difference.kind, difference.name) == ("choices", "one, 2 processors")
    assert compared(tmp_path / "one", tmp_path / "third").is_same


@pytest.mark.parametrize("stated", [{"lock": "9" * 64}, {"image": f"sha256:{'9' * 64}"}])
def test_choices_of_another_image_differ(stated: dict[str, str], tmp_path: Path) -> None:
    for name in ("one", "other"):
        write(make_lock(), tmp_path / name / "reprobuild.lock")
    save_choices(tmp_path / "one")
    save_choices(tmp_path / "other", **stated)
    difference = only(compared(tmp_path / "one", tmp_path / "other"))
    assert (difference.kind, difference.aspects) == ("choices", ("sha256",))


def test_the_first_of_two_records_for_one_platform_counts(tmp_path: Path) -> None:
    for name in ("one", "other", "third"):
        write(make_lock(), tmp_path / name / "reprobuild.lock")
        common = save_choices(tmp_path / name)
        for number in range(100):  # until its record is before the common one, or after it
            sizes = {"inductor": CacheSize(measured=number, compiled=0, files=1)}
            file = save_choices(tmp_path / name, FOREIGN, caches=sizes)
            if (file.digest < common.digest) is (name == "one"):
                break
            file.record.unlink()
    assert only(compared(tmp_path / "one", tmp_path / "other")).kind == "choices"
    assert compared(tmp_path / "other", tmp_path / "third").is_same


def test_facts_that_no_run_looks_at_are_no_difference_of_choices(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write(make_lock(), tmp_path / name / "reprobuild.lock")
    first = save_choices(tmp_path / "one")
    platform = msgspec.structs.replace(PLATFORM, flags=PLATFORM.flags * 2)
    second = save_choices(tmp_path / "other", platform=platform, caches={})
    assert first.digest != second.digest
    assert compared(tmp_path / "one", tmp_path / "other").is_same


def test_a_lock_alone_says_nothing_of_choices(tmp_path: Path) -> None:
    lock = write(make_lock(), tmp_path / "out" / "reprobuild.lock")
    assert "choices" not in {kind for kind, _ in unsaid(compared(lock, tmp_path / "out"))}
    save_choices(tmp_path / "out")
    assert ("choices", "A does not record it") in unsaid(compared(lock, tmp_path / "out"))


def test_a_damaged_record_of_choices_is_an_error(tmp_path: Path) -> None:
    write(make_lock(), tmp_path / "out" / "reprobuild.lock")
    save_choices(tmp_path / "out").record.write_bytes(b"{")
    with pytest.raises(UsageError, match="is damaged, or of another version of reprobuild"):
        compared(tmp_path / "out", tmp_path / "out")
