"""The first difference of two logs, and its class."""

from __future__ import annotations

import contextlib
import json
import os
import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.errors import InconclusiveError
from reprobuild.trace.cause import classify
from reprobuild.trace.command import TraceOptions, save_logs, trace_command
from reprobuild.trace.display import hide_in_findings
from reprobuild.trace.divergence import Divergence, find_divergence
from reprobuild.trace.line_comparison import Origin
from reprobuild.trace.log import ENTRY, read_logs
from reprobuild.trace.rounds import Findings
from reprobuild.trace.strides import find_strides
from reprobuild.trace.traced_run import TracedRun
from reprobuild_runtime.trace.digests import digest_bytes
from reprobuild_runtime.trace.log import TraceLog
from tests.exchanges import MOMENTS, exchange

Steps = Sequence[Sequence[Mapping[str, Any]]]


class _NoTensors:
    def finish(self, pending: Sequence[object]) -> list[str]:
        assert not list(pending)
        return []


def write(folder: Path, steps: Steps, name: str = "main") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    log = TraceLog(str(folder), name, {"process": name})
    for records in steps:
        for number, record in enumerate(records):
            log.add({"kind": "operation", "name": "aten.add.Tensor", "number": number, **record})
        log.end_step(_NoTensors())  # type: ignore[arg-type]
    log.close()
    return folder


def compare(tmp_path: Path, first: Steps, second: Steps) -> Divergence | None:
    one, two = write(tmp_path / "1", first), write(tmp_path / "2", second)
    return find_divergence(read_logs(one), read_logs(two))


def digests(words: str) -> list[str]:
    return [digest_bytes(word.encode()) for word in words.split()]


def operation(inputs: str = "", outputs: str = "", **more: Any) -> dict[str, Any]:
    """Return a record; each word stands for a digest."""
    return {"inputs": digests(inputs), "outputs": digests(outputs), **more}


def test_equal_logs_have_no_divergence(tmp_path: Path) -> None:
    steps = [[operation("a", "b"), operation("b", "c")]] * 5
    assert compare(tmp_path, steps, steps) is None


@pytest.mark.parametrize("place", range(9))
def test_the_first_step_that_differs_is_found_by_its_chain(place: int, tmp_path: Path) -> None:
    first = [[operation("a", f"{number}")] for number in range(9)]
    second = [[operation("a", f"{number}" if number < place else "x")] for number in range(9)]
    found = compare(tmp_path, first, second)
    assert found is not None
    assert (found.step, found.difference, found.record.number) == (place, "outputs", 0)


def test_measured_values_and_lines_are_not_compared(tmp_path: Path) -> None:
    first = [[{"kind": "stride", "name": "stride", "seconds": 3}, operation("a", "b", place="x.py:1")]]
    second = [[{"kind": "stride", "name": "stride", "seconds": 4}, operation("a", "b", place="x.py:2")]]
    assert compare(tmp_path, first, second) is None


def test_an_operation_with_other_results_for_the_same_inputs_is_a_kernel(tmp_path: Path) -> None:
    call = {"name": "aten.index_put.default", "place": "/s/train.py:3", "module": "Net.head"}
    found = compare(
        tmp_path, [[operation("a", "b"), operation("b", "c", **call), operation("c", "d")]],
        [[operation("a", "b"), operation("b", "x", **call), operation("x", "y")]],
    )  # fmt: skip
    assert found is not None
    cause = classify(found, (120, 80))
    assert (cause.kind, cause.place, cause.cure) == ("kernel", "/s/train.py:3", "strict")
    assert cause.subject == "aten.index_put.default of Net.head"
    assert "2 results in 200 repetitions" in cause.reason
    assert classify(found, (200,)).kind == "autotuning"
    assert classify(found).kind == "kernel"


def test_a_collective_with_other_results_is_communication(tmp_path: Path) -> None:
    call = {"name": "c10d.allreduce_.default"}
    found = compare(tmp_path, [[operation("a", "b", **call)]], [[operation("a", "c", **call)]])
    assert found is not None
    assert classify(found).kind == "communication"


