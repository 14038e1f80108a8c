"""The user's command: what is asked for, what becomes of runs that fail or write nothing, and of no answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.engines.model import Finished, Task
from reprobuild.errors import EngineError, UsageError
from reprobuild.verify.determinism.summary import describe_work_bound, upper_bound
from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.container import LARGEST_INDEX, read_index
from reprobuild.verify.workload.holes import find_holes
from reprobuild.verify.workload.judge import (
    LONGEST,
    FileAnswer,
    OutputEntry,
    OutputIndex,
    display_line,
    judge_artefact,
    judge_distinct,
    pair_paths,
)
from reprobuild.verify.workload.output_index import MOST_BESIDE, MOST_FILES, MOST_WRITTEN, WrittenFile
from reprobuild.verify.workload.run import compare_work
from reprobuild.verify.workload.work import Work, work_of_options
from reprobuild_runtime.artefacts import collect, written
from tests.verify.samples import DRIFTED, PreparedEngine, done, good_answers, keep

NAME = "/reprobuild-out/model.pt"
NOW = 1_795_321_800.0  # 2026-11-22 04:30 UTC
WORK = Work(command=("train",), artefacts=("{out}/model.pt",), text="train")


def work(
    answers: dict[str, list[Finished]], given: Work = WORK
) -> tuple[list[WorkComparison], PreparedEngine]:
    engine = PreparedEngine({**good_answers(), **answers})
    return compare_work(given, 7, "image:1", engine, {}).comparisons, engine


def index(*entries: OutputEntry, **more: Any) -> OutputIndex:
    facts: dict[str, Any] = {"code": 0, "began": 1.0, "ended": 2.0, "host": "h", "there": {}, "failed": ""}
    return OutputIndex(files=entries, **{**facts, **more})


def entry(path: str, **more: Any) -> OutputEntry:
    facts: dict[str, Any] = {"kind": "file", "stored": "0", "size": 3, "written": True, "link": ""}
    return OutputEntry(pattern="P", path=path, **{**facts, **more})


SAME = FileAnswer(name="", verdict="identical", digest="d" * 64)


def judge(one: OutputIndex, two: OutputIndex, answer: FileAnswer = SAME) -> WorkComparison:
    return judge_artefact("artefact P", "P", one, two, {("0", "0"): answer, ("1", "1"): answer})


def test_the_command_is_a_line_for_the_shell() -> None:
    made = work_of_options("python train.py | tee x", ("x", "x"), ("r*",), ("lr",))
    assert made == Work(
        command=("/bin/sh", "-c", "python train.py | tee x"), artefacts=("x", "r*"), distinct=("r*",),
        ignored=("lr",), text="python train.py | tee x",
    )  # fmt: skip
    assert work_of_options(None, (), (), ("lr",)) is None


@pytest.mark.parametrize(
    ("command", "artefacts", "hint"),
    [
        (None, ("x",), "give it, for example: --workload 'python train.py --steps 20'"),
        ("x", (), "name it: --output-file out.ckpt, or --output-file 'logs/*.jsonl'"),
        ("x", ("--",), "give a path or a glob, for example 'logs/*.jsonl'"),
        ("x", ("a\nb",), "give a path or a glob, for example 'logs/*.jsonl'"),
        ("x", ("",), "give a path or a glob, for example 'logs/*.jsonl'"),
    ],
)
def test_what_cannot_be_asked_for(command: str | None, artefacts: tuple[str, ...], hint: str) -> None:
    with pytest.raises(UsageError) as failed:
        work_of_options(command, artefacts, (), ())
    assert failed.value.hint == hint


def test_equal_bytes_are_looked_through_and_stay_equal() -> None:
    """The third container looks for NaN; whatever it answers, equal bytes are no drift."""
    for answer, warnings in (
        (done({"ran": True, "files": [{**DRIFTED, "counts": {}}]}), ()),
        (done({"ran": True, "files": [{"name": NAME, "verdict": "identical", "warnings": ["w: 1 NaN of 2"]}]}),
         (f"{NAME}: w: 1 NaN of 2",)),
        (done(b"", code=137, stderr=b"Killed"), (f"{NAME}: nothing looked for NaN in it: exit code 137: Killed",)),
    ):  # fmt: skip
        (found,), engine = work({"compare": [answer]})
        assert (found.verdict, len(found.detail), found.warnings) == ("identical", 64, warnings)
        assert [kind for kind, _ in engine.tasks] == ["workload", "workload", "compare"]


def test_a_container_cannot_count_what_it_likes() -> None:
    outputs = [done(**{"model.pt": b"one"}), done(**{"model.pt": b"two"})]
    told = {
        "name": NAME,
        "verdict": "identical",
        "counts": {"time": 10**9, "\x1b[2J": 5},
        "warnings": ["\x1b[2Jx"] * 9,
    }
    given = msgspec.structs.replace(WORK, artefacts=("{out}/model.pt",))
    (found,), _ = work({"workload": outputs, "compare": [done({"ran": True, "files": [told]})]}, given)
    assert found.excused == {"time": 10**9}
    assert len(found.warnings) == 4
    assert all(line.isprintable() for line in found.warnings)


def test_equal_nan_is_no_answer() -> None:
    why = "4 of 4 numbers are NaN, which is equal whatever was computed"
    hollow = {"name": NAME, "verdict": "inconclusive", "details": [why]}
    (found,), _ = work({"compare": [done({"ran": True, "files": [hollow]})]})
    assert (found.verdict, found.detail) == ("inconclusive", f"{NAME}: {why}")
    assert found.warnings == (f"{NAME}: {why}",)


def test_each_run_is_compared_with_the_first() -> None:
    outputs = [done(**{"model.pt": word}) for word in (b"one", b"one", b"two", b"one", b"two")]
    drifted = {"name": NAME, "verdict": "drift", "details": ["other"], "counts": {"time": 1}}
    same = {"name": NAME, "verdict": "identical", "counts": {"time": 2}, "warnings": ["w: 1 NaN of 2"]}
    answers = [done({"ran": True, "files": [answer]}) for answer in (same, drifted, same, drifted)]
    given = msgspec.structs.replace(WORK, runs=5)
    (found,), engine = work({"workload": outputs, "compare": answers}, given)
    assert (found.verdict, found.detail) == ("drift", f"runs 3, 5 of 5 beside the first: {NAME}: other")
    assert (found.excused, found.warnings) == ({"time": 2}, (f"{NAME}: w: 1 NaN of 2",))
    assert [kind for kind, _ in engine.tasks] == ["workload", *(["workload", "compare"] * 4)]
    folders = [task.kept for kind, task in engine.tasks if kind == "workload"]
    assert len(set(folders)) == 5


def test_a_run_that_fails_later_is_drift() -> None:
    outputs = [done(**{"model.pt": b"one"}), done(**{"model.pt": b"one"}), done(code=3, stderr=b"no memory")]
    (found, code), _ = work({"workload": outputs}, msgspec.structs.replace(WORK, runs=3))
    assert (found.verdict, found.detail[:26]) == ("identical", hashlib.sha256(b"one").hexdigest()[:26])
    assert (code.name, code.verdict) == ("exit code", "drift")
    assert (code.detail, code.details) == ("run 3 of 3 beside the first: 0 and 3", ("no memory",))


def test_a_command_that_fails_in_the_first_and_in_a_later_run_is_drift() -> None:
    failed, sound = done(code=3, stderr=b"no memory"), done(**{"model.pt": b"one"})
    given = msgspec.structs.replace(WORK, runs=3)
    for outputs in ([failed, sound, failed], [failed, sound, done(code=4)]):
        (code,), _ = work({"workload": outputs}, given)
        assert (code.name, code.verdict) == ("exit code", "drift")
        assert code.detail.startswith("run")
    with pytest.raises(EngineError, match="exited 3 in the image") as caught:
        work({"workload": [failed, done(code=4), sound]}, given)
    assert caught.value.hint == "run it by hand: reprobuild run OUT -- COMMAND"


def test_a_command_that_fails_under_a_disturbance_depends_on_it() -> None:
    sound = done(**{"model.pt": b"one"})
    same = done({"ran": True, "files": [{"name": NAME, "verdict": "identical"}]})
    given = msgspec.structs.replace(WORK, disturbances=("load",))
    answers = {"workload": [sound, sound, done(code=3)], "compare": [same]}
    (_, disturbed), _ = work(answers, given)
    assert (disturbed.verdict, disturbed.condition) == ("drift", "disturbed")
    assert disturbed.detail == (
        "two such runs are the same, so the result depends on the disturbance: exit code: 0 and 3"
    )
    (_, disturbed), _ = work({**answers, "workload": [sound, sound, done(code=3), done(code=4)]}, given)
    assert disturbed.detail.startswith("two such runs differ, too, so the result drifts: ")


def test_the_number_of_runs_bounds_the_share_that_drifts() -> None:
    assert [upper_bound(runs) for runs in (2, 3, 4, 30)] == [1.0, 1.0, 0.75, 0.1]
    assert describe_work_bound(30) == "N = 30: fewer than 10% of runs drift, at 95 %"
    assert (
        describe_work_bound(3)
        == "N = 3, too few to bound the share of runs that drift; --runs 30 bounds it by 10%"
    )


def test_what_nothing_compared_is_told() -> None:
    class Writing(PreparedEngine):
        def run(self, reference: str, task: Task, env: Any) -> Finished:
            finished = super().run(reference, task, env)
            if task.kept:
                path = task.kept / "index.json"
                facts = json.loads(path.read_text())
                path.write_text(json.dumps({**facts, "others": ["best.pt", "x\\x1b"], "other": 25}))
            return finished

    (found,) = compare_work(WORK, 7, "image:1", Writing(good_answers()), {}).comparisons
    assert found.warnings[-1] == "25 files not compared, as no --output-file names them"
    assert found.details[-2:] == ("not compared: best.pt", "not compared: x\\x1b")


def test_others_are_compared_in_a_container_that_has_both() -> None:
    outputs = [done(**{"model.pt": b"one"}), done(**{"model.pt": b"two"})]
    seen: dict[str, Any] = {}

    class Looking(PreparedEngine):
        def run(self, reference: str, task: Task, env: Any) -> Finished:
            if task.bypass:
                folders = {inside: Path(host) for host, inside in task.volumes}
                seen.update(json.loads((folders["/reprobuild-asked"] / "options.json").read_text()))
                seen["bytes"] = [(folders[seen[which]] / "0").read_bytes() for which in ("one", "two")]
            return super().run(reference, task, env)

    engine = Looking({**good_answers(), "workload": outputs})
    (found,) = compare_work(
        msgspec.structs.replace(WORK, ignored=("lr",)), 7, "image:1", engine, {}
    ).comparisons
    assert found.verdict == "drift"
    assert seen["files"] == [{"name": NAME, "one": "0", "two": "0"}]
    assert (seen["ignore"], seen["bytes"]) == (["lr"], [b"one", b"two"])
    assert seen["runs"] == [{"began": 1.0, "ended": 2.0, "host": "h", "pid": 0, "last": 0, "zone": 0}] * 2


def test_the_comparing_container_cannot_change_what_it_reads(tmp_path: Path) -> None:
    """It is one of the image: links in place of the files would lead to files of the user."""
    private = tmp_path / "private"
    private.write_text("of the user alone")

    class HostileEngine(PreparedEngine):
        def run(self, reference: str, task: Task, env: Mapping[str, str]) -> Finished:
            for host, inside in task.volumes:
                for path in Path(host).iterdir() if inside not in task.read_only else ():
                    path.unlink()
                    path.symlink_to(private)
            return super().run(reference, task, env)

    engine = HostileEngine(good_answers())
    (found,) = compare_work(WORK, 7, "image:1", engine, {}).comparisons
    assert found.detail == hashlib.sha256(b"weights").hexdigest()
    assert [kind for kind, _ in engine.tasks] == ["workload", "workload", "compare"]


@pytest.mark.parametrize(
    "answer",
    [
        done(b"", code=137, stderr=b"Killed"), done(b"no json"), done({"ran": False, "why": "MemoryError"}),
        done({"ran": True, "files": []}), done({"ran": True, "files": [{**DRIFTED, "counts": {"time": -1}}]}),
        done({"ran": True, "files": [{**DRIFTED, "verdict": "fine"}]}),
    ],
)  # fmt: skip
def test_a_comparison_that_gives_no_answer_is_inconclusive(answer: Finished) -> None:
    outputs = [done(**{"model.pt": b"one"}), done(**{"model.pt": b"two"})]
    (found,), _ = work({"workload": outputs, "compare": [answer]})
    assert found.verdict == "inconclusive"
    assert "the bytes differ, and what differs could not be told" in found.detail


def test_an_answer_without_a_reason_is_inconclusive() -> None:
    bare = done({"ran": True, "files": [{"name": "x", "verdict": "inconclusive"}]})
    (found,), _ = work({"compare": [bare]})
    assert (found.verdict, found.detail) == ("inconclusive", f"{NAME}: the comparison gave no reason")
    assert found.warnings == (f"{NAME}: the comparison gave no reason",)


def test_equal_content_has_no_digest() -> None:
    """Another day's equal content would look like the same bytes."""
    outputs = [done(**{"model.pt": b"one"}), done(**{"model.pt": b"two"})]
    same = {**DRIFTED, "verdict": "identical", "details": [], "count": 0, "notes": ["the containers are not"]}
    (found,), _ = work({"workload": outputs, "compare": [done({"ran": True, "files": [same]})]})
    assert (found.verdict, found.detail) == ("identical", "")
    assert found.details == (f"{NAME}: excused: time (time): 1 time", f"{NAME}: note: the containers are not")


