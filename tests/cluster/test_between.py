"""Collectives between nodes are judged: who drifts, who computes otherwise, who did not come."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.cluster.aggregate import gather_results
from reprobuild.cluster.answer_table import AnswerTable
from reprobuild.cluster.check import collectives_obstacle, note_not_run
from reprobuild.cluster.collectives_judge import CollectiveResult, judge_collectives
from reprobuild.cluster.rank_log import LARGEST, MOST_NAMES, MOST_RANKS
from reprobuild.cluster.report import render_nodes
from reprobuild.cluster.text import render_cluster, result_lines
from reprobuild.report.html.answers import answer_same_results
from reprobuild.verify.verdict import Determinism, Verdict
from reprobuild_runtime.probes import between
from tests.cluster.planted import DOWNWARD
from tests.cluster.samples import IMAGE, as_nobody, certificate, gathered, shared, write
from tests.conftest import ROOT
from tests.verify.samples import EXPECTED, make_smoke, make_verdict

NODES = ("n1", "n2", "n3")
REQUIRED = EXPECTED["cpu"].between
OWN = "all_gather, summed by each rank"
PROGRAM = ROOT / "reprobuild_runtime" / "probes" / "between.py"

Change = Callable[[dict[str, Any]], dict[str, Any] | None]


def lines(
    rank: int, world: int = 3, change: Change = lambda line: line, names: tuple[str, ...] = REQUIRED
) -> str:
    """Return what a node with one rank says where all is well, with each line changed; None leaves it out."""
    found: list[dict[str, Any]] = [{"came": True}]
    for launch in range(2):
        about = {"rank": rank, "world": world, "launch": launch}
        found += [
            {
                **about,
                "probe": name,
                "digests": [digest(name, rank if "scatter" in name or "numbers" in name else 0)] * 3,
            }
            for _ in range(2)
            for name in dict.fromkeys((*names, "reduce_scatter float32 1 MiB"))
        ]
        found += [
            {**about, "control": "default", "digests": [digest("control", n) for n in range(2)]},
            {**about, "control": "cured", "digests": [digest("control", 0)] * 2}, {**about, "done": True},
            {"launch": launch, "code": 0},
        ]  # fmt: skip
    return "".join(f"{json.dumps(kept)}\n" for line in found if (kept := change(line)) is not None)


def digest(name: str, number: int) -> str:
    return f"{len(name):032x}{number:032x}"


def free_port() -> int:
    """Return a port of which the next one is free, too, for all that is known."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def judged(folder: Path, texts: Mapping[str, str], asked: tuple[str, ...] = NODES) -> CollectiveResult:
    folder.mkdir(exist_ok=True)
    (folder / "nodes").write_text("\n".join(asked))
    for name, text in texts.items():
        (folder / f"{name}.told").write_text(text)
    return judge_collectives(folder, "cpu", REQUIRED)


def with_third(folder: Path, change: Change) -> CollectiveResult:
    """Return what is made of three nodes of which the last says something else."""
    return judged(folder, {"n1": lines(0), "n2": lines(1), "n3": lines(2, change=change)})


def test_ranks_that_agree_each_time_are_identical(tmp_path: Path) -> None:
    found = with_third(tmp_path, lambda line: line)
    assert (found.verdict, found.drifts, found.absent, found.open) == ("identical", (), (), ())
    assert set(found.identical) == {*REQUIRED, "reduce_scatter float32 1 MiB"}
    assert (found.ranks, found.nodes) == (3, NODES)
    assert found.control == "2 different results in the order of arrival, 1 in the order of ranks"


def test_a_second_launch_that_differs_is_a_drift_of_its_ranks(tmp_path: Path) -> None:
    def change(line: dict[str, Any]) -> dict[str, Any]:
        other = line.get("probe") == "all_reduce that cancels" and line["launch"] == 1
        return {**line, "digests": [digest("x", 9)] * 6} if other else line

    found = with_third(tmp_path, change)
    assert found.verdict == "drift"
    (one,) = found.drifts
    assert (one.collective, one.kind, one.nodes, one.ranks) == (
        "all_reduce that cancels",
        "runs",
        ("n3",),
        (2,),
    )
    assert "all_reduce that cancels" not in found.identical


