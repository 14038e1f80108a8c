"""Which Python it was: evidence, evidence that contradicts itself, none, and the user's word."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec
import pytest

from reprobuild.errors import LockError
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Interpreter
from reprobuild.lock.system import STANDALONE, Artefact, Base, Deb
from reprobuild.resolve.acceptance import accept_deviations
from reprobuild.resolve.interpreter.choice import (
    InterpreterChoice,
    choose_build,
    finalise_interpreter,
    resolve_interpreter,
    rule_guessed_python,
)
from reprobuild.resolve.interpreter.evidence import describe_unused_modules, gather_evidence
from reprobuild.resolve.interpreter.standalone import Build, NoBuildError
from reprobuild.snapshot.model import Snapshot, SystemPackage, Variable
from reprobuild.snapshot.parsers import capture_json_report, collect_env, env, modules, rpm
from reprobuild.snapshot.parsers import conda_list as conda
from tests.resolve.repositories import requirement
from tests.system.samples import package

SAY = "say it: --python X.Y.Z, or `python:` in reprobuild.yaml"
APT = (package("python3.11", "3.11.2-6+deb12u3"), package("python3", "3.11.2-1+b1"))
BOTH = (*APT, package("python3.12", "3.12.4-1+jammy1"), package("python3.12-minimal", "3.12.4-1+jammy1"))


def snapshot(*packages: SystemPackage, module: str = "", conda: bool = False) -> Snapshot:
    loaded, _ = modules.parse(f"Currently Loaded Modules:\n  1) {module}\n".encode()) if module else ((), ())
    lines = (requirement("tool @ file:///croot/tool_1700000000000/work"),) if conda else ()
    return Snapshot(digest="", packages=packages, modules=loaded, requirements=lines)


def found(version: str, minor: str, evidence: str) -> Interpreter:
    return Interpreter(version=version, executable=f"/usr/bin/python{minor}", evidence=evidence)


def alone(version: str, evidence: str) -> Interpreter:
    """Return a standalone build that is still to be found."""
    minor = ".".join(version.split(".")[:2])
    executable = f"{STANDALONE}/bin/python{minor}"
    return Interpreter(version=version, executable=executable, evidence=evidence, kind="standalone")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (snapshot(*APT), found("3.11.2", "3.11", "apt-packages.txt lists python3.11")),
        (snapshot(package("python3.10-minimal", "3.10.12-1~22.04.3")),
         found("3.10.12", "3.10", "apt-packages.txt lists python3.10")),
        (snapshot(*BOTH), found("3.11.2", "3.11", "apt-packages.txt lists python3.11")),
        (snapshot(APT[0], package("python3.9", "3.9.2-1", "residual")),
         found("3.11.2", "3.11", "apt-packages.txt lists python3.11")),
        (snapshot(*BOTH, module="Python/3.12.4-GCCcore-13.2.0"),
         found("3.12.4", "3.12", "module Python/3.12.4-GCCcore-13.2.0, modules.txt:2")),
        (snapshot(*APT, module="python/3"), found("3.11.2", "3.11", "apt-packages.txt lists python3.11")),
        (snapshot(*APT, module="ipython/3.9.1"), found("3.11.2", "3.11", "apt-packages.txt lists python3.11")),
    ],
)  # fmt: skip
def test_the_systems_python(given: Snapshot, expected: Interpreter) -> None:
    assert resolve_interpreter(gather_evidence(given), None) == expected


@pytest.mark.parametrize(
    ("given", "said", "hint"),
    [
        (snapshot(), "no file of the snapshot shows which Python it was", SAY),
        (snapshot(package("libpython3.11-stdlib", "3.11.2-6")), "no file of the snapshot shows which", SAY),
        (snapshot(*BOTH[2:], package("python3.10", "3.10.1-1")),
         "the system has several Pythons: 3.12.4, 3.10.1", SAY),
        (snapshot(*APT, conda=True),
         "the environment ran Python of conda, unknown (requirements.txt:1 was built by", SAY),
    ],
)  # fmt: skip
def test_what_evidence_cannot_decide(given: Snapshot, said: str, hint: str) -> None:
    with pytest.raises(LockError) as caught:
        resolve_interpreter(gather_evidence(given), None)
    assert said in str(caught.value)
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("given", "decided", "version"),
    [
        (snapshot(*APT), "3.11", "3.11.2"),
        (snapshot(*APT), "3.11.2", "3.11.2"),
        (snapshot(*BOTH), "3.12", "3.12.4"),
        (snapshot(*APT, module="python/3.10.4"), "3.11", "3.11.2"),  # a module may be loaded and not be used
        (snapshot(*APT, conda=True), "3.11", "3.11.2"),
        (snapshot(), "3.11", "3.11"),
        (snapshot(), "3.11.9", "3.11.9"),
    ],
)
def test_the_users_word(given: Snapshot, decided: str, version: str) -> None:
    minor = ".".join(version.split(".")[:2])
    assert resolve_interpreter(gather_evidence(given), decided) == found(
        version, minor, "decided by the user"
    )


@pytest.mark.parametrize("decided", ["3", "2.7", "3t", "3.x", "python3.11", "3.11.2rc1", ""])
def test_what_is_no_version(decided: str) -> None:
    with pytest.raises(LockError, match="is not a version of Python") as caught:
        resolve_interpreter(gather_evidence(snapshot(*APT)), decided)
    assert caught.value.hint == "write it as 3.11 or 3.11.2"


@pytest.mark.parametrize(
    ("given", "decided", "version"),
    [
        (snapshot(*APT), "3.11.9", "3.11.9"),
        (snapshot(*APT), "3.12", "3.12"),
        (snapshot(*APT), "3.12.1", "3.12.1"),
    ],
)
def test_the_users_word_that_the_system_has_not(given: Snapshot, decided: str, version: str) -> None:
    assert resolve_interpreter(gather_evidence(given), decided) == alone(version, "decided by the user")


def seen(
    *packages: SystemPackage,
    conda_list: str = "",
    report: str = "",
    capture: str = "",
    module: str = "",
    built: bool = False,
) -> Snapshot:
    listed = conda.parse(conda_list.encode(), "conda-list.txt")[0] if conda_list else ()
    reports = collect_env.parse(f"PyTorch version: 2\n{report}\n".encode())[0] if report else ()
    if capture:
        taken = f'{{"capture": 1, "python": {{"version": "{capture}", "implementation": "CPython"}}}}'
        reports = (*reports, *capture_json_report.parse(taken.encode())[0])
    return msgspec.structs.replace(
        snapshot(*packages, module=module, conda=built), conda=listed, reports=reports
    )


@pytest.mark.parametrize(
    ("given", "evidence"),
    [
        (seen(*APT, conda_list="python 3.11.2 h955ad1f_0"), "conda's python, conda-list.txt:1"),
        (seen(*APT, conda_list="python 3.11.2 h1_0", built=True), "conda's python, conda-list.txt:1"),
        (seen(*APT, report="Python version: 3.11.2 (main) [GCC]"), "collect_env, collect_env.txt:2"),
        (seen(*APT, capture="3.11.2"), "capture, capture.json:1"),
        (seen(*APT, report="Python version: 3.11 (64-bit runtime)", conda_list="python 3.11.2 h1_0"),
         "conda's python, conda-list.txt:1"),
        (seen(*APT, report="Python version: 3.11 (64-bit runtime)"), "collect_env, collect_env.txt:2"),
        (seen(*APT, capture="3.11.2", module="python/3.11.2"), "capture, capture.json:1"),
        (seen(*APT, capture="3.11.2", module="python/3.10.4"), "capture, capture.json:1"),
        (seen(*APT, conda_list="python 3.11.2 h1_0", module="Python/3.9.6-GCCcore-11.2.0"),
         "conda's python, conda-list.txt:1"),
        (seen(*APT, conda_list="python 3.12.4 pypi_0 pypi\npython-dateutil 2.9 py_0"),
         "apt-packages.txt lists python3.11"),
    ],
)  # fmt: skip
def test_what_saw_the_interpreter(given: Snapshot, evidence: str) -> None:
    assert resolve_interpreter(gather_evidence(given), None) == found("3.11.2", "3.11", evidence)


@pytest.mark.parametrize(
    ("given", "said", "hint"),
    [
        (snapshot(*APT, module="python/3.10.4   2) Python/3.9.6-GCCcore-11.2.0"), "the snapshot shows two Pythons: "
         "3.10.4 (module python/3.10.4, modules.txt:2) and 3.9.6 (module Python/3.9.6-GCCcore-11.2.0, modules.txt:2)",
         SAY),
        (seen(*APT, conda_list="python 3.11.2 h1_0", report="Python version: 3.1"), "two Pythons: 3.11.2 ("
         "conda's python, conda-list.txt:1) and 3.1 (collect_env, collect_env.txt:2)", SAY),
        (seen(*APT, capture="3.11.2", report="Python version: 3.11.3 (main)"), "two Pythons: 3.11.3 (collect_env", SAY),
    ],
)  # fmt: skip
def test_what_saw_two_interpreters(given: Snapshot, said: str, hint: str) -> None:
    with pytest.raises(LockError) as caught:
        resolve_interpreter(gather_evidence(given), None)
    assert said in str(caught.value)
    assert caught.value.hint.startswith(hint)
    assert resolve_interpreter(gather_evidence(given), "3.11").evidence == "decided by the user"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (seen(*APT, conda_list="python 3.11.5 h1_0"), alone("3.11.5", "conda's python, conda-list.txt:1")),
        (seen(*APT, report="Python version: 3.9"), alone("3.9", "collect_env, collect_env.txt:2")),
        (seen(package("bash", "5"), capture="3.12.1"), alone("3.12.1", "capture, capture.json:1")),
        (snapshot(*APT, module="python/3.10.4"), alone("3.10.4", "module python/3.10.4, modules.txt:2")),
        (snapshot(*APT, module="cray-python/3.9.13.1"),
         alone("3.9.13", "module cray-python/3.9.13.1, modules.txt:2")),
        (seen(capture="3.12.1"), found("3.12.1", "3.12", "capture, capture.json:1")),
    ],
)  # fmt: skip
def test_another_python_than_the_systems(given: Snapshot, expected: Interpreter) -> None:
    """A standalone build of it; without a package list the release's own is compared first."""
    assert resolve_interpreter(gather_evidence(given), None) == expected