def test_an_image_without_our_program() -> None:
    said = (
        b"python: can't open file '/opt/reprobuild/lib/reprobuild_runtime/artefacts/collect.py': No such file"
    )

    class Old(PreparedEngine):
        def run(self, reference: str, task: Task, env: Any) -> Finished:
            return done(code=2, stderr=said)

    (found,) = compare_work(WORK, 7, "image:1", Old({}), {}).comparisons
    assert found.verdict == "inconclusive"
    assert "build it again from its lock" in found.detail


def _encode_index(**facts: Any) -> bytes:
    plain = {"code": 0, "began": 1.0, "ended": 2.0, "host": "h", "files": [], "there": {}, "failed": ""}
    return json.dumps({**plain, **facts}).encode()


_FIFO = {"pattern": "P", "path": "p", "kind": "fifo", "stored": "7", "size": 0, "written": True, "link": ""}
_WRITTEN = {"path": "/w", "size": 1, "digest": ""}


@pytest.mark.parametrize(
    ("facts", "is_read"),
    [
        ({}, True),
        ({"files": [{**_FIFO, "stored": ""}] * 10_000}, True),
        ({"files": [{**_FIFO, "stored": ""}] * 10_001}, False),
        ({"files": [_FIFO]}, False),
        ({"there": {str(number): ["x"] * 20 for number in range(10_000)}}, True),
        ({"there": {str(number): [] for number in range(10_001)}}, False),
        ({"there": {"P": ["x"] * 21}}, False),
        ({"others": ["x"] * 20}, True),
        ({"others": ["x"] * 21}, False),
        ({"written": [_WRITTEN] * 200}, True),
        ({"written": [_WRITTEN] * 201}, False),
        ({"more": "x" * LARGEST_INDEX}, False),
    ],
    ids=range(12),
)
def test_an_index_has_the_bounds_of_the_program_that_writes_it(
    tmp_path: Path, facts: dict[str, Any], is_read: bool
) -> None:
    (tmp_path / "index.json").write_bytes(_encode_index(**facts))
    assert (read_index(tmp_path) is not None) is is_read


