"""The lines at which two runs begin to differ, of programs that this machine's Python runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from reprobuild.errors import InconclusiveError
from reprobuild.trace.display import hide_in_findings
from reprobuild.trace.divergence import find_divergence
from reprobuild.trace.line_comparison import Origin
from reprobuild.trace.lines import find_origins
from reprobuild.trace.log import read_logs
from reprobuild.trace.origins import explain_origin, find_ending, read_sources
from reprobuild.trace.rounds import Findings
from tests.conftest import ROOT
from tests.determinism.planted import FAULTS_FOLDER
from tests.tracing.planted import SCRIPTS, Planted

# Outside a container there is one host name.
HERE = [script for script in SCRIPTS if script.name != "host_name_seed"]
START = "import runpy, sys, reprobuild_runtime.startup; sys.argv = sys.argv[1:]; sys.path.insert(0, sys.argv[1]); "
START += "runpy.run_path(sys.argv[0], run_name='__main__')"


def record(script: Path, folder: Path, **options: object) -> Path:
    """Run a script in a new directory, with a record of its lines, and return the directory of the logs."""
    logs, work = folder / "logs", folder / "work"
    work.mkdir(parents=True)
    values = json.dumps({"folder": str(logs), "lines": True, **options})
    env = {
        **os.environ, "PYTHONPATH": str(ROOT), "REPROBUILD_TRACE": values, "REPROBUILD_SEED": "7",
        "PYTHONHASHSEED": "7", "PYTHONDONTWRITEBYTECODE": "1", "REPROBUILD_RECORD": "0",
    }  # fmt: skip
    argv = [sys.executable, "-c", START, str(script), str(script.parent)]
    done = subprocess.run(argv, cwd=work, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "reprobuild:" not in done.stderr.replace("reprobuild: PYTHONHASHSEED", ""), done.stderr
    return logs


def origins_of(script: Path, folder: Path) -> list[Origin]:
    return find_origins(record(script, folder / "1"), record(script, folder / "2"))


SLOW = (
    "as_completed",
    "async_order",
    "imap_unordered",
    "listing_order",
    "two_producers",
)  # threads and processes that compute for seconds, line by line
FAULTS = [
    pytest.param(fault, id=fault.name, marks=[pytest.mark.long] if fault.name in SLOW else [])
    for fault in HERE
]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_line_of_a_fault_is_the_first_origin(fault: Planted, tmp_path: Path) -> None:
    """A fault that depends on threads may give equal results; then the pair is run again."""
    script = FAULTS_FOLDER / f"{fault.name}.py"
    for number in range(5):
        origins = origins_of(script, tmp_path / str(number))
        if origins:
            break
    cause = explain_origin(origins[0])
    assert fault.place in cause.text, origins
    assert cause.place.partition(":")[0] == str(script)
    assert cause.kind == fault.kind


def write(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "program.py"
    path.write_text(text)
    return path


def test_a_program_without_a_difference_has_no_origin(tmp_path: Path) -> None:
    script = write(
        tmp_path / "s",
        "import random\n\n\nclass Box:\n    pass\n\n\ndef work(n):\n    box = Box()\n    box.it = box\n"
        "    box.values = {random.random() for _ in range(n)}\n    return sorted(box.values), object(), lambda: n\n\n\n"
        "print(work(20)[0])\n",
    )  # fmt: skip
    assert origins_of(script, tmp_path) == []


def test_a_measured_time_reaches_less_than_a_fault(tmp_path: Path) -> None:
    script = write(
        tmp_path / "s",
        "import os, time\n\nbegan = time.time()\nnumber = os.urandom(4)\nvalues = list(number)\ntotal = sum(values)\n"
        "mean = total / 4\nresult = [mean, total]\nelapsed = time.time() - began\n",
    )
    first, *rest = origins_of(script, tmp_path)
    assert (first.text, first.names) == ("number = os.urandom(4)", ("number",))
    assert "began = time.time()" in [origin.text for origin in rest]
    assert first.reach > rest[0].reach


def test_a_record_of_lines_is_given_up_after_its_time(tmp_path: Path) -> None:
    """A slow program is not made twenty times slower; the next runs record it without a limit."""
    text = "total = 0\nfor number in range(30_000_000):\n    total += number\n    if {}:\n        break\n"
    quick = record(write(tmp_path / "q", text.format("number > 3000")), tmp_path / "1", line_seconds=60)
    (log,) = quick.glob("*.lines")
    assert log.stat().st_size > 100_000
    slow = record(write(tmp_path / "s", text.format("False")), tmp_path / "2", line_seconds=1)
    (log,) = slow.glob("*.lines")
    assert log.stat().st_size == 0


def test_a_statement_of_several_lines_reads_what_each_of_them_reads(tmp_path: Path) -> None:
    """Else the line that assigns seems to have made the difference anew."""
    script = write(
        tmp_path / "s",
        "import os\n\nseed = os.urandom(2)\nresult = dict(\n    first=bytes(\n        seed\n    ),\n)\n"
        "for part in (\n    result,\n    result,\n):\n    total = len(part) and part['first']\n",
    )  # fmt: skip
    (origin,) = origins_of(script, tmp_path)
    assert origin.text == "seed = os.urandom(2)"


ENDS = """
import multiprocessing, time