def test_another_minor_version_than_the_one_that_ran_is_an_error() -> None:
    with pytest.raises(
        LockError,
        match=r"Python 3\.12 was decided, and the environment ran 3\.11\.7 \(capture, capture\.json:1\)",
    ) as caught:
        resolve_interpreter(gather_evidence(seen(*BOTH, capture="3.11.7")), "3.12")
    assert caught.value.hint == "another minor version is another environment: --python 3.11.7"


BUILD = Artefact(filename="cpython.tar.gz", sha256="1" * 64, size=1)


def find(version: str) -> Build:
    """Know the builds of Python 3.11 from 3.11.4 on."""
    if version in ("3.11", "3.11t"):
        return Build(version="3.11.18", file=BUILD)
    if version.startswith("3.11.") and int(version.rpartition(".")[2].removesuffix("t")) >= 4:
        return Build(version=version, file=BUILD)
    raise NoBuildError(f"uv knows no standalone build of Python {version} for x86_64", hint="name a mirror")


def based(version: str, name: str = "python3.11") -> Base:
    file = Artefact(filename="x.deb", sha256="0" * 64, size=1)
    deb = Deb(name=name, version=version, architecture="amd64", essential=False, file=file)
    return Base(distribution="debian", release="bookworm", packages=(deb,))