def test_host_and_image_have_the_same_bounds_of_an_index() -> None:
    assert (MOST_FILES, MOST_BESIDE, MOST_WRITTEN) == (collect.MOST, collect.BESIDE, written.MOST_FILES)


@pytest.mark.parametrize(
    "index", [b"", b"{}", b"[" * 10000, b'{"code": 0, "files": [{"stored": "../x"}]}', b"\xff"]
)
def test_a_list_that_is_none(index: bytes) -> None:
    class Lying(PreparedEngine):
        def run(self, reference: str, task: Task, env: Any) -> Finished:
            assert task.kept
            (task.kept / "index.json").write_bytes(index)
            return done()

    with pytest.raises(EngineError, match="left no list of it") as failed:
        compare_work(WORK, 7, "image:1", Lying({}), {})
    assert failed.value.hint == (
        "was its disk full? Let the command write less, or another engine run it (--engine)"
    )


def test_what_cannot_be_put_aside() -> None:
    class Full(PreparedEngine):
        def run(self, reference: str, task: Task, env: Any) -> Finished:
            return keep(task, done(), failed="OSError: No space left on device")

    with pytest.raises(EngineError, match="cannot be put aside: OSError: No space left") as failed:
        compare_work(WORK, 7, "image:1", Full({}), {})
    assert failed.value.hint == "name fewer or smaller artefacts, or let the command write them below {out}"