def test_a_rank_that_holds_something_else_is_named_where_most_agree(tmp_path: Path) -> None:
    def change(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "digests": [digest("x", 9)] * 6} if line.get("probe") == OWN else line

    (one,) = with_third(tmp_path / "three", change).drifts
    assert (one.collective, one.kind, one.nodes, one.settled) == (OWN, "ranks", ("n3",), True)
    two = judged(tmp_path / "two", {"n1": lines(0, 2), "n2": lines(1, 2, change)}, ("n1", "n2"))
    assert [(each.nodes, each.settled) for each in two.drifts] == [(("n1", "n2"), False)]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda line: line if line.get("probe") != OWN else None,
         f"{OWN}: rank 2 on n3: 0 results, where others have 12"),
        (lambda line: {**line, "digests": [], "error": "torn"} if line.get("probe") == OWN else line,
         f"{OWN}: rank 2 on n3: torn"),
        (lambda line: {**line, "rank": 1} if "rank" in line else line, "the ranks are not those of one job"),
        (lambda line: {**line, "world": 4} if "world" in line else line, "the ranks are not those of one job"),
        (lambda line: {**line, "digests": [digest("x", 1)]} if line.get("control") == "cured" else line,
         "control: a sum in the order of ranks is not one on all ranks"),
    ],
)  # fmt: skip
def test_what_is_less_than_an_answer_is_no_pass(tmp_path: Path, change: Change, why: str) -> None:
    found = with_third(tmp_path, change)
    assert found.verdict == "inconclusive"
    assert found.open == (why,)


def test_a_control_that_is_not_seen_drifting_leaves_all_open(tmp_path: Path) -> None:
    def change(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "digests": [digest("control", 0)]} if line.get("control") == "default" else line

    found = judged(tmp_path, {name: lines(rank, change=change) for rank, name in enumerate(NODES)})
    assert found.verdict == "inconclusive"
    assert found.open == (
        "control: a sum in the order of arrival was not seen drifting: a drift would not have been seen",
    )