def chosen(given: Snapshot, decided: str | None, base: Base) -> InterpreterChoice:
    evidence = gather_evidence(given)
    choice = choose_build(resolve_interpreter(evidence, decided), evidence, find)
    return finalise_interpreter(choice, base, evidence, find)


@pytest.mark.parametrize(
    ("given", "decided", "base", "kind", "version"),
    [
        (snapshot(*APT), None, "3.11.2-6+deb12u6", "system", "3.11.2"),
        (snapshot(*APT), "3.11", "3.11.2-6", "system", "3.11.2"),
        (snapshot(*APT), "3.11.9", "3.11.2-6", "standalone", "3.11.9"),
        (snapshot(package("bash", "5")), "3.11", "3.11.2-6", "standalone", "3.11.18"),
        (seen(*APT, capture="3.11.7"), None, "3.11.2-6", "standalone", "3.11.7"),
        (seen(*APT, capture="3.11.7"), "3.11.7", "3.11.2-6", "standalone", "3.11.7"),
        (seen(package("bash", "5"), capture="3.11.7"), "3.11", "3.11.2-6", "standalone", "3.11.7"),
        (seen(capture="3.11.2"), None, "3.11.2-6", "system", "3.11.2"),
        (seen(capture="3.11.7"), None, "3.11.2-6", "standalone", "3.11.7"),
        (snapshot(), "3.11", "1:3.11.2-6", "system", "3.11.2"),
        (snapshot(), "3.11.9", "3.11.2-6", "standalone", "3.11.9"),
        (snapshot(package("python3.11", "3.11.7-1")), None, "3.11.9-2", "standalone", "3.11.7"),
    ],
)
def test_the_exact_version(given: Snapshot, decided: str | None, base: str, kind: str, version: str) -> None:
    choice = chosen(given, decided, based(base))
    assert (choice.interpreter.kind, choice.interpreter.version) == (kind, version)
    assert (choice.interpreter.file is not None) == (kind == "standalone")
    assert choice.rulings == ()


