"""Records of nodes, compared: which node is named, with which record, and what nodes cannot do."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from reprobuild.cluster.trace_groups import TracedCluster, compare_traces
from reprobuild.cluster.trace_text import render_traces
from reprobuild.errors import UsageError
from tests.conftest import reprobuild
from tests.tracing.test_divergence import Steps, digests, write

PLATFORM = "A Processor, 2 processors"


def record(folder: Path, node: str, words: str, *, process: str = "main", **more: Any) -> None:
    """Write the records of a node: each word stands for the digest of a step's loss."""
    steps = [
        [{"kind": "loss", "name": "loss", "outputs": digests(word), "place": "/src/train.py:7"}]
        for word in words.split()
    ]
    write(folder / f"{node}.trace", steps, process)
    document = {"platform": PLATFORM, "driver": "", "seed": 42, "steps": len(steps), **more}
    (folder / f"{node}.json").write_text(json.dumps(document))


def write_again(folder: Path, steps: Steps) -> None:
    for path in folder.iterdir():
        path.unlink()
    write(folder, steps)


def test_equal_nodes_are_the_same(tmp_path: Path) -> None:
    for node in ("n1", "n2", "n3"):
        record(tmp_path, node, "a b c")
    cluster = compare_traces(tmp_path)
    assert (cluster.verdict, cluster.exit_code) == ("same", 0)
    assert render_traces(cluster) == (
        f"group 1: {PLATFORM}\n  3 nodes, with the same records, 3 steps: n1, n2, n3\n\n"
        "cluster: same; 3 of 3 nodes recorded the command"
    )


def test_the_node_that_differs_is_named_with_its_first_record(tmp_path: Path) -> None:
    for node in ("n1", "n3", "n4"):
        record(tmp_path, node, "a b c d")
    record(tmp_path, "n2", "a b x y")
    cluster = compare_traces(tmp_path)
    assert (cluster.verdict, cluster.exit_code) == ("differ", 8)
    (group,) = cluster.groups
    assert (group.same, group.has_majority) == (("n1", "n3", "n4"), True)
    (odd,) = group.odd
    assert (odd.nodes, odd.step, odd.record, odd.process) == (("n2",), 2, "the loss", "main")
    lines = render_traces(cluster).splitlines()
    assert lines[:2] == [
        "n2: other than n1, n3, n4, from step 2 on: the loss at /src/train.py:7, in the process main",
        "  is it the node, or the command? `reprobuild trace OUT -- CMD` on one node compares runs there",
    ]
    assert "  4 nodes, 3 with the same records, 4 steps: n1, n2, n3, n4" in lines


def test_ranks_are_compared_with_ranks(tmp_path: Path) -> None:
    for node, word in (("n1", "r"), ("n2", "r"), ("n3", "x")):
        record(tmp_path, node, "a b", process="rank0")
        record(tmp_path, node, f"c {word}", process="rank1")
    (group,) = compare_traces(tmp_path).groups
    assert [(odd.nodes, odd.step, odd.process) for odd in group.odd] == [(("n3",), 1, "rank1")]


def test_two_nodes_have_no_majority(tmp_path: Path) -> None:
    record(tmp_path, "n1", "a b")
    record(tmp_path, "n2", "a x")
    cluster = compare_traces(tmp_path)
    assert cluster.verdict == "differ"
    assert not cluster.groups[0].has_majority
    assert "  no majority, so which is right is not known; does the command drift?" in render_traces(cluster)


def test_a_command_that_drifts_has_as_many_results_as_nodes(tmp_path: Path) -> None:
    for number in range(12):
        record(tmp_path, f"n{number:02}", f"a {number}")
    (group,) = compare_traces(tmp_path).groups
    assert (len(group.odd), group.others) == (7, ("n08", "n09", "n10", "n11"))
    assert "n08, n09, n10, n11: each other than all of these" in render_traces(compare_traces(tmp_path))


@pytest.mark.parametrize("odd", [9, 20])
def test_a_majority_is_found_behind_nodes_that_all_differ(odd: int, tmp_path: Path) -> None:
    for number in range(odd):
        record(tmp_path, f"a{number:02}", f"a {number}")
    honest = tuple(f"n{number:02}" for number in range(odd + 1))
    for node in honest:
        record(tmp_path, node, "a b")
    (group,) = compare_traces(tmp_path).groups
    assert (group.same, group.has_majority) == (honest, True)
    assert len(group.odd) == 7
    assert group.others == tuple(f"a{number:02}" for number in range(7, odd))


