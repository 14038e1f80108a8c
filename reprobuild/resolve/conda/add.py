"""The packages of conda in the input of a resolution."""

from __future__ import annotations

import msgspec

from reprobuild.resolve.as_of import SolvedLines
from reprobuild.resolve.base_and_python import ResolveRequest
from reprobuild.resolve.conda.environment import add_activation_variables
from reprobuild.resolve.conda.packages import resolve_conda
from reprobuild.resolve.context import ResolveContext


def add_conda(subject: ResolveRequest, solved: SolvedLines, context: ResolveContext) -> ResolveRequest:
    """Return the input with conda's packages; its lines are those left for wheels.

    Args:
        solved: the packages that were chosen for requests.

    Raises:
        EngineError, LockError, FetchError, BuildError: as `resolve_conda`.
    """
    conda = resolve_conda(subject.snapshot, subject.decisions, subject.platform, subject.lines, context)
    if conda is None:
        return subject
    triage = add_activation_variables(subject.triage, subject.snapshot, conda.activated)
    triage = msgspec.structs.replace(triage, rulings=(*triage.rulings, *solved.mark(conda.rulings)))
    return msgspec.structs.replace(
        subject, conda=conda, lines=conda.lines, interpreter=conda.interpreter, triage=triage
    )
