"""Files that say what conda was asked for: packages as of a day, by rattler, from channels that the tests make."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.errors import FetchError, LockError
from reprobuild.infra.http.client import Net
from reprobuild.lock.file import read_lock
from reprobuild.lock.system import EPOCH
from reprobuild.resolve.as_of import SolvedLines
from reprobuild.resolve.conda.packages import resolve_conda
from reprobuild.resolve.conda.solve_requests import solve_conda_requests
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.line_resolutions import rule_unread
from reprobuild.resolve.readiness import list_questions
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from tests.conda_packages import Spec, index_channel, write_package
from tests.conftest import reprobuild

_DAY = 86_400_000  # in milliseconds, as conda counts


def spec(name: str, version: str, day: int | None, *depends: str, build: str = "0", number: int = 0) -> Spec:
    """Return a package of a day since 1970, with a distribution of its name; `number` is that of the build."""
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    return Spec(
        name=name, version=version, build=build, depends=depends,
        files={f"lib/python3.11/site-packages/{name}-{version}.dist-info/METADATA": metadata},
        index={"timestamp": None if day is None else day * _DAY, "build_number": number},
    )  # fmt: skip


OLD, NEW = 19_000, 20_000  # 2022-01-08 and 2024-10-04
MAIN = (
    spec("python", "3.10.4", OLD, "libzed"), spec("python", "3.11.8", OLD, "libzed"), spec("python", "3.12.1", NEW),
    spec("libzed", "1.0", None), spec("nala", "1.0", OLD, "python >=3.10"), spec("nala", "2.0", NEW, "python >=3.10"),
    spec("six", "1.15.0", OLD), spec("pip", "22.0", OLD, "python"), spec("newglibc", "1.0", OLD, "__glibc >=2.39"),
    spec("python", "3.13.1", NEW, build="0_cp313", number=1), spec("python", "3.13.1", NEW, build="0_cp313t"),
    spec("python-freethreading", "3.13.1", NEW, "python 3.13.1 *_cp313t"),
    spec("torch", "2.0", OLD, build="cpu_0"), spec("torch", "2.0", OLD, "__cuda >=12", build="cuda_1", number=200),
)  # fmt: skip
OTHER = (spec("nala", "1.5", OLD, "python"), spec("extra", "1.0", OLD))


@pytest.fixture(scope="module")
def channels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of two channels."""
    folder = tmp_path_factory.mktemp("channels")
    for name, specs in (("conda-forge", MAIN), ("pytorch", OTHER)):
        for one in specs:
            write_package(one, folder / name)
        index_channel(folder / name)
    return folder


@pytest.fixture
def around(channels: Path, tmp_path: Path) -> ResolveContext:
    (tmp_path / "home").mkdir()
    names = "".join(f"  {name}: {channels.as_uri()}\n" for name in ("conda-forge", "pytorch", "missing"))
    (tmp_path / "home" / ".condarc").write_text(f"custom_channels:\n{names}")
    return ResolveContext(
        store=Store(tmp_path / "store"), net=Net(), folder=tmp_path, now=EPOCH, say=lambda text: None,
        indexes=PackageIndexes(find_links=(), simple=(), credentials={}), env={"HOME": str(tmp_path / "home")},
    )  # fmt: skip


def solve(
    folder: Path, around: ResolveContext, dependencies: Sequence[str], *, channels: Sequence[str] = ("conda-forge",),
    as_of: str = "2023-01-01", python: str | None = None, smi: str = "",
) -> SolvedLines:  # fmt: skip
    """Write the file, and return the snapshot with the packages that were chosen."""
    snapshot = folder / "snapshot"
    snapshot.mkdir(exist_ok=True)
    rows = [
        "channels:",
        *(f"  - {name}" for name in channels),
        "dependencies:",
        *(f"  - {one}" for one in dependencies),
    ]
    (snapshot / "environment.yml").write_text("".join(f"{row}\n" for row in rows))
    if smi:
        (snapshot / "nvidia-smi.txt").write_text(smi)
    return solve_conda_requests(
        read_snapshot(snapshot), Decisions(as_of=as_of or None, python=python), "linux/amd64", around
    )


