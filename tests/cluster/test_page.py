"""What came of a cluster stands on the page, where there is one of this image."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reprobuild.cluster.aggregate import gather_results
from reprobuild.cluster.answer_table import AnswerTable
from reprobuild.cluster.report import read_nodes, render_nodes, write_cluster_result
from reprobuild.context import RunContext
from reprobuild.image.model import Image
from reprobuild.infra.http.client import Net
from reprobuild.output.directory import remember_document
from reprobuild.report.html.answers import answer_same_results
from reprobuild.report.html.page import render_html
from reprobuild.store.store import Store
from reprobuild.verify.verdict import Determinism, Verdict
from tests.cluster.samples import IMAGE, certificate, changed, gathered, on, write
from tests.conftest import reprobuild
from tests.image.made import Made
from tests.store.sealing import built, sealed
from tests.verify.samples import EXPECTED, make_lock, make_verdict


@pytest.fixture
def session(tmp_path: Path) -> RunContext:
    """A session with an empty store."""
    return RunContext(
        store=Store(tmp_path / "store"), net=Net(offline=True), env={}, folder=tmp_path, say=print,
        progress=lambda *_, **__: None, now=1_795_000_000,
    )  # fmt: skip


def write_own_verdict(out: Path, image: Image, verdict: Verdict, session: RunContext) -> None:
    """Write a verdict file as a check here does."""
    document = msgspec.json.encode(verdict)
    (out / "verdict.json").write_bytes(document)
    remember_document("verdict.json", image, document, session.store)


def test_nodes_are_named_on_the_page(
    tmp_path: Path, session: RunContext, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes, out = tmp_path / "nodes", tmp_path / "out"
    good, odd = certificate(), certificate(changed("index_add"))
    write(nodes, a=good, b=good, c=good, n2=odd, alone=certificate(on("another")))
    (nodes / "dead.ended").write_text("3\n")
    cluster = gathered(nodes)
    out.mkdir()
    verdict = make_verdict()
    image = Image(
        layout="image", reference="r:1", tree=cluster.tree, config="c", manifest=verdict.image, layers=1
    )
    write_cluster_result(make_lock(), image, out, session, cluster)
    assert [path.name for path in out.iterdir()] == ["cluster.json"]  # without a verdict there is no page
    write_own_verdict(out, image, verdict, session)
    write_cluster_result(make_lock(), image, out, session, cluster)
    page = (out / "report.html").read_text()
    for said in (
        "Not on every node", "<b>n2</b>", "index_add (strict)", "<b>dead</b>", "5 of 6 nodes answered, of 2 platforms.",
        "Alone on its platform: nothing is known of it by comparison.",
    ):  # fmt: skip
        assert said in page
    (out / "report.html").unlink()
    other = msgspec.structs.replace(image, manifest="sha256:other")
    write_cluster_result(make_lock(), other, out, session, cluster)
    assert not (out / "report.html").exists()
    (out / "verdict.json").write_bytes(b"{")
    write_cluster_result(make_lock(), image, out, session, cluster)
    assert "report.html is not written again: " in capsys.readouterr().out
    assert not (out / "report.html").exists()


def test_a_page_that_is_written_again_keeps_the_nodes_of_this_image(
    tmp_path: Path, session: RunContext, capsys: pytest.CaptureFixture[str]
) -> None:
    """By what the nodes said at the check, and not by files that another party exchanged since."""
    verdict, out = make_verdict(), tmp_path / "out"
    nodes = out / "cluster" / "20260101-000000-abcdef"
    nodes.mkdir(parents=True)
    write(nodes, a=certificate(), b=certificate(), n2=certificate(changed("index_add")))
    cluster = msgspec.structs.replace(gathered(nodes), made="2026-01-01T00:00:00Z")
    image = Image(
        layout="image", reference="r:1", tree=cluster.tree, config="c", manifest=verdict.image, layers=1
    )
    write_own_verdict(out, image, verdict, session)
    assert read_nodes(make_lock(), image, out, session) is None
    write_cluster_result(make_lock(), image, out, session, cluster)
    other = msgspec.structs.replace(image, tree="sha256:other")
    assert read_nodes(make_lock(), other, out, session) is None

    def page(place: Path) -> str:
        return render_html(make_lock(), image, verdict, read_nodes(make_lock(), image, place, session))

    assert "<b>n2</b>" in page(out)
    assert "Gathered 2026-01-01T00:00:00Z, from " in page(out)
    assert nodes.name in page(out)
    assert "warning" not in capsys.readouterr().out
    written = (out / "cluster.json").read_bytes()
    good = msgspec.structs.replace(cluster.groups[0], odd=())
    (out / "cluster.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(cluster, groups=(good,))))
    assert read_nodes(make_lock(), image, out, session) is None
    assert "cluster.json was not written here" in capsys.readouterr().out
    (out / "cluster.json").write_bytes(written)
    moved = tmp_path / "moved"
    out.rename(moved)
    assert "<b>n2</b>" in page(moved)
    write(moved / "cluster" / nodes.name, n2=certificate())
    assert "<b>n2</b>" in page(moved)
    moved.rename(out)
    capsys.readouterr()
    document = b"{"
    (out / "cluster.json").write_bytes(document)
    remember_document("cluster.json", image, document, session.store)
    assert read_nodes(make_lock(), image, out, session) is None
    assert "warning: the nodes are not on report.html: cluster.json: " in capsys.readouterr().out


def test_a_clock_that_runs_ahead_makes_no_other_node_old_on_a_later_day(
    tmp_path: Path, session: RunContext
) -> None:
    out = tmp_path / "out"
    nodes = out / "cluster" / "one"
    nodes.mkdir(parents=True)
    write(nodes, a=certificate(), b=certificate(), n2=certificate(made="2026-11-22T17:00:00Z"))
    cluster = gather_results(nodes, IMAGE, AnswerTable(EXPECTED), timestamp="2026-11-22T05:01:00Z")
    verdict = make_verdict()
    image = Image(
        layout="image", reference="r:1", tree=cluster.tree, config="c", manifest=verdict.image, layers=1
    )
    write_own_verdict(out, image, verdict, session)
    write_cluster_result(make_lock(), image, out, session, cluster)
    later = msgspec.structs.replace(session, now=1_795_500_000)  # two days after
    page = render_html(make_lock(), image, verdict, read_nodes(make_lock(), image, out, later))
    assert "3 of 3 nodes answered" in page
    assert "left an old verdict file" not in page
    assert "Gathered 2026-11-22T05:01:00Z, from " in page


def test_two_nodes_without_a_majority_are_both_named(tmp_path: Path) -> None:
    write(tmp_path, a=certificate(), b=certificate(changed("index_add")))
    found = render_nodes(gathered(tmp_path))
    assert found.verdict == "differ"
    assert {one.node for one in found.wrong} == {"a", "b"}
    assert {one.answers for one in found.wrong} == {("index_add (strict)",)}


def test_what_is_not_compared_stands_on_the_page(tmp_path: Path) -> None:
    """Nodes without an answer, and probes that drift, leave a cluster open: nothing on the page is better than that."""
    lacks = certificate(changed("conv2d", digest=None, verdict="SKIPPED"))
    write(tmp_path, a=certificate(), b=certificate(), n2=lacks)
    cluster = gathered(tmp_path)
    assert cluster.verdict == "inconclusive"
    found = render_nodes(cluster)
    assert [(one.node, one.answers) for one in found.lacking] == [("n2", ("conv2d (strict)",))]
    assert answer_same_results(make_verdict(), found).tone == "open"
    loose = msgspec.structs.replace(
        cluster, groups=(msgspec.structs.replace(cluster.groups[0], loose={"conv2d (profile)": ("a", "n2")}),)
    )
    said = "conv2d (profile) on cpu is not compared: it drifts with the image's profile on a, n2"
    assert said in render_nodes(loose).notes
    assert said not in found.notes


def test_an_answer_does_not_hang_on_what_is_written(tmp_path: Path) -> None:
    made, nodes, out = Made(tmp_path / "made"), tmp_path / "nodes", tmp_path / "out"
    image = built(sealed(made, "alpha"), tmp_path / "given.lock", made.store, out)
    good = certificate(tree=image.tree, image=image.manifest)
    write(nodes, a=good, b=good, c=good, n2=certificate(changed("index_add"), tree=image.tree))
    (out / "verdict.json").write_bytes(msgspec.json.encode(good))
    (out / "report.html").mkdir()
    (out / "cluster.json").mkdir()
    done = reprobuild("cluster", "gather", out, nodes, "--store", made.store.root)
    assert done.returncode == 8, done.stderr
    assert "n2: differs from 3 of its platform" in done.stdout
    assert "warning: report.html is not written again: " in done.stderr
    assert "warning: cluster.json is not written: " in done.stderr


def test_a_node_that_drifts_and_has_nothing_to_compare_is_named(tmp_path: Path) -> None:
    own = Determinism(cpu="identical", gpu="drift", collectives="identical")
    write(tmp_path, a=certificate(), n2=certificate(determinism=own), c=certificate())
    cluster = gathered(tmp_path)
    assert cluster.verdict == "differ"
    found = render_nodes(cluster)
    assert [(one.node, one.said) for one in found.wrong] == [("n2", "drifts: by its own verdict: cuda")]
    assert found.silent == ()
    answer = answer_same_results(make_verdict(), found)
    assert (answer.tone, answer.sentence) == (
        "bad",
        "Nodes of one platform gave different bytes, or drift: n2.",
    )


@pytest.mark.parametrize("linked", [False, True])
def test_a_folder_of_the_caller_that_a_file_of_others_names_is_not_read(
    linked: bool, tmp_path: Path, session: RunContext, capsys: pytest.CaptureFixture[str]
) -> None:
    """What stands there, an error say, would come on the page."""
    verdict, out, private, lock = make_verdict(), tmp_path / "out", tmp_path / "private", make_lock()
    write(private, a=certificate(), b=certificate())
    (private / "c.error").write_text("my secret\n")
    cluster = gathered(private)
    image = Image(
        layout="image", reference="r:1", tree=cluster.tree, config="c", manifest=verdict.image, layers=1
    )
    out.mkdir()
    if linked:
        (out / "cluster").symlink_to(tmp_path)
    (out / "cluster.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(cluster, silent=())))
    assert read_nodes(lock, image, out, session) is None
    assert "cluster.json was not written here" in capsys.readouterr().out


@pytest.mark.parametrize("linked", [False, True])
def test_no_page_and_no_badge_of_a_verdict_of_others(
    linked: bool, tmp_path: Path, session: RunContext, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found by an attacker: a made-up verdict became a page and a badge of this machine."""
    out, verdict = tmp_path / "out", make_verdict()
    write(tmp_path / "nodes", a=certificate(), b=certificate())
    cluster = gathered(tmp_path / "nodes")
    image = Image(
        layout="image", reference="r:1", tree=cluster.tree, config="c", manifest=verdict.image, layers=1
    )
    out.mkdir()
    (out / "verdict.json").write_bytes(msgspec.json.encode(verdict))
    if linked:
        write_own_verdict(out, image, verdict, session)
        (out / "verdict.json").rename(tmp_path / "v.json")
        (out / "verdict.json").symlink_to(tmp_path / "v.json")
    write_cluster_result(make_lock(), image, out, session, cluster)
    assert not (out / "report.html").exists()
    assert not (out / "badge.svg").exists()
    why = f"no check here made verdict.json; `reprobuild verify {out}` makes your own"
    said = capsys.readouterr().out
    assert f"warning: report.html is not written again: {'' if linked else why}" in said
    (out / "verdict.json").unlink()
    write_own_verdict(out, image, verdict, session)  # as that command does
    write_cluster_result(make_lock(), image, out, session, cluster)
    assert (out / "badge.svg").exists()


def test_answers_that_came_with_a_directory_are_not_on_the_page(
    tmp_path: Path, session: RunContext, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found by an attacker: 64 made-up nodes that agree."""
    out, verdict, lock = tmp_path / "out", make_verdict(), make_lock()
    nodes = out / "cluster" / "20260101-000000-abcdef"
    nodes.mkdir(parents=True)
    write(nodes, a=certificate(), b=certificate())
    cluster = gathered(nodes)
    image = Image(
        layout="image", reference="r:1", tree=cluster.tree, config="c", manifest=verdict.image, layers=1
    )
    (out / "cluster.json").write_bytes(msgspec.json.encode(cluster))
    assert read_nodes(lock, image, out, session) is None
    assert (
        "warning: the nodes are not on report.html: cluster.json was not written here"
        in capsys.readouterr().out
    )
