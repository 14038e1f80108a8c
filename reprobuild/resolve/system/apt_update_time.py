"""Inference of the captured machine's last `apt update`.

Each line of its package list is evidence.

A line with the newest version that apt knew bounds the moment from both sides: the archive had that version already,
and not yet the next one. So does `upgradable to: V`, for V. A list without suites (`dpkg -l`) shows only that the
archive had the version already; that the next one was not there yet is likely, and counts less. If the intervals have
no moment in common (a mirror lags, a third archive), the moment is one that most of them share.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from debian.debian_support import Version
from msgspec import Struct

from reprobuild.snapshot.model import SourceLocation, SystemPackage

RESOLUTION = 3600  # seconds; archives are written a few times a day
MOST_SAMPLES = 48
# Moments are tried on one fixed grid, so that the same list and archives give the same moment on every day: 2008-01-01,
# before any release that is supported, and 2 to the power of 18 hours later, in 2037.
EARLIEST = 1_199_145_600
LATEST = EARLIEST + (RESOLUTION << 18)
_SURE, _LIKELY = 4, 1  # the weight of a bound

Key = tuple[str, str]  # name and architecture


class Sample(Struct, frozen=True):
    """An archive's offer at a moment.

    It has the versions of each package, of the suites that apt takes from.
    """

    time: int
    versions: Mapping[Key, tuple[str, ...]]


class Claim(Struct, frozen=True, kw_only=True):
    """The evidence of one captured line.

    It is the archive's newest version then. `sure`: not older and not newer.
    """

    place: SourceLocation
    key: Key
    version: str
    sure: bool

    def verdict(self, sample: Sample) -> int | None:
        """Compare a sample with the moment.

        Return -1 if the sample is before it, 1 if it is after it, 0 if it fits, None if unknown.
        """
        known = sample.versions.get(self.key)
        if not known:
            return None
        newest = max(map(Version, known))
        have = Version(self.version)
        return 0 if newest == have else -1 if newest < have else 1


class Moment(Struct, frozen=True, kw_only=True):
    """The inferred moment.

    `time` is a moment that fits best; the true one lies between `after` and `before`.

    All are in seconds since 1970; a bound is None if it is unknown. Of `claims` lines with evidence, `agreeing` agree;
    `against` are the places of the others.
    """

    time: int
    after: int | None
    before: int | None
    claims: int
    agreeing: int
    against: tuple[SourceLocation, ...]

    @property
    def confidence(self) -> float:
        """The share of lines that agree."""
        return self.agreeing / self.claims if self.claims else 0.0


def claims_of(packages: Iterable[SystemPackage], native: str) -> tuple[Claim, ...]:
    """Return the evidence of a package list's lines.

    `native` is the architecture for `all`.
    """
    claims = []
    for package in packages:
        if package.mark in ("residual", "local"):
            continue
        architecture = native if package.architecture == "all" else package.architecture
        claims.append(
            Claim(
                place=package.place,
                key=(package.name, architecture),
                version=package.upgrade or package.version,
                sure=bool(package.suites or package.upgrade),
            )
        )
    return tuple(claims)


class _Bounds:
    """For each claim, the nearest samples around its moment.

    They are the last sample before and the first after it, if known.
    """

    def __init__(self, claims: Sequence[Claim]) -> None:
        self.claims = claims
        self.after: list[int | None] = [None] * len(claims)
        self.before: list[int | None] = [None] * len(claims)
        self.spoke = [False] * len(claims)

    def take(self, sample: Sample) -> tuple[int, list[int]]:
        """Record a sample; return its score and the claims against it."""
        score, against = 0, []
        for number, claim in enumerate(self.claims):
            verdict = claim.verdict(sample)
            if verdict is None:
                continue
            self.spoke[number] = True
            if verdict < 0:
                self.after[number] = max(sample.time, self.after[number] or sample.time)
                against.append(number)
            elif verdict > 0:
                self.before[number] = min(sample.time, self.before[number] or sample.time)
                if claim.sure:
                    against.append(number)
                else:
                    score += _SURE
            else:
                score += _SURE + (0 if claim.sure else _LIKELY)
        return score, against

    def highest_score(self, start: int, end: int) -> int:
        """Return the highest possible score between neighbouring samples."""
        total = 0
        for number, claim in enumerate(self.claims):
            after, before = self.after[number], self.before[number]
            late_enough = after is None or after <= start
            early_enough = before is None or before >= end
            if claim.sure:
                total += _SURE if late_enough and early_enough else 0
            elif late_enough:
                total += _SURE + (_LIKELY if early_enough else 0)
        return total


def infer_moment(
    claims: Sequence[Claim], look: Callable[[int], Sample | None], now: int, first: Iterable[int] = ()
) -> Moment | None:
    """Find the moment that most claims share.

    The archive is looked up at as few moments as possible.

    The window that could hold the best moment is halved, until no other could be better (branch and bound over the
    intervals of the claims).

    Args:
        claims: the evidence of the lines.
        look: returns the archive at a moment, or None if it has no data of that time.
        now: later moments are not tried.
        first: moments with better evidence; they are tried first.

    Returns:
        None if no sample fits any claim.
    """
    bounds = _Bounds(claims)
    times = [EARLIEST, LATEST]
    best: tuple[int, int, list[int]] | None = None
    waiting = [time for time in first if EARLIEST < time <= now]
    looked = 0
    while looked < MOST_SAMPLES:
        time = waiting.pop(0) if waiting else _next_time(times, bounds, best[0] if best else 0, now)
        if time is None:
            break
        if time not in times:
            times = sorted([*times, time])
        if time > now:
            continue
        looked += 1
        sample = look(time)
        if sample is None:
            _record_absence(bounds, time)
            continue
        score, against = bounds.take(sample)
        if best is None or score > best[0]:
            best = (score, time, against)
        if not against and score == _SURE * len(claims):
            break
    if best is None or not best[0]:
        return None
    return _make_moment(best[1], best[2], bounds)


def _record_absence(bounds: _Bounds, time: int) -> None:
    """Record that the archive has no data of a moment.

    The moment was before its time.
    """
    for number in range(len(bounds.claims)):
        bounds.after[number] = max(time, bounds.after[number] or time)


def _next_time(times: Sequence[int], bounds: _Bounds, reached: int, now: int) -> int | None:
    """Return the middle of the most promising window.

    Of equal windows, it is the latest.
    """
    windows = [
        (bounds.highest_score(start, end), start, end)
        for start, end in itertools.pairwise(times)
        if end - start > RESOLUTION and start < now
    ]
    if not windows:
        return None
    most, start, end = max(windows)
    return (start + end) // 2 if most > reached else None


def _make_moment(time: int, against: list[int], bounds: _Bounds) -> Moment:
    fitting = [n for n in range(len(bounds.claims)) if bounds.spoke[n] and n not in set(against)]
    after = [bound for n in fitting if (bound := bounds.after[n]) is not None and bound < time]
    before = [
        bound
        for n in fitting
        if (bound := bounds.before[n]) is not None and bound > time and bounds.claims[n].sure
    ]
    return Moment(
        time=time, after=max(after, default=None), before=min(before, default=None), claims=sum(bounds.spoke),
        agreeing=len(fitting), against=tuple(sorted(bounds.claims[n].place for n in against)),
    )  # fmt: skip


def find_version(
    key: Key, version: str, look: Callable[[int], Sample | None], now: int, known: Iterable[Sample] = ()
) -> Sample | None:
    """Find a moment at which an archive had a package's version.

    Versions grow with time, so the search halves the window. The samples in `known` are tried first; moments after
    `now` are not tried.

    Returns:
        The archive at that moment, or None if no moment was found.
    """
    target = Version(version)
    samples = {sample.time: sample for sample in known}
    start, end = EARLIEST, LATEST
    for sample in sorted(samples.values(), key=lambda sample: sample.time):
        offered = sample.versions.get(key, ())
        if version in offered:
            return sample
        if offered and max(map(Version, offered)) > target:
            end = sample.time
            break
        if offered:
            start = sample.time
    while end - start > RESOLUTION:
        middle = (start + end) // 2
        middle_sample = look(middle) if middle <= now else None
        offered = middle_sample.versions.get(key, ()) if middle_sample else ()
        if middle_sample and version in offered:
            return middle_sample
        if middle <= now and (not offered or max(map(Version, offered)) < target):
            start = middle
        else:
            end = middle
    return None
