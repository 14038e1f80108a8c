"""A folder of results is checked: its image is loaded and run, and the verdict and the report are written."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.context import RunContext
from reprobuild.engines import gpu
from reprobuild.engines.model import Engine
from reprobuild.engines.registry import HINT, find_engine
from reprobuild.image.model import Image
from reprobuild.infra.atomic import write_file
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.lock.model import Lock
from reprobuild.output.directory import REPORT, VERDICT, engine_name, refuse_misstated
from reprobuild.report.html.page import render_html
from reprobuild.store.salvage import take_runtime
from reprobuild.verify.certificate.compare import compare_against
from reprobuild.verify.certificate.read import (
    LARGEST,
    is_certificate,
    read_certificate,
    refuse_failed,
    refuse_other,
    refuse_other_work,
)
from reprobuild.verify.check import CheckRequest, record_of, seed_of, verify_image, work_asked
from reprobuild.verify.determinism.expected import expected
from reprobuild.verify.verdict import Verdict
from reprobuild.verify.workload.conditions import RUNS
from reprobuild.verify.workload.run import Work


class VerifyOptions(Struct, frozen=True, kw_only=True):
    """How the image is checked.

    Attributes:
        engine: what runs containers; None for what answers.
        control: run the controls.
        smoke: run the smoke test.
        cpu_only: the CPU is enough for now.
        gpus: "auto" (all where this machine has any), "all", "none", or ids.
        thorough: hundreds of repeats of each probe.
        against: an earlier certificate to compare with, or a folder of results that holds one.
        work: a command to run several times, in the place of the lock's workload.
        ignored: keys of values that may differ in what the lock's workload writes.
        runs: how many containers run the lock's workload.
        smoke_only: the smoke test alone, as on each node of a fleet.
        probes: run these probes alone, in short, without collectives; the verdict is then inconclusive. Empty for all.
    """

    engine: str | None = None
    control: bool = True
    smoke: bool = True
    cpu_only: bool = False
    gpus: str = "auto"
    thorough: bool = False
    against: Path | None = None
    work: Work | None = None
    ignored: tuple[str, ...] = ()
    runs: int = RUNS
    smoke_only: bool = False
    probes: tuple[str, ...] = ()


def ready(checks: VerifyOptions, session: RunContext, *, hint: str = HINT) -> Engine:
    """Return the engine that is asked for; `hint` says what to do where it does not answer.

    Raises:
        UsageError: a GPU that is asked for is none.
        EngineError: no engine answers.
    """
    gpu.requested(checks.gpus)
    return find_engine(checks.engine, session.env, hint=hint)


def verify(lock: Lock, image: Image, out: Path, session: RunContext, checks: VerifyOptions) -> Verdict:
    """Load the image, check it, and write the verdict and the report into `out`.

    A verdict that is there is kept beside the new one.

    Raises:
        UsageError: the certificate cannot be compared with, or a GPU is none.
        EngineError: no engine answers, or it fails.
    """
    verdict = examine(lock, image, out, session, checks)
    _keep(out, session)
    write_file(out / VERDICT, msgspec.json.format(msgspec.json.encode(verdict)) + b"\n")
    write_file(out / REPORT, render_html(lock, image, verdict).encode())
    return verdict


def examine(lock: Lock, image: Image, out: Path, session: RunContext, checks: VerifyOptions) -> Verdict:
    """Load the image and check it; nothing is written into `out`.

    Raises:
        UsageError: the image is not the one that image.json states, the certificate cannot be compared with, a GPU is
            none, or there is no work to run more often.
        EngineError: no engine answers, or it fails.
    """
    work = work_asked(lock, checks.work, checks.ignored, checks.runs)
    former = read_certificate(checks.against) if checks.against else None
    if former:
        refuse_failed(former)
        refuse_other(former, tree=image.tree, seed=seed_of(lock), profile=lock.profile)
        refuse_other_work(former, record_of(lock, work) if work else None)
    engine = ready(checks, session)
    refuse_misstated(image, out, session.store, session.say)
    take_runtime(out, lock, session.store)  # months later, elsewhere, the store may not have it
    wanted = expected(lock, session.store, session.say)
    session.store.release()  # the checks take long, and need nothing of it
    name = engine_name(lock, image, out, session.store, session.say)
    session.say(f"{engine.NAME}: looking for {name}, and loading it where it is not there")
    if engine.load(out / "image", name, (image.config, image.manifest), session.env):
        session.say(f"loaded {name} into {engine.NAME}")
    asked = CheckRequest(
        reference=name, manifest=image.manifest, tree=image.tree, expected=wanted, now=session.now,
        control=checks.control, smoke=checks.smoke, cpu_only=checks.cpu_only, gpus=gpu.requested(checks.gpus),
        gpus_optional=checks.gpus == "auto", thorough=checks.thorough,
        work=work, smoke_only=checks.smoke_only, probes=checks.probes,
    )  # fmt: skip
    verdict = verify_image(lock, asked, engine, session.env, session.say)
    if former:
        verdict = msgspec.structs.replace(verdict, against=compare_against(verdict, former))
    return verdict


def _keep(out: Path, session: RunContext) -> None:
    """Put the certificate aside that the new verdict is about to replace: it may be the only one that passed.

    The directory may be of others. What is no certificate is replaced and never copied, and no link is followed.
    """
    place = out / VERDICT
    try:
        stream, _ = open_plain(place, links=False)
    except FileNotFoundError:
        return
    except OSError:
        former = b""
    else:
        with stream:
            former = stream.read(LARGEST + 1)
    if not is_certificate(former):
        session.say(f"{place} was no certificate: it is replaced")
        return
    aside = out / f"verdict-{hashlib.sha256(former).hexdigest()[:12]}.json"
    write_file(aside, former)
    session.say(f"the certificate of the check before is kept as {aside}")
