"""The program and the library call: many ranks, hanging parts, directories that cannot be written, other Pythons."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from reprobuild_runtime import capture
from tests.capture.repositories import BASE, ENV, LEAN, PROGRAM, document, inside, new_origin, run_program

RANKS = 60


def report(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_file_alone_is_enough(tmp_path: Path) -> None:
    """Copied beside a `random.py` and a `json.py` of somebody, on a login node."""
    (tmp_path / "capture.py").write_bytes(PROGRAM.read_bytes())
    for name in ("random", "json", "secrets", "tempfile"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    argv = [BASE, str(tmp_path / "capture.py"), "-o", "out"]
    done = subprocess.run(argv, cwd=tmp_path, env=LEAN, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith(f"reprobuild capture: {tmp_path / 'out'}: captured\n")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"capture.json", "env.txt", "env.nul", "requirements.txt"} <= names


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    for mask in (0o000, 0o077):
        before = os.umask(mask)
        try:
            assert run_program("-o", tmp_path / f"out{mask}", env=LEAN).returncode == 0
        finally:
            os.umask(before)
        modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / f"out{mask}").iterdir()}
        assert modes == {0o600}
        assert stat.S_IMODE((tmp_path / f"out{mask}").stat().st_mode) == 0o700


def test_many_ranks_at_once_and_one_captures(tmp_path: Path) -> None:
    argv = [BASE, str(PROGRAM), "-o", str(tmp_path / "out"), "--json"]
    ranks = [
        subprocess.Popen(
            argv,
            cwd=tmp_path,
            env={**LEAN, "SLURM_JOB_ID": "42"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(RANKS)
    ]
    said = [json.loads(rank.communicate()[0]) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * RANKS
    assert sum(one["captured"] for one in said) == 1
    notes = {one["note"] for one in said if not one["captured"]}
    assert notes <= {capture.ALREADY_TAKEN, capture.BEING_TAKEN, "another process was quicker"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert document(tmp_path / "out")["capture"] == capture.VERSION


def test_of_many_threads_one_has_the_claim(tmp_path: Path) -> None:
    """The narrow place alone, with more contention than processes that take their time to start."""
    target, found, start = str(tmp_path / "out"), [], threading.Barrier(32)

    def rank() -> None:
        start.wait()
        claim = capture._claim_target(target, 60)
        if claim is not None:
            Path(claim, "capture.json").write_text("{}")
            found.append(capture._publish_directory(claim, target))

    threads = [threading.Thread(target=rank) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True]


def test_a_late_rank_leaves_the_snapshot_alone(tmp_path: Path) -> None:
    assert report(run_program("-o", tmp_path / "out", "--json", env=LEAN))["captured"]
    before = (tmp_path / "out" / "capture.json").read_bytes()
    second = report(run_program("-o", tmp_path / "out", "--json", env=LEAN))
    assert (second["captured"], second["note"]) == (False, capture.ALREADY_TAKEN)
    assert (tmp_path / "out" / "capture.json").read_bytes() == before


@pytest.mark.parametrize(("name", "code"), [("RANK", 0), ("LSB_JOBID", 0), ("HOME", 3)])
def test_a_snapshot_that_is_there_is_an_error_except_for_ranks(name: str, code: int, tmp_path: Path) -> None:
    """It may be that of somebody else, which came with the directory."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "capture.json").write_text('{"capture": 1}\n')
    done = run_program("-o", tmp_path / "out", env={**LEAN, name: "7"})
    assert done.returncode == code
    assert done.stderr.startswith("reprobuild capture: ")