@pytest.mark.parametrize(
    ("given", "decided", "version", "place", "reason"),
    [
        (seen(*APT, capture="3.11.7"), "3.11", "3.11.2", "capture.json:1",
         "the environment ran Python 3.11.7 (capture, capture.json:1), and the image has 3.11.2: decided by the user"),
        (seen(*APT, capture="3.11.7"), "3.11.9", "3.11.9", "capture.json:1", "and the image has 3.11.9: decided by"),
        (seen(*APT, capture="3.11.1"), None, "3.11.2", "capture.json:1",
         "and the image has 3.11.2: uv knows no standalone build of Python 3.11.1 for x86_64"),
        (seen(capture="3.11.1"), None, "3.11.2", "capture.json:1", "and the image has 3.11.2: uv knows no standalone"),
        (seen(capture="3.11.7"), "3.11", "3.11.2", "capture.json:1", "and the image has 3.11.2: decided by the user"),
        (snapshot(package("python3.11", "3.11.1-1")), None, "3.11.2", "python:0",
         "the environment ran Python 3.11.1 (apt-packages.txt lists python3.11), and the image has 3.11.2: uv knows"),
        (snapshot(*APT), "3.11.1", "3.11.2", "python:0",
         "Python 3.11.1 was decided, and no published build of it was found: the image has 3.11.2: uv knows"),
    ],
)  # fmt: skip
def test_another_patch_release_is_a_deviation(
    given: Snapshot, decided: str | None, version: str, place: str, reason: str
) -> None:
    choice = chosen(given, decided, based("3.11.2-6"))
    assert choice.interpreter.version == version
    (ruling,) = choice.rulings
    assert (ruling.subject, ruling.outcome, ruling.kind) == ("python", "replaced", "python-patch")
    assert f"{ruling.file}:{ruling.line}" == place
    assert reason in ruling.reason


@pytest.mark.parametrize("given", [snapshot(*APT), seen(*APT, capture="3.11.2"), snapshot()])
def test_a_chosen_patch_release_that_cannot_be_had_is_no_captured_line(given: Snapshot) -> None:
    """The hint is followed: its option has no deviation."""
    (ruling,) = chosen(given, "3.11.1", based("3.11.2-6")).rulings
    assert ruling.place == "python"
    with pytest.raises(LockError, match=r"^the chosen Python cannot be repeated exactly:\n") as caught:
        accept_deviations([ruling], [])
    first = caught.value.hint.splitlines()[0]
    assert first == "for any patch release: --python 3.11"
    assert chosen(given, first.rpartition(" ")[2], based("3.11.2-6")).rulings == ()
    line = Resolution(
        file="requirements.txt", line=1, subject="a", outcome="unresolved", reason="", kind="no-wheel"
    )
    with pytest.raises(
        LockError, match=r"^1 captured line and the chosen Python cannot be repeated exactly:"
    ):
        accept_deviations([line, ruling], [])


@pytest.mark.parametrize(("decided", "option"), [("3.11.1", "3.11"), ("3.11.1t", "3.11t")])
def test_a_chosen_patch_release_without_a_build_has_a_minor_version_that_has_one(
    decided: str, option: str
) -> None:
    evidence = gather_evidence(snapshot(package("bash", "5")))
    assert (
        choose_build(resolve_interpreter(evidence, option), evidence, find).interpreter.version == "3.11.18"
    )
    with pytest.raises(LockError) as caught:
        choose_build(resolve_interpreter(evidence, decided), evidence, find)
    assert caught.value.hint == f"for any patch release: --python {option}\nname a mirror"
    evidence = gather_evidence(seen(package("bash", "5"), capture="3.11.1"))
    with pytest.raises(LockError) as caught:  # the environment ran this release, so any other is another one
        choose_build(resolve_interpreter(evidence, "3.11.1"), evidence, find)
    assert caught.value.hint == "name a mirror"