def on_launch(number: int, change: Change) -> Change:
    return lambda line: change(line) if line.get("launch") == number else line


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda line: {**line, "digests": [], "error": "refused"} if line.get("probe") == OWN else line,
         f"{OWN}: ranks 0, 1, 2 on n1, n2, n3: refused"),
        (lambda line: None if line.get("probe") == OWN else line,
         f"{OWN}: ranks 0, 1, 2 on n1, n2, n3: 6 results, and not as they should be in each round"),
        (lambda line: None if line.get("control") == "cured" else line,
         "control: ranks 0, 1, 2 on n1, n2, n3: it was not done in both launches"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("launch", [0, 1])
def test_a_launch_without_answers_is_no_pass(launch: int, change: Change, why: str, tmp_path: Path) -> None:
    whole = on_launch(launch, change)
    found = judged(tmp_path, {name: lines(rank, change=whole) for rank, name in enumerate(NODES)})
    assert (found.verdict, found.open) == ("inconclusive", (why,))
    assert (OWN in found.identical) == why.startswith("control")


def test_a_launch_in_which_no_rank_says_anything_is_no_pass(tmp_path: Path) -> None:
    change = on_launch(1, lambda line: None if "probe" in line else line)
    found = judged(tmp_path, {name: lines(rank, change=change) for rank, name in enumerate(NODES)})
    assert (found.verdict, found.identical) == ("inconclusive", ())
    assert found.open[0].endswith(
        "ranks 0, 1, 2 on n1, n2, n3: 6 results, and not as they should be in each round"
    )


def test_an_error_among_results_is_no_pass_and_its_rank_is_named(tmp_path: Path) -> None:
    change = on_launch(1, lambda line: {**line, "error": "torn"} if line.get("probe") == OWN else line)
    found = with_third(tmp_path, change)
    assert (found.verdict, found.open) == ("inconclusive", (f"{OWN}: rank 2 on n3: torn",))
    assert OWN not in found.identical


def test_the_control_asks_each_rank(tmp_path: Path) -> None:
    """One rank's word does not show that a drift would be seen on the others."""
    found = with_third(tmp_path, lambda line: None if "control" in line else line)
    assert found.verdict == "inconclusive"
    assert found.open == ("control: rank 2 on n3: it was not done in both launches",)

    def blind(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "digests": [digest("control", 0)]} if line.get("control") == "default" else line

    assert with_third(tmp_path, blind).open == (
        "control: a sum in the order of arrival was not seen drifting: a drift would not have been seen",
    )


def test_who_says_why_it_failed_is_told_beside_many_that_do_not(tmp_path: Path) -> None:
    nodes = tuple(f"n{number:02}" for number in range(1, 21))
    waited = '{"came": true}\n{"launch": 0, "code": 1}\n'
    failed = {"rank": 19, "world": 20, "launch": 0, "failed": "CUDA error: uncorrectable ECC"}
    for name in nodes:
        (tmp_path / f"{name}.ended").write_text("1")
    found = judged(
        tmp_path, {**dict.fromkeys(nodes, waited), "n20": f"{json.dumps(failed)}\n{waited}"}, nodes
    )
    assert found.open == (
        "n20 came, and did not come to the end: rank 19: CUDA error: uncorrectable ECC",
        f"{', '.join(nodes[:8])} and 11 more came, and did not come to the end: its process ended with exit code 1",
    )
    # One is killed, and all others say, each with other numbers, that it is not there any more.
    (tmp_path / "n20.ended").write_text("137")
    closed = {
        name: json.dumps({"rank": rank, "failed": f"Connection closed by peer [192.0.2.9]:{rank + 20_000}"})
        for rank, name in enumerate(nodes[:19])
    }
    texts = {name: f"{text}\n{waited}" for name, text in closed.items()}
    killed, others = judged(tmp_path, {**texts, "n20": waited}, nodes).open
    assert killed == (
        "n20 came, and did not come to the end: its process was killed by signal 9, as for too much memory"
    )
    assert others.startswith("n01, n02, n03, n04, n05, n06, n07, n08 and 11 more came")
    assert "rank 0: Connection closed" in others


def test_what_a_node_itself_says_is_told(tmp_path: Path) -> None:
    taken = "port 20007, chosen by chance for the ranks to meet, cannot be had here: Address already in use"
    waited = '{"came": true}\n{"launch": 0, "code": 1}\n'
    texts = {"n1": f'{{"came": true}}\n{json.dumps({"failed": taken})}\n', "n2": waited, "n3": waited}
    assert f"n1 came, and did not come to the end: {taken}" in judged(tmp_path, texts).open


def test_two_ranks_have_no_order_to_show(tmp_path: Path) -> None:
    found = judged(tmp_path, {"n1": lines(0, 2), "n2": lines(1, 2)}, ("n1", "n2"))
    assert (found.verdict, found.open) == ("inconclusive", ("the order of a sum of 2 cannot show",))


def test_who_does_not_come_is_named_and_who_waited_for_it_is_not(tmp_path: Path) -> None:
    waited = '{"came": true}\n{"launch": 0, "code": 1}\n'
    texts = {"n1": waited, "n2": waited, "n3": ""}
    (tmp_path / "n3.log").write_text("note: x\nerror: no container engine answers (tried docker)\nhint: y\n")
    found = judged(tmp_path, texts)
    assert (found.verdict, found.absent, found.drifts) == ("unfinished", ("n3",), ())
    assert found.open == (
        "n3 did not come to the rendezvous: error: no container engine answers (tried docker)",
    )
    (tmp_path / "n3.log").unlink()
    for left, why in (
        (None, "it had not ended when it was no longer waited for"),
        ("ended", "its process was killed by signal 9, as for too much memory"), ("lost", "137"),
    ):  # fmt: skip
        if left:
            (tmp_path / f"n3.{left}").write_text("137")
        assert judged(tmp_path, texts).open == (f"n3 did not come to the rendezvous: {why}",)


def test_a_rank_that_fails_is_quoted(tmp_path: Path) -> None:
    def change(line: dict[str, Any]) -> dict[str, Any] | None:
        if line.get("done") and line["launch"] == 1:
            return {
                "rank": 2,
                "world": 3,
                "launch": 1,
                "failed": "RuntimeError: Connection closed\x1b by peer",
            }
        return None if line.get("code") == 0 and line["launch"] == 1 else line

    found = with_third(tmp_path, change)
    assert found.verdict == "unfinished"
    failed = "n3 came, and did not come to the end: rank 2: RuntimeError: Connection closed\\x1b by peer"
    assert found.open == (failed,)
    # Who says nothing is told first.
    (tmp_path / "n1.told").write_text('{"came": true}\n')
    (tmp_path / "n1.ended").write_text("143")
    silent = "n1 came, and did not come to the end: its process was killed by signal 15"
    assert judged(tmp_path, {}).open == (silent, failed)


def test_what_nodes_leave_may_be_anything(tmp_path: Path) -> None:
    texts = {"n1": "[" * 100_000, "n2": '{"rank": -1}\n{"rank": 1e99}\n\x00\n{"came": 1}\n"', "n3": lines(2)}
    found = judged(tmp_path, texts)
    assert (found.verdict, found.absent) == ("unfinished", ("n1", "n2"))
    (tmp_path / "n1.told").unlink()
    (tmp_path / "n1.told").symlink_to("/dev/zero")
    (tmp_path / "n2.told").unlink()
    os.mkfifo(tmp_path / "n2.told")
    (tmp_path / "n3.told").write_text(lines(2) + " " * LARGEST + '{"rank": 7}\n')
    assert judged(tmp_path, {}).ranks == 1
    (tmp_path / "nodes").write_text("")
    assert judge_collectives(tmp_path, "cpu", REQUIRED).open == ("no node was asked",)


def test_a_drift_between_nodes_decides_and_is_told(tmp_path: Path) -> None:
    """It stands in the words, on the page, and in the exit code, also where all certificates are alike."""
    write(tmp_path, n1=certificate(), n2=certificate(), n3=certificate())
    assert gathered(tmp_path).exit_code == 0
    assert "collectives between nodes: not run" in render_cluster(gathered(tmp_path))
    shared = tmp_path / "collectives-cpu"
    judged(shared, {name: lines(rank) for rank, name in enumerate(NODES)})
    good = gathered(tmp_path)
    assert (good.exit_code, good.collectives[0].verdict) == (0, "identical")
    assert "collectives between 3 nodes, cpu (gloo, 3 ranks): identical" in render_cluster(good)
    (shared / "n2.told").write_text("")
    late = gathered(tmp_path)
    assert (late.exit_code, late.silent) == (9, ())
    assert "did not finish\n  n2 did not come to the rendezvous: " in render_cluster(late)
    assert answer_same_results(make_verdict(), render_nodes(late)).tone == "open"

    def change(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "digests": [digest("x", 9)] * 6} if line.get("probe") == OWN else line

    (shared / "n2.told").write_text(lines(1, change=change))
    odd = gathered(tmp_path)
    assert odd.exit_code == 8
    assert f"{OWN}: other than on most nodes, on n2 (rank 1)" in render_cluster(odd)
    page = render_nodes(odd)
    assert [(one.node, one.answers) for one in page.wrong] == [("n2", (OWN,))]
    assert "n2" in answer_same_results(make_verdict(), page).sentence
    assert msgspec.json.decode(msgspec.json.encode(odd), type=type(odd)) == odd


def test_a_drift_is_laid_at_the_node_whose_own_numbers_drift(tmp_path: Path) -> None:
    """They go into the sums of all, which are named beside it, and are not called wrong."""
    write(tmp_path, n1=certificate(), n2=certificate(), n3=certificate())

    def other(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "digests": [digest("x", 9)] * 3} if line.get("launch") == 1 else line

    def sums(line: dict[str, Any]) -> dict[str, Any]:
        return line if line.get("probe") in (None, "numbers of each rank") else other(line)

    def all_of_it(line: dict[str, Any]) -> dict[str, Any]:
        return other(line) if "probe" in line else line

    judged(
        tmp_path / "collectives-cpu",
        {"n1": lines(0, change=sums), "n2": lines(1, change=all_of_it), "n3": lines(2, change=sums)},
    )
    cluster = gathered(tmp_path)
    page = render_nodes(cluster)
    assert cluster.exit_code == 8
    assert [(one.node, one.answers) for one in page.wrong] == [("n2", ("numbers of each rank",))]
    assert "also on n1, n3: that may come of n2" in "\n".join(page.notes)
    text = render_cluster(cluster)
    assert "numbers of each rank: not the same each time, on n2 (rank 1)" in text
    assert "not the same each time, also on n1, n3: that may come of n2" in text
    assert text.count("not the same each time") == 2
    # Where all numbers drift, or none do and all sums, nobody is let off.
    judged(tmp_path / "collectives-cpu", {name: lines(rank, change=sums) for rank, name in enumerate(NODES)})
    assert {one.node for one in render_nodes(gathered(tmp_path)).wrong} == {*NODES}


def test_ranks_that_differ_without_a_majority_are_not_called_wrong_each(tmp_path: Path) -> None:
    write(tmp_path, n1=certificate(), n2=certificate())

    def change(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "digests": [digest("x", 9)] * 3} if line.get("probe") == OWN else line

    judged(tmp_path / "collectives-cpu", {"n1": lines(0, 2), "n2": lines(1, 2, change)}, ("n1", "n2"))
    found = render_nodes(gathered(tmp_path)).wrong
    assert {one.node for one in found} == {"n1", "n2"}
    assert all(
        one.said.endswith("is not the same on all ranks, and which is right is not known") for one in found
    )


def same(line: dict[str, Any]) -> dict[str, Any]:
    return line


def other_sums(line: dict[str, Any]) -> dict[str, Any]:
    return {**line, "digests": [digest("x", 9)] * 3} if line.get("probe") == OWN else line


def test_made_up_ranks_of_one_node_accuse_no_other(tmp_path: Path) -> None:
    """Ranks were counted, so one node outvoted three; its numbers were those of no job, and still it decided."""
    texts = {name: lines(rank, 4) for rank, name in enumerate(NODES)}
    texts["n4"] = "".join(lines(rank, 4, other_sums) for rank in range(3, 60))
    found = judged(tmp_path, texts, (*NODES, "n4"))
    assert [(one.nodes, one.settled) for one in found.drifts] == [((*NODES, "n4"), False)]
    assert "the ranks are not those of one job" in found.open
    text = "\n".join(result_lines(found))
    assert "which is right is not known" in text
    assert "computes wrongly" not in text


@pytest.mark.parametrize(
    ("ranks", "odd", "named"),
    [
        ({"n1": 1, "n2": 1, "n3": 1, "n4": 4}, {3, 4, 5, 6}, None),  # n4 has most ranks
        ({"n1": 2, "n2": 2, "n3": 3, "n4": 3}, {7, 8, 9}, ("n4",)),
        (
            {"n1": 1, "n2": 1, "n3": 1, "n4": 3},
            {3, 4, 5},
            ("n4",),
        ),  # half of the ranks, and one of four nodes
        ({"n1": 4, "n2": 4, "n3": 4}, {5}, ("n2",)),  # one GPU of a node
        ({"n1": 2, "n2": 2, "n3": 2}, {1, 3}, None),  # two nodes without a vote
        ({"n1": 1, "n2": 1, "n3": 1, "n4": 1}, {2, 3}, None),
    ],
)
def test_each_node_has_one_vote(
    ranks: dict[str, int], odd: set[int], named: tuple[str, ...] | None, tmp_path: Path
) -> None:
    world, first, texts = sum(ranks.values()), 0, {}
    for name, count in ranks.items():
        numbers = range(first, first + count)
        texts[name] = "".join(lines(rank, world, other_sums if rank in odd else same) for rank in numbers)
        first += count
    (drift,) = judged(tmp_path, texts, tuple(ranks)).drifts
    assert (drift.nodes, drift.settled) == (named or tuple(ranks), named is not None)


def test_collectives_that_other_nodes_ran_are_no_word_on_these(tmp_path: Path) -> None:
    write(tmp_path, n1=certificate(), n2=certificate(), n3=certificate())
    nodes = ("n1", "n2", "zz")
    judged(tmp_path / "collectives-cpu", {name: lines(rank) for rank, name in enumerate(nodes)}, nodes)
    found = gathered(tmp_path, *NODES)
    assert (found.exit_code, found.collectives[0].verdict) == (9, "inconclusive")
    assert found.collectives[0].open == (
        "n3: answered, and had no part in it",
        "zz: had a part in it, and no answer of its own",
    )
    assert "  n3: answered, and had no part in it" in render_cluster(found)


def test_collectives_that_could_not_be_run_leave_a_fleet_open(tmp_path: Path) -> None:
    """`--collectives` asked for them; where nobody did, the page and the words say that they were not run."""
    write(tmp_path, n1=certificate(), n2=certificate(), n3=certificate())
    silent = gathered(tmp_path)
    assert (silent.exit_code, [one.verdict for one in render_nodes(silent).collectives]) == (0, ["not run"])
    table = AnswerTable({"cpu": msgspec.structs.replace(EXPECTED["cpu"], between=())})
    assert collectives_obstacle(table, "cpu", NODES).startswith("the image was made by another reprobuild")
    assert collectives_obstacle(table, "cpu", ("n1",)) == "of the nodes only n1 answered on it"
    assert collectives_obstacle(AnswerTable(EXPECTED), "cpu", NODES) == ""
    note_not_run(tmp_path, "cpu", "another reprobuild")
    found = gathered(tmp_path)
    assert (found.exit_code, found.verdict) == (9, "inconclusive")
    assert "collectives between nodes, cpu (gloo): not run\n  another reprobuild\n" in render_cluster(found)
    page = render_nodes(found)
    assert [(one.verdict, one.said) for one in page.collectives] == [("not run", ("another reprobuild",))]
    assert answer_same_results(make_verdict(), page).tone == "open"
    # What ranks said is not hidden by such a file.
    judged(tmp_path / "collectives-cpu", {"n1": lines(0), "n2": ""})
    assert gathered(tmp_path).collectives[0].verdict == "unfinished"


def test_a_damaged_list_of_the_ranks_nodes_takes_nothing_else_along(tmp_path: Path) -> None:
    write(tmp_path, n1=certificate(), n2=certificate(), n3=certificate())
    shared = tmp_path / "collectives-cpu"
    judged(shared, {name: lines(rank) for rank, name in enumerate(NODES)})
    (shared / "nodes").write_text("../x")
    found = gathered(tmp_path)
    assert (found.exit_code, [one.nodes for one in found.groups]) == (9, [NODES])
    (one,) = found.collectives
    assert (one.verdict, one.open[1]) == ("inconclusive", "n1, n2, n3: answered, and had no part in it")
    assert one.open[0].endswith("'../x' is no name of a node")
    # Who has started them knows their nodes.
    known = gather_results(tmp_path, IMAGE, AnswerTable(EXPECTED), met={"cpu": NODES})
    assert (known.exit_code, known.collectives[0].verdict) == (0, "identical")


def test_what_a_node_said_and_cannot_be_read_is_its_own_affair() -> None:
    with shared() as folder:
        judged(folder, {name: lines(rank) for rank, name in enumerate(NODES)})
        (folder / "n2.told").chmod(0)
        with as_nobody():
            found = judge_collectives(folder, "cpu", REQUIRED)
        assert (found.verdict, found.absent) == ("unfinished", ("n2",))
        said = "n2 did not come to the rendezvous: what it said cannot be read: Permission denied"
        assert found.open == (said,)
        (folder / "n2.told").chmod(0o644)
        (folder / "n2.told").write_text("")
        (folder / "n2.log").write_text("error: x\n")
        (folder / "n2.log").chmod(0)
        (folder / "n2.ended").write_text("3")
        with as_nobody():
            found = judge_collectives(folder, "cpu", REQUIRED)
        assert found.open == ("n2 did not come to the rendezvous: its process ended with exit code 3",)


def with_one_gpu(verdict: Any = "not-covered") -> Verdict:
    """Return the certificate of a node whose GPU has no other beside it."""
    cuda = make_smoke("cuda")
    assert cuda.collectives
    few = msgspec.structs.replace(cuda.collectives, verdict=verdict, probes=(), controls=())
    own = Determinism(cpu="identical", gpu="identical", collectives="not-covered")
    smoke = (make_smoke(), msgspec.structs.replace(cuda, collectives=few))
    return msgspec.structs.replace(certificate(determinism=own), smoke=smoke)


def test_collectives_between_nodes_cover_those_of_nodes_with_one_gpu(tmp_path: Path) -> None:
    """NCCL's are judged as gloo's: what ranks say is the same, and here it is written."""
    write(tmp_path, **dict.fromkeys(NODES, with_one_gpu()))
    alone = gathered(tmp_path)
    assert (alone.exit_code, [each.why for each in alone.open]) == (9, ["collectives: not-covered"])
    required = EXPECTED["cuda"].between
    (tmp_path / "collectives-cuda").mkdir()
    (tmp_path / "collectives-cuda" / "nodes").write_text("\n".join(NODES))
    for rank, name in enumerate(NODES):
        (tmp_path / "collectives-cuda" / f"{name}.told").write_text(lines(rank, names=required))
    found = gathered(tmp_path)
    assert (found.exit_code, found.open, found.collectives[0].verdict) == (0, (), "identical")
    # What is open for another reason stays, and so does all where those between the nodes are no pass.
    write(tmp_path, n1=with_one_gpu("inconclusive"))
    assert [each.nodes for each in gathered(tmp_path).open] == [("n1",)]
    write(tmp_path, n1=with_one_gpu())
    (tmp_path / "collectives-cuda" / "n2.told").write_text("")
    assert [each.nodes for each in gathered(tmp_path).open] == [NODES]


def test_the_ranks_do_not_meet_at_loopback_where_there_is_another_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The own name leads to 127.0.1.1 on Debian; the made address of the other node is on a made interface."""
    ways = {"127.0.1.1": "127.0.0.1", "192.0.2.2": "192.0.2.1"}

    class Made(socket.socket):
        def connect(self, address: Any) -> None:
            self.own = ways[address[0]]

        def getsockname(self) -> Any:
            return (self.own, 9)

    monkeypatch.setattr(socket, "socket", Made)
    monkeypatch.setattr(between, "_find_interface", lambda own: own)
    assert between.interface("127.0.1.1", "192.0.2.2") == "192.0.2.1"
    assert between.interface("192.0.2.2", "127.0.1.1") == "192.0.2.1"
    assert between.interface("127.0.1.1", "127.0.1.1") == "127.0.0.1"


def test_the_interface_of_an_address_is_found() -> None:
    assert between.interface("127.0.0.1", "127.0.0.2") == "lo"
    assert between.interface("no host of this name") == ""


def test_a_port_that_is_taken_is_said_by_the_first_node(tmp_path: Path) -> None:
    """It starts no torchrun; the others cannot know."""
    with socket.socket() as listening:
        listening.bind(("", 0))
        listening.listen(1)
        port = listening.getsockname()[1]
        asked = {"device": "cpu", "seed": 7, "nodes": 2, "ranks": 1, "address": "127.0.0.1", "second": "127.0.0.1",
                 "port": port, "limit": 5, "repeats": 3}  # fmt: skip
        done = subprocess.run(
            [sys.executable, PROGRAM, json.dumps(asked)], env={"SLURM_PROCID": "0", "PATH": os.environ["PATH"]},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"came": True},
        {
            "failed": f"port {port}, chosen by chance for the ranks to meet, cannot be had here: Address already in use"
        },
    ]


@pytest.mark.long
def test_a_drift_of_real_ranks_is_seen(torch_python: Path, tmp_path: Path) -> None:
    """Three nodes' torchruns on this machine: in the second launch one rank rounds downwards, and in the first none."""
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "sitecustomize.py").write_text(
        "import ctypes, os\nif os.environ.get('TORCHELASTIC_RUN_ID', '').endswith('-1'):\n"
        f"    ctypes.CDLL('libm.so.6').fesetround({DOWNWARD})\n"
    )
    asked = {
        "device": "cpu", "seed": 7, "nodes": 3, "ranks": 1, "address": "127.0.0.1", "second": "127.0.0.1",
        "port": free_port(),
        "limit": 240, "repeats": 3,
    }  # fmt: skip
    folder = tmp_path / "told"
    folder.mkdir()
    running = []
    for number, name in enumerate(NODES):
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SLURM_PROCID": str(number)}
        env |= {"PYTHONPATH": str(planted)} if name == "n2" else {}
        with (folder / f"{name}.told").open("wb") as told, (folder / f"{name}.log").open("wb") as log:
            argv = [str(torch_python), str(PROGRAM), json.dumps(asked)]
            running.append(subprocess.Popen(argv, env=env, stdout=told, stderr=log))
    codes = [one.wait(timeout=600) for one in running]
    found = judged(folder, {})
    assert codes == [0, 0, 0], [(folder / f"{name}.log").read_text() for name in NODES]
    assert found.verdict == "drift", found
    drifts = {each.collective: each.nodes for each in found.drifts}
    assert drifts["numbers of each rank"] == ("n2",)
    assert drifts["all_reduce float32 1 MiB"] == NODES  # they went into the sum of all
    assert int(found.control.partition(" ")[0]) >= 2, found.control