@pytest.mark.parametrize(
    ("one", "two", "verdict", "words"),
    [
        (index(entry("a")), index(entry("a")), "identical", "d" * 64),
        (index(), index(), "inconclusive", "the command wrote no such file; there is nothing"),
        (index(there={"P": ("x.pt",)}), index(), "inconclusive", "there is x.pt"),
        (index(others=("a/Q", "P", "my-a/P")), index(), "inconclusive", "the command wrote no such file, but below "
         "{out}: name it with --output-file '{out}/P' --output-file '{out}/my-a/P'; there is nothing"),
        *((index(others=(name,)), index(), "inconclusive", "the command wrote no such file; there is nothing")
          for name in ("my a/P", "\x7f$(id)\"\"';/P", "$(id)/P", f"{'a' * 100}/P", "a\n/P")),
        (index(written=[WrittenFile(path=f"/{name}", size=1) for name in ("reprobuild-out/a/P", "job/P", "x/Q")]),
         index(), "inconclusive", "the command wrote no such file, but below {out}: name it with "
         "--output-file '{out}/a/P'; there is nothing"),
        (index(entry("a")), index(), "drift", "a: only in the first run"),
        (index(), index(entry("a")), "drift", "a: only in the second run"),
        (index(entry("a")), index(entry("a", kind="fifo", stored="")), "drift",
         "a: a file in the first run, a named pipe in the second"),
        *((index(entry("a", kind=kind, stored="")),) * 2 + ("inconclusive", f"a: it is {words}") for kind, words in (
            ("fifo", "a named pipe"), ("socket", "a socket"), ("device", "a device"), ("folder", "an empty directory"),
            ("system", "a file of the kernel"), ("dangling", "a link to nothing"), ("unreadable", "not to be read"),
        )),
        (index(entry("a", size=0)), index(entry("a", size=0)), "inconclusive", "it is empty in both runs"),
        (index(entry("a", written=False)), index(entry("a", written=False)), "inconclusive",
         "it was there before the command, which did not write it"),
        (index(entry("a", written=False)), index(entry("a")), "identical", "d" * 64),
        (index(entry("a"), entry("b", stored="1", size=0)), index(entry("a"), entry("b", stored="1", size=0)),
         "identical", ""),
    ],
)  # fmt: skip
def test_one_artefact(one: OutputIndex, two: OutputIndex, verdict: str, words: str) -> None:
    found = judge(one, two)
    assert found.verdict == verdict
    assert words in found.detail