def work():
    time.sleep(600)

if __name__ == "__main__":
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.{call}()
    process.join()
"""


@pytest.mark.parametrize("call", ["terminate", "kill"])
def test_a_line_that_ends_another_process_is_named(call: str, tmp_path: Path) -> None:
    """It is the answer if files differ and no variable does."""
    cause = find_ending(record(write(tmp_path / "s", ENDS.format(call=call)), tmp_path))
    assert cause is not None
    assert (cause.kind, cause.text) == ("host code", f"process.{call}()")
    assert cause.place.endswith("program.py:10")
    assert find_ending(record(write(tmp_path / "t", "value = 1\n"), tmp_path / "2")) is None


def test_a_difference_follows_variables_through_calls_and_results(tmp_path: Path) -> None:
    script = write(
        tmp_path / "s",
        "import os\n\n\ndef draw():\n    return os.urandom(2)\n\n\ndef double(value):\n    more = value * 2\n"
        "    return more\n\n\nparts = [double(draw()) for _ in range(3)]\njoined = b''.join(parts)\n",
    )  # fmt: skip
    (origin,) = origins_of(script, tmp_path)
    assert origin.text == "return os.urandom(2)"
    assert explain_origin(origin).kind == "generator"


def test_a_value_that_another_thread_changes_is_named(tmp_path: Path) -> None:
    script = write(
        tmp_path / "s",
        "import os, threading\n\ntotal = [0]\n\n\ndef add():\n    total.__setitem__(0, os.getpid())\n\n\n"
        "thread = threading.Thread(target=add)\nthread.start()\nthread.join()\nresult = total[0] + 1\n"
        "final = result * 2\n",
    )  # fmt: skip
    places = {origin.text: origin for origin in origins_of(script, tmp_path)}
    assert "total.__setitem__(0, os.getpid())" in places
    shared = places["result = total[0] + 1"]
    assert shared.is_shared
    assert explain_origin(shared).subject == "a value that threads share"


def test_runs_that_go_different_ways_name_the_line_that_decided(tmp_path: Path) -> None:
    script = write(
        tmp_path / "s",
        "import os, pathlib\n\nmark = pathlib.Path('../../mark')\nif mark.exists():\n    a = 1\nelse:\n"
        "    mark.touch()\n    b = 2\n",
    )  # fmt: skip
    (origin,) = origins_of(script, tmp_path)
    assert origin.text == "if mark.exists():"
    assert origin.reach >= 1000


def test_a_marked_value_is_a_record_of_its_step(tmp_path: Path) -> None:
    script = write(
        tmp_path / "s",
        "import os, random\nfrom reprobuild_runtime import mark_step\n\nscore = 1\nfor step in range(4):\n"
        "    score += hash(os.urandom(8)) if step == 2 else random.random()\n"
        "    mark_step(score=score, step=step)\n",
    )
    logs = [read_logs(record(script, tmp_path / str(number), lines=False)) for number in range(2)]
    divergence = find_divergence(*logs)
    assert divergence is not None
    assert (divergence.step, divergence.record.kind, divergence.record.name) == (2, "mark", "score")
    assert divergence.record.place == f"{script}:7"
    assert len(logs[0]["main"]) == 5


def test_a_mark_without_a_trace_has_no_effect(tmp_path: Path) -> None:
    script = write(tmp_path, "from reprobuild_runtime import mark_step\n\nmark_step(score=3)\n")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, check=True)
    assert done.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]


def test_lines_of_libraries_are_not_recorded(tmp_path: Path) -> None:
    script = write(tmp_path / "s", "import json\n\ntext = json.dumps({'a': [1, 2]}, indent=1)\n")
    (log,) = record(script, tmp_path / "1").glob("*.lines")
    files = {json.loads(line)["p"] for line in log.read_text().splitlines()}
    assert files == {str(script)}


def test_a_line_in_a_loop_is_recorded_a_bounded_number_of_times(tmp_path: Path) -> None:
    script = write(tmp_path / "s", "total = 0\nfor number in range(20000):\n    total += number\n")
    (log,) = record(script, tmp_path / "1").glob("*.lines")
    assert 4000 <= len(log.read_text().splitlines()) < 5000


def test_forked_children_have_logs_of_their_own(tmp_path: Path) -> None:
    script = write(
        tmp_path / "s",
        "import os\n\nfor number in range(2):\n    if not os.fork():\n        child = number\n        os._exit(0)\n"
        "    os.wait()\n",
    )
    logs = sorted(path.name for path in record(script, tmp_path / "1").glob("*.lines"))
    assert logs[0] == "main.lines.lines"
    lines = (tmp_path / "1" / "logs" / logs[0]).read_text().splitlines()
    assert len(lines) == len(set(lines))  # a child does not write the buffer of its parent again


def test_a_secret_and_an_escape_in_a_line_are_not_shown(tmp_path: Path) -> None:
    token = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    script = write(
        tmp_path / "s", f"import os\n\nvalue = os.urandom(2)  # {token} \x1b[2J\nmore = list(value)\n"
    )
    origins = tuple(origins_of(script, tmp_path))
    shown = hide_in_findings(Findings(steps=1, processes=1, runs=2, origins=origins))
    (origin,) = shown.origins
    assert token not in origin.text
    assert "\x1b" not in origin.text
    assert origin.text.startswith("value = os.urandom(2)")


@pytest.mark.parametrize(
    "line",
    [
        "nonsense", "{}", '{"e": "line", "f": -1, "l": 1, "v": {}, "p": "x"}',
        '{"e": "line", "f": 1, "l": 1, "v": {"a": "<script>"}, "p": "x"}',
        '{"e": "x", "f": 1, "l": 1, "v": {}, "p": ""}',
        json.dumps({"e": "line", "f": 1, "l": 1, "v": {f"password{n}=x": "0" * 16 for n in range(900)}, "p": "x"}),
        '{"e": "line", "f": 1, "l": 1, "v": {}, "p": "x", "w": ["\\u001b[2J"]}', "[" * 100_000,
        json.dumps({"e": "line", "f": 1, "l": 1, "v": {}, "p": "x" * 4097}),
    ],
)  # fmt: skip
def test_a_damaged_log_is_refused(line: str, tmp_path: Path) -> None:
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        (tmp_path / number / "main.lines.lines").write_text(line + "\n")
    with pytest.raises(InconclusiveError, match=r"the log main\.lines\.lines is not valid") as caught:
        find_origins(tmp_path / "1", tmp_path / "2")
    assert caught.value.hint.startswith("run the trace again")


@pytest.mark.parametrize(("most", "places"), [(400_000, ["/x.py:1", "/x.py:3"]), (2000, ["/x.py:1"])])
def test_a_comparison_ends_at_too_many_names(
    most: int, places: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program chooses the names, and they are held in memory; the first lines still count."""
    monkeypatch.setattr("reprobuild.trace.line_comparison.MOST_NAMES", most)
    for run in ("1", "2"):
        (tmp_path / run).mkdir()
        lines = [{"e": "line", "f": 1, "l": 1, "v": {"a": run * 16}, "w": ["a"], "p": "/x.py"}]
        for number in range(5):
            values = {f"::n{number}_{count}": "0" * 16 for count in range(800)}
            lines.append({"e": "line", "f": 1, "l": 2, "v": values, "p": "/x.py"})
        lines.append({"e": "line", "f": 1, "l": 3, "v": {"b": run * 16}, "w": ["b"], "p": "/x.py"})
        (tmp_path / run / "main.lines").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert sorted(origin.place for origin in find_origins(tmp_path / "1", tmp_path / "2")) == places