def versions(solved: SolvedLines) -> dict[str, str]:
    return {one.name: one.version for one in solved.snapshot.conda}


def test_packages_are_those_of_the_day(around: ResolveContext, tmp_path: Path) -> None:
    solved = solve(tmp_path, around, ["python=3.11", "nala", "pip: [six==1.16.0]"])
    assert versions(solved) == {"libzed": "1.0", "nala": "1.0", "pip": "22.0", "python": "3.11.8"}
    assert [(one.name, one.version) for one in solved.snapshot.requirements] == [("six", "1.16.0")]
    assert rule_unread(solved.snapshot) == []
    assert solved.reasons["nala"] == "as of the end of 2023-01-01 (--as-of), rattler chose 1.0 0 for `nala`"
    assert solved.reasons["libzed"].endswith("rattler chose 1.0 0: other packages need it")
    places = {one.name: str(one.place) for one in solved.snapshot.conda}
    assert (places["nala"], places["libzed"]) == ("environment.yml:5", "solved:1")
    later = solve(tmp_path, around, ["python=3.11", "nala"], as_of="2025-01-01")
    assert versions(later)["nala"] == "2.0"


def test_the_files_are_fetched_and_each_line_is_solved(around: ResolveContext, tmp_path: Path) -> None:
    solved = solve(tmp_path, around, ["python=3.11", "nala"])
    conda = resolve_conda(solved.snapshot, Decisions(), "linux/amd64", solved.snapshot.requirements, around)
    assert conda is not None
    assert conda.interpreter.version == "3.11.8"
    rulings = solved.mark(conda.rulings)
    assert {(one.subject, one.outcome, one.kind) for one in rulings} == {
        (name, "solved", "solved") for name in ("libzed", "nala", "pip", "python")
    }
    assert {one.channel for one in conda.packages} == {"conda-forge"}


@pytest.mark.parametrize(
    ("nala", "named", "version"),
    [
        ("nala", ["conda-forge", "pytorch"], "1.0"), ("nala", ["pytorch", "conda-forge"], "1.5"),
        ("pytorch::nala", ["conda-forge", "pytorch"], "1.5"),
        ("pytorch::nala", ["conda-forge"], "1.5"),  # conda adds the channel of a requirement
    ],
)  # fmt: skip
def test_channels_come_in_the_order_of_the_file(
    nala: str, named: list[str], version: str, around: ResolveContext, tmp_path: Path
) -> None:
    solved = solve(tmp_path, around, ["python=3.11", nala], channels=named)
    assert [(one.version, one.place.file) for one in solved.snapshot.conda if one.name == "nala"] == [
        (version, "environment.yml")
    ]


def test_channels_of_the_machine_come_after_those_of_the_file(
    channels: Path, around: ResolveContext, tmp_path: Path
) -> None:
    with (tmp_path / "home" / ".condarc").open("a") as stream:
        stream.write("channels:\n  - pytorch\n")
    assert versions(solve(tmp_path, around, ["python=3.11", "nala", "extra"])) == {
        "extra": "1.0", "libzed": "1.0", "nala": "1.0", "pip": "22.0", "python": "3.11.8",
    }  # fmt: skip


def test_nodefaults_leaves_out_the_channels_of_the_machine(
    channels: Path, around: ResolveContext, tmp_path: Path
) -> None:
    with (tmp_path / "home" / ".condarc").open("a") as stream:
        stream.write("channels:\n  - pytorch\n")
    names = ["conda-forge", "nodefaults"]
    assert versions(solve(tmp_path, around, ["python=3.11", "nala"], channels=names))["nala"] == "1.0"
    with pytest.raises(LockError, match="No candidates were found for extra"):
        solve(tmp_path, around, ["python=3.11", "extra"], channels=names)
    with pytest.raises(LockError, match="the file excludes the channels of this machine") as caught:
        solve(tmp_path, around, ["python=3.11"], channels=["nodefaults"])
    assert caught.value.hint == "name the channels of its packages: --channel NAME"
    snapshot = read_snapshot(tmp_path / "snapshot")
    decisions = Decisions(as_of="2023-01-01", channels=("conda-forge",))
    solved = solve_conda_requests(snapshot, decisions, "linux/amd64", around)
    assert versions(solved)["python"] == "3.11.8"


