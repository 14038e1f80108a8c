"""The distance of the steps whose batches and parameters are recorded."""

import math

from reprobuild_runtime.trace.recorder import Recorder, now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Tuple

_MEASURED = (2, 6)  # the steps whose times choose the stride
_SHARE = 0.005  # of a step's time


class Stride:
    """The stride of a process, chosen by the cost of its first records, or that of the other run."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self._stride = recorder, recorder.options.stride
        self._spent, self._began = 0.0, now()
        self._times: "List[Tuple[float, float]]" = []  # (seconds of a step, of its records)

    def is_due(self) -> bool:
        """Return whether each run records the batches and parameters of the current step."""
        step = self._recorder.step
        return step <= _MEASURED[1] or step % max(self._stride, 1) == 0

    def spend(self, seconds: float) -> None:
        """Add the time of a record."""
        self._spent += seconds

    def end_step(self) -> None:
        """End the step, and choose the stride by the time of the first ones, unless the other run chose it."""
        step = self._recorder.step
        self._recorder.end_step()
        moment = now()
        if _MEASURED[0] <= step <= _MEASURED[1]:
            self._times.append((moment - self._began, self._spent))
        if step == _MEASURED[1]:
            self._stride = self._stride or self._recorder.find_stride()
            if not self._stride:
                length = sorted(length for length, _ in self._times)[len(self._times) // 2]
                cost = sorted(cost for _, cost in self._times)[len(self._times) // 2]
                self._stride = max(1, math.ceil(cost / max(length - cost, 1e-9) / _SHARE))
            self._recorder.add("stride", "stride", seconds=self._stride)
        self._spent, self._began = 0.0, moment