def test_platforms_may_differ(tmp_path: Path) -> None:
    for node in ("n1", "n2", "n3"):
        record(tmp_path, node, "a b")
    for node in ("n4", "n5"):
        record(tmp_path, node, "a x", platform="Another, 8 processors", driver="550.1")
    cluster = compare_traces(tmp_path)
    assert cluster.verdict == "same"
    text = render_traces(cluster)
    assert "group 2: Another, 8 processors, driver 550.1" in text
    assert (
        "  other than group 1 from step 1 on: the loss at /src/train.py:7, in the process main; platforms may differ"
        in text
    )
    record(tmp_path, "n6", "a b", platform="A third, 4 processors")
    cluster = compare_traces(tmp_path)
    assert cluster.verdict == "inconclusive"
    text = render_traces(cluster)
    assert "  1 node, alone on its platform, so it was not compared, 2 steps: n6\n" in text
    assert "  the same records as group 1" in text


def test_silent_nodes_leave_the_result_open(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("n1\nn2\nn3\nn4\nn5\n")
    for node in ("n1", "n2", "n9"):
        record(tmp_path, node, "a b")
    (tmp_path / "n3.error").write_text("no container engine answers\n")
    (tmp_path / "n4.began").write_bytes(b"")
    (tmp_path / "n5.ended").write_text("137\n")
    cluster = compare_traces(tmp_path)
    assert (cluster.verdict, cluster.exit_code) == ("inconclusive", 9)
    assert {node.node: node.kind for node in cluster.silent} == {
        "n3": "refused", "n4": "hangs", "n5": "died",
    }  # fmt: skip
    text = render_traces(cluster)
    assert "n3: gave no answer: no container engine answers" in text
    assert "n9: recorded, and was not asked; it is not counted" in text
    assert text.endswith("cluster: inconclusive; 2 of 5 nodes recorded the command")


def _no_document(folder: Path) -> str:
    (folder / "n3.json").write_text("{")
    return "n3.json is not valid"


def _long_document(folder: Path) -> str:
    (folder / "n3.json").write_text('{"platform": "' + "x" * 5000 + '"}')
    return "n3.json is not valid"


def _linked_document(folder: Path) -> str:
    (folder / "n3.json").unlink()
    (folder / "n3.json").symlink_to(folder / "n1.json")
    return "n3.json is not valid"


def _linked_records(folder: Path) -> str:
    (folder / "n3.trace").rename(folder / "away")
    (folder / "n3.trace").symlink_to(folder / "away")
    return "n3.trace is a link"


def _pipe(folder: Path) -> str:
    (folder / "n3.json").unlink()
    os.mkfifo(folder / "n3.json")
    return "n3.json is not valid"


def _no_records(folder: Path) -> str:
    for path in (folder / "n3.trace").iterdir():
        path.unlink()
    return "n3.trace has no records"


def _damaged_records(folder: Path) -> str:
    (folder / "n3.trace" / "main.records").write_bytes(b"{}\n")
    return "was written by another version of the recorder"


def _other_records(folder: Path) -> str:
    """Write valid records of another run, with the digests of this one."""
    kept = (folder / "n3.trace" / "main.steps").read_bytes()
    write(folder / "other", [[{"kind": "loss", "name": "loss", "outputs": digests(word)}] for word in "xy"])
    for name, content in (
        ("records", (folder / "other" / "main.records").read_bytes()),
        ("steps", kept),
    ):
        (folder / "n3.trace" / f"main.{name}").write_bytes(content)
    return "the log of the process main is not valid"


def _garbage(folder: Path) -> str:
    path = folder / "n3.trace" / "main.records"
    head, _, rest = path.read_bytes().partition(b"\n")
    path.write_bytes(head + b"\n" + b"!" * len(rest))
    return "the log of the process main is not valid"


def _unfinished_step(folder: Path) -> str:
    with (folder / "n3.trace" / "main.records").open("a") as stream:
        stream.write('{"kind": "mark", "name": "a", "number": 0}\n')
    return "the process main was ended in the middle of step 2"


def _no_complete_step(folder: Path) -> str:
    (folder / "n3.trace" / "main.steps").write_bytes(b"")
    return "the process main was ended in the middle of step 0"


def _linked_log(folder: Path) -> str:
    """Many names of one file cost no bytes, and each would be read."""
    for number in range(3):
        for suffix in ("records", "steps"):
            os.link(folder / "n3.trace" / f"main.{suffix}", folder / "n3.trace" / f"main.{number}.{suffix}")
    return "is a file that has another name, too"


def _part_of_a_record(folder: Path) -> str:
    with (folder / "n3.trace" / "main.records").open("a") as stream:
        stream.write('{"kind": "mark", "name": "a", "number": 0}')
    return "the process main was ended in the middle of step 2"


def _name_of_two_lines(folder: Path) -> str:
    (folder / "n3.trace" / "a\nb.steps").touch()
    return "a\\\\nb.steps is not a valid name of a log"


def _no_work(folder: Path) -> str:
    """Write two steps with the state of a generator alone: equal states are no equal results."""
    state = {"kind": "generator", "name": "torch", "inputs": digests("a")}
    write_again(folder / "n3.trace", [[state], []])
    return "n3.trace has no record of work, such as a batch, a loss or a marked value"


def _other_number_of_steps(folder: Path) -> str:
    document = json.loads((folder / "n3.json").read_text())
    (folder / "n3.json").write_text(json.dumps({**document, "steps": 2**53 - 1}))
    return f"n3.json has {2**53 - 1} steps, and n3.trace 2"


def _other_seed(folder: Path) -> str:
    document = json.loads((folder / "n3.json").read_text())
    (folder / "n3.json").write_text(json.dumps({**document, "seed": 7}))
    return "its seed is 7, and that of others 42"


@pytest.mark.parametrize(
    "damage",
    [
        _no_document, _long_document, _linked_document, _linked_records, _pipe, _no_records, _damaged_records,
        _linked_log, _part_of_a_record, _name_of_two_lines,
        _other_seed, _other_records, _garbage, _no_work, _other_number_of_steps, _unfinished_step, _no_complete_step,
    ],
)  # fmt: skip
def test_a_node_with_damaged_records_is_not_compared(damage: Any, tmp_path: Path) -> None:
    for node in ("n1", "n2", "n3"):
        record(tmp_path, node, "a b")
    why = damage(tmp_path)
    cluster = compare_traces(tmp_path, ("n1", "n2", "n3"))
    assert cluster.verdict == "inconclusive"
    assert [(node.node, node.kind) for node in cluster.silent] == [("n3", "unreadable")]
    assert why in cluster.silent[0].why
    assert cluster.groups[0].nodes == ("n1", "n2")
    advice = "  on n3: run it again with `reprobuild cluster trace-worker OUT --output DIR -- CMD`"
    assert advice in render_traces(cluster).splitlines()


def test_nodes_without_records_are_not_the_same(tmp_path: Path) -> None:
    """They were called the same, because no record of theirs differs."""
    for node in ("n1", "n2", "n3"):
        record(tmp_path, node, "", steps=20)
    cluster = compare_traces(tmp_path)
    assert (cluster.verdict, cluster.exit_code, cluster.groups) == ("inconclusive", 9, ())
    assert {node.kind for node in cluster.silent} == {"unreadable"}


def test_steps_of_a_node_are_bounded_over_all_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty steps cost no bytes of records, and the indexes of several nodes are in memory at once."""
    monkeypatch.setattr("reprobuild.cluster.traced_node.MOST_STEPS", 5)
    for node in ("n1", "n2", "n3"):
        record(tmp_path, node, "a b c")
    loss = {"kind": "loss", "name": "loss", "outputs": digests("x")}
    write(tmp_path / "n3.trace", [[loss], [], []], "other")
    cluster = compare_traces(tmp_path)
    (silent,) = cluster.silent
    assert (silent.node, silent.kind) == ("n3", "unreadable")
    assert silent.why == "the command made more than 5 steps in all processes"
    assert cluster.groups[0].same == ("n1", "n2")


def test_indexes_of_nodes_fit_into_memory(tmp_path: Path) -> None:
    """Nine nodes with 96 MB of steps each needed 1.8 GB: eight indexes are kept beside the one that is read."""
    for number in range(9):
        record(tmp_path, f"n{number}", f"a {number}")
        path = tmp_path / f"n{number}.trace" / "main.steps"
        path.write_bytes(path.read_bytes() + path.read_bytes()[-24:] * 3_999_000)
    tracemalloc.start()
    cluster = compare_traces(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert {node.kind for node in cluster.silent} == {"unreadable"}
    assert peak < 256 << 20


@pytest.mark.parametrize("node", ["a0", "n2x", "z9"])
@pytest.mark.parametrize("drifts", [True, False])
def test_a_node_with_other_processes_differs_wherever_it_sorts(
    node: str, drifts: bool, tmp_path: Path
) -> None:
    for name, word in (("n1", "b"), ("n2", "b"), ("n3", "b"), ("n4", "x" if drifts else "b")):
        record(tmp_path, name, f"a {word}")
    record(tmp_path, node, "a b", process="zzz")
    cluster = compare_traces(tmp_path)
    assert (cluster.verdict, cluster.exit_code, cluster.silent) == ("differ", 8, ())
    (group,) = cluster.groups
    assert (group.same, group.has_majority) == (("n1", "n2", "n3", *(() if drifts else ("n4",))), True)
    odd = {found.nodes: (found.step, found.record, found.why) for found in group.odd}
    why = "the runs have no process in common: main, and zzz"
    expected = {(node,): (0, "", why), **({("n4",): (1, "the loss", "")} if drifts else {})}
    assert odd == expected
    peers = ", ".join(group.same)
    assert f"{node}: other than {peers}, and cannot be compared: {why}" in render_traces(cluster).splitlines()


@pytest.mark.parametrize("node", ["a0", "n2x", "z9"])
def test_an_empty_field_is_a_missing_one_wherever_its_node_sorts(node: str, tmp_path: Path) -> None:
    for name, word in (("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "x"), (node, "a")):
        record(tmp_path, name, f"{word} b")
    steps = [[{"kind": "loss", "name": "loss", "outputs": digests(word), "arguments": ""}] for word in "ab"]
    write_again(tmp_path / f"{node}.trace", steps)
    (group,) = compare_traces(tmp_path).groups
    assert set(group.same) == {"n1", "n2", "n3", node}
    assert [(odd.nodes, odd.step, odd.why) for odd in group.odd] == [(("n4",), 0, "")]


@pytest.mark.parametrize("node", ["a0", "n2x", "z9"])
def test_an_extra_process_differs_wherever_its_node_sorts(node: str, tmp_path: Path) -> None:
    for name in ("n1", "n2", "n3", node):
        record(tmp_path, name, "a b")
    loss = {"kind": "loss", "name": "loss", "outputs": digests("x")}
    write(tmp_path / f"{node}.trace", [*[[]] * 10, [loss]], "hidden")
    document = json.loads((tmp_path / f"{node}.json").read_text())
    (tmp_path / f"{node}.json").write_text(json.dumps({**document, "steps": 11}))
    cluster = compare_traces(tmp_path)
    assert cluster.verdict == "differ"
    assert [(odd.nodes, odd.process, odd.step) for odd in cluster.groups[0].odd] == [((node,), "hidden", 10)]


def test_a_node_of_another_platform_with_other_processes_leaves_the_others_compared(tmp_path: Path) -> None:
    for node, word in (("n1", "b"), ("n2", "b"), ("n3", "x")):
        record(tmp_path, node, f"a {word}")
    record(tmp_path, "a0", "a b", process="zzz", platform="Another")
    cluster = compare_traces(tmp_path)
    assert cluster.verdict == "differ"
    why = "the runs have no process in common: main, and zzz"
    assert [found and found.why for found in cluster.across] == [why]
    assert f"  other than group 1 and cannot be compared: {why}; platforms may differ" in render_traces(
        cluster
    )


def test_texts_of_nodes_are_shown_without_secrets_and_control_characters(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    for node in ("n1", "n2", "n3"):
        record(tmp_path, node, "a", platform=f"A {token}")
    steps = [
        [{"kind": "mark", "name": f"mark {token}", "outputs": digests("z"), "place": f"/src/{token}.py:7"}]
    ]
    write(tmp_path / "n3.trace", steps, "other")
    for node in ("n1", "n2"):
        write(tmp_path / f"{node}.trace", [[{**steps[0][0], "outputs": digests("y")}]], "other")
    text = render_traces(compare_traces(tmp_path))
    assert token not in text
    assert "n3: other than n1, n2" in text


def test_what_cannot_be_gathered_is_said(tmp_path: Path) -> None:
    for folder, why in (
        (tmp_path / "missing", "is no directory of records"),
        (tmp_path, "has no records of any node"),
    ):
        with pytest.raises(UsageError, match=why) as failure:
            compare_traces(folder)
        assert (
            "run it again with `reprobuild cluster trace-worker OUT --output DIR -- CMD`"
            in failure.value.hint
        )
    done = reprobuild("cluster", "gather-traces", tmp_path)
    assert done.returncode == 2
    assert "has no records of any node" in done.stderr


def test_the_document_has_the_verdict(tmp_path: Path) -> None:
    for node in ("n1", "n2"):
        record(tmp_path, node, "a b")
    done = reprobuild("cluster", "gather-traces", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["verdict"] == "same"
    assert set(document) == {"verdict", *TracedCluster.__struct_fields__}