def test_an_input_that_a_collective_wrote_is_communication(tmp_path: Path) -> None:
    """A collective operation may end after its call, so that its result is seen in the next operation."""
    call = operation("a", name="c10d.allreduce_.default", place="/s/a.py:5")
    found = compare(
        tmp_path, [[call, operation("b", "c", writers=[0])]], [[call, operation("x", "y", writers=[0])]]
    )
    assert found is not None
    assert (classify(found).kind, classify(found).place) == ("communication", "/s/a.py:5")


def test_memory_that_no_operation_wrote_is_uninitialised(tmp_path: Path) -> None:
    empty = operation(name="aten.empty.memory_format", place="/s/a.py:1")
    found = compare(
        tmp_path, [[empty, operation("a", "b", writers=[0])]], [[empty, operation("x", "y", writers=[0])]]
    )
    assert found is not None
    cause = classify(found)
    assert (cause.kind, cause.place, cause.cure) == ("uninitialised memory", "/s/a.py:1", "fill")
    assert classify(found, filled=False).kind == "host code"


@pytest.mark.parametrize("writers", [[0], [-1]])
def test_an_input_that_changed_outside_of_the_dispatcher_is_host_code(
    writers: list[int], tmp_path: Path
) -> None:
    found = compare(
        tmp_path, [[operation("", "a"), operation("a", "b", writers=writers)]],
        [[operation("", "a"), operation("x", "y", writers=writers)]],
    )  # fmt: skip
    assert found is not None
    cause = classify(found)
    assert cause.kind == "host code"
    assert ("aten.add.Tensor" in cause.reason) == (writers == [0])


def test_the_state_of_a_generator_is_the_last_input(tmp_path: Path) -> None:
    call = {"name": "aten.randn.default", "generator": True}
    found = compare(tmp_path, [[operation("s", "a", **call)]], [[operation("t", "b", **call)]])
    assert found is not None
    assert classify(found).kind == "generator"


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        ({"kind": "batch", "name": "DataLoader"}, "data order"), ({"kind": "generator", "name": "random"}, "generator"),
        ({"kind": "loss", "name": "loss"}, "unknown"), ({"kind": "mark", "name": "score"}, "unknown"),
    ],
)  # fmt: skip
def test_records_of_steps(record: dict[str, str], kind: str, tmp_path: Path) -> None:
    found = compare(
        tmp_path, [[{**record, "outputs": digests("a")}]], [[{**record, "outputs": digests("b")}]]
    )
    assert found is not None
    assert classify(found).kind == kind


def test_other_operations_and_other_arguments_are_host_code(tmp_path: Path) -> None:
    found = compare(tmp_path, [[operation("a", "b")]], [[operation("a", "b", name="aten.mul.Tensor")]])
    assert found is not None
    assert classify(found).reason == (
        "the runs go different ways: aten.add.Tensor in the first, aten.mul.Tensor in the second"
    )
    (tmp_path / "b").mkdir()
    found = compare(
        tmp_path / "b", [[operation("a", "b", arguments="[1]")]], [[operation("a", "b", arguments="[2]")]]
    )
    assert found is not None
    assert classify(found).reason == "its arguments differ: [1] and [2]"


def test_a_run_that_ends_earlier(tmp_path: Path) -> None:
    found = compare(tmp_path, [[operation("a", "b")]] * 3, [[operation("a", "b")]] * 2)
    assert found is not None
    assert (found.step, found.difference, found.second) == (2, "end", None)


def test_of_two_ranks_the_one_whose_own_operation_differs_comes_first(tmp_path: Path) -> None:
    shared = {"name": "c10d.allreduce_.default"}
    for run, mark in (("1", "a"), ("2", "x")):
        write(tmp_path / run, [[operation("i", "j"), operation("j", mark, **shared)]], "rank_0")
        write(tmp_path / run, [[operation("i", mark), operation(mark, mark + "2", **shared)]], "rank_1")
    found = find_divergence(read_logs(tmp_path / "1"), read_logs(tmp_path / "2"))
    assert found is not None
    assert (found.process, found.record.name) == ("rank_1", "aten.add.Tensor")