def test_names_with_times_and_hosts_are_paired() -> None:
    within = {"began": NOW, "ended": NOW + 300}
    one = index(entry("runs/2026-11-22_04-30-00/m.json"), entry("e.1795321800.h.log", stored="1"), **within)
    two = index(
        entry("runs/2026-11-22_04-33-19/m.json"), entry("e.1795321999.k.log", stored="1"), host="k", **within
    )
    pairs, first, second = pair_paths("P", one, two)
    assert (len(pairs), first, second) == (2, [], [])
    lines = judge(one, two, SAME).details
    assert "note: named runs/2026-11-22_04-33-19/m.json in the second run" in lines[0] + lines[1]
    loss = [index(entry(f"loss-{value}.pt")) for value in ("0.51", "0.52")]
    assert judge(*loss).verdict == "drift"
    for pair_of_names in (
        ("p-1495321800", "p-1495321801"),
        ("p-20200102-030405", "p-20200102-030406"),
        ("xhx", "xkx"),
    ):
        ones, twos = (
            index(entry(name), host=host, **within) for name, host in zip(pair_of_names, "hk", strict=True)
        )
        assert judge(ones, twos).verdict == "drift", pair_of_names
    zoned = {**within, "zone": 7200}
    ones, twos = (index(entry(f"2026-11-22_06-30-0{second}"), **zoned) for second in (1, 2))
    assert judge(ones, twos).verdict == "identical"


