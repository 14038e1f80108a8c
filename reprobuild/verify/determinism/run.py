"""Runs of the determinism tests.

They run once in full, and once in short in another, fresh container.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping

from reprobuild.engines.model import Finished
from reprobuild.errors import UsageError
from reprobuild.lock.system import FILES, PREFIX
from reprobuild.verify.determinism.document import Device, Document, read_document
from reprobuild.verify.determinism.expected import Expected
from reprobuild.verify.determinism.judge import judge_smoke
from reprobuild.verify.verdict import Smoke
from reprobuild.verify.workload.judge import display_line

PROGRAM = f"{FILES}/lib/reprobuild_runtime/probes/run.py"
PYTHON = f"{PREFIX}/bin/python"
OTHER = (
    "the image was made by another reprobuild, and has not this determinism test: make it again from its snapshot, "
    "with a new lock"
)

# Options for a selection of probes: these take seconds, and the whole takes minutes.
_BRIEF: dict[str, object] = {
    "collectives": False, "modes": ["profile", "strict"], "processes": 1, "stress": False,
}  # fmt: skip


def run_smoke(
    device: Device, container: Callable[..., Finished], expected: Mapping[Device, Expected] | None, *,
    seed: int, controls: bool, thorough: bool, profile: str, pinned: Collection[str], probes: Collection[str] = (),
    compiled: bool = False,
) -> Smoke:  # fmt: skip
    """Run the determinism tests on a device and judge them.

    Args:
        container: runs a command in a fresh container of the image.
        expected: the required answers; None if the image has no such tests.
        controls: run the controls, too.
        thorough: hundreds of repeats.
        profile: the profile that must be in force in the image.
        pinned: the distributions that must be in the image.
        probes: run only these, in short, without collectives; the verdict is then inconclusive. Empty for all.
        compiled: saved choices of torch's compiler are in use, so that the probes of compiled code run.

    Raises:
        UsageError: a probe is named that the image does not have.
        EngineError: the engine failed; a probe that fails is an answer, not an error.
    """
    expectation = None if expected is None else expected.get(device)
    if expectation is None:
        return Smoke(device=device, verdict="inconclusive", hook="inconclusive", open=(OTHER,))
    first, second = (_run_container(container, device, options) for options in container_options(
        device, expectation, seed=seed, controls=controls, thorough=thorough, probes=probes,
        compiled=compiled and bool(expectation.compiled_controls),
    ))  # fmt: skip
    return judge_smoke(
        device, first, second, expectation, controls=controls, thorough=thorough, profile=profile, pinned=pinned,
        only=probes, compiled=compiled and bool(expectation.compiled_controls),
    )  # fmt: skip


def container_options(
    device: Device, expectation: Expected, *, seed: int, controls: bool, thorough: bool, probes: Collection[str] = (),
    compiled: bool = False,
) -> tuple[dict[str, object], dict[str, object]]:  # fmt: skip
    """Return the options of the two containers of the tests.

    The first runs in full, the second in short.

    Raises:
        UsageError: a probe is named that the image does not have.
    """
    known = {*expectation.probes, *expectation.thorough, *expectation.optional, *expectation.informational}
    if unknown := sorted(set(probes) - known):
        raise UsageError(
            f"the determinism test of this image has no probe {', '.join(unknown)} on {device}",
            hint=f"its probes are: {', '.join(sorted(known))}",
        )
    options: dict[str, object] = {"device": device, "seed": seed, "thorough": thorough}
    if compiled:  # an older image does not know the option
        options["compiled"] = True
    if expectation.libraries:
        options["subject"] = "arrays"
    if probes:
        options.update(only=sorted(probes), **_BRIEF)
    return {**options, "controls": controls}, {**options, "quick": True}


def _run_container(
    container: Callable[..., Finished], device: Device, options: Mapping[str, object]
) -> Document | str:
    done = container(PYTHON, PROGRAM, json.dumps(options))
    answer = read_document(done.stdout, device)
    return f"{display_line(answer)} ({describe_failure(done)})" if isinstance(answer, str) else answer


def describe_failure(done: Finished) -> str:
    """Describe the end of a container in printable text.

    It has the exit code and the last lines of its errors.
    """
    tail = done.stderr.decode(errors="replace").strip().splitlines()[-5:]
    return f"exit code {done.code}: " + " / ".join(map(display_line, tail))