def test_a_killed_program_leaves_whole_steps(tmp_path: Path) -> None:
    for run in ("1", "2"):
        folder = write(tmp_path / run, [[operation("a", "b")], [operation("b", "c")]])
        records = folder / "main.records"
        records.write_bytes(records.read_bytes()[:-3])
        index = folder / "main.steps"
        index.write_bytes(index.read_bytes()[: ENTRY.size + 5])
    logs = read_logs(tmp_path / "1")
    assert len(logs["main"]) == 1
    assert find_divergence(logs, read_logs(tmp_path / "2")) is None


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "other"}, {"name": "a\x1b[2J"}, {"number": -5}, {"outputs": ["x" * 32]}, {"outputs": ["a" * 33]},
        {"place": "a\nb"}, {"outputs": 3},
    ],
)  # fmt: skip
def test_a_record_of_another_form_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path / "1", [[operation("a", "b")]])
    folder = write(tmp_path / "2", [[operation("a", "c")]])
    header, line = (folder / "main.records").read_bytes().splitlines()
    changed = json.dumps({**json.loads(line), **change}).encode()
    (folder / "main.records").write_bytes(header + b"\n" + changed + b"\n")
    entry = ENTRY.pack(b"x" * 16, len(header) + len(changed) + 2)
    (folder / "main.steps").write_bytes(entry)
    with pytest.raises(InconclusiveError, match="the log of the process main is not valid") as caught:
        find_divergence(read_logs(tmp_path / "1"), read_logs(folder))
    assert caught.value.hint == "run the trace again; does the program write into the directory of the logs?"


@pytest.mark.parametrize("end", [2**40, 1, 0])
def test_an_index_that_points_elsewhere_is_refused_or_read_in_bounds(end: int, tmp_path: Path) -> None:
    write(tmp_path / "1", [[operation("a", "b")]])
    folder = write(tmp_path / "2", [[operation("a", "c")]])
    (folder / "main.steps").write_bytes(ENTRY.pack(b"y" * 16, end))
    with contextlib.suppress(InconclusiveError):
        assert find_divergence(read_logs(tmp_path / "1"), read_logs(folder)) is not None


def test_a_step_that_ends_inside_a_line_is_refused(tmp_path: Path) -> None:
    """400 of them in a line of 3 MB were 1.2 GB to read, and a log may have four million."""
    header, record = b'{"format":2}\n', b'{"kind":"mark","name":"a","number":0}\n'
    (tmp_path / "main.records").write_bytes(header + b" " * 100 + record)
    ends = range(len(header) + 1, len(header) + 60)
    (tmp_path / "main.steps").write_bytes(b"".join(ENTRY.pack(b"x" * 16, end) for end in ends))
    log = read_logs(tmp_path)["main"]
    for step in (0, 1, 58):
        with pytest.raises(InconclusiveError, match="the log of the process main is not valid"):
            log.records(step)
    assert [item.name for item in log.stream(59)] == ["a"]  # those before a kill


@pytest.mark.parametrize("suffix", ["records", "steps"])
@pytest.mark.parametrize("kind", ["link", "pipe", "directory", "large"])
def test_what_is_no_file_of_a_log_is_refused(suffix: str, kind: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "1", [[operation("a", "b")]])
    path = folder / f"main.{suffix}"
    path.unlink()
    if kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, 1 << 40)
    with pytest.raises(InconclusiveError, match="is not valid"):
        read_logs(folder)


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_log_that_changes_during_a_trace_is_refused(kind: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "1", [[operation("a", "b")]])
    logs, path = read_logs(folder), folder / "main.records"
    path.unlink()
    path.symlink_to("/etc/passwd") if kind == "link" else os.mkfifo(path)
    with pytest.raises(InconclusiveError, match="is not valid"):
        logs["main"].records(0)
    with pytest.raises(OSError, match=r"."):
        save_logs(TracedRun(folder=folder, logs=logs), tmp_path / "copy")


