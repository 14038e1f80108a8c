"""The door to other programs."""

from __future__ import annotations

import contextlib
import csv
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from reprobuild.errors import BuildError, EngineError, LockError
from reprobuild.infra import proc
from reprobuild.infra.proc import output, own_python, run, stream
from reprobuild.infra.proc.errors import TAIL_LINES, ProcessFailedError, ProcessTimeoutError
from reprobuild.infra.proc.own_python import own_code, own_module
from reprobuild.infra.proc.run import Process
from reprobuild.infra.proc.session import clean_up
from reprobuild.infra.proc.stream import feed
from reprobuild_portable.unbundle import engine, signature
from reprobuild_portable.unbundle.format import RefusedError

ENV = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


def python(script: str, *arguments: str, **more: object) -> bytes:
    return run([sys.executable, "-I", "-S", "-c", script, *arguments], env=ENV, purpose="test", **more)


def test_standard_output_comes_back() -> None:
    assert python("print('Grüße')") == "Grüße\n".encode()


def test_much_on_both_streams() -> None:
    """No pipe fills up and waits for ever."""
    script = "import sys; [stream.write('o' * 300_000) for stream in (sys.stderr, sys.stdout, sys.stderr)]"
    assert python(script, timeout=30) == b"o" * 300_000


def test_much_on_standard_input() -> None:
    data = os.urandom(1_000_000)
    script = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    assert python(script, stdin=data, timeout=30) == data


def test_standard_input_is_empty_where_none_is_given() -> None:
    assert python("import sys; print(repr(sys.stdin.read()))", timeout=30) == b"''\n"


def test_the_environment_is_the_one_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOT_GIVEN", "1")
    assert python("import os; print(sorted(os.environ))") == b"['LC_ALL', 'PATH']\n"


def test_the_working_directory(tmp_path: Path) -> None:
    assert python("import os; print(os.getcwd())", cwd=tmp_path) == f"{tmp_path.resolve()}\n".encode()


def test_no_shell() -> None:
    words = ["$HOME", "a b", "; exit 3", "*", "`id`", "'", ""]
    assert python("import sys; print(sys.argv[1:])", *words) == f"{words}\n".encode()


def test_the_exit_code_and_the_tail_of_the_errors() -> None:
    script = "import sys; [print('line', n, file=sys.stderr) for n in range(100)]; print('out'); sys.exit(7)"
    with pytest.raises(ProcessFailedError, match=r"could not test: `.*` exited 7\nline 80\n") as failed:
        python(script)
    assert failed.value.code == 7
    assert failed.value.exit_code == EngineError.exit_code
    assert len(str(failed.value).splitlines()) == 1 + TAIL_LINES
    assert str(failed.value).endswith("line 99")
    assert failed.value.stderr.startswith("line 0\n")


def test_a_signal() -> None:
    with pytest.raises(ProcessFailedError) as failed:
        python("import os; os.kill(os.getpid(), 9)")
    assert failed.value.code == -9


def test_errors_that_are_no_text() -> None:
    with pytest.raises(ProcessFailedError, match="�") as failed:
        python(r"import sys; sys.stderr.buffer.write(b'\xff\xfe'); sys.exit(1)")
    assert failed.value.code == 1


def test_a_program_that_is_absent(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="`no-such` is not on PATH, and is needed to unpack") as failed:
        run(["no-such"], env={"PATH": str(tmp_path)}, purpose="unpack")
    assert failed.value.hint == "install no-such"


def test_an_absent_program_as_another_error_with_another_hint() -> None:
    with pytest.raises(BuildError) as failed:
        run(["no-such"], env=ENV, purpose="unpack", missing=BuildError, hint="apt-get install it")
    assert failed.value.hint == "apt-get install it"


def test_the_program_is_looked_up_on_the_given_path(tmp_path: Path) -> None:
    script = tmp_path / "mine"
    script.write_text("#!/bin/sh\necho mine\n")
    script.chmod(0o755)
    assert run(["mine"], env={"PATH": str(tmp_path)}, purpose="test") == b"mine\n"


