"""What an image says of itself, held against what the host knows: the start, the platform, the profile in force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reprobuild.config import profiles
from reprobuild.verify.determinism.document import Document, flat
from reprobuild.verify.verdict import V

# Draws that every start has where torch is there, and what the hook did.
DRAWS = ("random", "hash", "torch", "hook")
DRAWS_WITHOUT_TORCH = ("random", "hash", "numpy", "hook")
# How many processors there are changes no result: how many threads are used does, and is compared.
NO_MATTER = ("cpus",)
SHOWN = 6  # differences of two fingerprints that are named
# Where a fingerprint tells of a setting of a profile. Others are told by no fingerprint.
_FLAGS = {
    "torch.backends.cudnn.deterministic": "cudnn_deterministic",
    "torch.backends.cudnn.benchmark": "cudnn_benchmark",
    "torch.use_deterministic_algorithms": "deterministic_algorithms",
}


def judge_start(first: Document, second: Document, draws: Sequence[str] = DRAWS) -> V:
    """Judge what was drawn before anything was seeded, in two fresh containers."""
    if not first.start or not second.start:
        return "inconclusive"
    if first.start != second.start:
        return "drift"
    return "identical" if all(first.start.get(name) for name in draws) else "inconclusive"


def open_platform(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    """Yield why two containers are not known to have had the same platform."""
    if not first or not second:
        yield "nothing is known of the platform: an empty fingerprint"
        return
    one, two = dict(flat(first)), dict(flat(second))
    other = [name for name in sorted({*one, *two} - set(NO_MATTER)) if one.get(name) != two.get(name)]
    if other:
        more = f" and {len(other) - SHOWN} more" if len(other) > SHOWN else ""
        named = ", ".join(name[:100] for name in other[:SHOWN])
        yield f"the two containers had different platforms or settings: {named}{more}"


def open_profile(profile: str, fingerprint: Mapping[str, Any]) -> Iterator[str]:
    """Yield which settings of the profile are not in force in the image, as far as its fingerprint tells them."""
    wanted = {_FLAGS[name]: value for name, value in profiles.values(profile).items() if name in _FLAGS}
    told = fingerprint.get("settings")
    if not wanted:
        return
    if not isinstance(told, dict):
        yield f"profile {profile}: the image does not say which settings are in force"
        return
    for name, value in sorted(wanted.items()):
        if told.get(name) is not value:
            yield f"profile {profile} is not in force: {name} is {str(told.get(name))[:80]}, not {value}"