@pytest.mark.parametrize("moment", MOMENTS)
def test_logs_are_not_written_through_a_link_of_an_exchanged_directory(moment: str, tmp_path: Path) -> None:
    """The very moment: the directory of a node is made, or opened, and another user exchanges it."""
    folder = write(tmp_path / "1", [[operation("a", "b")]])
    shared, victim = tmp_path / "shared", tmp_path / "victim"
    (shared / "trap").mkdir(parents=True)
    victim.write_bytes(b"precious")
    (shared / "trap" / "main.steps").symlink_to(victim)
    run = TracedRun(folder=folder, logs=read_logs(folder))
    with exchange(moment, "n1.trace", shared / "trap") as away:
        if moment == "mkdir":
            with pytest.raises(FileExistsError):
                save_logs(run, shared / "n1.trace")
        else:
            save_logs(run, shared / "n1.trace")
    assert victim.read_bytes() == b"precious"
    if moment == "open":
        assert sorted(path.name for path in away[0].iterdir()) == ["main.records", "main.steps"]
    with pytest.raises(FileExistsError):
        save_logs(run, shared / "n1.trace")


def test_a_hole_in_a_log_is_not_copied(tmp_path: Path) -> None:
    folder = write(tmp_path / "1", [[operation("a", "b")]])
    whole = (folder / "main.records").read_bytes()
    os.truncate(folder / "main.records", 1 << 30)
    save_logs(TracedRun(folder=folder, logs=read_logs(folder)), tmp_path / "copy")
    assert (tmp_path / "copy" / "main.records").read_bytes() == whole


def test_records_of_many_processes_are_bounded(tmp_path: Path) -> None:
    """Names of one file cost nothing, and each is read on its own."""
    for number in range(3):
        folder = write(tmp_path / "1", [[operation("a", "b")]], f"main.{number}")
        os.truncate(folder / f"main.{number}.records", 1 << 30)
    with pytest.raises(InconclusiveError, match="records of all processes have more than 2 GiB") as caught:
        read_logs(folder)
    assert caught.value.hint == "trace a shorter command"


def test_steps_of_many_processes_are_bounded(tmp_path: Path) -> None:
    for number in range(3):
        folder = write(tmp_path / "1", [[operation("a", "b")]], f"main.{number}")
        os.truncate(folder / f"main.{number}.steps", 2_000_000 * ENTRY.size)
    with pytest.raises(InconclusiveError, match="more than 4,000,000 steps in all processes") as caught:
        read_logs(folder)
    assert caught.value.hint == "trace a shorter command"


def test_a_deep_record_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "1", [[operation("a", "b")]])
    text = (folder / "main.records").read_text().splitlines()[0] + "\n" + "[" * 100_000 + "\n"
    (folder / "main.records").write_text(text)
    (folder / "main.steps").write_bytes(ENTRY.pack(b"x" * 16, len(text)))
    with pytest.raises(InconclusiveError, match="is not valid"):
        read_logs(folder)["main"].records(0)


def test_fields_that_are_not_compared_do_not_hide_a_later_difference(tmp_path: Path) -> None:
    found = compare(
        tmp_path, [[operation("a", "b", module="m")], [operation("b", "c")]],
        [[operation("a", "b", module="n", writers=[3], backward="x")], [operation("b", "x")]],
    )  # fmt: skip
    assert found is not None
    assert found.step == 1


def test_digests_that_differ_without_a_record_are_refused(tmp_path: Path) -> None:
    for run in ("1", "2"):
        write(tmp_path / run, [[operation("a", "b")]])
    index = tmp_path / "2" / "main.steps"
    index.write_bytes(b"\0" * 16 + index.read_bytes()[16:])
    with pytest.raises(
        InconclusiveError, match="the digests of step 0 differ, and its records do not"
    ) as caught:
        find_divergence(read_logs(tmp_path / "1"), read_logs(tmp_path / "2"))
    assert caught.value.hint == "run the trace again; does the program write into the directory of the logs?"


def test_a_process_of_one_run_alone_is_a_difference(tmp_path: Path) -> None:
    for run in ("1", "2"):
        write(tmp_path / run, [[operation("a", "b")]])
    write(tmp_path / "2", [[operation("c", "d")]], "rank_1")
    for pair in (("1", "2"), ("2", "1")):
        found = find_divergence(*(read_logs(tmp_path / run) for run in pair))
        assert found is not None
        assert (found.process, found.difference) == ("rank_1", "end")