def test_a_program_that_cannot_be_run(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("#!/bin/sh\n")
    with pytest.raises(EngineError, match=r"`mine` cannot be run \(Permission denied\)") as failed:
        run(["mine"], env={"PATH": str(tmp_path)}, purpose="test")
    assert failed.value.hint == "check the permissions of `command -v mine`"


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"could not test: .*/gone: No such file or directory") as failed:
        python("pass", cwd=tmp_path / "gone")
    assert failed.value.hint == "was the directory removed meanwhile?"


def test_past_the_timeout() -> None:
    began = time.monotonic()
    with pytest.raises(EngineError, match=r"could not test: `.*` did not end within 1 s") as failed:
        python("import time; time.sleep(60)", timeout=1)
    assert time.monotonic() - began < 20
    assert failed.value.hint.startswith("run the command by hand to see where it waits: ")
    assert failed.value.hint.endswith("-c 'import time; time.sleep(60)'")


def fed(script: str, pieces: Iterable[bytes], **more: object) -> bytes:
    return feed([sys.executable, "-I", "-S", "-c", script], pieces, env=ENV, purpose="test", **more)


def test_pieces_are_read_one_after_the_other() -> None:
    script = (
        "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1]); sys.stderr.write('e' * 300_000)"
    )
    pieces = [bytes([number]) * 10_000 for number in range(100)]
    assert fed(script, iter(pieces), timeout=30) == b"".join(pieces)[::-1]
    assert fed("import sys; print(sys.stdin.read() == '')", []) == b"True\n"


def test_pieces_are_taken_as_they_are_read() -> None:
    """What the program does not read is never made."""
    taken = []

    def pieces() -> Iterator[bytes]:
        for number in range(10_000):
            taken.append(number)
            yield bytes(10_000)

    with pytest.raises(ProcessFailedError, match="enough") as failed:
        fed("import sys; sys.stdin.read(3); sys.exit('enough')", pieces(), timeout=30)
    assert failed.value.code == 1
    assert 0 < len(taken) < 100
    assert fed("print('I need nothing')", pieces(), timeout=30) == b"I need nothing\n"


def test_a_piece_that_cannot_be_had_ends_the_program(tmp_path: Path) -> None:
    """It must not take the end of the pieces for the end of the input."""
    script = f"import sys; sys.stdin.read(); open({str(tmp_path / 'whole')!r}, 'w').close()"

    def pieces() -> Iterator[bytes]:
        yield b"x"
        raise BuildError("the layer is damaged")

    with pytest.raises(BuildError, match="the layer is damaged"):
        fed(script, pieces())
    assert not (tmp_path / "whole").exists()


@pytest.mark.parametrize("pieces", [[], [bytes(10_000_000)]], ids=["all read", "none read"])
def test_pieces_past_the_timeout(pieces: list[bytes]) -> None:
    began = time.monotonic()
    with pytest.raises(EngineError, match=r"could not test: `.*` did not end within 1 s"):
        fed("import time; time.sleep(60)", pieces, timeout=1)
    assert time.monotonic() - began < 20


def test_an_absent_program_takes_no_pieces() -> None:
    with pytest.raises(BuildError, match="`no-such` is not on PATH, and is needed to pack") as failed:
        feed(
            ["no-such"], iter([b"x"]), env=ENV, purpose="pack", missing=BuildError, hint="apt-get install it"
        )
    assert failed.value.hint == "apt-get install it"


def streamed(script: str, **more: object) -> tuple[int, list[tuple[float, int, bytes]]]:
    came: list[tuple[float, int, bytes]] = []
    code = stream(
        [sys.executable, "-I", "-S", "-c", script], env=ENV, purpose="test",
        sink=lambda number, data: came.append((time.monotonic(), number, data)), **more,
    )  # fmt: skip
    return code, came


def test_output_is_handed_on_as_it_comes() -> None:
    script = """
import sys, time
print("one", flush=True); time.sleep(0.5); print("two", file=sys.stderr, flush=True); sys.exit(7)
"""
    code, came = streamed(script)
    assert code == 7
    assert [(number, data) for _, number, data in came] == [(1, b"one\n"), (2, b"two\n")]
    assert came[1][0] - came[0][0] > 0.3


def test_much_output_on_both_streams_is_handed_on() -> None:
    script = "import sys; [stream.write('o' * 300_000) for stream in (sys.stderr, sys.stdout, sys.stderr)]"
    code, came = streamed(script, timeout=30)
    assert code == 0
    assert sum(len(data) for _, number, data in came if number == 1) == 300_000
    assert sum(len(data) for _, number, data in came if number == 2) == 600_000


