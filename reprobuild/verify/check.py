"""The checks of an image.

Containers are run and their answers are judged. A verdict is never remembered.
"""

from __future__ import annotations

import datetime
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild import __version__
from reprobuild.engines.model import Engine, Finished, Task
from reprobuild.errors import EngineError, SnapshotError, UsageError
from reprobuild.infra.untrusted.write_below import write_below
from reprobuild.lock.distributions import distributions
from reprobuild.lock.model import Lock
from reprobuild.lock.system import FILES
from reprobuild.snapshot.file_kinds import kind_of
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.read import read_snapshot
from reprobuild.verify.determinism.document import Device
from reprobuild.verify.determinism.expected import Expected
from reprobuild.verify.determinism.judge_probe import shorten_reason
from reprobuild.verify.determinism.run import PYTHON, describe_failure, run_smoke
from reprobuild.verify.determinism.summary import has_cuda_build, judge_determinism, unprobed_libraries_note
from reprobuild.verify.roundtrip.compare import (
    FREEZE,
    PACKAGES,
    VARIABLES,
    compare_captured,
    compare_conda,
    compare_environment,
    compare_folders,
    compare_freeze,
    compare_packages,
    judge_round_trip,
)
from reprobuild.verify.roundtrip.image_freeze import read_frozen
from reprobuild.verify.verdict import (
    PARTS,
    VERSION,
    DriftTrace,
    Part,
    RoundTripDifference,
    Smoke,
    Verdict,
    WorkComparison,
)
from reprobuild.verify.workload.conditions import WorkRecord, make_work_record
from reprobuild.verify.workload.container import OUTPUTS
from reprobuild.verify.workload.judge import display_line
from reprobuild.verify.workload.mounts import Mounts
from reprobuild.verify.workload.run import ComparedWork, compare_work
from reprobuild.verify.workload.work import Work, seed_of_work, work_of_workload

SEED = 42  # the default seed
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")
_RUNTIME = f"{FILES}/lib/reprobuild_runtime"
GIVE_WORK = "give it, for example: --workload 'python train.py --steps 20' --output-file out.ckpt"
THOROUGH_SECONDS = 4 * 3600


class CheckRequest(Struct, frozen=True, kw_only=True):
    """The image to check, and the options of the check.

    Attributes:
        reference, manifest, tree: the image's name in the engine, and its digests.
        expected: the probes that must be answered, by device; None if the image has no such determinism tests.
        now: in seconds since 1970.
        out: the output directory, which a mount may hold; None if there is none.
        controls: run the controls, which must drift; without them the verdict is inconclusive.
        cpu_only: skip the GPU checks, also for a torch built for CUDA.
        gpus: the GPUs of the containers (`Task.gpus`).
        gpus_optional: if the engine cannot provide them, the GPU is not covered, and this is not an error.
        thorough: hundreds of repeats.
        compiled: saved choices of torch's compiler are in use, so that the probes of compiled code run.
        parts: the parts to run; a workload is also needed for its part.
        probes: run only these, in short, without collectives; the verdict is then inconclusive. Empty for all.
        work: the command to run several times, if any.
        wrap: gives the task of each of these runs what it needs for its time.
        resume: stops and resumes the workload with the GPUs that it may use, and compares; None to leave it out.
        trace: explains a drift of the workload, from its GPUs and its runs; it returns None for a workload that
            takes too long. None to leave it out.
    """

    reference: str
    manifest: str
    tree: str
    expected: dict[Device, Expected] | None
    now: int
    out: Path | None = None
    controls: bool = True
    cpu_only: bool = False
    gpus: str = ""
    gpus_optional: bool = False
    thorough: bool = False
    compiled: bool = False
    parts: tuple[Part, ...] = PARTS
    probes: tuple[str, ...] = ()
    work: Work | None = None
    wrap: Callable[[Task], AbstractContextManager[Task]] = nullcontext
    resume: Callable[[str], WorkComparison] | None = None
    trace: Callable[[str, ComparedWork], DriftTrace | None] | None = None