def test_a_helper_that_is_killed_early_is_no_difference(tmp_path: Path) -> None:
    for run in ("1", "2"):
        write(tmp_path / run, [[operation("a", "b")]])
    write(tmp_path / "2", [[operation("", "c", kind="generator", name="random")]], "main.2")
    assert find_divergence(read_logs(tmp_path / "1"), read_logs(tmp_path / "2")) is None


@pytest.mark.parametrize("before", [[], [operation("", "c", kind="generator", name="random")]])
def test_work_after_many_steps_without_it_is_a_difference(before: list[Any], tmp_path: Path) -> None:
    for run in ("1", "2"):
        write(tmp_path / run, [[operation("a", "b")]])
    write(tmp_path / "2", [*[before] * 30, [operation("c", "d")]], "rank_1")
    found = find_divergence(read_logs(tmp_path / "1"), read_logs(tmp_path / "2"))
    assert found is not None
    assert (found.process, found.difference, found.step) == ("rank_1", "end", 30)


@pytest.mark.parametrize("empty", [1, 30])
def test_a_record_after_empty_steps_at_the_end_is_a_difference(empty: int, tmp_path: Path) -> None:
    same: Steps = [[operation("a", "b")]] * 3
    none: Steps = [[]] * empty
    found = compare(tmp_path, same, [*same, *none, [operation("x", "y")]])
    assert found is not None
    assert (found.difference, found.step) == ("end", 3 + empty)
    found = compare(tmp_path / "reversed", [*same, *none, [operation("x", "y")]], same)
    assert found is not None
    assert (found.first is not None, found.step) == (True, 3 + empty)
    assert compare(tmp_path / "equal", same, [*same, *none]) is None


def test_a_process_without_work_is_read_once(tmp_path: Path) -> None:
    for run in ("1", "2"):
        write(tmp_path / run, [[operation("a", "b")]])
    write(tmp_path / "2", [[operation("", "c", kind="generator", name="random")]] * 30, "rank_1")
    first, second = read_logs(tmp_path / "1"), read_logs(tmp_path / "2")
    assert find_divergence(first, second) is None
    (tmp_path / "2" / "rank_1.records").unlink()
    assert find_divergence(first, second) is None


@pytest.mark.parametrize("name", ["a\nb", "a b", "a\x1b[2J", "-" * 246 + "\u00e9"])
def test_a_log_with_another_name_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.steps").touch()
    with pytest.raises(InconclusiveError, match="is not a valid name of a log") as caught:
        read_logs(tmp_path)
    assert str(caught.value).isprintable()
    assert caught.value.hint == "remove that file; `--save DIR` of another trace writes the logs"


@pytest.mark.parametrize("suffix", ["records", "steps"])
def test_a_log_from_elsewhere_has_no_other_name(suffix: str, tmp_path: Path) -> None:
    """Many names of one file cost no bytes, and each would be read."""
    folder = write(tmp_path / "1", [[operation("a", "b")]])
    assert len(read_logs(folder, foreign=True)) == 1
    os.link(folder / f"main.{suffix}", tmp_path / "other")
    assert len(read_logs(folder)) == 1
    with pytest.raises(InconclusiveError, match="main is a file that has another name, too") as caught:
        read_logs(folder, foreign=True)
    assert caught.value.hint == "name a copy without hard links: `cp -r DIR COPY`"


def test_logs_of_another_run_have_one_name_each(tmp_path: Path) -> None:
    folder = write(tmp_path / "1", [[operation("a", "b")]])
    os.link(folder / "main.records", tmp_path / "other")
    nothing: Any = None
    with pytest.raises(InconclusiveError, match="main is a file that has another name, too"):
        trace_command(tmp_path, ("true",), nothing, nothing, TraceOptions(against=folder))


def test_a_part_of_a_record_behind_the_last_step_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, [[operation("a", "b")]])
    whole = (folder / "main.records").read_bytes()
    for rest in (b"{", whole.splitlines()[1], b"!" * 100):
        (folder / "main.records").write_bytes(whole + rest)
        with pytest.raises(InconclusiveError, match="main was ended in the middle of step 1"):
            read_logs(folder)["main"].verify()