def test_a_signal_that_ends_a_streaming_program() -> None:
    assert streamed("import os; os.kill(os.getpid(), 9)")[0] == -9


@pytest.mark.parametrize("closes", ["", "os.close(1); os.close(2);"], ids=["writing", "silent"])
def test_a_streaming_program_past_its_time(closes: str, tmp_path: Path) -> None:
    """It can take along what it has started: it is asked to end first."""
    script = (
        "import os, signal, sys, time; from pathlib import Path;"
        f"signal.signal(signal.SIGTERM, lambda *_: sys.exit(Path({str(tmp_path / 'asked')!r}).touch()));"
        f"{closes} time.sleep(60)"
    )
    with pytest.raises(ProcessTimeoutError, match=r"did not end within 1 s") as late:
        streamed(script, timeout=1)
    assert late.value.hint.startswith("run the command by hand to see where it waits: ")
    assert (tmp_path / "asked").exists()


def test_a_streaming_program_that_will_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("reprobuild.infra.proc.stream"), "GRACE_SECONDS", 0.2)
    began = time.monotonic()
    with pytest.raises(ProcessTimeoutError):
        streamed(
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)", timeout=0.5
        )
    assert time.monotonic() - began < 5


def test_a_reader_that_stops_ends_the_program() -> None:
    def broken(number: int, data: bytes) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        stream([sys.executable, "-c", "while True: print('more')"], env=ENV, purpose="test", sink=broken)


def test_an_absent_program_is_no_stream() -> None:
    with pytest.raises(
        EngineError, match="`no-such-program` is not on PATH, and is needed to test"
    ) as failed:
        stream(["no-such-program"], env=ENV, purpose="test", sink=lambda *_: None)
    assert failed.value.hint == "install no-such-program"


def test_standard_output_into_a_file(tmp_path: Path) -> None:
    assert python("print('x' * 3_000_000)", output=tmp_path / "said") == b""
    assert (tmp_path / "said").read_bytes() == b"x" * 3_000_000 + b"\n"
    with pytest.raises(EngineError, match="exited 3"):
        python("import sys; print('half'); sys.exit(3)", output=tmp_path / "said")


def test_any_path_can_stand_between_commas() -> None:
    fields = ["type=oci", 'dest=/a, "b"/c', ""]
    assert next(csv.reader([proc.comma_separated(fields)])) == fields


# --- bounds ----------------------------------------------------------------------------------------

ENDLESS = "import os\nwhile True: os.write(1, bytes(65536))"


def test_output_without_an_end_is_an_error() -> None:
    with pytest.raises(
        EngineError, match=r"could not test: `.*` wrote more than 3 MiB to its standard output"
    ) as err:
        python(ENDLESS, most=3 << 20)
    assert (
        err.value.hint == "nothing of it was used; a program that writes so much here is hostile, or broken"
    )
    assert python("print('x' * 9, end='')", most=9) == b"x" * 9


def test_of_long_complaints_the_end_is_kept() -> None:
    script = (
        "import os, sys\nfor _ in range(600): os.write(2, bytes(65536))\nos.write(2, b'why'); sys.exit(3)"
    )
    with pytest.raises(ProcessFailedError, match="exited 3") as err:
        python(script)
    assert err.value.stderr.endswith("why")
    assert len(err.value.stderr) <= output.MOST_COMPLAINT + output.PIECE


def test_a_program_that_stands_for_another_is_named_as_that() -> None:
    with pytest.raises(ProcessFailedError, match="could not test: `inner` exited 4"):
        python("import sys; sys.exit(4)", command=["inner", "--option"])


def test_a_program_that_ends_before_it_has_read_all() -> None:
    assert python("print('enough')", stdin=bytes(3_000_000)) == b"enough\n"


# --- begun, and asked later ------------------------------------------------------------------------


def test_what_was_begun_works_on_until_its_answer_is_taken(tmp_path: Path) -> None:
    begun = Process(
        ["sh", "-c", f"echo said; : > {tmp_path}/there; head -c 200000 /dev/zero"], env=ENV, purpose="try"
    )
    while not (tmp_path / "there").exists():
        time.sleep(0.01)
    assert begun.result(60) == b"said\n" + bytes(200000)
    begun.end()


