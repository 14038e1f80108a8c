"""Verdicts on single probes.

Strict mode and the image's own profile must both have answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, structs

from reprobuild.verify.determinism.document import Device, Expectations, ModeName, Observed, ProbeAnswer
from reprobuild.verify.determinism.expected import Expected
from reprobuild.verify.verdict import Mode, ProbeV, ProbeVerdict

N = TypeVar("N", bound=str)
# Of a reason in a verdict; the end of a Python error is more useful than its beginning.
LONGEST = 600
# Probes of packages: if the lock has the package, "it is not here" is not an answer.
OF_PACKAGES: dict[str, tuple[str, tuple[Device, ...]]] = {
    "draw_numpy": ("numpy", ("cpu", "cuda")), "torchvision_roi_align": ("torchvision", ("cpu", "cuda")),
    "flash_attn_backward": ("flash-attn", ("cuda",)), "mamba_scan": ("mamba-ssm", ("cuda",)),
    "transformer_engine_attention": ("transformer-engine", ("cuda",)),
}  # fmt: skip

# Other distributions with the library of a probe.
OTHER_NAMES = {"tensorflow": ("tensorflow-cpu", "tensorflow-intel", "tensorflow-rocm")}


class ImageRules(Struct, frozen=True, kw_only=True):
    """The host's own knowledge of an image.

    Attributes:
        device: the device that was tested.
        expected: the expected answers of the program in the image.
        told: torch's own text, as the image read it.
        pinned: names of the distributions in the lock.
    """

    device: Device
    expected: Expected
    told: Expectations
    pinned: frozenset[str] = frozenset()

    def optional(self, name: str) -> bool:
        """Return whether a probe may be skipped in this image."""
        package, devices = OF_PACKAGES.get(name, (self.expected.libraries.get(name, ""), ("cpu",)))
        if package == "numpy" and self.expected.libraries:  # NumPy is pinned: only old ones lack a generator
            return name in self.expected.optional
        pinned = not self.pinned.isdisjoint((package, *OTHER_NAMES.get(package, ())))
        return name in self.expected.optional and not (pinned and self.device in devices)

    def promiser(self, name: str) -> str:
        """Return the library that documents a probe's determinism."""
        return self.expected.libraries.get(name, "torch")

    def refusable(self, name: str) -> bool:
        """Return whether torch may refuse a probe on this device.

        This follows from torch's own text, or its known alerts.
        """
        lines = self.expected.documented.get(name, ())
        refused = any(_is_about(entry, line, self.device) for entry in self.told.refused for line in lines)
        return refused or name in self.expected.alerting


def _is_about(entry: str, line: Sequence[str], device: Device) -> bool:
    """Return whether a line of torch's text is about an operation.

    The rule is that of `expectations.py` in the image.
    """
    name, _, when = entry.partition(" ")
    if not line or name != line[0] or not all(word in when for word in line[1:]):
        return False
    return device.upper() in when or not ("CPU" in when or "CUDA" in when)


def judge_probe(answer: ProbeAnswer, again: ProbeAnswer | None, rules: ImageRules) -> ProbeVerdict:
    """Judge one probe; `again` is the second container's answer."""
    later = again.modes if again else {}
    both = {name: _choose_result(answer.modes.get(name), later.get(name)) for name in (*answer.modes, *later)}
    results = {name: result for name, result in both.items() if result is not None}
    known = {"refusable": rules.refusable(answer.name), "optional": rules.optional(answer.name)}
    strict, profile = (results.get(name) for name in ("strict", "profile"))
    verdict, why = judge_mode(strict, later.get("strict"), **known)
    if verdict in ("identical", "refused", "not-applicable", "drift"):
        open_profile = _explain_profile(profile, later.get("profile"), strict, **known)
        if open_profile and verdict != "drift":
            verdict, why = "inconclusive", f"profile: {open_profile}"
    if rules.expected.libraries and verdict in ("identical", "not-applicable"):
        drift, how = judge_mode(profile, later.get("profile"), **known)
        if drift == "drift":  # a job has the image's own threads: a cure by one thread does not excuse it
            cure = "; one thread cures it" if verdict == "identical" else ""
            verdict, why = "drift", f"with the image's own threads: {how}{cure}"
    if answer.name in rules.expected.informational and _is_conclusive(strict) and _is_conclusive(profile):
        verdict, why = "informational", f"{rules.promiser(answer.name)} promises nothing here"
    return make_probe_verdict(answer, verdict, why, merge_modes(results, later))