@pytest.mark.parametrize(
    ("bound", "most"), [("line_comparison._MOST_REACHED", 3000), ("lines._MOST_WORK", 9000)]
)
def test_differences_that_reach_many_lines_are_bounded(
    bound: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program chooses how many origins and lines there are, and their product is held in memory."""
    monkeypatch.setattr(f"reprobuild.trace.{bound}", most)
    for run in ("1", "2"):
        (tmp_path / run).mkdir()
        names = [f"v{number}" for number in range(100)]
        lines: list[dict[str, object]] = [
            {"e": "line", "f": 1, "l": number, "v": {name: run * 16}, "p": "x"}
            for number, name in enumerate(names)
        ]
        lines.append({"e": "line", "f": 1, "l": 100, "v": dict.fromkeys(names, run * 16), "p": "x"})
        lines += [
            {"e": "line", "f": 1, "l": line, "v": {"v0": run * 16}, "p": "x"} for line in range(101, 1000)
        ]
        (tmp_path / run / "main.lines").write_text("".join(json.dumps(line) + "\n" for line in lines))
    origins = find_origins(tmp_path / "1", tmp_path / "2")
    assert origins
    assert max(origin.reach for origin in origins) < 200


@pytest.mark.parametrize(("bound", "most"), [("lines._MOST_KEPT", 9), ("lines.MOST_NAMES", 50)])
def test_many_threads_do_not_multiply_the_memory(
    bound: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log can have many names, as those of threads; the first ones still count."""
    monkeypatch.setattr(f"reprobuild.trace.{bound}", most)
    for run in ("1", "2"):
        (tmp_path / run).mkdir()
        for thread in range(30):
            values = {f"::v{thread}_{number}": run * 16 for number in range(4)}
            record = {
                "e": "line",
                "f": 1,
                "l": thread,
                "v": values,
                "w": [*values],
                "p": "x",
                "t": "y" * 5000,
            }
            text = json.dumps(record) + "\n"
            (tmp_path / run / f"main.lines-{thread:02}.lines").write_text(text)
    origins = find_origins(tmp_path / "1", tmp_path / "2")
    assert 5 < len(origins) < 20
    assert {len(origin.text) for origin in origins} == {200}


def test_long_names_of_several_logs_share_one_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names were counted, and not their bytes; those of earlier logs stayed in memory beside them."""
    for module in ("lines", "line_comparison"):
        monkeypatch.setattr(f"reprobuild.trace.{module}.MOST_MEMORY", 8 << 20)
    for run in ("1", "2"):
        (tmp_path / run).mkdir()
        for log in range(3):
            with (tmp_path / run / f"p{log}.lines").open("w") as file:
                for number in range(12):
                    values = {
                        f"::{log}_{number}_{count}{chr(0x1F600) * 180}": run * 16 for count in range(790)
                    }
                    record = {"e": "line", "f": 1, "l": number, "v": values, "p": "x"}
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
    tracemalloc.start()
    try:
        assert find_origins(tmp_path / "1", tmp_path / "2")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 << 20


@pytest.mark.parametrize(("most", "count"), [(30_000, 1), (10_000_000, 6)])
def test_the_memory_of_names_is_that_of_all_logs(
    most: int, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("lines", "line_comparison"):
        monkeypatch.setattr(f"reprobuild.trace.{module}.MOST_MEMORY", most)
    for run in ("1", "2"):
        (tmp_path / run).mkdir()
        for log in range(6):
            values = {f"::{log}_{number}{'x' * 150}": run * 16 for number in range(200)}
            record = {"e": "line", "f": 1, "l": log, "v": values, "p": "x"}
            (tmp_path / run / f"p{log}.lines").write_text(json.dumps(record) + "\n")
    assert len(find_origins(tmp_path / "1", tmp_path / "2")) == count


@pytest.mark.parametrize(("bound", "most"), [("lines._MOST_WORK", 25), ("lines._MOST_BYTES", 1200)])
def test_names_of_one_log_are_bounded(
    bound: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records without a value cost time, too, and hard links cost a program nothing."""
    monkeypatch.setattr(f"reprobuild.trace.{bound}", most)
    for run in ("1", "2"):
        (tmp_path / run).mkdir()
        empty = [{"e": "line", "f": 1, "l": line, "v": {}, "p": "x"} for line in range(10)]
        for thread in range(30):
            last = {"e": "line", "f": 1, "l": 99, "v": {"v": run * 16}, "p": f"{thread}"}
            text = "".join(json.dumps(record) + "\n" for record in (*empty, last))
            (tmp_path / run / f"main.lines-{thread:02}.lines").write_text(text)
    assert 1 <= len(find_origins(tmp_path / "1", tmp_path / "2")) <= 3


def test_a_log_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        os.mkfifo(tmp_path / number / "main.lines.lines")
    with pytest.raises(InconclusiveError, match="is not valid"):
        find_origins(tmp_path / "1", tmp_path / "2")


def test_calls_without_an_end_and_many_names_are_bounded(tmp_path: Path) -> None:
    calls = [{"e": "call", "f": number, "l": 1, "v": {}, "p": "x"} for number in range(100_010)]
    names = {f"name{number}": "0" * 16 for number in range(300)}
    for number in ("1", "2"):
        first = {"e": "line", "f": 200_000, "l": 2, "v": dict.fromkeys(names, number * 16), "p": "x"}
        last = {"e": "line", "f": 200_001, "l": 3, "v": {"late": number * 16}, "p": "x"}
        (tmp_path / number).mkdir()
        text = "".join(json.dumps(record) + "\n" for record in (first, *calls, last))
        (tmp_path / number / "main.lines.lines").write_text(text)
    (origin,) = find_origins(tmp_path / "1", tmp_path / "2")
    assert (origin.place, len(origin.names)) == ("x:2", 20)


def test_last_lines_of_many_calls_are_bounded(tmp_path: Path) -> None:
    """Each call keeps its last line: texts of a megabyte and hundreds of long names, in thousands of calls."""
    wide = "\U0001f600"
    values = {f"{number}{'x' * 190}{wide}": "0" * 16 for number in range(300)}
    (tmp_path / "1").mkdir()
    with (tmp_path / "1" / "main.lines.lines").open("w") as file:
        for number in range(2000):
            record = {
                "e": "call", "f": number, "l": number, "v": values, "p": wide * 4000, "t": wide + "x" * 100_000,
            }  # fmt: skip
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    (tmp_path / "2").symlink_to("1")
    tracemalloc.start()
    try:
        assert find_origins(tmp_path / "1", tmp_path / "2") == []
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 500 << 20


def test_calls_that_are_not_recorded_do_not_part_two_runs(tmp_path: Path) -> None:
    """A line that ran very often is recorded no more, and its calls are still counted."""
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        above = {"e": "line", "f": 1, "l": 1, "v": {"parts": str(number) * 16}, "p": "x"}
        calls = [
            {"e": event, "f": 10 * number + call, "l": 5, "v": {}, "p": "x", "a": 1, "al": 2}
            for call in range(3)
            for event in ("call", "return")
        ]
        last = {"e": "line", "f": 1, "l": 3, "v": {"late": str(number) * 16}, "p": "x"}
        text = "".join(json.dumps(record) + "\n" for record in (above, *calls, last))
        (tmp_path / str(number) / "main.lines.lines").write_text(text)
    assert {origin.place for origin in find_origins(tmp_path / "1", tmp_path / "2")} == {"x:1", "x:3"}


@pytest.mark.parametrize("frames", [(7, 8), (8, 7)])
def test_two_calls_that_change_places_part_two_runs(frames: tuple[int, int], tmp_path: Path) -> None:
    """Tasks of one function: which of them goes on first is a difference, although each record is of the same line."""
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        begun = [{"e": "call", "f": frame, "l": 5, "v": {}, "p": "x", "a": 1, "al": 2} for frame in (7, 8)]
        order = (7, 8) if number == 1 else frames
        goes_on = [{"e": "line", "f": frame, "l": 6, "v": {}, "p": "x"} for frame in order]
        first = {"e": "line", "f": 1, "l": 1, "v": {}, "p": "x"}
        text = "".join(json.dumps(record) + "\n" for record in (first, *begun, *goes_on))
        (tmp_path / str(number) / "main.lines.lines").write_text(text)
    origins = find_origins(tmp_path / "1", tmp_path / "2")
    assert bool(origins) == (frames == (8, 7))


def test_calls_that_carry_many_differences_are_bounded(tmp_path: Path) -> None:
    """Each call reads a variable with 199 origins, hundreds of times: sets of them fill the memory."""
    reads = ["a"] * 390
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        digest = number * 16
        names = {f"v{index}": digest for index in range(199)}
        with (tmp_path / number / "main.lines").open("w") as file:
            for name in names:
                file.write(json.dumps({"e": "line", "f": 1, "l": 1, "p": "x", "v": {name: digest}}) + "\n")
            last = {"e": "line", "f": 1, "l": 2, "p": "x", "v": {**names, "a": digest}}
            file.write(json.dumps(last) + "\n")
            for call in range(2, 12_100):
                above = {"a": call - 1, "al": 3, "ar": reads}
                file.write(
                    json.dumps({"e": "call", "f": call, "l": 3, "p": "x", "v": {"a": digest}, **above}) + "\n"
                )
    tracemalloc.start()
    find_origins(tmp_path / "1", tmp_path / "2")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 600 << 20


def test_a_log_that_is_a_link_is_refused(tmp_path: Path) -> None:
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        (tmp_path / number / "main.lines.lines").symlink_to("/etc/passwd")
    with pytest.raises(InconclusiveError, match="is not valid"):
        find_origins(tmp_path / "1", tmp_path / "2")


def test_each_source_explains_a_line(tmp_path: Path) -> None:
    lines = {
        "order = os.urandom(3)": "generator",
        "buffer = numpy.empty(3)": "uninitialised memory",
        "names = os.listdir(path)": "data order",
        "x = time.monotonic()": "host code",
        "free = os.getloadavg()": "host code",
        "model = build(config)": "host code",
    }
    for text, kind in lines.items():
        origin = Origin(place="/a/b.py:3", text=text, names=("x",), reach=2)
        assert explain_origin(origin).kind == kind
    assert all(source.remedy for source in (*read_sources().source, *read_sources().ending))
