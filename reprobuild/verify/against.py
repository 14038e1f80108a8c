"""A verdict compared with an earlier certificate of the same image. Nothing is run here.

Digests are comparable only between equal platforms: on another one they are expected to differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from reprobuild.verify.certificate import Certificate
from reprobuild.verify.document import ModeName, flat
from reprobuild.verify.headline import cured
from reprobuild.verify.verdict import Against, Deviation, Probe, Smoke, Verdict

# What strict mode and the image's own profile give; default mode may drift, and says nothing.
MODES: tuple[ModeName, ...] = ("strict", "profile")
# How many processors there are changes no result: how many threads are used does, and is compared.
NO_MATTER = ("cpus",)
WORK = "your work"


def compare_against(now: Verdict, found: Certificate) -> Against:
    """Compare a verdict with a certificate of the same image, seed and profile."""
    then = found.verdict
    before: dict[str, Smoke] = {smoke.device: smoke for smoke in then.smoke}
    after: dict[str, Smoke] = {smoke.device: smoke for smoke in now.smoke}
    platform: list[Deviation] = []
    failed: list[Deviation] = []
    other: list[Deviation] = []
    unmatched: list[Deviation] = []
    compared = 0
    for scope in (*sorted({*before, *after}), WORK):
        if scope == WORK:
            one, two, explained = _work(then), _work(now), bool(platform)
        else:
            differences = list(_platform(scope, before.get(scope), after.get(scope)))
            platform += differences
            one, two, explained = _answers(before.get(scope)), _answers(after.get(scope)), bool(differences)
        for name in sorted({*one, *two}):
            pair = Deviation(scope=scope, name=name, then=one.get(name), now=two.get(name))
            if pair.then is None or pair.now is None:
                unmatched.append(pair)
                continue
            compared += 1
            if pair.then != pair.now:
                (other if explained else failed).append(pair)
    return Against(
        certificate=f"sha256:{found.sha256}", made=then.made, compared=compared,
        verdict="differ" if failed else "inconclusive" if not compared else "other-platform" if platform else "same",
        platform=tuple(platform), failed=tuple(failed), other=tuple(other), unmatched=tuple(unmatched),
    )  # fmt: skip


def _platform(scope: str, then: Smoke | None, now: Smoke | None) -> Iterator[Deviation]:
    """Yield what differs of the two machines, and in the settings in force."""
    if then is None or now is None:
        said = "checked" if then else None
        yield Deviation(scope=scope, name="smoke test", then=said, now=None if then else "checked")
        return
    one, two = dict(flat(then.fingerprint)), dict(flat(now.fingerprint))
    for name in sorted({*one, *two} - set(NO_MATTER)):
        if one.get(name) != two.get(name):
            yield Deviation(scope=scope, name=name, then=one.get(name), now=two.get(name))


def _answers(smoke: Smoke | None) -> dict[str, str]:
    """Return {what: digest} of all that must be the same on the same platform."""
    if smoke is None:
        return {}
    unstable = {probe.name for probe in cured(smoke)}
    found = dict(_digests(smoke.probes, "", unstable))
    if smoke.collectives:
        found |= _digests(smoke.collectives.probes, "collectives: ", set())
    if smoke.hook == "identical":
        found["draws before anything is seeded"] = json.dumps(smoke.start, sort_keys=True)
    return found


def _digests(probes: tuple[Probe, ...], before: str, unstable: set[str]) -> Iterator[tuple[str, str]]:
    for probe in probes:
        if probe.verdict == "informational":
            continue
        for name in MODES:
            mode = probe.modes.get(name)
            # What torch says to be deterministic in strict mode alone may race unseen with a profile.
            if mode is None or (name != "strict" and (probe.name in unstable or probe.documented != "none")):
                continue
            if mode.verdict == "REFUSED" or (mode.verdict == "IDENTICAL" and mode.digest):
                yield f"{before}{probe.name} ({name})", mode.digest or "refused"


def _work(verdict: Verdict) -> dict[str, str]:
    return {c.name: c.detail for c in verdict.comparisons if c.verdict == "identical" and c.detail}