def test_no_build_and_no_python_of_the_system() -> None:
    evidence = gather_evidence(seen(*APT, capture="3.12.1"))
    with pytest.raises(
        LockError,
        match=r"Python 3\.12\.1 \(capture, capture\.json:1\) is not among the captured packages, and uv knows no",
    ) as caught:
        choose_build(resolve_interpreter(evidence, None), evidence, find)
    assert caught.value.hint == "name a mirror"


@pytest.mark.parametrize(
    ("listed", "version"),
    [
        ("python3 3.9.18-3.el9 x86_64", "3.9.18"),
        ("python3.11 3.11.7-1.el9 x86_64\nbash 5.1-2.el9 x86_64", "3.11.7"),
        ("python3 1:3.9.18-3.el9 x86_64\npython3.11 3.11.7-1.el9 x86_64", "3.9.18"),
        ("python3 3.11.7-1 x86_64\npython3.11 3.11.7-1 x86_64", "3.11.7"),
    ],
)
def test_the_python_of_an_rpm_host(listed: str, version: str) -> None:
    rpms, _ = rpm.parse(f"{listed}\n".encode())
    assert resolve_interpreter(gather_evidence(Snapshot(digest="", rpms=rpms)), None).version == version


def test_two_pythons_of_an_rpm_host() -> None:
    rpms, _ = rpm.parse(b"python3.11 3.11.7-1.el9 x86_64\npython3.12 3.12.1-1.el9 x86_64\n")
    with pytest.raises(LockError, match="no file of the snapshot shows which") as caught:
        resolve_interpreter(gather_evidence(Snapshot(digest="", rpms=rpms)), None)
    assert caught.value.hint == SAY


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (seen(conda_list="python 3.11.2 h1_0", module="python/3.10.4"),
         ["module python/3.10.4, modules.txt:2 was loaded, and the environment ran Python 3.11.2 (conda's python, "
          "conda-list.txt:1)"]),
        (seen(conda_list="python 3.11.2 h1_0", module="python/3.11.2"), []),
        (snapshot(*APT, module="python/3.10.4"), []),  # nothing else tells what ran
    ],
)  # fmt: skip
def test_a_module_that_was_loaded_and_did_not_run_is_said(given: Snapshot, said: list[str]) -> None:
    assert list(describe_unused_modules(gather_evidence(given))) == said


def free(*packages: SystemPackage, listed: str = "", version: str = "3.13.1") -> Snapshot:
    """Return a snapshot whose capture, or list of conda, was of a free-threaded Python."""
    if listed:
        return seen(*packages, conda_list=listed)
    taken = f'{{"capture": 1, "python": {{"version": "{version}", "implementation": "CPython", "abiflags": "t"}}}}'
    reports, _ = capture_json_report.parse(taken.encode())
    return msgspec.structs.replace(snapshot(*packages), reports=reports)


SYS_VERSION = "3.13.1 experimental free-threading build (main, Dec 19 2024) [GCC 13.3.0] (64-bit runtime)"
PLAIN_13 = package("python3.13", "3.13.1-1")


@pytest.mark.parametrize(
    "given",
    [
        free(PLAIN_13), free(), seen(PLAIN_13, report=f"Python version: {SYS_VERSION}"),
        free(PLAIN_13, listed="python 3.13.1 h9a34b6e_5_cp313t conda-forge"),
        free(PLAIN_13, listed="python=3.13.1\npython-freethreading 3.13.1 h92d6c8b_0 conda-forge"),
    ],
)  # fmt: skip
def test_a_free_threaded_python_is_no_ordinary_one(given: Snapshot) -> None:
    wanted = resolve_interpreter(gather_evidence(given), None)
    assert (wanted.version, wanted.kind, wanted.executable) == (
        "3.13.1",
        "standalone",
        "/opt/python/bin/python3.13t",
    )
    asked = []

    def known(version: str) -> Build:
        asked.append(version)
        return Build(version="3.13.1", file=BUILD)

    evidence = gather_evidence(given)
    choice = finalise_interpreter(
        choose_build(wanted, evidence, known), based("3.13.1-1", "python3.13"), evidence, known
    )
    assert (asked, choice.interpreter.file, choice.rulings) == (["3.13.1t"], BUILD, ())
    with pytest.raises(
        LockError, match=r"3\.13\.1 \(.*\) is free-threaded, which no package .* is, and uv"
    ) as caught:
        choose_build(wanted, evidence, find)  # though the system has an ordinary 3.13.1
    assert caught.value.hint == "name a mirror"


