"""The reason of an exit code other than 0 is the last line of a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reprobuild.report.text import render_text
from reprobuild.verify.verdict import Against, Determinism
from tests.report.samples import IMAGE
from tests.verify.samples import make_lock, make_verdict


def against(verdict: Any) -> Against:
    return Against(certificate="sha256:1", made="2026-01-02T03:04:05Z", verdict=verdict, compared=1)


IDENTICAL = Determinism(cpu="identical", gpu="not-applicable", collectives="not-applicable")
NOT_RUN = Determinism(cpu="not-run", gpu="not-run", collectives="not-run")
PARTLY = Determinism(cpu="identical", gpu="not-covered", collectives="inconclusive")


@pytest.mark.parametrize(
    ("fields", "code", "reason"),
    [
        ({}, 0, ""),
        ({"determinism": Determinism(cpu="drift", gpu="drift", collectives="identical")}, 8,
         "two runs gave different bytes (cpu, gpu)"),
        ({"against": against("differ")}, 8, "other results than the verdict of 2026-01-02T03:04:05Z"),
        ({"round_trip": "residue"}, 10, "the image has differences that no line of the lock explains"),
        ({"determinism": PARTLY}, 9,
         "a determinism test has no answer (gpu not-covered, collectives inconclusive)"),
        ({"determinism": NOT_RUN}, 9, "no determinism test ran"),
        ({"determinism": NOT_RUN, "parts": ("round-trip",)}, 0, ""),
        ({"round_trip": "not-run"}, 9, "the round trip was not compared"),
        ({"against": against("inconclusive")}, 9,
         "the comparison with the verdict of 2026-01-02T03:04:05Z has no answer"),
    ],
)  # fmt: skip
def test_the_last_line_has_the_reason(fields: dict[str, Any], code: int, reason: str) -> None:
    verdict = make_verdict(**{"determinism": IDENTICAL, "round_trip": "exact"} | fields)
    assert (verdict.exit_code, verdict.exit_reason) == (code, reason)
    last = render_text(make_lock(), IMAGE, verdict, Path("out")).splitlines()[-1]
    assert last == f"exit code {code}: {reason}" if code else last.startswith("determinism: ")