def _choose_result(first: Observed | None, later: Observed | None) -> Observed | None:
    """Return the first container's result, or the second one's drift."""
    if later is None or later.verdict != "DRIFT" or (first is not None and first.verdict == "DRIFT"):
        return first
    return structs.replace(later, digest=None, why=f"in the second container: {_describe_drift(later)}")


def _describe_drift(drift: Observed) -> str:
    return shorten_reason(drift.why) or f"{drift.distinct} different results in {drift.repeats} runs"


def _is_conclusive(result: Observed | None) -> bool:
    return result is not None and result.verdict in ("IDENTICAL", "DRIFT")


def _explain_profile(
    result: Observed | None,
    later: Observed | None,
    strict: Observed | None,
    *,
    refusable: bool,
    optional: bool,
) -> str:
    """Return why a probe's result with the profile is unknown, or "".

    A drift is known, and becomes a note.
    """
    if (
        result is not None
        and result.verdict == "SKIPPED"
        and strict is not None
        and strict.verdict != "SKIPPED"
    ):
        return f"skipped, though strict mode is not: {shorten_reason(result.why)}"
    verdict, why = judge_mode(result, later, refusable=refusable, optional=optional)
    return why if verdict == "inconclusive" else ""


def judge_mode(
    first: Observed | None, later: Observed | None, *, refusable: bool, optional: bool
) -> tuple[ProbeV, str]:
    """Judge one mode of one probe; return verdict and reason.

    Args:
        first, later: the results in the two containers.
        refusable, optional: torch may refuse it here; it may be absent here.
    """
    result = _choose_result(first, later)
    if result is None:
        return "inconclusive", "no answer in a mode that counts"
    if result.verdict == "DRIFT":
        return "drift", _describe_drift(result)
    if result.verdict == "SKIPPED" and optional:
        return "not-applicable", shorten_reason(result.why)
    if result.verdict in ("ERROR", "SKIPPED"):
        return "inconclusive", shorten_reason(result.why) or result.verdict
    if later is None or later.verdict in ("ERROR", "SKIPPED"):
        return (
            "inconclusive",
            f"no answer of the second container: {shorten_reason(later.why) if later else 'none'}",
        )
    if result.verdict != later.verdict:
        return "inconclusive", f"{result.verdict} in one container, {later.verdict} in another"
    if result.verdict == "REFUSED":
        if refusable:
            return "refused", shorten_reason(result.why)
        return (
            "inconclusive",
            f"torch refused, and its own text does not say so: {shorten_reason(result.why)}",
        )
    if not result.is_whole or not later.is_whole or result.repeats < 2:
        return "inconclusive", f"an answer that says less than IDENTICAL: {result.repeats} runs"
    if result.digest != later.digest:
        return "drift", f"{result.digest} in one container and {later.digest} in another"
    return "identical", ""


def make_probe_verdict(
    answer: ProbeAnswer, verdict: ProbeV, why: str, results: dict[ModeName, Mode]
) -> ProbeVerdict:
    """Return a probe with its verdict."""
    return ProbeVerdict(
        name=answer.name, kind=answer.kind, dtype=answer.dtype, shape=answer.shape,
        documented=answer.documented, verdict=verdict, why=why, modes=results,
    )  # fmt: skip


def merge_modes(results: Mapping[N, Observed], later: Mapping[N, Observed]) -> dict[N, Mode]:
    """Return the results by mode, with the second container's digest."""
    return {name: _merge_mode(result, later.get(name)) for name, result in results.items()}


def _merge_mode(result: Observed, later: Observed | None) -> Mode:
    runs = result.repeats
    return Mode(
        verdict=result.verdict, digest=result.digest, again=later.digest if later else None, distinct=result.distinct,
        runs=runs, processes=result.processes, upper=round(min(1.0, 3 / runs), 6) if runs else 1.0,
        why=shorten_reason(result.why),
    )  # fmt: skip


def shorten_reason(why: str) -> str:
    """Return a reason as one line, shortened at its beginning."""
    line = " / ".join(part.strip() for part in why.splitlines() if part.strip())
    return line if len(line) <= LONGEST else f"...{line[-LONGEST:]}"
