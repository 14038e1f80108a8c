"""Each rule of a lock takes part in `resolve`: what a whole run says and refuses, without a network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprobuild.config.overrides import Decisions, WorkloadDecision
from reprobuild.errors import LockError
from reprobuild.lock.model import Lock
from reprobuild.resolve.resolver import resolve_snapshot
from tests.resolve.small import APT, around, snapshot, use_debian, write_wheel
from tests.snapshot.test_unlisted import document, one
from tests.system.samples import stanza

VENV = "PATH=/home/a/v/bin:/usr/bin\nVIRTUAL_ENV=/home/a/v\n"
NEEDS = ("contourpy", "cycler", "fonttools", "kiwisolver", "numpy", "pillow")
GIT = "git/stable,now 1:2.39.5-0 amd64 [installed]\n"
COMMAND = ("python", "train.py", "--revision", "x")


@pytest.fixture(autouse=True)
def debian(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let apt have a small release with git and ffmpeg."""
    use_debian(monkeypatch, stanza("git", "1:2.39.5-0", "libc6"), stanza("ffmpeg", "7:5.1", "libc6"))


def lock(
    folder: Path, decisions: Decisions | None = None, said: list[str] | None = None, **files: str
) -> Lock:
    """Lock a snapshot of these files with the wheels of `folder`."""
    held = snapshot(folder / "snapshot", **files)
    wheels = folder / "wheels"
    wheels.mkdir(exist_ok=True)
    say = (said if said is not None else []).append
    return resolve_snapshot(held, decisions or Decisions(base="debian/bookworm"), around(folder, wheels, say))


def refused(folder: Path, **files: str) -> LockError:
    with pytest.raises(LockError) as caught:
        lock(folder, **files)
    return caught.value


def test_a_path_over_pyenv_makes_the_systems_python_a_guess(tmp_path: Path) -> None:
    err = refused(tmp_path, env="PATH=/home/a/.pyenv/shims:/usr/bin\n")
    assert "env.txt:1: python: replaced (python-guess): the image would have Python 3.11.2" in str(err)
    assert err.hint.endswith("to go on without exactly these: --accept python-guess")


def test_a_virtual_environment_alone_makes_it_a_guess(tmp_path: Path) -> None:
    for tag in ("cp311-cp311-linux_x86_64", "cp312-cp312-linux_x86_64", "cp313-cp313-linux_x86_64"):
        write_wheel(tmp_path / "wheels", "numpy", tag=tag)
    err = refused(tmp_path, env=VENV, requirements="numpy==1.0\n")
    assert "env.txt:2: python: replaced (python-guess)" in str(err)


@pytest.mark.parametrize("maker", [True, False])
def test_wheels_and_the_tool_that_makes_environments_are_evidence(maker: bool, tmp_path: Path) -> None:
    """Wheels of one release are for 3.10 and 3.11, of another for 3.11 and 3.12: 3.11 ran them."""
    for name, minors in {"numpy": (10, 11), "scipy": (11, 12)}.items():
        for minor in minors:
            write_wheel(tmp_path / "wheels", name, tag=f"cp3{minor}-cp3{minor}-linux_x86_64")
    write_wheel(tmp_path / "wheels", "six")
    apt = APT + "python3.11-venv/stable,now 3.11.2-6 amd64 [installed,automatic]\n" * maker
    freeze = "six==1.0\n" if maker else "numpy==1.0\nscipy==1.0\nsix==1.0\n"
    found = lock(tmp_path, Decisions(base="debian/bookworm"), env=VENV, requirements=freeze, apt_packages=apt)
    assert found.interpreter.version == "3.11.2"
    assert found.deviations == ()


def test_a_list_of_wishes_is_no_freeze(tmp_path: Path) -> None:
    write_wheel(tmp_path / "wheels", "matplotlib", requires=NEEDS)
    err = refused(tmp_path, requirements="matplotlib==1.0\n")
    assert "requirements.txt: unresolved (no-freeze): it is no freeze" in str(err)


def test_the_pythons_that_fit_every_pin_are_in_the_hint(tmp_path: Path) -> None:
    write_wheel(tmp_path / "wheels", "numpy", tag="cp39-cp39-linux_x86_64")
    write_wheel(tmp_path / "wheels", "six")
    err = refused(tmp_path, requirements="numpy==1.0\nsix==1.0\n")
    assert "numpy: unresolved (no-wheel)" in str(err)
    assert err.hint.startswith("every pinned release has a file for Python 3.9: the environment ran one of ")


def test_a_program_that_a_wheel_calls_is_in_the_base(tmp_path: Path) -> None:
    write_wheel(tmp_path / "wheels", "tool", tool='import subprocess\nsubprocess.run(["git", "log"])\n')
    found = lock(tmp_path, requirements="tool==1.0\n", apt_packages=APT + GIT)
    (git,) = [ruling for ruling in found.rulings if ruling.subject == "git"]
    assert (git.outcome, "tool 1.0, which calls git" in git.reason) == ("pinned", True)
    assert "git" in found.base.installed


