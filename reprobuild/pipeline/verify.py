"""Checks of an output directory's image.

The image is loaded and run, and the verdict and the report are written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from reprobuild.context import RunContext
from reprobuild.engines import gpu
from reprobuild.engines.model import Engine, Task
from reprobuild.engines.registry import HINT, find_engine
from reprobuild.errors import DriftError, RoundTripError, UsageError
from reprobuild.image.choices.caches import INDUCTOR
from reprobuild.image.model import Image
from reprobuild.infra.atomic import write_file
from reprobuild.infra.shell_words import as_path
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.lock.model import Lock
from reprobuild.output.directory import (
    VERDICT,
    engine_name,
    is_document_of_here,
    refuse_misstated,
    remember_document,
)
from reprobuild.output.times import write_times
from reprobuild.pipeline.drift_trace import make_trace
from reprobuild.pipeline.recorded_work import RecordedWork
from reprobuild.pipeline.report import write_report
from reprobuild.pipeline.resume import make_resume
from reprobuild.pipeline.verify_options import VerifyOptions
from reprobuild.report.html.cluster import Nodes
from reprobuild.run.choices import ChoiceUse
from reprobuild.run.options import RunOptions
from reprobuild.run.run import image_variables
from reprobuild.store.salvage import take_runtime
from reprobuild.verify.certificate.compare import compare_against
from reprobuild.verify.certificate.read import (
    LARGEST,
    Certificate,
    is_certificate,
    read_certificate,
    read_verdict,
    refuse_failed,
    refuse_other,
    refuse_other_work,
)
from reprobuild.verify.certificate.repeat import repeat_options
from reprobuild.verify.check import (
    GIVE_WORK,
    CheckRequest,
    check_seed,
    select_work,
    verify_image,
    work_record,
)
from reprobuild.verify.determinism.expected import read_expected
from reprobuild.verify.verdict import Verdict
from reprobuild.verify.workload.disturbances import select_disturbances
from reprobuild.verify.workload.work import Work

# Reads the cluster's part of the report of an image in an output directory; None where there is no such part.
ReadNodes = Callable[[Lock, Image, Path, RunContext], Nodes | None]


def choose_engine(checks: VerifyOptions, context: RunContext, *, hint: str = HINT) -> Engine:
    """Return the requested engine; `hint` is for a failure.

    Raises:
        UsageError: a requested GPU is not a valid name.
        EngineError: no engine answers.
    """
    gpus = gpu.parse_gpu_option(checks.gpus)
    return find_engine(checks.engine, context.env, gpus=gpus, hint=hint)


def verify(
    lock: Lock,
    image: Image,
    out: Path,
    context: RunContext,
    checks: VerifyOptions,
    nodes: ReadNodes | None = None,
) -> Verdict:
    """Check the image, and write verdict and report into `out`.

    Nothing is written if this user may not write there. An existing verdict is kept beside the new one. A part of a
    check that passes leaves the verdict and the report of the whole check in place. `nodes` reads the cluster's part of
    the report.

    Raises:
        UsageError: the verdict file cannot be compared with, or a GPU is not a valid name.
        EngineError: no engine answers, or it fails.
    """
    if not os.access(out, os.W_OK | os.X_OK):  # of another user, as the directory of a site's images
        context.say(f"warning: {out} cannot be written to: the verdict is printed, and no file is written")
        return examine(lock, image, out, context, checks)
    verdict = examine(lock, image, out, context, checks)
    document = msgspec.json.format(msgspec.json.encode(verdict)) + b"\n"
    if whole := _find_whole_verdict(verdict, image, out, context, checks):
        aside = _aside(out, document)
        write_file(aside, document)
        context.say(f"{out / VERDICT} is still the whole check of {whole.made}; this part of it is {aside}")
        return verdict
    _set_aside_verdict(out, context)
    write_file(out / VERDICT, document)
    remember_document(VERDICT, image, document, context.store)
    cluster = nodes(lock, image, out, context) if nodes else None
    write_times(out, image, context.clock.seconds)
    name = engine_name(lock, image, out, context.store, lambda _: None)  # `examine` logged it
    write_report(lock, image, verdict, out, name, context.store, cluster)
    return verdict


def examine(lock: Lock, image: Image, out: Path, context: RunContext, checks: VerifyOptions) -> Verdict:
    """Load the image and check it without writing into `out`.

    Raises:
        UsageError: the image is not the one that image.json states, the verdict file cannot be compared with, a GPU is
            not a valid name, or there is no workload to run more often.
        EngineError: no engine answers, or it fails.
    """
    work = _select_work(lock, checks)
    former = read_certificate(checks.against) if checks.against else None
    if former:
        refuse_failed(former)
        refuse_other(former, tree=image.tree, seed=check_seed(lock), profile=lock.profile)
        refuse_other_work(former, work_record(lock, work) if work else None)
        if work is None and "workload" in checks.parts and former.verdict.work:
            context.say(_workload_note(former, out, checks.against))
    engine = choose_engine(checks, context)
    refuse_misstated(image, out, context.store, context.say)
    take_runtime(out, lock, context.store)  # months later on another machine, the store may not have it
    expectations = read_expected(lock, context.store, context.say)
    context.store.release()  # the checks take long, and do not need it
    name = engine_name(lock, image, out, context.store, context.say)
    context.say(f"loading {name} into {engine.NAME}, if it is not there yet")
    with context.clock.measure("load"):
        loaded = engine.load(out / "image", name, image.digests, context.env, context.progress)
    if loaded:
        context.say(f"loaded {name} into {engine.NAME}")
    choices = _WorkChoices(lock, image, out, context, checks)
    recorded = (
        RecordedWork(
            work=work, seed=check_seed(lock), context=context, engine=engine, name=name, wrap=choices.wrap
        )
        if work
        else None
    )
    request = CheckRequest(
        reference=name, manifest=image.manifest, tree=image.tree, expected=expectations, now=context.now, out=out,
        controls=checks.controls, parts=checks.parts, cpu_only=checks.cpu_only, gpus=gpu.parse_gpu_option(checks.gpus),
        gpus_optional=checks.gpus == "auto", thorough=checks.thorough,
        compiled=choices.has_kernels(gpu.parse_gpu_option(checks.gpus)), work=work, probes=checks.probes,
        wrap=choices.wrap,
        resume=make_resume(recorded, stop=checks.resume, command=checks.resume_command),
        trace=make_trace(recorded, checks.trace),
    )  # fmt: skip
    with context.clock.measure("check"):
        verdict = verify_image(lock, request, engine, context.env, context.say)
    verdict = msgspec.structs.replace(verdict, notes=(*verdict.notes, *choices.notes))
    if former:
        compared = compare_against(verdict, former, same_platform=checks.same_platform)
        verdict = msgspec.structs.replace(verdict, against=compared)
    return verdict


def _workload_note(former: Certificate, out: Path, against: Path | None) -> str:
    """Return the note that a certificate has a workload, and this check has none."""
    note = f"{former.path} has a workload, and this check has none: its outputs are not compared"
    options = repeat_options(former.verdict)
    words = shlex.join(["reprobuild", "verify", as_path(out), "--against", as_path(str(against))])
    return f"{note}. Repeat it: `{words} {options}`" if options else note


def _select_work(lock: Lock, checks: VerifyOptions) -> Work | None:
    """Return the workload of a check with its disturbances, or None.

    Raises:
        UsageError: an option needs a workload, and there is no workload; or a disturbance is unknown.
    """
    work = select_work(lock, checks.work, checks.ignored, checks.runs, checks.parts, named=checks.named)
    if not checks.disturbances:
        return work
    if work is None:
        raise UsageError("--disturb is given, and there is no workload to disturb", hint=GIVE_WORK)
    return msgspec.structs.replace(work, disturbances=select_disturbances(checks.disturbances))


class _WorkChoices:
    """The saved choices of compilers for the runs of a workload."""

    def __init__(
        self, lock: Lock, image: Image, out: Path, context: RunContext, checks: VerifyOptions
    ) -> None:
        self._frozen, self._env = image_variables(lock), context.env
        self._use = ChoiceUse(
            out=out, lock=lock, image=image.config, options=RunOptions(choices=checks.choices),
            known=context.store.known, say=context.say,
        )  # fmt: skip
        self._used = ""

    @contextlib.contextmanager
    def wrap(self, task: Task) -> Iterator[Task]:
        """Yield a task with the saved choices that fit, and report its misses afterwards."""
        with self._use.open(task, self._frozen, self._env) as session:
            yield session.mount(task) if session else task
            if session and session.used:
                self._used = session.used.digest
                self._use.finish(session, 0)

    def has_kernels(self, gpus: str) -> bool:
        """Return whether saved choices of torch's compiler fit a run with these GPUs."""
        quiet = msgspec.structs.replace(self._use, say=lambda _: None)  # the workload reports the reasons
        used = quiet.find_used(Task(arguments=(), gpus=gpus), self._frozen, self._env)
        return used is not None and INDUCTOR in used.saved.caches and used.saved.caches[INDUCTOR].files > 0

    @property
    def notes(self) -> tuple[str, ...]:
        """The note of a verdict on the used choices."""
        return (f"your work began with the saved choices of compilers {self._used}",) if self._used else ()