def test_a_link_is_told() -> None:
    one = index(entry("a", link="step-20.pt"))
    assert judge(one, one).details == ("a: note: a link to step-20.pt",)


@pytest.mark.parametrize(
    ("one", "two", "verdict"),
    [
        (entry("latest", link="step-1"), entry("latest", link="step-2"), "drift"),
        (entry("latest", link="step-1"), entry("latest"), "drift"),
        (entry("latest", link="/runs/1795321800"), entry("latest", link="/runs/1795321801"), "identical"),
        (entry("latest", link="/tmp/tmpabcdef12/x"), entry("latest", link="/tmp/tmp21fedcba/x"), "identical"),
        (*(entry("l", kind="folder", stored="", link=name) for name in "ab"), "drift"),
        (*(entry("l", kind="folder", stored="", link=name) for name in "aa"), "inconclusive"),
    ],
)
def test_links_lead_to_the_same_place(one: OutputEntry, two: OutputEntry, verdict: str) -> None:
    """Their content is the same file's in the test: where they lead is a result of its own."""
    within = {"began": NOW, "ended": NOW + 300}
    assert judge(index(one, **within), index(two, **within)).verdict == verdict


@pytest.mark.parametrize(("empty", "verdict"), [("b.pt", "inconclusive"), ("b.log", "identical")])
def test_an_empty_checkpoint_counts_beside_an_equal_log(empty: str, verdict: str) -> None:
    both = index(entry("a.log"), entry(empty, stored="1", size=0))
    found = judge(both, both)
    assert found.verdict == verdict
    assert found.warnings == (f"{empty}: it is empty in both runs, so nothing was compared",)


def test_what_a_failed_run_prints_cannot_reach_a_terminal_or_tell_a_secret() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    failed = done(code=1, stderr=f"\x1b[2Jgone\n{secret}".encode())
    (found,), _ = work({"workload": [done(**{"model.pt": b"1"}), failed]})
    assert (found.name, found.verdict) == ("exit code", "drift")
    assert not any("\x1b" in line or secret in line for line in found.details)
    assert "gone" in found.details[0]


def test_an_error_of_a_run_cannot_reach_a_terminal_or_tell_a_secret() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    said = f"\x1b[2Jgone\nHF_TOKEN={secret}\n{secret} is the key".encode()

    class Wordless(PreparedEngine):
        def run(self, reference: str, task: Task, env: Any) -> Finished:
            return done(stderr=said)

    class Full(PreparedEngine):
        def run(self, reference: str, task: Task, env: Any) -> Finished:
            made = done(**{"model.pt": b"1"})
            return keep(task, made, failed=f"disk full\x1b[2J: {secret}")

    for engine in (PreparedEngine({"workload": [done(code=1, stderr=said)]}), Wordless({}), Full({})):
        with pytest.raises(EngineError) as failed:
            compare_work(WORK, 7, "image:1", engine, {})
        assert secret not in str(failed.value)
        assert "\x1b" not in str(failed.value)
        assert "gone" in str(failed.value) or "disk full" in str(failed.value)


@pytest.mark.parametrize("text", ["train --token {}", "API_TOKEN={} train", "train --password {}"])
def test_the_command_of_steps_and_errors_has_no_secret(text: str) -> None:
    secret = "hf_" + "aB3dE5gH7jK9mN1p" * 2 + "Q7"
    spoken: list[str] = []
    engine = PreparedEngine({"workload": [done(code=1)]})
    with pytest.raises(EngineError) as failed:
        compare_work(
            msgspec.structs.replace(WORK, text=text.format(secret)),
            7,
            "image:1",
            engine,
            {},
            say=spoken.append,
        )
    assert "train" in " ".join(spoken) or "***" in " ".join(spoken)
    assert secret not in f"{spoken} {failed.value}"


