"""The options of `verify` that repeat the workload of a certificate."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from reprobuild.infra.escape import escape_text
from reprobuild.infra.untrusted.strings import VariableName, is_valid
from reprobuild.verify.verdict import Verdict
from reprobuild.verify.workload.work import ARTEFACT
from reprobuild_portable.secrets import GONE

LONGEST = 2000  # characters of the options
MOUNT = "DIRECTORY"  # for the user to replace: a certificate has no path of another machine


def repeat_options(verdict: Verdict) -> str:
    """Return the options that repeat a certificate's workload, quoted for a shell.

    They are empty if the certificate has no workload, or a workload that no command line can repeat: a part of it was
    redacted, has characters that a terminal does not show, is no name of a variable, or is too long. The lock's own
    workload needs no options.
    Secrets are left out: a certificate of somebody else must not choose which of the user's variables a program sees.

    Args:
        verdict: of the certificate, which is untrusted.
    """
    if verdict.work and any(":" in place for place in verdict.work.volumes):
        return ""  # `:rw` lets the program write to a directory: the user has to ask for that
    if verdict.work and not all(is_valid(name, VariableName) for name in verdict.work.variables):
        return ""  # a pattern such as `AWS*` would stand for variables of the user
    text = shlex.join(_list_options(verdict))
    return "" if len(text) > LONGEST or GONE in text or escape_text(text) != text else text


def _list_options(verdict: Verdict) -> Iterator[str]:
    work = verdict.work
    files = [
        comparison.name.removeprefix(f"{ARTEFACT} ")
        for comparison in verdict.comparisons
        if comparison.condition == "same" and comparison.name.startswith(f"{ARTEFACT} ")
    ]
    if work is None or not files:
        return
    yield from (f"--workload={work.command}", f"--seed={work.seed}", f"--runs={work.runs}")
    yield from (f"--output-file={name}" for name in dict.fromkeys(files))
    yield from (f"--env={name}={value}" for name, value in work.variables.items())
    yield from (f"--volume={MOUNT}:{place}" for place in work.volumes)
    if work.workdir:
        yield f"--workdir={work.workdir}"
    if work.shared_memory:
        yield f"--shm-size={work.shared_memory}"
