"""The entrypoint: what the command finds, and what process 1 does."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import RUNTIME, Ran, run

Files = Callable[..., dict[str, str]]
ENTRYPOINT = [sys.executable, "-I", "-S", str(RUNTIME / "entrypoint.py")]
ALONE = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
# What runs in the background of a script ignores SIGINT and SIGQUIT, and so would what it starts.
FRESH = ("env", "--default-signal")
AS_INIT = ["unshare", *ALONE, "--pid", "--fork", "--mount-proc", *ENTRYPOINT]
WAYS = pytest.mark.parametrize("start", [ENTRYPOINT, AS_INIT], ids=["becomes", "looks-after"])


def variables(ran: Ran) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in ran.out.split("\0") if entry)


@WAYS
def test_what_a_chosen_seed_sets(start: list[str]) -> None:
    ran = run(*start, "cat", "/proc/self/environ", env={"REPROBUILD_SEED": "7"})
    assert ran.err == "Using seed: 7\n"
    assert variables(ran) == {
        "PATH": os.environ["PATH"],
        "REPROBUILD_RECORD": "",
        "REPROBUILD_SEED": "7",
        "REPROBUILD_SEED_EXPLICIT": "1",
        "PYTHONHASHSEED": "7",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "REPROBUILD_SETTLED": "CUBLAS_WORKSPACE_CONFIG=:4096:8 REPROBUILD_SEED=7 PYTHONHASHSEED=7",
        "REPROBUILD_ENVIRON": "/opt/reprobuild",
    }


@WAYS
def test_what_a_drawn_seed_sets(start: list[str]) -> None:
    rans = [run(*start, "cat", "/proc/self/environ") for _ in range(2)]
    seeds = [variables(ran)["REPROBUILD_SEED"] for ran in rans]
    assert seeds[0] != seeds[1]
    for ran, seed in zip(rans, seeds, strict=True):
        assert ran.err == f"Using seed: {seed}\n"
        assert 1 <= int(seed) < 2**31
        assert variables(ran) == {
            "PATH": os.environ["PATH"],
            "REPROBUILD_RECORD": "",
            "REPROBUILD_SEED": seed,
            "REPROBUILD_SEED_EXPLICIT": "0",
            "PYTHONHASHSEED": seed,
            "REPROBUILD_SETTLED": f"REPROBUILD_SEED={seed} PYTHONHASHSEED={seed}",
            "REPROBUILD_ENVIRON": "/opt/reprobuild",
        }


def test_what_is_set_stays() -> None:
    given = {
        "PYTHONHASHSEED": "3",
        "CUBLAS_WORKSPACE_CONFIG": ":16:8",
        "LC_CTYPE": "C",
        "REPROBUILD_SEED": " 007 ",
    }
    found = variables(run(*ENTRYPOINT, "cat", "/proc/self/environ", env=given))
    assert found.items() >= {**given, "REPROBUILD_SEED": "7"}.items()


def test_empty_is_unset_and_drawn_stays_drawn() -> None:
    assert (
        variables(run(*ENTRYPOINT, "cat", "/proc/self/environ", env={"REPROBUILD_SEED": ""}))[
            "REPROBUILD_SEED_EXPLICIT"
        ]
        == "0"
    )
    again = {"REPROBUILD_SEED": "5", "REPROBUILD_SEED_EXPLICIT": "0"}
    found = variables(run(*ENTRYPOINT, "cat", "/proc/self/environ", env=again))
    assert found.items() >= again.items()
    assert "CUBLAS_WORKSPACE_CONFIG" not in found


def test_seed_zero_is_a_seed() -> None:
    code = "print(hash('x'))"
    rans = [run(*ENTRYPOINT, sys.executable, "-c", code, env={"REPROBUILD_SEED": "0"}) for _ in range(2)]
    assert rans[0].out == rans[1].out != ""
    assert rans[0].err == "Using seed: 0\n"


@pytest.mark.parametrize(
    "env",
    [
        {"REPROBUILD_SEED": "x"},
        {"REPROBUILD_SEED": "-1"},
        {"REPROBUILD_SEED": str(2**32)},
        {"REPROBUILD_SEED": "1.5"},
        {"REPROBUILD_SEED": "7", "REPROBUILD_SEED_EXPLICIT": "yes"},
    ],
)
@WAYS
def test_bad_seed(start: list[str], env: Mapping[str, str]) -> None:
    ran = run(*start, "echo", "ran", env=env)
    assert (ran.code, ran.out) == (125, "")
    first, second = ran.err.splitlines()
    assert first.startswith("reprobuild: error: ")
    assert second.startswith("reprobuild: hint: ")


@pytest.mark.parametrize("name", ["WORLD_SIZE", "RANK", "JOB_COMPLETION_INDEX"])
def test_what_a_launcher_says_of_ranks_refuses_no_job(name: str) -> None:
    ran = run(*ENTRYPOINT, "echo", "ran", env={name: "\xb2"})
    assert (ran.code, ran.out) == (0, "ran\n")
    assert "error" not in ran.err


@WAYS
@pytest.mark.parametrize("code", [0, 3, 255])
def test_exit_code(start: list[str], code: int) -> None:
    assert run(*start, "sh", "-c", f"exit {code}").code == code


def test_death_by_signal_as_init() -> None:
    assert run(*AS_INIT, "sh", "-c", "kill -TERM $$").code == 143
    assert run(*AS_INIT, "sh", "-c", "kill -KILL $$").code == 137


@WAYS
def test_command_that_cannot_be_run(start: list[str], tmp_path: Path) -> None:
    plain, lost, empty = tmp_path / "plain", tmp_path / "lost", tmp_path / "empty"
    plain.write_text("#!/bin/sh\n")
    lost.write_text("#!/nonexistent\n")
    empty.write_text("\0\0")
    lost.chmod(0o755)
    empty.chmod(0o755)
    for command, code, word in [
        ("nonexistent-command", 127, "nonexistent-command: not found"),
        ("/nonexistent/command", 127, "not found"),
        (str(lost), 127, "the interpreter that it names is not there"),
        (str(plain), 126, "Permission denied"),
        (str(tmp_path), 126, "Permission denied"),
        (str(empty), 126, "Exec format error"),
        ("", 127, "not found"),
    ]:
        ran = run(*start, command)
        assert (ran.code, word in ran.err) == (code, True), (command, ran)


def test_no_command_is_a_shell() -> None:
    for start in (ENTRYPOINT, AS_INIT):
        ran = run(*start, stdin="echo $((40 + 2)); exit 4\n")
        assert (ran.code, ran.out) == (4, "42\n")


def test_the_users_python_settings_do_not_reach_it(tmp_path: Path) -> None:
    for name in ("os.py", "signal.py", "json.py"):
        (tmp_path / name).write_text("raise SystemExit(99)\n")
    done = subprocess.run(
        [*ENTRYPOINT, "printenv", "PYTHONPATH"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "PYTHONHOME": "/nonexistent"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}\n"), done.stderr


VALUES: dict[str, object] = {
    "SEVERAL": "one\ntwo\n\nfour\n",
    "QUOTES": 'it\'s "quoted" `so` $HOME \\n ${X:-y} %s',
    "ACCENTS": "naïve Übung 漢字 🙂",
    "EMPTY": "",
    "BYTES": "a\udcffb",
    "EQUALS": "a=b=c",
    "TAKEN": "from the file",
    "func%%": "() {  echo hi\n}",
}


@WAYS
@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C"}, {"LC_ALL": "en_US.ISO-8859-1", "PYTHONUTF8": "0"}])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_environ_json(start: list[str], files: Files, locale: dict[str, str], ascii_only: bool) -> None:
    env = {"PATH": os.environ["PATH"], **files(VALUES, ascii_only), "TAKEN": "mine", **locale}
    done = subprocess.run([*start, "cat", "/proc/self/environ"], env=env, capture_output=True, check=True)
    found = dict(entry.split(b"=", 1) for entry in done.stdout.split(b"\0") if entry)
    for name, value in {**VALUES, "TAKEN": "mine"}.items():
        assert found[name.encode()] == str(value).encode("utf-8", "surrogateescape")


def test_environ_json_with_faults_is_said_and_the_command_runs(files: Files) -> None:
    env = files({"GOOD": "1", "NUMBER": 2, "A=B": "x", "": "x", "NUL": "a\0b"})
    ran = run(*ENTRYPOINT, "printenv", "GOOD", env=env)
    assert (ran.code, ran.out) == (0, "1\n")
    assert ran.err.count("is not a variable that can be set") == 4
    Path(env["REPROBUILD_FILES"], "environ.json").write_text("{")
    ran = run(*ENTRYPOINT, "echo", "ran", env=env)
    assert (ran.code, ran.out) == (0, "ran\n")
    assert "environ.json is not applied: JSONDecodeError" in ran.err


@WAYS
def test_signals_are_as_the_command_expects_them(start: list[str]) -> None:
    """As without the entrypoint: what a launcher ignores stays ignored, what Python ignores does not."""
    ask = ("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")
    bare, ours = run(*ask).out, run(*start, *ask).out
    assert ours == bare
    python = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    assert [int(line.split()[1], 16) & python for line in ours.splitlines()] == [0, 0]


@contextmanager
def looked_after(*command: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Start a command under the entrypoint as process 1; give the process and the init's pid outside."""
    with subprocess.Popen(
        [*FRESH, *AS_INIT, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield process, child_of(process.pid)
        finally:
            process.kill()


def child_of(parent: int) -> int:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            return int(path.parent.name)
    raise AssertionError("no child")


@pytest.mark.parametrize(
    "name", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "WINCH", "CONT", "ALRM", "TSTP", "URG", "IO"]
)
def test_signals_are_forwarded(name: str) -> None:
    script = f"trap 'echo got {name}; exit 3' {name}; echo ready; while :; do sleep 0.02; done"
    with looked_after("sh", "-c", script) as (process, init):
        # A shell can lose one in the instant in which it forks (seen once, on a busy machine); none is forged.
        for _ in range(10):
            os.kill(init, getattr(signal, "SIG" + name))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=6)
                break
        out = process.communicate(timeout=10)[0]
    assert (out, process.returncode) == (f"got {name}\n", 3)


