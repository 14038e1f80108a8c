"""The badge: a small picture of the state of the check, for a README.

All its text is of this file: no value from a lock, an image or a container reaches it.
"""

from __future__ import annotations

from msgspec import Struct

from reprobuild.report.html.cluster import Nodes
from reprobuild.report.html.components import Tone
from reprobuild.verify.determinism.summary import drifting_probes
from reprobuild.verify.verdict import Verdict

NAME = "reprobuild"
# White on these has a contrast of 4.5 or more: https://www.w3.org/TR/WCAG21/#contrast-minimum.
_COLOURS: dict[Tone, str] = {"good": "#1b6a3d", "note": "#7d5200", "bad": "#ab2118", "open": "#46505e"}
_LETTER, _PAD = 6.1, 8  # pixels: of a letter of 11 pixels, and beside the text


_RANK: tuple[Tone, ...] = ("good", "note", "open", "bad")
_DEVIATIONS = {"replaced-version", "solved-version", "unrecoverable"}


class BadgeState(Struct, frozen=True):
    """The words and the tone of a badge."""

    words: str
    tone: Tone


def find_state(verdict: Verdict, cluster: Nodes | None = None) -> BadgeState:
    """Return the state that a badge shows: never better than the verdict, and than the check of many nodes."""
    parts = (_rate_environment(verdict), _rate_bytes(verdict, cluster))
    words = ", ".join(part.words for part in parts)
    return BadgeState(words, max((part.tone for part in parts), key=_RANK.index))


def _rate_environment(verdict: Verdict) -> BadgeState:
    if verdict.round_trip == "residue":
        return BadgeState("environment differs", "bad")
    if verdict.round_trip == "not-run":
        return BadgeState("environment not checked", "open")
    if any(difference.code in _DEVIATIONS for difference in verdict.differences):
        return BadgeState("environment with deviations", "note")
    return BadgeState("same environment", "good")


def _rate_bytes(verdict: Verdict, cluster: Nodes | None) -> BadgeState:
    answers = {verdict.determinism.cpu, verdict.determinism.gpu, verdict.determinism.collectives}
    others = {verdict.against.verdict if verdict.against else "same", cluster.verdict if cluster else "same"}
    if "drift" in answers or "differ" in others:
        return BadgeState("bytes differ", "bad")
    if "identical" not in answers or answers - {"identical", "not-applicable"} or "inconclusive" in others:
        return BadgeState("bytes not known", "open")
    if any(drifting_probes(smoke) for smoke in verdict.smoke):  # with the image's own profile
        return BadgeState("same bytes in strict mode", "note")
    return BadgeState("same bytes", "good")


def render_badge(verdict: Verdict, cluster: Nodes | None = None) -> str:
    """Return the badge as an SVG file."""
    state = find_state(verdict, cluster)
    left = round(len(NAME) * _LETTER + 2 * _PAD)
    right = round(len(state.words) * _LETTER + 2 * _PAD)
    label = f"{NAME}: {state.words}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" aria-label="{label}">'
        f"<title>{label}</title>"
        f'<clipPath id="r"><rect width="{left + right}" height="20" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#3b3b3b"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{_COLOURS[state.tone]}"/></g>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{left / 2:g}" y="14" textLength="{left - 2 * _PAD}">{NAME}</text>'
        f'<text x="{left + right / 2:g}" y="14" textLength="{right - 2 * _PAD}">{state.words}</text></g></svg>\n'
    )