def test_what_was_begun_fails_as_others_do() -> None:
    with pytest.raises(ProcessFailedError, match="could not try: `sh` exited 3\nno") as caught:
        Process(["sh", "-c", "echo no >&2; exit 3"], env=ENV, purpose="try").result(60)
    assert caught.value.code == 3
    with pytest.raises(LockError, match="`no-such-program` is not on PATH, and is needed to try"):
        Process(["no-such-program"], env=ENV, purpose="try", missing=LockError)


@pytest.mark.parametrize("late", [True, False])
def test_what_was_begun_is_ended(late: bool, tmp_path: Path) -> None:
    """Past its time, or because nobody wants its answer any more."""
    begun = Process(["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 600"], env=ENV, purpose="wait")
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    if late:
        with pytest.raises(ProcessTimeoutError, match="could not wait: `sh` did not end within 0 s"):
            begun.result(0.1)
    else:
        begun.end()
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


# --- which file the name of a program means ---


def program(folder: Path, name: str = "made", text: str = "#!/bin/sh\necho decoy\n") -> Path:
    """Write a program into a directory."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return folder / name


STARTS = [
    lambda argv, env: run(argv, env=env, purpose="test"),
    lambda argv, env: feed(argv, [], env=env, purpose="test"),
    lambda argv, env: str(stream(argv, env=env, purpose="test", sink=lambda *_: None)).encode(),
    lambda argv, env: str(stream(argv, env=env, purpose="test", sink=lambda *_: None, exact=True)).encode(),
    lambda argv, env: Process(argv, env=env, purpose="test").result(60),
]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("entry", ["", ".", "bin", "../place/bin", "bin/../bin"])
def test_a_relative_entry_of_path_leads_to_no_program(
    entry: str,
    start: Callable[[list[str], dict[str, str]], bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = program(tmp_path / "place").parent
    program(place / "bin")
    monkeypatch.chdir(place)
    for path in (entry, f"{entry}:/nonexistent", f"/nonexistent:{entry}", f"{entry}:{os.defpath}"):
        with pytest.raises(EngineError, match="`made` is not on PATH") as caught:
            start(["made"], {"PATH": path})
        assert caught.value.hint == (
            f"PATH has it in `{entry or '.'}`, an entry relative to the current directory, which is not searched: "
            "write the entry in full"
        )
    program(tmp_path / "own", text="#!/bin/sh\nexit 0\n")
    assert b"decoy" not in start(["made"], {"PATH": f"{entry}:{tmp_path / 'own'}"})


def test_what_a_program_starts_is_looked_for_in_the_same_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "inner")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProcessFailedError, match="inner"):
        run(["sh", "-c", "inner"], env={"PATH": f"bin:.::{os.defpath}"}, purpose="test")
    assert run(["sh", "-c", "echo $PATH"], env={"PATH": ".:"}, purpose="test").decode().strip() == os.defpath
    assert proc.which("inner", {"PATH": "bin"}) is None
    assert proc.which("inner", {"PATH": str(tmp_path / "bin")}) == str(tmp_path / "bin/inner")


def test_a_program_of_the_current_directory_is_absent_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """`shutil.which` of Windows searches it before PATH."""
    monkeypatch.setattr("shutil.which", lambda name, path: f".\\{name}.EXE")
    assert proc.which("inner", os.environ) is None
    with pytest.raises(signature.AbsentError, match="ssh-keygen cannot be run"):
        signature.run_keygen(["find-principals"], b"")
    with pytest.raises(RefusedError, match="docker cannot be run"):
        engine.load(".", "docker", "name:tag", compared=False)


def test_an_environment_that_is_the_subject_is_kept() -> None:
    said = bytearray()
    env = {"PATH": f"bin::{os.defpath}"}
    stream(
        ["sh", "-c", "echo $PATH"],
        env=env,
        purpose="test",
        sink=lambda _, data: said.extend(data),
        exact=True,
    )
    assert said.decode().strip() == env["PATH"]


def test_a_program_that_falls_silent_is_ended() -> None:
    script = "import time; [print(n, flush=True) or time.sleep(0.2) for n in range(5)]; time.sleep(60)"
    argv, said = [sys.executable, "-I", "-S", "-c", script], bytearray()
    begin = time.monotonic()
    with pytest.raises(ProcessTimeoutError, match="said nothing for 1 s"):
        stream(argv, env=ENV, purpose="test", sink=lambda _, data: said.extend(data), silence=1, timeout=30)
    assert said == b"0\n1\n2\n3\n4\n"
    assert time.monotonic() - begin < 10
    with pytest.raises(ProcessTimeoutError, match="did not end within 1 s"):
        stream(argv, env=ENV, purpose="test", sink=lambda *_: None, silence=30, timeout=1)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be as one of the script of an installation: `python -m pytest` has the checkout in front."""
    checkout = str(Path(proc.__file__).parents[3])
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", checkout)])