@pytest.mark.parametrize("number", [signal.SIGRTMIN, signal.SIGRTMIN + 3, signal.SIGRTMAX - 1])
def test_real_time_signals_are_forwarded(number: int) -> None:
    """SIGRTMIN+3 is what a container of systemd is stopped by; Python has no name for it."""
    program = (
        f"import signal, sys; signal.signal({int(number)}, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\nwhile True: signal.pause()"
    )
    with looked_after(sys.executable, "-S", "-c", program) as (process, init):
        os.kill(init, number)
        process.communicate(timeout=10)
    assert process.returncode == 5


def test_a_command_without_handlers_ends_by_the_signal() -> None:
    with looked_after("sh", "-c", "echo ready; exec sleep 60") as (process, init):
        os.kill(init, signal.SIGTERM)
        process.communicate(timeout=10)
    assert process.returncode == 143


ORPHANS = (
    "(sleep 0.1 & sleep 0.15 &) ; sleep 0.6; grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l"
)


def test_orphans_are_reaped() -> None:
    assert run(*AS_INIT, "sh", "-c", ORPHANS).out == "0\n"


def test_an_init_that_does_not_reap_is_seen_to_fail() -> None:
    careless = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:]); sys.exit(p.wait())"
    careless_init = [*AS_INIT[: AS_INIT.index("--mount-proc") + 1], sys.executable, "-c", careless]
    assert run(*careless_init, "sh", "-c", ORPHANS).out == "2\n"