def test_a_missing_field_and_an_empty_one_can_have_one_digest(tmp_path: Path) -> None:
    record = {"kind": "loss", "name": "loss", "outputs": digests("a")}
    write(tmp_path / "1", [[], [record], [], [record]])
    write(tmp_path / "2", [[], [{**record, "arguments": ""}], [], [{**record, "inputs": []}]])
    logs = [read_logs(tmp_path / run) for run in ("1", "2")]
    for log in logs:
        log["main"].verify(normalise=True)
        assert log["main"].chain(0) == bytes(16)
    assert [logs[0]["main"].chain(step) for step in range(4)] == [
        logs[1]["main"].chain(step) for step in range(4)
    ]
    assert find_divergence(*logs) is None


def test_a_log_of_another_recorder_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "1", [[operation("a", "b")]])
    text = (folder / "main.records").read_text().replace('"format": 2', '"format": 1')
    (folder / "main.records").write_text(text)
    with pytest.raises(InconclusiveError, match="written by another version of the recorder") as caught:
        read_logs(folder)
    assert caught.value.hint == (
        "make it again with this reprobuild: `reprobuild build LOCK -o OUT`, and then "
        "`reprobuild trace OUT --save DIR -- CMD`"
    )


def test_a_step_that_is_held_in_memory_is_bounded(tmp_path: Path) -> None:
    folder = write(tmp_path / "1", [[operation("a", "b")]])
    os.truncate(folder / "main.records", 300 << 20)
    (folder / "main.steps").write_bytes(ENTRY.pack(b"x" * 16, 300 << 20))
    with pytest.raises(
        InconclusiveError, match="step 0 of the process main has more than 16 MB of records"
    ) as caught:
        read_logs(folder)["main"].records(0)
    assert caught.value.hint == "leave --resume out, or resume a smaller model"


@pytest.mark.parametrize("field", [{"writers": [1] * 2}, {"replayed": [0]}, {"replayed": [1] * 1001}])
def test_numbers_without_a_bound_are_refused(field: dict[str, object], tmp_path: Path) -> None:
    """A few bytes of a log of another party must not become many in memory."""
    folder = write(tmp_path / "1", [[{**operation("a", "b"), **field}]])
    with pytest.raises(InconclusiveError, match="is not valid"):
        list(read_logs(folder)["main"].stream(0))


def test_a_large_step_is_compared_as_a_stream(tmp_path: Path) -> None:
    steps = [[operation(str(number), "b") for number in range(60_000)]]
    for run, last in (("1", "x"), ("2", "y")):
        write(tmp_path / run, [[*steps[0], operation("z", last)]])
    logs = [read_logs(tmp_path / run) for run in ("1", "2")]
    tracemalloc.start()
    found = find_divergence(*logs)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert found.before is not None
    assert peak < 4 << 20


def test_a_log_without_a_stride_is_not_read_to_its_end(tmp_path: Path) -> None:
    """`--against` takes a log of another party; its first records alone are searched."""
    folder = write(tmp_path / "1", [[operation("a", "b")]])
    line = b'{"kind":"mark","name":"a","number":0}\n'
    stride = b'{"kind":"stride","name":"a","number":0,"seconds":7}\n'
    for count, expected in ((1000, 7), (200_000, 1)):
        content = b'{"format":2}\n' + line * count + stride
        (folder / "main.records").write_bytes(content)
        (folder / "main.steps").write_bytes(ENTRY.pack(b"x" * 16, len(content)))
        assert find_strides(TracedRun(folder=folder, logs=read_logs(folder))) == {"": expected}


def test_a_log_from_elsewhere_is_compared_with_its_digests(tmp_path: Path) -> None:
    steps: Steps = [
        [],
        [operation("a", "b"), operation("b", "c", arguments="[1]")],
        [],
        [operation("ü", "c")],
    ]
    folder = write(tmp_path, steps)
    read_logs(folder)["main"].verify()
    records = folder / "main.records"
    whole = records.read_bytes()
    records.write_bytes(whole.replace(b"[1]", b"[2]"))
    with pytest.raises(InconclusiveError, match="the log of the process main is not valid"):
        read_logs(folder)["main"].verify()
    records.write_bytes(whole + whole.splitlines(keepends=True)[1])
    with pytest.raises(InconclusiveError, match="main was ended in the middle of step 4") as ended:
        read_logs(folder)["main"].verify()
    assert ended.value.hint == "run the trace again, and let the command end by itself"
    save_logs(TracedRun(folder=folder, logs=read_logs(folder)), tmp_path / "copy")
    read_logs(tmp_path / "copy")["main"].verify()