def test_no_records_of_settings_lie_among_the_artefacts() -> None:
    """They hold times and process numbers, in the working directory, which may be an artefact."""
    _, engine = work({})
    assert {task.environment["REPROBUILD_RECORD"] for kind, task in engine.tasks if kind == "workload"} == {
        "0"
    }


def test_lines_are_few_and_short_and_have_no_secret() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    answer = FileAnswer(
        name="", verdict="drift", count=500,
        details=(f"text: {secret}", "x\x1b[2Jy" + "z" * 5000, *(f"line {n}" for n in range(300))),
    )  # fmt: skip
    found = judge(index(entry("a")), index(entry("a")), answer)
    assert found.verdict == "drift"
    assert len(found.details) == 61
    assert not any(
        secret in line or "\x1b" in line or len(line) > 400 for line in (found.detail, *found.details)
    )


@pytest.mark.parametrize(
    ("files", "verdict", "words"),
    [
        ([("r0", "1"), ("r1", "2")], "identical", "d" * 64),
        (
            [("r0", "1"), ("r1", "1")],
            "inconclusive",
            "r0 and r1 hold the same bytes: do both draw from one stream?",
        ),
        ([("r0", "1")], "inconclusive", "1 files, and two are needed to tell whether they differ"),
    ],
)
def test_files_that_must_be_distinct(files: list[tuple[str, str]], verdict: str, words: str) -> None:
    found = judge_distinct(judge(index(entry("a")), index(entry("a"))), files)
    assert (found.verdict, found.detail) == (verdict, words)
    drifted = judge_distinct(WorkComparison(name="x", verdict="drift", detail="y"), files)
    assert (drifted.verdict, drifted.detail) == ("drift", "y")


def test_a_file_of_holes_without_end_is_refused_before_it_is_read() -> None:
    class Hollow(PreparedEngine):
        def run(self, reference: str, task: Task, env: Any) -> Finished:
            finished = super().run(reference, task, env)
            if task.kept:
                with (task.kept / "0").open("wb") as file:
                    file.truncate(100 << 30)
            return finished

    with pytest.raises(EngineError, match="of which nearly all are holes") as caught:
        compare_work(WORK, 7, "image:1", Hollow(good_answers()), {})
    assert caught.value.hint == "name other outputs, or let the command write a smaller file"


def test_many_files_of_holes_are_refused_together() -> None:
    class Hollow(PreparedEngine):
        def run(self, reference: str, task: Task, env: Any) -> Finished:
            if task.kept is None:
                raise AssertionError("the files are read")
            names = {f"{number}.pt": b"" for number in range(3)}
            finished = keep(task, done(**names))
            path = task.kept / "index.json"
            facts = json.loads(path.read_text())
            for entry in facts["files"]:
                entry["size"] = 30 << 30
                with (task.kept / entry["stored"]).open("wb") as file:
                    file.truncate(entry["size"])
            path.write_text(json.dumps(facts))
            return finished

    given = msgspec.structs.replace(WORK, artefacts=tuple(f"{{out}}/{number}.pt" for number in range(3)))
    with pytest.raises(EngineError, match="of which nearly all are holes") as caught:
        compare_work(given, 7, "image:1", Hollow({}), {})
    assert "96,636,764,160 bytes" in str(caught.value)


def test_files_of_holes_below_the_bound_are_read(tmp_path: Path) -> None:
    with (tmp_path / "0").open("wb") as file:
        file.truncate(60 << 30)
    (tmp_path / "1").write_bytes(b"x" * 100_000)
    entries = entry("a"), entry("b", stored="1"), entry("c", kind="fifo", stored="")
    assert find_holes(tmp_path, index(*entries)) is None
    assert find_holes(tmp_path, index(*entries, entry("d"))) == (120 << 30, "a")


def test_a_long_line_of_a_container_is_cut_before_it_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    def redact(text: str) -> str:
        searched.append(text)
        return text

    monkeypatch.setattr("reprobuild.verify.workload.judge.secrets.redact", redact)
    assert len(display_line("key " * 1_000_000)) == LONGEST
    assert len(searched[0]) == 16 * LONGEST