def _find_whole_verdict(
    verdict: Verdict, image: Image, out: Path, context: RunContext, checks: VerifyOptions
) -> Verdict | None:
    """Return the verdict in a directory if it has all parts of a new one, and more.

    A failure replaces it, and so does each part if the directory's verdict was not written here.
    """
    failed = verdict.exit_code in (DriftError.exit_code, RoundTripError.exit_code)
    document = _read_former(out)
    if failed or not document or not is_document_of_here(VERDICT, image, document, context.store):
        return None
    try:
        former = read_verdict(document, out / VERDICT)
    except UsageError:  # of another reprobuild
        return None
    fewer = set(verdict.parts) < set(former.parts) or (checks.probes and verdict.parts == former.parts)
    return former if fewer and former.tree == image.tree else None


def _read_former(out: Path) -> bytes | None:
    """Return the verdict file of a directory, at most one byte more than one can have; None without one.

    The directory may be untrusted: no link is followed, and what is no file reads as empty.
    """
    try:
        stream, _ = open_plain(out / VERDICT, links=False)
    except FileNotFoundError:
        return None
    except OSError:
        return b""
    with stream:
        return stream.read(LARGEST + 1)


def _aside(out: Path, document: bytes) -> Path:
    return out / f"verdict-{hashlib.sha256(document).hexdigest()[:12]}.json"


def _set_aside_verdict(out: Path, context: RunContext) -> None:
    """Set aside the verdict file that a new one is to replace.

    It may be the only one that passed. A file that is not a verdict is replaced and never copied.
    """
    former = _read_former(out)
    if former is None:
        return
    if not is_certificate(former):
        context.say(f"{out / VERDICT} was no verdict file: it is replaced")
        return
    aside = _aside(out, former)
    write_file(aside, former)
    context.say(f"the verdict of the check before is kept as {aside}")
