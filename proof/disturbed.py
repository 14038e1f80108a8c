"""reprobuild with another time of day: `python -m proof.disturbed VERB ...`, with the variables of `proof.clock`."""

from __future__ import annotations

import select
import time

from proof.clock import shift_sandboxes
from reprobuild.cli import main


def _sleep(seconds: float) -> None:
    """Wait; `clock_nanosleep` until a moment fails below libfaketime 0.9.10."""
    select.select([], [], [], seconds)


if __name__ == "__main__":
    vars(time)["sleep"] = _sleep
    shift_sandboxes()
    main()
