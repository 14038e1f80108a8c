"""Checks of an image's statements against the host's knowledge.

They cover the start, the platform, and the profile in force.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reprobuild.config import profiles
from reprobuild.verify.determinism.document import Document, flatten_fingerprint
from reprobuild.verify.verdict import V

# Draws that every start has with torch, and the hook's actions.
DRAWS = ("random", "hash", "torch", "hook")
DRAWS_WITHOUT_TORCH = ("random", "hash", "numpy", "hook")
# The number of processors changes no result; the number of threads does, and is compared.
NO_MATTER = ("cpus",)
SHOWN = 6  # differences of two fingerprints that are named
# The fingerprint's names of a profile's settings. Others are in no fingerprint.
_FLAGS = {
    "torch.backends.cudnn.deterministic": "cudnn_deterministic",
    "torch.backends.cudnn.benchmark": "cudnn_benchmark",
    "torch.use_deterministic_algorithms": "deterministic_algorithms",
}


def judge_start(first: Document, second: Document, draws: Sequence[str] = DRAWS) -> V:
    """Judge the draws before any seeding, in two fresh containers."""
    if not first.start or not second.start:
        return "inconclusive"
    if first.start != second.start:
        return "drift"
    return "identical" if all(first.start.get(name) for name in draws) else "inconclusive"


def doubt_platform(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    """Yield reasons to doubt that two containers had one platform."""
    if not first or not second:
        yield "nothing is known of the platform: an empty fingerprint"
        return
    first_facts, second_facts = dict(flatten_fingerprint(first)), dict(flatten_fingerprint(second))
    other = [
        name
        for name in sorted({*first_facts, *second_facts} - set(NO_MATTER))
        if first_facts.get(name) != second_facts.get(name)
    ]
    if other:
        more = f" and {len(other) - SHOWN} more" if len(other) > SHOWN else ""
        named = ", ".join(name[:100] for name in other[:SHOWN])
        yield f"the two containers had different platforms or settings: {named}{more}"


def doubt_profile(profile: str, fingerprint: Mapping[str, Any]) -> Iterator[str]:
    """Yield the profile's settings that are not in force.

    Settings outside of the fingerprint are not checked.
    """
    profile_settings = {
        _FLAGS[name]: value for name, value in profiles.profile_values(profile).items() if name in _FLAGS
    }
    settings = fingerprint.get("settings")
    if not profile_settings:
        return
    if not isinstance(settings, dict):
        yield f"profile {profile}: the image does not say which settings are in force"
        return
    for name, value in sorted(profile_settings.items()):
        if settings.get(name) is not value:
            yield f"profile {profile} is not in force: {name} is {str(settings.get(name))[:80]}, not {value}"