def test_the_commands_end_ends_the_container_though_others_run() -> None:
    began = time.monotonic()
    assert run(*AS_INIT, "sh", "-c", "sleep 50 >/dev/null 2>&1 & exit 5").code == 5
    assert time.monotonic() - began < 10


WORDS = [
    "", " ", "a b", "one\ntwo\n", "\t", "'", '"', "\\", "$HOME", "`id`", "*", "--", "-c", "naïve 漢字 🙂", "\udcff",
    "x" * 100_000,
]  # fmt: skip


@WAYS
@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_arguments_arrive_byte_for_byte(start: list[str], locale: dict[str, str]) -> None:
    argv = [os.fsencode(word) for word in [*start, "printf", "%s\\0", *WORDS]]
    done = subprocess.run(argv, env={"PATH": os.environ["PATH"], **locale}, capture_output=True, check=True)
    assert done.stdout == b"".join(os.fsencode(word) + b"\0" for word in WORDS)


# A root with nothing but the system's programs, ours, and a directory for work; no /tmp, no /etc.
BARE_ROOT = """
set -e
into() { mkdir -p "$ROOT/$2"; mount --rbind "$1" "$ROOT/$2"; }
mount -t tmpfs -o mode=755 none "$ROOT"
for folder in usr bin sbin lib lib64 dev proc; do [ ! -d "/$folder" ] || into "/$folder" "$folder"; done
into "$PREFIX" python
into "$RUNTIME" opt/reprobuild/lib/reprobuild_runtime
mkdir "$ROOT/work"
printf "$FRAMEWORK" > "$ROOT/work/torch.py"
[ -z "$READ_ONLY" ] || mount -o remount,ro "$ROOT"
exec chroot "$ROOT" $AS /usr/bin/env -C /work -u REPROBUILD_RECORD \\
    "$PYTHON" -I -S /opt/reprobuild/lib/reprobuild_runtime/entrypoint.py "$@"
"""
BARE_PYTHON = "/python/bin/" + Path(sys.executable).resolve().name
BARE = {
    "RUNTIME": str(RUNTIME), "PREFIX": sys.base_prefix, "PYTHON": BARE_PYTHON, "REPROBUILD_SEED": "7", "AS": "",
    "REPROBUILD_PROFILE": "log-only",
    "FRAMEWORK": "def manual_seed(seed):\\n    global initial_seed\\n    initial_seed = lambda: seed\\n",
}  # fmt: skip
LOOK = """
import os, sys
sys.path[:0] = ["/opt/reprobuild/lib", "/work"]
import reprobuild_runtime.startup, random
print(os.getuid(), os.path.exists("/tmp"), os.path.exists("/etc/passwd"), os.access(".", os.W_OK))
print(random.random() == random.Random(7).random())
import torch
print(torch.initial_seed())
"""