def test_the_users_word_on_free_threading() -> None:
    assert resolve_interpreter(gather_evidence(free(PLAIN_13)), "3.13.1t").free_threaded
    assert (
        resolve_interpreter(gather_evidence(snapshot(PLAIN_13)), "3.13t").executable
        == "/opt/python/bin/python3.13t"
    )
    with pytest.raises(
        LockError, match=r"3\.13 was decided, and the environment ran 3\.13\.1, free-thr"
    ) as caught:
        resolve_interpreter(gather_evidence(free(PLAIN_13)), "3.13")
    assert caught.value.hint == "an ordinary Python is another environment: --python 3.13.1t"


def variables(text: str) -> tuple[Variable, ...]:
    found, _ = env.parse(text.encode())
    return found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("PATH=/home/a/v/bin:/home/a/.pyenv/shims:/usr/bin\nVIRTUAL_ENV=/home/a/v\n", "/home/a/.pyenv/shims before"),
        ("PATH=/root/.pyenv/versions/3.12.1/bin:/usr/bin\n", "/root/.pyenv/versions/3.12.1/bin before /usr/bin"),
        ("PATH=/apps/Python/3.12.4/bin:/usr/bin\n", "/apps/Python/3.12.4/bin before /usr/bin"),
        ("PATH=/opt/cpython-3.13.1-linux/bin:/usr/bin\n", "/opt/cpython-3.13.1-linux/bin before /usr/bin"),
        ("PATH=/home/a/miniconda3/envs/x/bin:/usr/bin\n", "/home/a/miniconda3/envs/x/bin before /usr/bin"),
        ("PATH=/usr/bin\nCONDA_PREFIX=/home/a/env\n", "CONDA_PREFIX is /home/a/env"),
        ("PATH=/usr/bin\nPYENV_VERSION=3.12.1\n", "PYENV_VERSION is 3.12.1"),
    ],
)  # fmt: skip
def test_the_systems_python_is_a_guess_where_variables_lead_to_another(text: str, words: str) -> None:
    given = msgspec.structs.replace(snapshot(*APT), variables=variables(text))
    chosen = resolve_interpreter(gather_evidence(given), None)
    assert chosen.version == "3.11.2"
    (ruling,) = rule_guessed_python(gather_evidence(given), None, chosen, tuple)
    assert (ruling.outcome, ruling.kind, ruling.subject) == ("replaced", "python-guess", "python")
    assert words in ruling.reason
    assert rule_guessed_python(gather_evidence(given), "3.11.2", chosen, tuple) == ()
    with pytest.raises(LockError, match=r"--python X\.Y\.Z"):
        accept_deviations([ruling], [])
    assert accept_deviations([ruling], ["python-guess"])[0].accepted


def guessed(given: Snapshot, pinned: Callable[[], Collection[str]]) -> tuple[Resolution, ...]:
    """Return the deviation of a guessed Python that nobody decided."""
    evidence = gather_evidence(given)
    return rule_guessed_python(evidence, None, resolve_interpreter(evidence, None), pinned)


VENV = "PATH=/home/a/v/bin:/usr/local/bin:/usr/bin:/bin\nVIRTUAL_ENV=/home/a/v\n"
MAKER = package("python3.11-venv", "3.11.2-6")