def verify_image(
    lock: Lock,
    request: CheckRequest,
    engine: Engine,
    env: Mapping[str, str],
    say: Callable[[str], None] = lambda _: None,
) -> Verdict:
    """Check the content and the determinism of a loaded image.

    The content is compared with the captured environment.

    Args:
        lock: the lock of the image.
        say: logs each step.

    Raises:
        EngineError: the engine failed; a probe that fails is an answer, not an error.
    """
    seed = check_seed(lock)

    def container(*arguments: str, bypass: bool = False, outputs: str = "", gpus: str = "") -> Finished:
        task = Task(
            arguments=arguments, environment=_seed_variables(seed), bypass=bypass, outputs=outputs, gpus=gpus,
            timeout=THOROUGH_SECONDS if request.thorough else Task(arguments=()).timeout,
        )  # fmt: skip
        return engine.run(request.reference, task, env)

    differences: list[RoundTripDifference] = []
    unanswered: list[str] = []
    if "round-trip" in request.parts:
        say("capturing again inside the image, and comparing with what was captured")
        differences, unanswered = compare_lists(lock, container)
    cpu, gpu = _run_smoke(lock, request, seed, container, say)
    comparisons: list[WorkComparison] = []
    work, mounts, trace = request.work, Mounts(), None
    if work and "workload" in request.parts:
        mounts = Mounts(work.conditions.volumes, work.conditions.read_only, say, request.out)
        gpus = _gpus_of_work(request, gpu)
        compared = compare_work(
            work, seed, request.reference, engine, env, gpus=gpus, say=say, mounts=mounts, wrap=request.wrap
        )
        work = msgspec.structs.replace(work, runs=compared.runs)
        comparisons += compared.comparisons
        if request.trace and any(c.verdict == "drift" and c.condition == "same" for c in comparisons):
            trace = request.trace(gpus, compared)
        if request.resume:
            comparisons.append(request.resume(gpus))
    determinism, notes = judge_determinism(
        cpu,
        gpu,
        comparisons,
        cpu_only=request.cpu_only,
        profile=lock.profile,
        left_out="probes" not in request.parts,
    )
    if unprobed := unprobed_libraries_note(distributions(lock), cpu):
        notes.append(unprobed)
    moment = datetime.datetime.fromtimestamp(request.now, datetime.timezone.utc)
    return Verdict(
        version=VERSION, made=f"{moment:%Y-%m-%dT%H:%M:%SZ}", program=__version__, image=request.manifest,
        tree=request.tree, lock=f"sha256:{lock.digest}", seed=seed, profile=lock.profile,
        determinism=determinism,
        round_trip=judge_round_trip(differences, unanswered) if "round-trip" in request.parts else "not-run",
        smoke=tuple(smoke for smoke in (cpu, gpu) if smoke), comparisons=tuple(comparisons),
        differences=tuple(differences), notes=(*unanswered, *notes),
        work=work_record(lock, work, mounts) if work and comparisons else None,
        engine=engine.NAME, gpus=request.gpus, parts=request.parts, trace=trace,
    )  # fmt: skip


def _run_smoke(
    lock: Lock,
    request: CheckRequest,
    seed: int,
    container: Callable[..., Finished],
    say: Callable[[str], None],
) -> tuple[Smoke | None, Smoke | None]:
    """Run the determinism tests on the CPU and the GPUs.

    The GPUs are tested if torch is built for them and there are any.
    """
    arrays = (
        request.expected is not None and "cpu" in request.expected and bool(request.expected["cpu"].libraries)
    )
    if "probes" not in request.parts or not (has_torch(lock) or arrays):
        return None, None
    run = partial(
        run_smoke, seed=seed, controls=request.controls, thorough=request.thorough, profile=lock.profile,
        pinned=set(distributions(lock)), probes=request.probes, compiled=request.compiled,
    )  # fmt: skip
    say("the determinism test on the CPU, in two fresh containers")
    cpu = run("cpu", container, request.expected)
    if request.cpu_only or not request.gpus or has_cuda_build(cpu) is not True:
        return cpu, None
    say("the determinism test on the GPU, in two fresh containers")
    try:
        return cpu, run("cuda", partial(container, gpus=request.gpus), request.expected)
    except EngineError as err:
        if not request.gpus_optional:
            raise
        why = f"{err}; {err.hint}"
        return cpu, Smoke(
            device="cuda", verdict="not-covered", hook="inconclusive", open=(shorten_reason(why),)
        )