@pytest.mark.usefixtures("installed")
def test_our_own_python_finds_packages_of_the_users_own_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pip install --user` is where clusters have it, and `-I` leaves that out."""
    site = tmp_path / "site-packages"
    (site / "mine").mkdir(parents=True)
    (site / "mine/__init__.py").touch()
    (site / "mine/__main__.py").write_text("import sys; print(sys.argv[1:], sys.flags.isolated)")
    (site / "msgspec").mkdir()
    (site / "msgspec/__init__.py").write_text("print('of the user')")
    argv = own_module("mine", "a b", "-c")
    assert argv[1:4] == ["-I", "-m", "mine"]
    monkeypatch.setattr(own_python.site, "getusersitepackages", lambda: str(site))
    monkeypatch.syspath_prepend(str(site))
    said = run(own_module("mine", "a b", "-c"), env=ENV, purpose="test", cwd=tmp_path)
    assert said.decode() == "['a b', '-c'] 1\n"
    assert run(own_code("import msgspec"), env=ENV, purpose="test") == b"of the user\n"


@pytest.mark.usefixtures("installed")
def test_an_isolated_python_without_this_program_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    proc.check_installed()
    base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    monkeypatch.setattr(sys, "executable", str(base))
    with pytest.raises(EngineError, match=f"`{base} -I` does not find reprobuild") as caught:
        proc.check_installed()
    assert caught.value.hint == (
        "install reprobuild with pip into the Python that runs it (a checkout with `pip install --editable`)"
    )


def test_our_own_python_finds_this_program_where_pythonpath_has_it(tmp_path: Path) -> None:
    """As on a machine without an index, where the wheels of a bundle are unpacked into a directory."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for package in ("reprobuild", "reprobuild_portable"):
        (tools / package).symlink_to(Path(proc.__file__).parents[3] / package)
    decoy = program(tmp_path / "place", "json.py", "open('ran', 'w')\n").parent
    script = (
        "from reprobuild.infra import proc\n"
        "inner = proc.own_code('import reprobuild, sys; print(reprobuild.__file__, sys.flags.isolated)')\n"
        "print(proc.run(inner, env={}, purpose='test').decode())"
    )
    other = [str(path) for path in map(Path, sys.path) if path.name == "site-packages"]
    base = f"{sys.base_prefix}/bin/python3.{sys.version_info.minor}"
    env = {**ENV, "PYTHONPATH": os.pathsep.join([str(tools), *other])}
    said = run([base, "-c", "import sys; sys.path.pop(0)\n" + script], env=env, purpose="test", cwd=decoy)
    assert said.decode().split() == [f"{tools}/reprobuild/__init__.py", "1"]
    assert not (decoy / "ran").exists()


def test_a_removal_goes_on_when_programs_are_ended(tmp_path: Path) -> None:
    def remove(name: str) -> None:
        script = "import sys, time; open(sys.argv[1], 'w'); time.sleep(1); open(sys.argv[2], 'w')"
        with contextlib.suppress(EngineError):
            python(script, str(tmp_path / f"{name} begun"), str(tmp_path / f"{name} done"))

    threads = [
        threading.Thread(target=clean_up, args=(lambda: remove("removal"),)),
        threading.Thread(target=remove, args=("other",)),
    ]
    for thread in threads:
        thread.start()
    while not all((tmp_path / f"{name} begun").exists() for name in ("removal", "other")):
        time.sleep(0.01)
    proc.end_all()
    for thread in threads:
        thread.join()
    assert (tmp_path / "removal done").exists()
    assert not (tmp_path / "other done").exists()
