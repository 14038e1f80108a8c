"""One answer for each scope of a verdict.

No program is run here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from reprobuild.verify.determinism.judge import NOT_APPLICABLE
from reprobuild.verify.determinism.judge_probe import OTHER_NAMES
from reprobuild.verify.verdict import (
    ControlVerdict,
    Determinism,
    ProbeVerdict,
    Smoke,
    V,
    Verdict,
    WorkComparison,
)

NO_TORCH = (
    "the determinism test needs torch, or NumPy and the probes for it, and the image does not have them: let "
    "`reprobuild verify OUT --workload CMD --output-file PATH` run your own work"
)
WORK_ALONE = (
    "the determinism test needs torch, or NumPy and the probes for it, and the image does not have them: what was "
    "checked is your own work alone"
)
NOT_RUN = "the determinism test was left out by --no-probes or --only: determinism is not known"
WORK_BY_CHOICE = (
    "the determinism test was left out by --no-probes or --only: what was checked is your own work alone"
)
LEFT_OUT = "the GPU and collectives were left out by --cpu-only: nothing is known about them"
# Distributions that compute, as people write them; those without probes are named in a note.
TITLES = {
    "numpy": "NumPy",
    "scipy": "SciPy",
    "scikit-learn": "scikit-learn",
    "jax": "JAX",
    "tensorflow": "TensorFlow",
}
UNPROBED = (
    "tensorflow", "tensorflow-cpu", "jax", "jax-cuda12-plugin", "jax-cuda13-plugin", "cupy", "numba", "xgboost",
    "lightgbm", "catboost", "mxnet", "paddlepaddle", "onnxruntime", "polars",
)  # fmt: skip
UNKNOWN_BUILD = "torch did not say whether it is built for CUDA"
ONE_THREAD = "cpu: the probes ran with 1 thread: an order of threads cannot show"
OWN_THREAD = "cpu: torch in the image uses 1 thread: with its own settings an order of threads cannot show"
ARRAYS_ONE_THREAD = "cpu: NumPy in the image uses 1 thread: an order of threads cannot show"
# The result of strict mode for probes that drift with a profile.
_STRICT = {
    "identical": "strict mode cures it", "refused": "strict mode refuses it", "drift": "and in strict mode",
    "inconclusive": "strict mode showed nothing", "not-applicable": "strict mode cannot run it",
    "informational": "torch promises nothing there",
}  # fmt: skip
NO_GPU = "torch is built for CUDA, and no GPU was checked: run `reprobuild verify` on a machine with one"


def judge_determinism(
    cpu: Smoke | None, gpu: Smoke | None, work: Sequence[WorkComparison], *, cpu_only: bool, profile: str,
    left_out: bool = False,
) -> tuple[Determinism, list[str]]:  # fmt: skip
    """Return one answer for each scope, and notes.

    The notes are on scopes that were not checked.

    Args:
        cpu: the determinism tests on the CPU; None if the image has no torch.
        gpu: those on the GPUs; None without GPUs.
        work: comparisons of the workload.
        cpu_only: the user skipped the GPU checks.
        profile: the name of the profile in force.
        left_out: the user skipped the determinism tests.
    """
    if left_out:
        answered = _judge_cpu(None, work) if work else "not-run"
        alone = Determinism(cpu=answered, gpu="not-run", collectives="not-run")
        return alone, [WORK_BY_CHOICE if work else NOT_RUN]
    answer = Determinism(
        cpu=_judge_cpu(cpu, work),
        gpu=_judge_gpu(cpu, gpu, cpu_only),
        collectives=_judge_collectives(cpu, gpu, cpu_only),
    )
    if cpu is None and work:
        return answer, [WORK_ALONE]
    return answer, list(_list_notes(cpu, gpu, cpu_only, profile))


def upper_bound(runs: int) -> float:
    """Return the highest likely share of drifting runs, at 95 %.

    It holds if no run of `runs` drifted: the rule of three.
    """
    return round(min(1.0, 3 / runs), 6)


def describe_work_bound(runs: int) -> str:
    """Describe the workload's runs, and the bound on drifting runs."""
    upper = upper_bound(runs)
    if upper < 1:
        return f"N = {runs}: fewer than {upper:.0%} of runs drift, at 95 %"
    return f"N = {runs}, too few to bound the share of runs that drift; --runs 30 bounds it by {upper_bound(30):.0%}"


