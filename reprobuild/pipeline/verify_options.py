"""Options for checking an image."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from reprobuild.config.argument_forms import refuse_text
from reprobuild.errors import UsageError
from reprobuild.infra.display import display_text
from reprobuild.infra.suggest import did_you_mean
from reprobuild.pipeline.drift_trace import MODES
from reprobuild.run.options import AUTO
from reprobuild.verify.verdict import PARTS, Part
from reprobuild.verify.workload.work import Work


class VerifyOptions(Struct, frozen=True, kw_only=True):
    """Options for checking the image.

    Attributes:
        engine: the engine that runs containers; None for the first one that answers.
        controls: run the controls.
        parts: the parts to run.
        named: the user named each part, so that one without an answer is an error.
        cpu_only: skip the GPU checks.
        gpus: "auto" (all if this machine has any), "all", "none", or ids.
        thorough: repeat each probe hundreds of times.
        choices: the use of saved choices of compilers by the workload: `auto`, `strict`, `off`.
        against: an earlier verdict file to compare with, or an output directory that holds one.
        same_platform: the comparison has no answer on another platform than that of `against`.
        work: a command to run several times, instead of the lock's workload.
        ignored: keys of values that may differ in the outputs of the lock's workload.
        runs: how many containers run the lock's workload; None for two, and more in a budget of time.
        disturbances: the names of the disturbances under which the workload runs once more.
        resume: the number of steps after which the workload is stopped and resumed; 0 to leave this out.
        resume_command: resumes it; empty for the workload's own command.
        trace: look for the cause if the workload drifts: `auto` (see `drift_trace`), `on`, `off`.
        probes: run only these probes, in short, without collectives; the verdict is then inconclusive. Empty for all.
    """

    engine: str | None = None
    controls: bool = True
    parts: tuple[Part, ...] = PARTS
    named: bool = False
    cpu_only: bool = False
    gpus: str = "auto"
    thorough: bool = False
    choices: str = AUTO
    against: Path | None = None
    same_platform: bool = False
    work: Work | None = None
    ignored: tuple[str, ...] = ()
    runs: int | None = None
    disturbances: tuple[str, ...] = ()
    resume: int = 0
    resume_command: str = ""
    trace: str = AUTO
    probes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse unknown parts, an unknown mode of the trace, and a platform without a verdict to take it from.

        Raises:
            UsageError: there is no such part or mode, the parts are one text, or `against` is missing.
        """
        if self.same_platform and self.against is None:
            raise UsageError(
                "--same-platform is given, and --against is missing",
                hint="name the earlier verdict: --against verdict.json --same-platform",
            )
        refuse_text("VerifyOptions: parts", self.parts)
        check_parts(self)
        if self.trace not in MODES:
            raise UsageError(
                f"VerifyOptions: trace: {display_text(str(self.trace))!r} is no mode of a trace",
                hint=f"the modes are: {', '.join(MODES)}",
            )


def select_parts(only: tuple[Part, ...], *, no_probes: bool = False) -> tuple[Part, ...]:
    """Return the parts of a check that the user requests; all of them without `only`.

    Raises:
        UsageError: the probes are requested and left out.
    """
    if only and no_probes:
        raise UsageError(
            "--only and --no-probes are given", hint="leave --no-probes out: --only names each part that runs"
        )
    return tuple(
        part for part in PARTS if (part in only or not only) and not (no_probes and part == "probes")
    )


def check_parts(options: VerifyOptions) -> None:
    """Refuse parts that a program states and that are no parts.

    Raises:
        UsageError: one is unknown; the hint lists all.
    """
    for part in options.parts:
        if part not in PARTS:
            raise UsageError(
                f"VerifyOptions: parts: {display_text(str(part))!r} is no part of a check",
                hint="\n".join(
                    filter(None, [did_you_mean(part, PARTS), f"the parts are: {', '.join(PARTS)}"])
                ),
            )