@pytest.mark.parametrize(
    "text",
    [
        VENV,
        "PATH=/home/a/v/bin:/home/a/miniconda3/condabin:/usr/bin\nVIRTUAL_ENV=/home/a/v\n",
        "PATH=/apps/cuda/12.4/bin:/usr/bin\nCONDA_PREFIX=/home/a/v\nVIRTUAL_ENV=/home/a/v\n",
    ],
)
@pytest.mark.parametrize("pinned", [(), ("3.11", "3.12"), ("3.12",)])
def test_the_systems_python_is_a_guess_for_a_virtual_environment_alone(
    text: str, pinned: tuple[str, ...]
) -> None:
    given = msgspec.structs.replace(snapshot(*APT), variables=variables(text))
    (ruling,) = rule_guessed_python(
        gather_evidence(given), None, resolve_interpreter(gather_evidence(given), None), lambda: pinned
    )
    assert (ruling.outcome, ruling.kind, ruling.file) == ("replaced", "python-guess", "env.txt")
    assert (
        "VIRTUAL_ENV is /home/a/v, and no file says which Python made it; say which one ran" in ruling.reason
    )


@pytest.mark.parametrize(
    ("text", "packages", "lines", "pinned"),
    [
        ("PATH=/usr/bin:/home/a/.pyenv/shims\n", APT, (), ()),  # no environment at all
        (VENV, APT, (), ("3.11",)),
        (VENV, (*APT, MAKER), (), ("3.11", "3.12")),
        (VENV, (*APT, package("virtualenv", "20.17.1")), (), ()),
        (VENV + "PYTHONPATH=/home/a/v/lib/python3.11/site-packages/x\n", APT, (), ()),
        (VENV, APT, ("-e /home/a/v/lib64/python3.11/site-packages/tool",), ()),
        (VENV, APT, ("pkg-resources==0.0.0",), ()),
        (VENV, APT, ("tool @ https://h.test/tool-1.0-cp311-cp311-linux_x86_64.whl",), ()),
    ],
)  # fmt: skip
def test_the_systems_python_is_no_guess_where_something_ties_the_environment_to_it(
    text: str, packages: tuple[SystemPackage, ...], lines: tuple[str, ...], pinned: tuple[str, ...]
) -> None:
    given = msgspec.structs.replace(
        snapshot(*packages), variables=variables(text), requirements=tuple(map(requirement, lines))
    )
    assert (
        rule_guessed_python(
            gather_evidence(given), None, resolve_interpreter(gather_evidence(given), None), lambda: pinned
        )
        == ()
    )


@pytest.mark.parametrize(
    ("text", "packages", "lines"),
    [
        (VENV, (*APT, package("python3.12-venv", "3.12.4-1")), ()),
        (VENV, (*APT, package("python3.11-venv", "3.11.2-6", "residual")), ()),
        (VENV + "PYTHONPATH=/home/a/v/lib/python3.12/site-packages/x\n", (*APT, MAKER), ()),
        (VENV + "PYTHONPATH=/usr/lib/python3.11/x\n", APT, ()),
        (VENV, APT, ("tool @ https://h.test/tool-1.0-cp310-abi3-linux_x86_64.whl",)),
        (VENV, APT, ("tool @ https://h.test/tool-1.0-cp312-cp312-linux_x86_64.whl",)),
    ],
)  # fmt: skip
def test_what_ties_no_environment_to_the_systems_python(
    text: str, packages: tuple[SystemPackage, ...], lines: tuple[str, ...]
) -> None:
    given = msgspec.structs.replace(
        snapshot(*packages), variables=variables(text), requirements=tuple(map(requirement, lines))
    )
    (ruling,) = rule_guessed_python(
        gather_evidence(given), None, resolve_interpreter(gather_evidence(given), None), tuple
    )
    assert ruling.kind == "python-guess"


def test_a_python_that_a_file_shows_is_no_guess() -> None:
    given = snapshot(*BOTH, module="Python/3.12.4-GCCcore-13.2.0")
    given = msgspec.structs.replace(given, variables=variables("PATH=/apps/Python/3.12.4/bin:/usr/bin\n"))
    assert (
        rule_guessed_python(
            gather_evidence(given), None, resolve_interpreter(gather_evidence(given), None), tuple
        )
        == ()
    )


def test_a_list_that_names_python_as_a_package_shows_it() -> None:
    lines = (requirement("python==3.8.10"), requirement("numpy==1.24.0"))
    given = msgspec.structs.replace(snapshot(*APT), requirements=lines)
    chosen = resolve_interpreter(gather_evidence(given), None)
    assert (chosen.version, chosen.kind) == ("3.8.10", "standalone")
    assert chosen.evidence == "python==3.8.10, requirements.txt:1"
