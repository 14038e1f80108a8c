"""The section on the making of the image: a strip of its stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from reprobuild.image.oci.layer_sizes import LayerSize
from reprobuild.report.html.components import Section
from reprobuild.report.html.strip import Strip, StripPart, draw_strip
from reprobuild.report.units import format_duration
from reprobuild.verify.verdict import Verdict

# The stages of `times.json` in words.
_WORDS = {
    "lock": "lock", "fetch": "fetch", "realise": "realise (dpkg, builds)", "image": "image",
    "load": "load into the engine",
}  # fmt: skip


class BuildFacts(Struct, frozen=True, kw_only=True):
    """Facts of an output directory beside its documents.

    `layers` are those of the image, lowest first, and `seconds` the time of each stage, in order. Both are empty if
    they are unknown.
    """

    layers: tuple[LayerSize, ...] = ()
    seconds: Mapping[str, float] = {}


UNKNOWN_BUILD = BuildFacts()


class BuildView(Struct, frozen=True, kw_only=True):
    """The strip of the stages."""

    strips: Sequence[Strip]


def view_build(build: BuildFacts, verdict: Verdict) -> Section:
    """Return the section on the stages; it needs times."""
    stages = [
        StripPart(name=name, amount=round(1000 * value))
        for name, value in _list_stages(build, verdict)
        if value > 0
    ]
    total = sum(stage.amount for stage in stages)
    title = f"Stages: {_format_milliseconds(total)}"
    strip = draw_strip("strip-stages", title, stages, _format_milliseconds)
    return Section(id="build", title="How it was made", view=BuildView(strips=[strip]))


def _list_stages(build: BuildFacts, verdict: Verdict) -> Iterator[tuple[str, float]]:
    """Yield the stages; the check is divided into the probes of each device and the rest."""
    for stage, words in _WORDS.items():
        yield words, build.seconds.get(stage, 0)
    rest = build.seconds.get("check", 0)
    for smoke in verdict.smoke:
        probes = min(smoke.seconds, rest)
        rest -= probes
        yield f"probes ({'GPU' if smoke.device == 'cuda' else 'CPU'})", probes
    yield "round trip and your work", rest


def _format_milliseconds(amount: int) -> str:
    return format_duration(amount / 1000)