def describe_work_alone(verdict: Verdict) -> str:
    """Describe an answer of the workload alone.

    The text is empty if there were determinism tests.
    """
    return "" if verdict.smoke else describe_scope(verdict)


def describe_scope(verdict: Verdict) -> str:
    """Describe the basis of `cpu identical`: libraries and workload.

    The text is empty for torch's probes alone.
    """
    if verdict.determinism.cpu != "identical":
        return ""
    parts = [part for smoke in verdict.smoke if (part := describe_probes(smoke))]
    if verdict.work is not None:
        parts += (
            ()
            if parts
            else map(_describe_torch_probes, (smoke for smoke in verdict.smoke if smoke.device == "cpu"))
        )
        disturbed = sum(c.condition == "disturbed" and c.verdict == "identical" for c in verdict.comparisons)
        more = f" and {disturbed} disturbed" if disturbed else ""
        parts.append(f"your work, {verdict.work.runs} runs{more}")
    return f" ({'; '.join(parts)})" if parts else ""


def _describe_torch_probes(smoke: Smoke) -> str:
    """Return how many probes of torch were identical."""
    number = sum(probe.verdict == "identical" for probe in smoke.probes)
    return f"torch: {number} probe{'s' * (number != 1)}"


def describe_probes(smoke: Smoke) -> str:
    """Describe the identical probes of each library.

    The text is empty if the image has torch.
    """
    return ", ".join(
        f"{TITLES.get(name, name)}: {number} probe{'s' * (number != 1)}"
        for name, number in smoke.libraries.items()
    )


def unprobed_libraries_note(names: Collection[str], smoke: Smoke | None) -> str:
    """Return a note on computing libraries without probes.

    It is empty if there are no such libraries.
    """
    if smoke is None or not smoke.libraries:
        return ""
    probed = {name for library in smoke.libraries for name in (library, *OTHER_NAMES.get(library, ()))}
    libraries = [name for name in UNPROBED if name in names and name not in probed]
    return (
        f"cpu: no probe is of {', '.join(libraries)}: nothing is known about {'it' if len(libraries) == 1 else 'them'}"
        if libraries
        else ""
    )


def count_excused(work: Sequence[WorkComparison]) -> Counter[str]:
    """Count the excused values of the workload, by kind."""
    counts: Counter[str] = Counter()
    for comparison in work:
        counts.update(comparison.excused)
    return counts


def describe_excused(work: Sequence[WorkComparison]) -> str:
    """Describe the workload's excused values, by kind.

    The text is empty if there are no such values.
    """
    counts = count_excused(work)
    total = sum(counts.values())
    if not total:
        return ""
    kinds = ", ".join(f"{number} {kind}" for kind, number in counts.most_common())
    return f", {total} value{'s' * (total != 1)} excused ({kinds})"


def has_cuda_build(cpu: Smoke | None) -> bool | None:
    """Return whether the image's torch is built for GPUs.

    Return False without torch, and None if it did not report its build.
    """
    if cpu is None:
        return False
    build = cpu.fingerprint.get("cuda_build")
    return build if isinstance(build, bool) else None


def unprobed_gpus_note(gpus: int) -> str:
    """Return a note on the GPUs that were not probed.

    They are the GPUs of one machine past its first. The note is empty if there is only one.
    """
    if gpus < 2:
        return ""
    return (
        f"cuda: probed: the first of {gpus} GPUs; the others took part in collectives at most; to probe each, run "
        "`reprobuild verify OUT --gpu ID` with its id alone"
    )


def count_gpus(smoke: Smoke) -> int:
    """Return the number of GPUs in a container's fingerprint."""
    cuda = smoke.fingerprint.get("cuda")
    gpus = cuda.get("gpus") if isinstance(cuda, dict) else None
    return len(gpus) if isinstance(gpus, list) else 0


def drifting_probes(smoke: Smoke) -> list[ProbeVerdict]:
    """Return the probes that drift with the image's profile.

    The result of strict mode does not matter.
    """
    probes = []
    for probe in smoke.probes:
        mode = probe.modes.get("profile")
        if mode and (mode.verdict == "DRIFT" or (mode.digest and mode.again and mode.digest != mode.again)):
            probes.append(probe)
    return probes