def _gpus_of_work(request: CheckRequest, gpu: Smoke | None) -> str:
    """Return the GPUs of the workload.

    GPUs that were not requested are used only if the determinism tests had them.
    """
    had = gpu is not None and gpu.verdict != "not-covered"
    return "" if request.cpu_only or (request.gpus_optional and not had) else request.gpus


def check_seed(lock: Lock) -> int:
    """Return the seed of the checks."""
    return SEED if lock.seed is None else lock.seed


def has_torch(lock: Lock) -> bool:
    """Return whether the environment has torch, from any source."""
    return "torch" in distributions(lock)


def select_work(
    lock: Lock,
    work: Work | None = None,
    ignored: tuple[str, ...] = (),
    runs: int | None = None,
    parts: tuple[Part, ...] = PARTS,
    *,
    named: bool = False,
) -> Work | None:
    """Return the workload to compare, or None.

    It is the user's command, or else the lock's workload.

    Raises:
        UsageError: a number of runs is given, or the workload is requested alone or by its name (`named`), and there is
            no workload; or a workload is given that is not requested.
    """
    if "workload" not in parts:
        if work is not None:
            raise UsageError("--workload is given, and --only leaves it out", hint="add `--only workload`")
        return None
    if work is None and lock.workload is None and (named or parts == ("workload",)):
        raise UsageError("--only workload is given, and there is no workload", hint=GIVE_WORK)
    if work is None and lock.workload is None and runs is not None:
        raise UsageError(
            f"--runs {runs} says how often to run your work, and there is none",
            hint=GIVE_WORK,
        )
    return work or (work_of_workload(lock.workload, ignored, runs) if lock.workload else None)


def work_record(lock: Lock, work: Work, mounts: Mounts | None = None) -> WorkRecord:
    """Return the workload's record in a verdict.

    Args:
        mounts: its mounts; None before the first run.
    """
    return make_work_record(
        work.text, seed_of_work(work, check_seed(lock)), work.conditions, work.runs, workdir=work.workdir,
        mounts=mounts.records if mounts else (),
    )  # fmt: skip


def _seed_variables(seed: int) -> dict[str, str]:
    return {"REPROBUILD_SEED": str(seed)}


def compare_lists(
    lock: Lock, container: Callable[..., Finished]
) -> tuple[list[RoundTripDifference], list[str]]:
    """Capture again inside the image, and compare the lists.

    Returns:
        The differences, and a note on each list that the image did not give.
    """
    frozen = container(PYTHON, "-I", f"{_RUNTIME}/freeze.py", bypass=True)
    captured = container(PYTHON, f"{_RUNTIME}/capture.py", "-o", f"{OUTPUTS}/again", outputs=OUTPUTS)
    differences, unanswered = compare_captured(lock), []
    answer = read_frozen(frozen.stdout)
    if isinstance(answer, str):
        unanswered.append(f"{FREEZE} was not compared: {display_line(answer)} ({describe_failure(frozen)})")
    else:
        differences += compare_freeze(lock, answer) + compare_folders(lock, answer)
    again = _read_capture(captured)
    if isinstance(again, str):
        unanswered += [f"{name} was not compared: {again}" for name in (PACKAGES, VARIABLES)]
    else:
        for name, compare in ((PACKAGES, compare_packages), (VARIABLES, compare_environment)):
            if name in again.absent:
                unanswered.append(f"{name} was not compared: the capture inside the image did not have it")
            else:
                differences += compare(lock, again)
        differences += compare_conda(lock, again)
    return differences, unanswered


def _read_capture(done: Finished) -> Snapshot | str:
    """Return the snapshot of a capture inside the image, or an error text.

    Only files with the plain names of a capture are read: the image may have added others.
    """
    files = {path.removeprefix("again/"): data for path, data in done.outputs.items()}
    plain = {name: data for name, data in files.items() if _PLAIN.fullmatch(name) and kind_of(name)}
    if done.code or not plain:
        return describe_failure(done)
    with tempfile.TemporaryDirectory() as directory:
        for name, data in plain.items():
            write_below(Path(directory), name, data)
        try:
            return read_snapshot(Path(directory))
        except SnapshotError as err:
            return display_line(str(err))