def test_packages_on_one_line_have_places_of_their_own(around: ResolveContext, tmp_path: Path) -> None:
    folder = tmp_path / "snapshot"
    folder.mkdir()
    (folder / "environment.yml").write_text("dependencies: [python=3.11, nala, libzed, pip: [idna==3.7]]\n")
    decisions = Decisions(as_of="2023-01-01", channels=("conda-forge",))
    solved = solve_conda_requests(read_snapshot(folder), decisions, "linux/amd64", around)
    assert len({one.place for one in solved.snapshot.conda}) == len(solved.snapshot.conda) == 4


def test_without_a_day_nothing_is_chosen(around: ResolveContext, tmp_path: Path) -> None:
    solved = solve(tmp_path, around, ["python=3.11", "nala"], as_of="")
    assert (solved.reasons, solved.snapshot.conda) == ({}, ())
    assert [one.subject for one in rule_unread(solved.snapshot)] == ["nala"]


def test_the_python_of_the_user_is_chosen(around: ResolveContext, tmp_path: Path) -> None:
    assert versions(solve(tmp_path, around, ["nala"], python="3.10"))["python"] == "3.10.4"
    assert versions(solve(tmp_path, around, ["nala"], python="3.10.4"))["python"] == "3.10.4"
    assert versions(solve(tmp_path, around, ["libzed"]))["python"] == "3.11.8"  # an environment has one


@pytest.mark.parametrize(
    ("python", "build"), [("3.13", "0_cp313"), ("3.13t", "0_cp313t"), ("3.13.1t", "0_cp313t")]
)
def test_a_python_without_the_global_lock_is_a_build_of_its_own(
    python: str, build: str, around: ResolveContext, tmp_path: Path
) -> None:
    solved = solve(tmp_path, around, ["six"], as_of="2025-01-01", python=python)
    assert [one.build for one in solved.snapshot.conda if one.name == "python"] == [build]


def test_a_package_with_its_build_stays(around: ResolveContext, tmp_path: Path) -> None:
    solved = solve(tmp_path, around, ["python=3.10.4=0", "nala"])
    assert versions(solved)["python"] == "3.10.4"
    assert "python" not in solved.reasons


SMI = "| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4     |\n"


def test_a_gpu_is_that_of_the_captured_driver(around: ResolveContext, tmp_path: Path) -> None:
    def build(context: ResolveContext, smi: str = "") -> str | None:
        solved = solve(tmp_path, context, ["python", "torch"], smi=smi)
        return next(one.build for one in solved.snapshot.conda if one.name == "torch")

    said: list[str] = []
    assert build(msgspec.structs.replace(around, say=said.append)) == "cpu_0"
    assert any("CONDA_OVERRIDE_CUDA=12.4 chooses those for a driver of CUDA 12.4" in row for row in said)
    assert (
        build(msgspec.structs.replace(around, env={**around.env, "CONDA_OVERRIDE_CUDA": "12.4"})) == "cuda_1"
    )
    assert build(around, SMI) == "cuda_1"