def test_a_log_with_too_many_ranks_or_names_is_refused(tmp_path: Path) -> None:
    """Each rank takes memory, and each name is compared on each rank."""
    honest = {"n1": lines(0), "n2": lines(1), "n3": lines(2)}
    too_many = {
        "ranks": "".join(f'{{"rank":{number}}}\n' for number in range(MOST_RANKS + 1)),
        "names": "".join(
            f'{{"rank":{number},"launch":0,"probe":"name {number}"}}\n' for number in range(MOST_NAMES + 1)
        ),
    }
    for kind, text in too_many.items():
        found = judged(tmp_path / kind, {**honest, "a0": '{"came": true}\n' + text}, ("a0", *NODES))
        bound = f"{MOST_RANKS:,} ranks" if kind == "ranks" else f"{MOST_NAMES} names of collectives"
        why = f"a0 came, and did not come to the end: its log has more than {bound}"
        assert (found.verdict, found.ranks, found.open) == ("unfinished", 3, (why,))
    within = "".join(f'{{"rank":{number}}}\n' for number in range(MOST_RANKS))
    assert judged(tmp_path / "within", {"a0": within}, ("a0",)).ranks == MOST_RANKS


def test_made_up_names_of_a_node_remove_no_name_of_the_others(tmp_path: Path) -> None:
    def drift(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "digests": [digest("x", 9)] * 3} if line.get("probe") == OWN else line

    made_up = tuple(
        f"a made-up name {number}" for number in range(MOST_NAMES - 3)
    )  # beside one name and two controls
    texts = {
        "a0": lines(0, 4, names=made_up), "n1": lines(1, 4), "n2": lines(2, 4), "n3": lines(3, 4, drift)
    }  # fmt: skip
    found = judged(tmp_path, texts, ("a0", *NODES))
    assert [(item.collective, item.nodes) for item in found.drifts] == [(OWN, ("n3",))]
    count = len(REQUIRED) + MOST_NAMES - 2
    assert found.open[0] == (
        f"a0: {count} names of collectives in all, so {count - MOST_NAMES} rare ones were not compared"
    )