def test_each_process_keeps_its_own_stride(tmp_path: Path) -> None:
    """Ranks choose by the time of their steps; the next run records the same steps in each of them."""
    for name, stride in (("rank0", 3), ("rank1", 1), ("rank2", 3), ("rank3", 0)):
        record = {"kind": "stride", "name": "stride", "seconds": stride} if stride else operation("a", "b")
        write(tmp_path, [[record]], name)
    strides = find_strides(TracedRun(folder=tmp_path, logs=read_logs(tmp_path)))
    assert strides == {"": 3, "rank1": 1}


def test_a_run_with_operations_is_compared_by_its_steps(tmp_path: Path) -> None:
    loss = {"kind": "loss", "name": "loss", "outputs": digests("l")}
    other = {"kind": "parameters", "name": "SGD", "outputs": digests("p")}
    part = {"kind": "parameters", "name": "SGD group 0", "outputs": digests("q"), "detail": True}
    plain = read_logs(write(tmp_path / "1", [[loss, other]] * 3))
    full = read_logs(write(tmp_path / "2", [[operation("a", "b"), loss, part, other]] * 3))
    assert find_divergence(plain, full, of_steps=True) is None
    assert find_divergence(plain, full) is not None
    changed = {**other, "outputs": digests("x")}
    steps = [[operation("a", "b"), loss, part, other], [loss, part, changed]]
    found = find_divergence(plain, read_logs(write(tmp_path / "3", steps)), of_steps=True)
    assert found is not None
    assert (found.step, found.difference, found.record.kind) == (1, "outputs", "parameters")
    generator = {"kind": "generator", "name": "numpy.random", "outputs": digests("g")}
    imported = read_logs(write(tmp_path / "5", [[loss, other, generator]] * 3))
    assert find_divergence(plain, imported, of_steps=True) is None
    shorter = read_logs(write(tmp_path / "4", steps[:1]))
    found = find_divergence(plain, shorter, of_steps=True)
    assert found is not None
    assert (found.step, found.difference) == (1, "end")


def test_runs_without_a_common_process_are_not_compared(tmp_path: Path) -> None:
    write(tmp_path / "1", [[operation("a", "b")]])
    write(tmp_path / "2", [[operation("a", "b")]], "other")
    with pytest.raises(InconclusiveError, match="no process in common: main, and other") as caught:
        find_divergence(read_logs(tmp_path / "1"), read_logs(tmp_path / "2"))
    assert caught.value.hint == (
        "compare runs of one command, with as many processes; `--save DIR` of another trace writes its logs"
    )


def test_findings_have_no_secret_and_no_escape(tmp_path: Path) -> None:
    token = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    more = {"name": token, "place": f"/s/{token}.py:1", "arguments": f"['{token}']", "module": f"Net.{token}"}
    found = compare(tmp_path, [[operation("a", "b", **more)]], [[operation("a", "c", **more)]])
    assert found is not None
    findings = hide_in_findings(
        Findings(steps=1, processes=1, runs=2, divergence=found, cause=classify(found), origins=(
            Origin(place="x:1", text="", names=(token,), reach=1, writes=(token, "\x1b[2J")),
        ))
    )  # fmt: skip
    text = msgspec.json.encode(findings).decode()
    assert token not in text
    assert "\\u001b" not in text
    assert findings.divergence is not None
    assert findings.divergence.record.outputs == found.record.outputs


def test_too_many_processes_are_refused(tmp_path: Path) -> None:
    for number in range(4097):
        (tmp_path / f"{number}.steps").touch()
    with pytest.raises(InconclusiveError, match="4097 processes") as caught:
        read_logs(tmp_path)
    assert caught.value.hint == "trace a shorter command"