@pytest.mark.parametrize(
    ("dependencies", "why", "hint"),
    [
        (["python=3.9"], "No candidates were found for python 3.9", "choose a later date"),
        (["python=3.11", "newglibc"], "__glibc", "choose a later date, name a channel that has it"),
        (["python=3.11", "torch=2.0=cuda_1"], "__cuda", "name the CUDA of the driver: CONDA_OVERRIDE"),
        (["python=3.11", "b@d"], "b@d", "or correct the line"),
        (["python=3.11", "missing"], "missing", "(--channel NAME)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(
    dependencies: list[str], why: str, hint: str, around: ResolveContext, tmp_path: Path
) -> None:
    with pytest.raises(LockError) as caught:
        solve(tmp_path, around, dependencies)
    assert "no packages of conda as of the end of 2023-01-01 (--as-of) fit together\n" in str(caught.value)
    assert why in str(caught.value)
    assert hint in caught.value.hint


def test_what_the_hints_name_is_followed(around: ResolveContext, tmp_path: Path) -> None:
    override = msgspec.structs.replace(around, env={**around.env, "CONDA_OVERRIDE_CUDA": "12.4"})
    assert versions(solve(tmp_path, override, ["python=3.11", "torch=2.0=cuda_1"]))["torch"] == "2.0"
    assert versions(solve(tmp_path, around, ["python=3.12"], as_of="2025-01-01"))["python"] == "3.12.1"
    assert versions(solve(tmp_path, around, ["python=3.11", "extra"], channels=["conda-forge", "pytorch"]))[
        "extra"
    ]


def test_no_channel_no_network_and_a_foreign_directory(
    channels: Path, around: ResolveContext, tmp_path: Path
) -> None:
    with pytest.raises(
        FetchError, match="as of a date are chosen on the channels, and --offline forbids it"
    ) as lost:
        solve(tmp_path, msgspec.structs.replace(around, net=Net(offline=True)), ["python"])
    assert lost.value.hint == "leave --offline out, or capture the environment with `conda env export`"
    with pytest.raises(FetchError, match="no channel of conda is at file:///") as lost:
        solve(tmp_path, around, ["python"], channels=["missing"])
    assert lost.value.hint == "name a channel that this machine reaches: --channel NAME or --channel URL"
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    with pytest.raises(
        LockError, match="a snapshot opens no directory of this machine as a channel"
    ) as caught:
        solve(tmp_path, around, ["python"], channels=[foreign.as_uri()])
    assert caught.value.hint == f"--channel {foreign.as_uri()}"


def test_a_file_names_fifty_channels_at_most(around: ResolveContext, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    with (tmp_path / "home" / ".condarc").open("a") as stream:
        stream.write(f"channel_alias: {nowhere.as_uri()}\n")
    names = ["conda-forge", *(f"c{number}" for number in range(50))]
    with pytest.raises(
        LockError, match="51 channels are named for the packages of conda, and at most 50 are asked"
    ) as caught:
        solve(tmp_path, around, ["python=3.11"], channels=names)
    assert caught.value.hint == "leave out the channels that have none of the packages"
    assert versions(solve(tmp_path, around, ["python=3.11"], channels=names[:50]))["python"] == "3.11.8"


def test_a_solution_that_takes_too_long_is_an_error(
    around: ResolveContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reprobuild.ecosystems.conda.solve._SECONDS", 0.01)
    with pytest.raises(
        FetchError, match=r"the packages of conda cannot be chosen: .* did not end within"
    ) as caught:
        solve(tmp_path, around, ["python"])
    assert caught.value.hint == "a channel is broken, or no channel; name another with `--channel URL`"


@pytest.mark.parametrize(
    "package",
    [
        {"channel": "elsewhere"}, {"subdir": "osx-64"}, {"filename": "other-1.0-0.conda"}, {"filename": "../x"},
        {"version": "1;2"},
    ],
)  # fmt: skip
def test_an_answer_that_is_no_package_of_a_channel_is_refused(
    package: Mapping[str, str], around: ResolveContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A channel's list chooses the words of its records."""
    answer = {
        "name": "nala", "version": "1.0", "build": "0", "filename": "nala-1.0-0.conda", "channel": "conda-forge",
        "subdir": "linux-64", **package,
    }  # fmt: skip
    monkeypatch.setattr(
        "reprobuild.ecosystems.conda.solve.run_rattler", lambda *_, **__: {"packages": [answer]}
    )
    with pytest.raises(FetchError, match=r"is no package nala of a channel|cannot be chosen"):
        solve(tmp_path, around, ["nala"])


def test_a_file_is_locked_by_what_show_proposes(
    channels: Path, around: ResolveContext, tmp_path: Path
) -> None:
    path = tmp_path / "environment.yml"
    path.write_text(
        "channels: [conda-forge]\ndependencies:\n  - python=3.11\n  - nala\n  - pip\n  - pip: [six==1.16.0]\n"
    )
    env = {**os.environ, **around.env}
    shown = reprobuild("show", path, env=env).stdout
    assert (
        "1 package asked of conda (nala), and no file says what conda installed: run `conda env export > "
        "environment.yml` in the environment that ran; without that file, versions as of a day: --as-of DATE"
    ) in shown
    assert "Python: " not in shown.partition("can be frozen")[2]
    words = shlex.split(shown.rpartition("next: reprobuild from-snapshot ")[2].replace("DATE", "2023-01-01"))
    options = [word for word in words[1:] if word not in ("-o", "frozen")]
    store = ("--store", tmp_path / "store", "-o", tmp_path / "lock")
    locked = reprobuild("lock", path, *options, *store, env=env)
    assert locked.returncode == 0, locked.stderr
    lock = read_lock(tmp_path / "lock")
    assert [f"{one.name} {one.version}" for one in lock.conda] == [
        "libzed 1.0",
        "nala 1.0",
        "pip 22.0",
        "python 3.11.8",
    ]
    assert [wheel.name for wheel in lock.wheels] == ["six"]
    assert lock.decisions.as_of == "2023-01-02T00:00:00Z"
    solved = {one.subject for one in lock.rulings if one.outcome == "solved"}
    assert solved == {"libzed", "nala", "pip", "python"}
    answered = reprobuild("show", path, *options, env=env).stdout
    assert "can be frozen: yes" in answered


@pytest.mark.parametrize(
    "rows", ["- nala\n", "- python\n- nala\n", "- python=3.11\n- nala\n", "- nala\n- pip: [six]\n"]
)
def test_a_day_answers_for_the_python_and_the_list_too(rows: str, tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(f"dependencies:\n{rows}")
    snapshot = read_snapshot(tmp_path)
    options = dict.fromkeys(
        option for question in list_questions(snapshot, Decisions()) for option in question.options
    )
    assert [*options] == ["--as-of DATE", "--accept no-apt-list"]
    answered = Decisions(as_of="2023-01-01", accept=("no-apt-list",))
    assert list_questions(snapshot, answered) == ()


def test_without_the_requests_the_python_is_a_question(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text("dependencies:\n- nala\n- pip: [six==1.16.0]\n")
    questions = list_questions(read_snapshot(tmp_path), Decisions(accept=("conda-request", "no-apt-list")))
    assert [question.text.partition(":")[0] for question in questions] == ["Python"]


def test_pip_installs_no_other_version_of_what_conda_has(
    channels: Path, around: ResolveContext, tmp_path: Path
) -> None:
    """python-dateutil needs six, which is conda's here."""
    path = tmp_path / "environment.yml"
    path.write_text(
        "channels: [conda-forge]\ndependencies:\n- python=3.11\n- six\n- pip: [python-dateutil]\n"
    )
    locked = reprobuild(
        "lock", path, "--accept", "no-apt-list", "--as-of", "2023-01-01", "--store", tmp_path / "store",
        "-o", tmp_path / "lock", env={**os.environ, **around.env},
    )  # fmt: skip
    assert locked.returncode == 0, locked.stderr
    lock = read_lock(tmp_path / "lock")
    assert [wheel.name for wheel in lock.wheels] == ["python-dateutil"]
    assert {one.name: one.version for one in lock.conda}["six"] == "1.15.0"