def applicable_controls(smoke: Smoke) -> list[ControlVerdict]:
    """Return the controls that the environment can run; one without a compiler has no control of compiled code."""
    return [control for control in smoke.controls if not control.why.startswith(NOT_APPLICABLE)]


def _judge_cpu(smoke: Smoke | None, work: Sequence[WorkComparison]) -> V:
    verdicts = {comparison.verdict for comparison in work if comparison.counts}
    if "drift" in verdicts or (smoke and smoke.verdict == "drift"):
        return "drift"
    if verdicts - {"identical"} or (smoke is None and not verdicts):
        return "inconclusive"
    return smoke.verdict if smoke else "identical"


def _judge_gpu(cpu: Smoke | None, gpu: Smoke | None, cpu_only: bool) -> V:
    if gpu is not None:
        return gpu.verdict
    built = has_cuda_build(cpu)
    if cpu_only or built is False:
        return "not-applicable"
    return "inconclusive" if built is None else "not-covered"


def _judge_collectives(cpu: Smoke | None, gpu: Smoke | None, cpu_only: bool) -> V:
    """Judge collectives between GPUs, or else between processes.

    Those between GPUs count if torch is built for them.

    A drift between processes counts for every build. The verdict file holds both.
    """
    several = [smoke.collectives for smoke in (cpu, gpu) if smoke and smoke.collectives]
    if any(result.verdict == "drift" for result in several):
        return "drift"
    built = has_cuda_build(cpu)
    if cpu is None or (cpu_only and built is not False):
        return "not-applicable"
    if built is None:
        return "inconclusive"
    if not built:
        if cpu.collectives is None:
            return "inconclusive" if not cpu.probes else "not-applicable"
        # Every torch for Linux has gloo: a skipped collective is unknown.
        skipped = cpu.collectives.verdict == "not-covered"
        return "inconclusive" if skipped else cpu.collectives.verdict
    return gpu.collectives.verdict if gpu and gpu.collectives else "not-covered"


def _list_notes(cpu: Smoke | None, gpu: Smoke | None, cpu_only: bool, profile: str) -> Iterator[str]:
    if cpu is None:
        yield NO_TORCH
        return
    built = has_cuda_build(cpu)
    if cpu_only and built is not False:
        yield LEFT_OUT
    elif built is None:
        yield UNKNOWN_BUILD
    elif built and gpu is None:
        yield NO_GPU
    if gpu and gpu.verdict == "not-covered":
        yield f"the GPU is not covered: {'; '.join(gpu.open)}"
    for smoke in (cpu, gpu):
        if smoke:
            yield from _device_notes(smoke, profile)


def _array_notes(smoke: Smoke, unpromised: Sequence[str]) -> Iterator[str]:
    """Yield the notes on an image without torch."""
    if unpromised:
        yield (
            "cpu: drifts with several threads, where its library promises nothing, and OMP_NUM_THREADS=1 cures it: "
            + ", ".join(unpromised)
        )
    if smoke.fingerprint.get("threads") == 1:
        yield ARRAYS_ONE_THREAD
    if smoke.stress:
        yield f"{smoke.device}: {smoke.stress}"


def _device_notes(smoke: Smoke, profile: str) -> Iterator[str]:
    by_verdict: dict[str, list[str]] = {}
    for probe in drifting_probes(smoke):
        by_verdict.setdefault(probe.verdict, []).append(probe.name)
    if smoke.libraries:
        yield from _array_notes(smoke, by_verdict.get("informational", []))
        return
    for verdict, names in by_verdict.items():
        yield f"{smoke.device}: drifts with profile {profile}; {_STRICT[verdict]}: {', '.join(names)}"
    if smoke.device == "cpu" and smoke.threads.get("strict") == 1:
        yield ONE_THREAD
    elif smoke.device == "cpu" and smoke.fingerprint.get("threads") == 1:
        yield OWN_THREAD
    if smoke.device == "cuda" and smoke.probes and (more := unprobed_gpus_note(count_gpus(smoke))):
        yield more
    if smoke.stress:
        yield f"{smoke.device}: {smoke.stress}"
    if smoke.collectives and smoke.collectives.verdict in ("not-covered", "inconclusive"):
        why = smoke.collectives.why or "no reason given"
        yield f"{smoke.device}: collectives {smoke.collectives.verdict}: {why}"
