"""Lines that a lock left out: after what differs, and never the likeliest cause beside another one."""

from __future__ import annotations

from pathlib import Path

import msgspec

from reprobuild.compare.environments.lock import from_lock
from reprobuild.compare.environments.model import Environment
from reprobuild.compare.environments.sides import compare_sides
from reprobuild.lock.file import write_new_lock
from reprobuild.lock.model import Outcome, Resolution
from reprobuild.report.comparison import render_comparison
from tests.verify.samples import make_lock

LEFT_OUT = ("PYTHONPATH", "VIRTUAL_ENV")


def sides() -> tuple[Environment, Environment]:
    image = Environment(
        name="frozen", form="lock", known={"environment": {}, "python": {"numpy": {"version": "1.26.4"}}},
        left_out={("environment", name): "excluded: of the session" for name in LEFT_OUT},
    )  # fmt: skip
    job = Environment(
        name="job", form="snapshot",
        known={
            "environment": {name: {"value": "/x"} for name in (*LEFT_OUT, "LD_PRELOAD")},
            "python": {"numpy": {"version": "1.26.3"}},
        },
    )  # fmt: skip
    return image, job


def test_what_a_lock_left_out_comes_last() -> None:
    image, job = sides()
    text = render_comparison(compare_sides(image, job))
    assert text.startswith("likeliest: LD_PRELOAD, only in B: /x (")
    titles = [line for line in text.splitlines() if line.endswith((": 1", ": 2"))]
    assert titles == ["only in B: 1", "differ: 1", "left out of A by its lock: 2"]
    difference = {row.name: row.left_out for row in compare_sides(image, job).differences}
    assert difference == {"LD_PRELOAD": False, "numpy": False, "PYTHONPATH": True, "VIRTUAL_ENV": True}


def test_the_other_side_is_named() -> None:
    image, job = sides()
    text = render_comparison(compare_sides(job, image))
    assert "left out of B by its lock: 2" in text
    assert "B leaves it out, excluded: of the session" in text


def test_an_unresolved_line_is_not_left_out() -> None:
    image, job = sides()
    lost = msgspec.structs.replace(
        image, left_out={("environment", "LD_PRELOAD"): "unresolved: of no package"}
    )
    assert not any(row.left_out for row in compare_sides(lost, job).differences)


def test_of_two_lines_of_one_name_the_open_one_counts(tmp_path: Path) -> None:
    """The line for another system, which nobody needs, stands below the line without a version."""
    lines: tuple[tuple[int, Outcome, str], ...] = (1, "unresolved", "index-line"), (2, "excluded", "marker")
    rulings = tuple(
        Resolution(
            file="requirements.txt", line=line, subject="torch", outcome=outcome, reason="R", kind=kind,
            accepted=True, captured="torch",
        )
        for line, outcome, kind in lines
    )  # fmt: skip
    write_new_lock(make_lock(rulings=rulings), tmp_path / "lock.json")
    side = from_lock(tmp_path / "lock.json", "frozen")
    assert side.left_out[("python", "torch")] == "unresolved: R"
    assert ("python", "torch") not in side.unneeded
