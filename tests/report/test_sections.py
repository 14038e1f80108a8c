"""Sections with pictures: sizes, stages, requirements, matrices; and the text for a paper."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from reprobuild.image.oci.layer_sizes import LayerSize, read_layer_sizes
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Wheel
from reprobuild.lock.system import Artefact
from reprobuild.report.html.build import BuildFacts
from reprobuild.report.html.cite import view_citation
from reprobuild.report.html.cluster import Nodes, OutlierRow, Peers
from reprobuild.report.html.matrix import compare_certificates, compare_nodes
from reprobuild.report.html.page import render_html
from reprobuild.report.html.requirements import RequirementNode, view_requirements
from reprobuild.report.html.strip import StripPart, draw_strip
from reprobuild.report.html.title import view_title
from reprobuild.report.units import format_duration
from reprobuild.verify.verdict import Against, Deviation, WorkComparison
from reprobuild.verify.workload.conditions import WorkRecord
from tests.report.samples import HOSTILE, IMAGE
from tests.verify.samples import SHA, make_lock, make_smoke, make_verdict, source, wheel

GOOD = make_verdict()


def sized(name: str, size: int, *requires: str) -> Wheel:
    file = Artefact(filename=f"{name}.whl", sha256=SHA, size=size)
    return wheel(name, requires=requires, file=file)


def tree(*wheels: Wheel) -> list[RequirementNode]:
    return list(view_requirements(make_lock(wheels=wheels)).view.roots)  # type: ignore[attr-defined]  # a section of this kind has such a view


def test_the_title_is_what_people_know() -> None:
    lock = make_lock(
        sources=(
            source("other", "1" * 40),
            msgspec.structs.replace(source("mine", "2" * 40), path="/src/mine", patch=SHA),
        ),
        workdir="/src/mine",
    )
    smoke = make_smoke(fingerprint={"cpu_model": "AMD EPYC", "threads": 2, "cuda": {"gpus": ["no map"]}})
    title = view_title(lock, IMAGE, make_verdict(smoke=(smoke,)), (LayerSize(title="a", size=2_000_000),))
    assert (title.project, title.state) == ("mine", f"{lock.sources[1].commit[:7]} + uncommitted changes")
    assert title.machine == "AMD EPYC, 2 threads, no GPU"
    assert title.facts == (
        "PyTorch 1.0", "Python 3.11.2", "Debian 12, x86_64", "3 Python and 2 system packages", "2 MB in 1 layer",
    )  # fmt: skip


def test_a_gpu_has_its_name() -> None:
    gpu = make_smoke("cuda", fingerprint={"cuda": {"gpus": [{"name": "H100"}, {"name": "H100"}]}})
    title = view_title(make_lock(sources=()), IMAGE, make_verdict(smoke=(make_smoke(), gpu)), ())
    assert title.machine.endswith(", 2 x H100")
    assert (title.project, title.state) == (IMAGE.reference, "")


def test_a_strip_is_as_wide_as_its_parts() -> None:
    parts = [StripPart(name=f"p{n} 1.0", amount=n) for n in range(1, 60)]
    strip = draw_strip("s", "t", parts, str)
    assert [block.title for block in strip.blocks][-2:] == ["p59 1.0: 59", "35 others: 630"]
    assert strip.blocks[0].x == 0
    assert sum(block.width for block in strip.blocks) == pytest.approx(100, abs=0.2)
    assert [row.name for row in strip.rows[:2]] == ["p59 1.0", "p58 1.0"]
    assert strip.rows[-1].name == "19 others"
    assert draw_strip("s", "t", [], str).blocks == []


def test_layers_and_stages_are_drawn() -> None:
    layers = (LayerSize(title="torch-2.13.0-cp311-linux.whl", size=900), LayerSize(title="base", size=100))
    build = BuildFacts(layers=layers, seconds={"lock": 12.0, "load": 8.0, "check": 200.0})
    page = render_html(make_lock(), IMAGE, GOOD, build=build)
    assert "Layers: 1 kB in 2 layers, lowest first" in page
    assert "<title>torch 2.13.0: 900 B</title>" in page
    assert "Stages: 3 min 40 s" in page
    assert "<title>load into the engine: 8.0 s</title>" in page
    assert "How it was made" not in render_html(make_lock(), IMAGE, GOOD)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (9.96, "10.0 s"), (61.2, "61 s"), (119.4, "119 s"), (317, "5 min 17 s")],
)
def test_a_time_in_words(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words


def test_no_layout_has_no_layers(tmp_path: Path) -> None:
    assert read_layer_sizes(tmp_path / "image") == ()
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [7]}))
    assert read_layer_sizes(tmp_path) == ()


def test_the_tree_of_requirements() -> None:
    """The largest with all below it comes first, each is expanded once, and a circle ends."""
    nodes = tree(
        sized("app", 1, "big>=1", "Small_Lib"), sized("big", 1000, "small-lib", "circle"), sized("small-lib", 10),
        sized("circle", 5, "big"), sized("lone", 50), sized("a", 1, "b"), sized("b", 2, "a; python_version>'3'"),
    )  # fmt: skip
    assert [(node.name, node.size) for node in nodes] == [("app", "1 kB"), ("lone", "50 B"), ("a", "3 B")]
    (big, small) = nodes[0].children
    assert [(child.name, child.again) for child in big.children] == [("circle", False), ("small-lib", False)]
    assert [(child.name, child.again) for child in big.children[0].children] == [("big", True)]
    assert (small.name, small.again, small.children) == ("small-lib", False, [])
    assert nodes[2].children[0].children[0].again


def test_a_tree_of_any_depth_is_cut() -> None:
    nodes = tree(*(sized(f"p{n}", 1, f"p{n + 1}") for n in range(1000)), sized("p1000", 1))
    depth, node = 1, nodes[0]
    while node.children:
        depth, node = depth + 1, node.children[0]
    assert (depth, node.again) == (8, True)
    assert tree(*(sized(f"p{n}", 1) for n in range(2001))) == []


def test_nodes_by_the_answers_in_which_they_differ() -> None:
    peers = Peers(device="cpu", title="t", nodes=("n1", "n2", "n3", "n4"), compared=3, platform={})
    cluster = Nodes(
        verdict="differ", asked=4, groups=(peers,), silent=(),
        wrong=(OutlierRow(node="n2", said="x", answers=("b", "a")),),
        lacking=(OutlierRow(node="n3", said="x", answers=("b",)),),
    )  # fmt: skip
    matrix = compare_nodes(cluster)
    assert matrix
    assert matrix.columns == ["a", "b"]
    assert [(row.name, [cell.sameness for cell in row.cells]) for row in matrix.rows] == [
        ("n2", ["differs", "differs"]), ("n3", ["same", "no answer"]), ("all 2 others", ["same", "same"]),
    ]  # fmt: skip
    assert compare_nodes(msgspec.structs.replace(cluster, wrong=(), lacking=())) is None


def test_certificates_by_the_probes_in_which_they_differ() -> None:
    items = tuple(
        Deviation(scope="cpu", name=f"p{n}", then="a" * 64, now="b" * 64 if n else None) for n in range(40)
    )
    before = Against(certificate="sha256:1", made="2026-06-01", verdict="differ", compared=50, failed=items)
    matrix = compare_certificates(before, "2026-11-22")
    assert matrix
    assert (matrix.columns[0], len(matrix.columns), matrix.more_columns) == ("cpu p0", 30, 10)
    assert [(row.name, row.cells[0].text, row.cells[1].text) for row in matrix.rows] == [
        ("2026-06-01", "aaaaaa", "aaaaaa"), ("2026-11-22", "", "bbbbbb"),
    ]  # fmt: skip
    assert compare_certificates(msgspec.structs.replace(before, failed=()), "x") is None


def citation(lock: Lock) -> tuple[str, str]:
    view = view_citation(lock, IMAGE, GOOD).view
    return view.sentence, view.bibtex  # type: ignore[attr-defined]  # a section of this kind has such a view


def test_the_text_for_a_paper() -> None:
    lock = make_lock()
    sentence, bibtex = citation(lock)
    assert sentence == (
        f"The environment of mylib at commit {lock.sources[0].commit} was frozen with reprobuild {GOOD.program} as a "
        f"container image (lock sha256:{lock.digest}, image {IMAGE.manifest})."
    )
    assert bibtex.splitlines()[0] == f"@misc{{reprobuild-{lock.digest[:12]},"
    assert "  year = {2026}," in bibtex
    for bad in (*HOSTILE, "}\\input{/etc/passwd}%", "$^&_#~"):
        hostile = make_lock(sources=(msgspec.structs.replace(source("x", "7" * 40), name=bad),))
        assert set("\\%$^&_#~<>\"'") & set(citation(hostile)[1]) == set()
        assert citation(hostile)[1].count("{") == bibtex.count("{")


def test_the_command_of_the_users_work_is_named() -> None:
    work = WorkRecord(command="python train.py --out model.pt", seed=7, runs=3)
    same = WorkComparison(name="artefact model.pt", verdict="identical", detail="d" * 64)
    page = render_html(make_lock(), IMAGE, make_verdict(work=work, comparisons=(same,)))
    assert "<p>The command: <code>python train.py --out model.pt</code></p>" in page