@pytest.mark.parametrize(("word", "outcome"), [("git", "pinned"), ("gut", "excluded")])
def test_a_program_that_the_workload_calls_is_in_the_base(word: str, outcome: str, tmp_path: Path) -> None:
    work = WorkloadDecision(command=(*COMMAND, word), outputs=("x",))
    found = lock(tmp_path, Decisions(base="debian/bookworm", workload=work), apt_packages=APT + GIT)
    (git,) = [ruling for ruling in found.rulings if ruling.subject == "git"]
    assert git.outcome == outcome
    assert ("the workload, which calls git" in git.reason) == (outcome == "pinned")


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        ({"argv": [], "processes": [{"arguments": ["bash", "-c", "ffmpeg -i a b && python train.py"]}]}, "pinned"),
        ({"argv": ["/usr/bin/ffmpeg", "-i", "a"], "processes": []}, "pinned"),
        ({"argv": ["python", "train.py"], "processes": [{"arguments": ["ffmpeg-like"]}]}, "excluded"),
        (None, "excluded"),
    ],
)  # fmt: skip
def test_a_program_that_the_captured_command_calls_is_in_the_base(
    command: object, outcome: str, tmp_path: Path
) -> None:
    taken = {"capture": 1, "repositories": [], "command": command}
    apt = APT + "ffmpeg/stable,now 7:5.1 amd64 [installed]\n"
    found = lock(tmp_path, capture=json.dumps(taken), apt_packages=apt)
    (ffmpeg,) = [ruling for ruling in found.rulings if ruling.subject == "ffmpeg"]
    assert ffmpeg.outcome == outcome
    assert ("the captured command, which calls ffmpeg" in ffmpeg.reason) == (outcome == "pinned")


def test_the_terminal_of_the_captured_command_is_not_in_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_debian(monkeypatch, stanza("tmux", "3.3", "libc6"), stanza("mpich", "4.0", "libc6"))
    processes = [{"arguments": words} for words in (["mpirun", "-n", "2"], ["-bash"], ["tmux: server"], [])]
    taken = {"capture": 1, "repositories": [], "command": {"argv": [], "processes": processes}}
    apt = APT + "tmux/stable,now 3.3 amd64 [installed]\n" + "mpich/stable,now 4.0 amd64 [installed]\n"
    found = lock(tmp_path, capture=json.dumps(taken), apt_packages=apt)
    outcomes = {ruling.subject: ruling.outcome for ruling in found.rulings}
    assert (outcomes["tmux"], outcomes["mpich"]) == ("excluded", "pinned")


def test_a_line_beside_the_freeze_that_no_index_has_is_left_out(tmp_path: Path) -> None:
    taken = json.loads(document(one("setuptools", "59.9.9")))
    taken["python"] |= {"version": "3.11.2", "implementation": "CPython"}
    found = lock(tmp_path, capture=json.dumps({**taken, "repositories": []}))
    (left,) = [ruling for ruling in found.rulings if ruling.subject == "setuptools"]
    assert (left.outcome, left.kind) == ("excluded", "unlisted")


def test_a_distribution_with_rules_of_its_own_suggests_its_profile(tmp_path: Path) -> None:
    write_wheel(tmp_path / "wheels", "megatron_core")
    said: list[str] = []
    decisions = Decisions(base="debian/bookworm", profile="torch")
    lock(tmp_path, decisions, said, requirements="megatron-core==1.0\n")
    assert [line for line in said if line.startswith("note: ")] == [
        "note: megatron-core has rules of its own for deterministic runs: `--profile megatron` applies them"
    ]


def test_versions_in_another_form_than_the_index_has_are_pinned(tmp_path: Path) -> None:
    """`1.0-1`, `v1.2` and `2.0.0RC1` are what `pip freeze` prints of old metadata; an index has the normal names."""
    for name, version in (("tool", "1.0.post1"), ("x", "1.2"), ("y", "2.0.0rc1")):
        write_wheel(tmp_path / "wheels", name, version)
    found = lock(tmp_path, requirements="tool==1.0-1\nx==v1.2\ny==2.0.0RC1\n")
    assert {wheel.name: wheel.file.filename for wheel in found.wheels} == {
        "tool": "tool-1.0.post1-py3-none-any.whl",
        "x": "x-1.2-py3-none-any.whl",
        "y": "y-2.0.0rc1-py3-none-any.whl",
    }
    outcomes = [ruling.outcome for ruling in found.rulings if ruling.file == "requirements.txt"]
    assert outcomes == ["pinned"] * 3


def test_a_preload_and_a_module_become_packages_of_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No captured package brings them: the library was the site's own, and MPI a module."""
    use_debian(
        monkeypatch, stanza("libjemalloc2", "5.3.0-1", "libc6"), stanza("openmpi-bin", "4.1.4-3", "libc6")
    )
    write_wheel(tmp_path / "wheels", "mpi4py")
    found = lock(
        tmp_path, requirements="mpi4py==1.0\n",
        env="LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2\n",
        modules="Currently Loaded Modules:\n  1) openmpi/4.1.6\n",
        decisions=Decisions(base="debian/bookworm", accept=("module-replaced",)),
    )  # fmt: skip
    assert {"libjemalloc2", "openmpi-bin"} <= set(found.base.installed)
    (preload,) = found.environment
    assert preload.name == "LD_PRELOAD"
