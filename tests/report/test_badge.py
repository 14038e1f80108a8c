"""The badge: fixed words, never better than the verdict, and a picture that a browser shows."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import msgspec
import pytest

from reprobuild.report.html.badge import find_state, render_badge
from reprobuild.verify.verdict import Against, Determinism, RoundTripDifference, Verdict
from tests.browser import Browser
from tests.report.samples import HOSTILE, full_nodes, full_verdict, mode
from tests.verify.samples import make_smoke, make_verdict

GONE = RoundTripDifference(list="l", captured="c", image="", reason="r", code="unrecoverable")
DRIFT = Determinism(cpu="drift", gpu="not-applicable", collectives="not-applicable")
OPEN = Determinism(cpu="identical", gpu="not-covered", collectives="identical")
PROBE = make_smoke().probes[0]
LOOSE = make_smoke(probes=(msgspec.structs.replace(PROBE, modes={**PROBE.modes, "profile": mode("DRIFT")}),))
OTHER_PLATFORM, INCONCLUSIVE, DIFFER = (
    Against(certificate="sha256:1", made="2026-06-01", verdict=verdict, compared=1)
    for verdict in ("other-platform", "inconclusive", "differ")
)


@pytest.mark.parametrize(
    ("verdict", "words", "tone"),
    [
        (make_verdict(), "same environment, same bytes", "good"),
        (make_verdict(against=OTHER_PLATFORM), "same environment, same bytes", "good"),
        (make_verdict(differences=(GONE,)), "environment with deviations, same bytes", "note"),
        (make_verdict(round_trip="residue"), "environment differs, same bytes", "bad"),
        (make_verdict(round_trip="not-run"), "environment not checked, same bytes", "open"),
        (make_verdict(determinism=OPEN), "same environment, bytes not known", "open"),
        (make_verdict(smoke=(LOOSE,)), "same environment, same bytes in strict mode", "note"),
        (make_verdict(against=INCONCLUSIVE), "same environment, bytes not known", "open"),
        (make_verdict(against=DIFFER), "same environment, bytes differ", "bad"),
        (make_verdict(determinism=DRIFT), "same environment, bytes differ", "bad"),
    ],
)
def test_the_words_and_their_tone(verdict: Verdict, words: str, tone: Any) -> None:
    state = find_state(verdict)
    assert (state.words, state.tone) == (words, tone)


def test_nodes_that_differ_have_their_say() -> None:
    assert find_state(make_verdict(), full_nodes("x")).words == "same environment, bytes differ"


@pytest.mark.parametrize("bad", HOSTILE)
def test_no_value_reaches_the_badge(bad: str) -> None:
    assert render_badge(full_verdict(bad), full_nodes(bad)) == render_badge(
        full_verdict("x"), full_nodes("x")
    )


def test_a_browser_shows_it(browser: Browser) -> None:
    badge = render_badge(make_verdict())
    assert ET.fromstring(badge).get("aria-label") == "reprobuild: same environment, same bytes"
    browser.open(f'<!doctype html><html lang="en"><title>x</title><link rel="icon" href="data:,">{badge}')
    width, widths = browser.script(
        "const box = (e) => e.getBoundingClientRect(); const svg = document.querySelector('svg');"
        "return [box(svg).width, [...svg.querySelectorAll('text')].map((e) => box(e).right - box(svg).left)]"
    )
    assert width > 200
    assert all(right < width for right in widths)
    assert browser.complaints() == []