@pytest.mark.parametrize("first", [False, True], ids=["becomes", "looks-after"])
@pytest.mark.parametrize("read_only", [True, False], ids=["read-only", "writable"])
def test_without_tmp_etc_and_rights_the_command_runs_and_is_seeded(
    tmp_path: Path, first: bool, read_only: bool
) -> None:
    """As a user whom no passwd knows: the job runs, and that there is no record is said."""
    space = ["unshare", *ALONE, "--mount", *(["--pid", "--fork", "--mount-proc"] if first else [])]
    user = 12345 if os.geteuid() == 0 else 0  # without rights there is but one in the new space
    as_user = f"setpriv --reuid={user} --regid={user} --clear-groups" if user else ""
    env = {**BARE, "ROOT": str(tmp_path), "READ_ONLY": "yes" if read_only else "", "AS": as_user}
    ran = run(*space, "sh", "-c", BARE_ROOT, "sh", BARE_PYTHON, "-B", "-c", LOOK, env=env)
    writable = not read_only and not user
    assert ran.out == f"{user} False False {writable}\nTrue\n7\n", ran.err
    assert ran.code == 0
    reason = "Read-only file system" if read_only else "Permission denied"
    lost = [f"reprobuild: no record is written: {reason}: /work/reprobuild-record"]
    assert ran.err.splitlines() == ["Using seed: 7", *([] if writable else lost)]


def test_a_command_that_cannot_be_run_has_its_code_there_too(tmp_path: Path) -> None:
    env = {**BARE, "ROOT": str(tmp_path), "READ_ONLY": "yes"}
    for command, code in (("/nonexistent", 127), ("/work", 126), ("false", 1), ("true", 0)):
        assert run("unshare", *ALONE, "--mount", "sh", "-c", BARE_ROOT, "sh", command, env=env).code == code


def test_standard_streams_that_are_closed_are_no_fault_of_the_entrypoint() -> None:
    inner = " ".join(ENTRYPOINT)
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        env = {"REPROBUILD_SEED": "7"}
        assert run("sh", "-c", f"{inner} sh -c 'exit 5' {closed}", env=env).code == 5


def on_terminal(*command: str, typed: list[tuple[str, str]]) -> tuple[str, int]:
    """Run a command on a terminal; type each text after another was seen; return the screen and the exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(FRESH[0], [*FRESH, *command], {"PATH": os.environ["PATH"], "TERM": "dumb", "PS1": "$ "})
    screen, deadline = "", time.monotonic() + 20
    while time.monotonic() < deadline:
        if typed and typed[0][0] in screen:
            os.write(terminal, typed.pop(0)[1].encode())
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                chunk = os.read(terminal, 4096)
            except OSError:
                break
            if not chunk:
                break
            screen += chunk.decode()
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(terminal)
    return screen, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_an_interactive_shell_controls_its_jobs() -> None:
    typed = [
        ("$ ", "sh -c 'echo up$((1 + 1)); exec sleep 30'\n"),
        ("up2", "\x03"),
        ("^C", "echo a$((1 + 1))b\n"),
        ("a2b", "exit 7\n"),
    ]
    screen, code = on_terminal(*AS_INIT, "/bin/bash", "--norc", "--noprofile", "-i", typed=typed)
    assert code == 7, screen
    assert "job control" not in screen
    assert "cannot set terminal" not in screen


COUNT = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
print("ready", flush=True)
count, wait = 0, 10
while signal.sigtimedwait({signal.SIGINT}, wait):
    count, wait = count + 1, 0.5
print(f"interrupted {count} times", flush=True)
"""


def test_ctrl_c_reaches_the_command_once() -> None:
    screen, code = on_terminal(*AS_INIT, sys.executable, "-c", COUNT, typed=[("ready", "\x03")])
    assert "interrupted 1 times" in screen, screen
    assert code == 0