def test_a_claim_of_the_future_is_taken_over(tmp_path: Path) -> None:
    claim = tmp_path / ".out.capturing"
    claim.mkdir()
    soon = time.time() + capture.SKEW / 2  # by the clock of a file server
    os.utime(claim, (soon, soon))
    assert run_program("-o", tmp_path / "out", env=LEAN).returncode == 3
    later = time.time() + 10 * capture.SKEW
    os.utime(claim, (later, later))
    assert report(run_program("-o", tmp_path / "out", "--json", env=LEAN))["captured"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_claim_of_a_killed_job_is_taken_over_in_time(tmp_path: Path) -> None:
    claim = tmp_path / ".out.capturing"
    claim.mkdir()
    (claim / "left").write_text("half\n")
    assert not report(run_program("-o", tmp_path / "out", "--json", env=LEAN))["captured"]
    long_ago = time.time() - 10 * capture.STALE
    os.utime(claim, (long_ago, long_ago))
    assert report(run_program("-o", tmp_path / "out", "--json", env=LEAN))["captured"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not (tmp_path / "out" / "left").exists()


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    """Job scripts make the directory first: `mkdir -p $REPRO_DIR`."""
    (tmp_path / "out").mkdir()
    assert report(run_program("-o", tmp_path / "out", "--json", env=LEAN))["captured"]


def test_the_current_folder_is_not_replaced_under_the_shell(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    before = (tmp_path / "here").stat().st_ino
    done = run_program("-o", ".", env=LEAN, cwd=tmp_path / "here")
    assert done.returncode == 3
    assert "is the current directory, which would be replaced: name one inside of it" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    assert (tmp_path / "here").stat().st_ino == before


@pytest.mark.parametrize("there", [True, False])
def test_a_link_to_a_folder_is_followed(there: bool, tmp_path: Path) -> None:
    if there:
        (tmp_path / "target").mkdir()
    (tmp_path / "out").symlink_to("target")
    assert run_program("-o", tmp_path / "out", env=LEAN, cwd=tmp_path).returncode == 0
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "target" / "capture.json").exists()


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine\n")
    done = run_program("-o", tmp_path / "out", env=LEAN)
    assert (done.returncode, done.stdout) == (3, "")
    assert "is not empty, and holds no snapshot of this program" in done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


@pytest.mark.parametrize("place", ["/proc/snapshot", "file/snapshot"])
def test_a_folder_that_cannot_be_made(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_program("-o", tmp_path / place, env=LEAN)
    assert done.returncode == 3
    assert f"{tmp_path / place} cannot be written: " in done.stderr
    with inside(tmp_path):
        called = capture.capture(place)
    assert not called["captured"]
    assert "cannot be written" in called["note"]


@pytest.mark.parametrize(
    ("mount", "why"),
    [
        ("mount -t tmpfs -o size=16k none {0}", "No space left on device"),
        ("mount --bind {0} {0} && mount -o remount,ro,bind {0}", "Read-only file system"),
    ],
)
def test_a_disk_that_is_full_or_read_only(mount: str, why: str, tmp_path: Path) -> None:
    """In a mount namespace of its own, which ends with it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    line = f"{mount.format(disk)} && {BASE} {PROGRAM} -o {disk}/out; echo $?; ls -A {disk}"
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", line]
    done = subprocess.run(argv, env=ENV, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"{disk}/out cannot be written: {why}" in done.stderr
    assert done.stdout == "3\n"  # and nothing is left there


def test_a_program_that_hangs_is_given_up_and_killed(tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "nvidia-smi"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\nsleep 1000 &\necho $$ $! > {tmp_path}/pids\nexec sleep 1000\n")
    fake.chmod(0o755)
    env = LEAN | {"PATH": f"{fake.parent}:{LEAN['PATH']}"}
    done = run_program("-o", tmp_path / "out", "--json", env=env)
    assert done.returncode == 0
    assert report(done)["captured"]
    assert document(tmp_path / "out")["gpu"]["nvidia_smi_reason"] == "timed-out"
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2
    while any(map(_lives, pids)):  # a signal is on its way
        time.sleep(0.01)


def _lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_part_that_hangs_or_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()

    def hang(context: capture.Context) -> capture.Taken:
        never.wait()
        return capture.Taken(None)

    def fail(context: capture.Context) -> capture.Taken:
        raise ValueError("the text of an exception may be a value")

    parts = (("gpu", hang), ("dpkg", fail), ("python", capture.take_python))
    monkeypatch.setattr(capture, "PARTS", parts)
    monkeypatch.setattr(capture, "BUDGETS", {**capture.BUDGETS, "gpu": 0.2})
    monkeypatch.chdir(tmp_path)
    found = capture.capture(str(tmp_path / "out"))
    never.set()
    assert found["parts"] == {"gpu": "timed-out", "dpkg": "failed", "python": "done"}
    said = document(tmp_path / "out")
    assert said["parts"]["dpkg"]["why"].startswith("ValueError in fail, line ")
    assert "may be a value" not in (tmp_path / "out" / "capture.json").read_text()
    assert said["python"]["version"]
    assert set(found["parts"].values()) <= set(capture.REASONS)


def test_the_budget_of_the_whole(tmp_path: Path) -> None:
    new_origin(tmp_path)
    done = run_program("-o", tmp_path / "out", "--json", "--seconds", "0", env=LEAN, cwd=tmp_path / "clone")
    assert done.returncode == 0
    assert report(done)["captured"]
    assert report(done)["parts"]["repository clone"] == "timed-out"


def test_the_call_in_a_training_script(tmp_path: Path) -> None:
    """It prints nothing, imports nothing heavy, and leaves signals, directory and environment as they were."""
    script = tmp_path / "train.py"
    script.write_text(
        f"import os, signal, sys\nsys.path.insert(0, {str(PROGRAM.parent)!r})\nfrom capture import capture\n"
        "def state(): return os.getcwd(), dict(os.environ), *map(signal.getsignal, (signal.SIGINT, signal.SIGCHLD))\n"
        "os.environ['SET_INSIDE'] = 'yes'\n"
        "before = state()\n"
        "found = capture('out')\n"
        "assert found['captured'] and not capture('out')['captured'], found\n"
        "assert before == state()\n"
        "heavy = {'torch', 'numpy', 'pip', 'pkg_resources', 'setuptools', 'multiprocessing'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    argv = [BASE, str(script), "--lr", "0.1"]
    done = subprocess.run(argv, cwd=tmp_path, env=LEAN, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert document(tmp_path / "out")["command"]["argv"] == [str(script), "--lr", "0.1"]
    assert b"SET_INSIDE=yes\0" in (tmp_path / "out" / "env.nul").read_bytes()


def test_a_forked_process_ends_its_programs_too(tmp_path: Path) -> None:
    """What looks at the programs is a thread, and a fork takes no threads along."""
    fake = tmp_path / "bin" / "nvidia-smi"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 1000\n")
    fake.chmod(0o755)
    script = tmp_path / "train.py"
    script.write_text(
        f"import os, sys\nsys.path.insert(0, {str(PROGRAM.parent)!r})\nfrom capture import capture\n"
        "assert capture('parent')['captured']\n"
        "if os.fork() == 0:\n"
        f"    os.environ['PATH'] = {str(fake.parent)!r} + ':' + os.environ['PATH']\n"
        "    assert capture('child', seconds=1.0)['captured']\n"
        "else:\n"
        "    assert os.wait()[1] == 0\n"
    )
    clone = new_origin(tmp_path)  # so that there are programs before the fork
    done = subprocess.run(
        [BASE, str(script)], cwd=clone, env=LEAN, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    while _lives((tmp_path / "pid").read_text().strip()):
        time.sleep(0.01)


def test_the_command_line_is_wrong(tmp_path: Path) -> None:
    done = run_program("--nonsense", env=LEAN)
    assert done.returncode == 2
    assert "usage: reprobuild capture" in done.stderr


@pytest.mark.parametrize(
    ("env", "name"),
    [({}, "snapshot"), ({"SLURM_JOB_ID": "42"}, "snapshot-42"), ({"PBS_JOBID": "7[3].server"}, "snapshot-7[3].server"),
     ({"SLURM_JOB_ID": "../../x"}, "snapshot")],
)  # fmt: skip
def test_the_folder_where_none_is_named(env: dict[str, str], name: str) -> None:
    assert capture.default_folder(env) == name


def test_it_says_what_a_reader_needs(tmp_path: Path) -> None:
    """The control of `done`: each part that says so has facts."""
    assert run_program("-o", tmp_path / "out", env=LEAN, cwd=tmp_path).returncode == 0
    said = document(tmp_path / "out")
    done = {name for name, part in said["parts"].items() if part["outcome"] == "done"}
    assert {"python", "distributions", "environment", "machine", "command"} <= done
    assert all(said[name] for name in done)
    assert (
        said["python"]["version"]
        == subprocess.run(
            [BASE, "-c", "import platform; print(platform.python_version())"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    )
    assert said["machine"]["uname"][2] == os.uname().release
    assert said["command"]["processes"][0]["arguments"][0].endswith(Path(sys.executable).name)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_what_is_half_done_goes_away_when_it_is_stopped(number: int, code: int, tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "nvidia-smi"
    fake.parent.mkdir()
    fake.write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/pid.part && mv {tmp_path}/pid.part {tmp_path}/pid\nexec sleep 1000\n"
    )
    fake.chmod(0o755)
    (tmp_path / "job").mkdir()
    env = LEAN | {"PATH": f"{fake.parent}:{LEAN['PATH']}", "TMPDIR": str(tmp_path / "job")}
    argv = [BASE, str(PROGRAM), "-o", str(tmp_path / "job" / "out")]
    with subprocess.Popen(argv, env=env, cwd=tmp_path, stderr=subprocess.DEVNULL) as child:
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        child.send_signal(number)
        assert child.wait() == code
    assert list((tmp_path / "job").iterdir()) == []
    while _lives((tmp_path / "pid").read_text().strip()):
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_capture_that_is_stopped_at_any_moment_leaves_nothing(number: int, tmp_path: Path) -> None:
    """Amid repositories, which several threads write about, too: as `scancel` does."""
    clone = new_origin(tmp_path)
    for step in range(12):
        place = tmp_path / f"job{step}"
        place.mkdir()
        argv = [BASE, str(PROGRAM), "-o", str(place / "out")]
        with subprocess.Popen(
            argv, env=LEAN | {"TMPDIR": str(place)}, cwd=clone, stderr=subprocess.DEVNULL
        ) as child:
            while not list(place.glob("reprobuild-capture-*")) and child.poll() is None:
                time.sleep(0.001)
            time.sleep(step * 0.01)
            child.send_signal(number)
        left = {path.name for path in place.iterdir()}
        assert left in (set(), {"out"})
        assert not left or document(place / "out")["capture"] == capture.VERSION


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_directories_are_made_leaves_nothing(number: int, tmp_path: Path) -> None:
    """Its handler would run before the program knows the names of the directories."""
    program = (
        "import os, signal, sys, tempfile\n"
        f"sys.path.insert(0, {str(PROGRAM.parent)!r})\n"
        "import capture\n"
        "make = tempfile.mkdtemp\n"
        "def stopped(*words, **names):\n"
        "    folder = make(*words, **names)\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    return folder\n"
        "tempfile.mkdtemp = stopped\n"
        "signal.signal(signal.SIGTERM, capture._raise_stopped)\n"
        f"sys.exit(capture.main(['-o', {str(tmp_path / 'out')!r}]))\n"
    )
    env = LEAN | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [BASE, "-c", program], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert list(tmp_path.iterdir()) == [], done.stderr


def test_a_safe_path_keeps_what_is_on_it(tmp_path: Path) -> None:
    """With PYTHONSAFEPATH (Python 3.11) the directory of the file is not on the path: nothing is taken off it."""
    folder = tmp_path / "site" / "my_lib-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: my_lib\nVersion: 1.0\n")
    env = LEAN | {"PYTHONPATH": str(tmp_path / "site"), "PYTHONSAFEPATH": "1"}
    assert run_program("-o", tmp_path / "out", env=env, cwd=tmp_path).returncode == 0
    assert "my_lib==1.0\n" in (tmp_path / "out" / "requirements.txt").read_text()


def test_many_warnings_are_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    warnings = [{"rule": "jwt", "repository": "r", "file": "f", "line": n} for n in range(capture.SAID + 3)]
    found = capture._report("out", captured=True, warnings=warnings)
    assert capture._finish(found, False, 0) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == capture.SAID + 2
    assert lines[-1] == "reprobuild capture: and 3 more: capture.json lists them under `warnings`"
