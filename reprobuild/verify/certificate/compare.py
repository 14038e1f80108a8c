"""Comparison of a verdict with an earlier one of the same image.

No program is run here.

Digests are comparable only between equal platforms: on another one they are expected to differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import msgspec

from reprobuild.verify.certificate.read import Certificate
from reprobuild.verify.determinism.document import ModeName
from reprobuild.verify.determinism.platform import explains_difference, fingerprint_values
from reprobuild.verify.determinism.summary import drifting_probes
from reprobuild.verify.determinism.trust import NO_MATTER
from reprobuild.verify.verdict import Against, Deviation, ProbeVerdict, Smoke, Verdict
from reprobuild.verify.workload.conditions import Mount, WorkRecord

# Results of strict mode and the image's own profile are compared; default mode may drift, so it is not.
MODES: tuple[ModeName, ...] = ("strict", "profile")
WORK = "your work"
START, REFUSED = "draws before anything is seeded", "refused"  # answers that are not digests
# What a verdict file keeps of a comparison: the file must stay one that `read_verdict` takes.
LONGEST = 1000  # characters of a name or value; digests have 64
LARGEST_LIST = 1 << 19  # bytes of the differences of one kind
_SPACE = 100  # bytes of indentation for each


class _Found:
    """The comparison so far.

    `open` is set if a part is unknown, and no platform explains it.
    """

    def __init__(self) -> None:
        self.platform: list[Deviation] = []
        self.beside: list[Deviation] = []
        self.failed: list[Deviation] = []
        self.other: list[Deviation] = []
        self.unmatched: list[Deviation] = []
        self.mounts: list[Deviation] = []
        self.compared = 0
        self.open = False

    def take_smoke(self, device: str, then: Smoke | None, now: Smoke | None) -> None:
        """Compare the determinism tests on one device.

        If only one verdict has the device, no difference is explained by that.
        """
        explained = False
        if then and now:
            self.open |= not (then.fingerprint and now.fingerprint)
            for item in _compare_fingerprints(device, then, now):
                explanation = explains_difference(device, item)
                explained |= explanation
                (self.platform if explanation else self.beside).append(item)
        self._take(device, answer_digests(then), answer_digests(now), explained=explained)
        self.open |= not explained and any(item.scope == device for item in self.unmatched)

    def take_work(self, then: Verdict, now: Verdict) -> None:
        """Compare the workload.

        If only one verdict had a GPU, it was computed on other devices.
        """
        unknown = not (then.smoke and now.smoke)  # without a fingerprint, platforms cannot be compared
        self.mounts += _compare_mounts(then.work, now.work)
        unknown = unknown or bool(self.mounts)
        self.open |= unknown
        elsewhere = unknown or {smoke.device for smoke in then.smoke} != {smoke.device for smoke in now.smoke}
        self._take(
            WORK, _work_digests(then), _work_digests(now), explained=bool(self.platform), elsewhere=elsewhere
        )
        self.open |= any(item.scope == WORK for item in self.unmatched)

    def _take(
        self,
        scope: str,
        then: dict[str, str],
        now: dict[str, str],
        *,
        explained: bool,
        elsewhere: bool = False,
    ) -> None:
        for name in sorted({*then, *now}):
            pair = Deviation(scope=scope, name=name, then=then.get(name), now=now.get(name))
            if pair.then is None or pair.now is None or (elsewhere and pair.then != pair.now):
                self.unmatched.append(pair)
                continue
            self.compared += 1
            if pair.then != pair.now:
                (self.other if explained else self.failed).append(pair)


def compare_against(now: Verdict, earlier: Certificate, *, same_platform: bool = False) -> Against:
    """Compare a verdict with one of the same image, seed and profile.

    Args:
        now: the verdict of this check.
        earlier: the verdict to compare with.
        same_platform: on another platform, the comparison does not answer the question of the user.
    """
    then = earlier.verdict
    before: dict[str, Smoke] = {smoke.device: smoke for smoke in then.smoke}
    after: dict[str, Smoke] = {smoke.device: smoke for smoke in now.smoke}
    comparison = _Found()
    for device in sorted({*before, *after}):
        comparison.take_smoke(device, before.get(device), after.get(device))
    comparison.take_work(then, now)
    unknown = comparison.open or not comparison.compared
    return Against(
        certificate=f"sha256:{earlier.sha256}", made=then.made, compared=comparison.compared,
        verdict="differ" if comparison.failed else "inconclusive" if unknown else
                "other-platform" if comparison.platform else "same",
        platform=_bound(comparison.platform), failed=_bound(comparison.failed), other=_bound(comparison.other),
        unmatched=_bound(comparison.unmatched), beside=_bound(comparison.beside),
        mounts=_bound(comparison.mounts), same_platform=same_platform,
    )  # fmt: skip


def _bound(deviations: Sequence[Deviation]) -> tuple[Deviation, ...]:
    """Return differences with shortened texts, as many as a verdict file keeps; one more counts the others."""
    bounded: list[Deviation] = []
    size = 0
    for item in deviations:
        texts = {"name": _shorten(item.name), "then": _shorten(item.then), "now": _shorten(item.now)}
        short = msgspec.structs.replace(item, **texts)
        size += len(msgspec.json.encode(short)) + _SPACE
        if size > LARGEST_LIST:
            rest = f"and {len(deviations) - len(bounded)} more"
            return (*bounded, Deviation(scope=item.scope, name=rest, then=None, now=None))
        bounded.append(short)
    return tuple(bounded)


def _shorten(text: str | None) -> str | None:
    """Return a text as it is, or its beginning and length."""
    return text if text is None or len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"


def _compare_mounts(then: WorkRecord | None, now: WorkRecord | None) -> Iterator[Deviation]:
    """Yield the mounts that differ, or that cannot be compared.

    One of both lacks them, their contents differ, or a digest is missing.
    """
    old, new = ({mount.place: mount for mount in work.mounts} if work else {} for work in (then, now))
    places = {place for work in (then, now) if work for place in work.volumes}
    for place in sorted(places | set(old) | set(new)):
        before, after = old.get(place), new.get(place)
        if not (before and after and before.digest and before.digest == after.digest):
            yield Deviation(scope="mount", name=place, then=_mount_digest(before), now=_mount_digest(after))


def _mount_digest(mount: Mount | None) -> str | None:
    """Return the digest of a mount, or the reason against one.

    Return None if no record has the mount.
    """
    return None if mount is None else mount.digest.removeprefix("sha256:") or f"no digest: {mount.why}"


def _compare_fingerprints(device: str, then: Smoke, now: Smoke) -> Iterator[Deviation]:
    """Yield the differences of the machines and of the settings in force."""
    old, new = (dict(fingerprint_values(smoke)) for smoke in (then, now))
    for name in sorted({*old, *new} - set(NO_MATTER)):
        if old.get(name) != new.get(name):
            yield Deviation(scope=device, name=name, then=old.get(name), now=new.get(name))


def answer_digests(smoke: Smoke | None) -> dict[str, str]:
    """Return {name: digest} of all results that a platform must repeat.

    A refusal is the word `refused`; draws before any seeding are a text of their own.
    """
    if smoke is None:
        return {}
    unstable = {probe.name for probe in drifting_probes(smoke)}
    digests = dict(_probe_digests(smoke.probes, "", unstable))
    if smoke.collectives:
        digests |= _probe_digests(smoke.collectives.probes, "collectives: ", set())
    if smoke.hook == "identical":
        digests[START] = json.dumps(smoke.start, sort_keys=True)
    return digests


def _probe_digests(
    probes: tuple[ProbeVerdict, ...], before: str, unstable: set[str]
) -> Iterator[tuple[str, str]]:
    for probe in probes:
        if probe.verdict == "informational":
            continue
        for name in MODES:
            mode = probe.modes.get(name)
            # Operations that torch documents as deterministic in strict mode alone may race unseen with a profile.
            if mode is None or (name != "strict" and (probe.name in unstable or probe.documented != "none")):
                continue
            if mode.verdict == "REFUSED" or (mode.verdict == "IDENTICAL" and mode.digest):
                yield f"{before}{probe.name} ({name})", mode.digest or REFUSED


def _work_digests(verdict: Verdict) -> dict[str, str]:
    """Return the digests of outputs of runs under equal conditions; other runs have none."""
    return {
        c.name: c.detail
        for c in verdict.comparisons
        if c.verdict == "identical" and c.detail and c.condition == "same"
    }
