"""Verdicts for each probe and mode, from output of processes."""

from statistics import median

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Sequence


def judge(results: "Sequence[Dict[str, Any]]", documented: str, alerts: "Sequence[str]") -> "Dict[str, Any]":
    """Return the verdict on one probe in one mode.

    Args:
        results: the results of each process: digests, or `error` with `alert`, or `skipped`.
        documented: torch's own documentation of it here.
        alerts: the operations that may alert without documentation.
    """
    digests = [value for line in results for value in line.get("digests", ())]
    times = [value for line in results for value in line.get("milliseconds", ())]
    verdict, why = _verdict(results, digests, documented, alerts)
    digest = digests[0] if verdict == "IDENTICAL" else None
    warned = sorted({name for line in results for name in line.get("warned", ())})
    if warned and not why:
        why = "torch warns: no deterministic implementation of " + ", ".join(warned)
    return {
        "verdict": verdict, "digest": digest, "distinct": len(set(digests)), "repeats": len(digests),
        "processes": len(results), "why": why, "seconds": round(sum(line.get("seconds", 0) for line in results), 3),
        "median_ms": round(median(times), 3) if times else None,
    }  # fmt: skip


def _verdict(
    results: "Sequence[Dict[str, Any]]", digests: "List[str]", documented: str, alerts: "Sequence[str]"
) -> "tuple[str, str]":
    errors = [line for line in results if "error" in line]
    skipped = [line["skipped"] for line in results if "skipped" in line]
    if not results:
        return "ERROR", "no process answered"
    if errors:
        return _judge_refusal(errors, results, documented, alerts)
    if len(skipped) == len(results):
        return "SKIPPED", str(skipped[0])
    if skipped:
        return "ERROR", f"it could be run in one process and not in another: {skipped[0]}"
    if not all(line.get("digests") for line in results):
        return "ERROR", "no result"
    return ("IDENTICAL", "") if len(set(digests)) == 1 else ("DRIFT", "")


def _judge_refusal(
    errors: "List[Dict[str, Any]]",
    results: "Sequence[Dict[str, Any]]",
    documented: str,
    alerts: "Sequence[str]",
) -> "tuple[str, str]":
    """Judge processes that raised.

    A refusal counts only if each process refused, and if it was expected.
    """
    other = next((line for line in errors if not line.get("alert")), None)
    if other is not None:
        return "ERROR", str(other["error"])
    names = sorted({str(line["alert"]) for line in errors})
    if len(errors) < len(results) or any(line.get("digests") for line in errors):
        return "ERROR", f"torch refused {names[0]} in one run and not in another"
    if documented == "refused":
        return "REFUSED", f"torch has no deterministic {names[0]}, as its documentation says"
    if set(names) <= set(alerts):
        return "REFUSED", f"torch has no deterministic {names[0]}, as its source says"
    return "ERROR", f"torch refuses {names[0]}, and neither its documentation nor its source's list says so"
