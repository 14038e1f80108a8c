"""The strides of a run: how far apart the steps are whose batches and parameters each process records."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Final

from reprobuild.trace.log import ProcessLog
from reprobuild.trace.traced_run import TracedRun

_FIRST_STEPS = 9  # the recorder has chosen its stride after them
_MOST_LOOKED = 200_000  # records of all processes
_MOST_NAMED = 500  # processes whose stride is passed on, in one variable
_LARGEST: Final = 1_000_000


def find_strides(run: TracedRun) -> dict[str, int]:
    """Return the stride that each process of a run chose, and the commonest one without a name.

    Two runs can be compared if each process of the second one records the steps that it recorded in the first one.
    """
    looked = _MOST_LOOKED // max(1, len(run.logs))
    chosen = {name: _find_stride(log, looked) for name, log in run.logs.items()}
    known = {name: stride for name, stride in chosen.items() if stride}
    if not known:
        return {"": 1}
    ((commonest, _),) = Counter(known.values()).most_common(1)
    others = {name: stride for name, stride in known.items() if stride != commonest}
    return {"": commonest, **dict(islice(others.items(), _MOST_NAMED))}


def _find_stride(log: ProcessLog, looked: int) -> int:
    records = islice(log.iterate(_FIRST_STEPS), looked)
    chosen = (record.seconds for record in records if record.kind == "stride")
    return next((max(1, int(min(seconds, _LARGEST))) for seconds in chosen), 0)
