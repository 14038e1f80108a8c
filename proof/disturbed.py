"""reprobuild with another time of day.

`python -m proof.disturbed VERB ...`, with the variables of `proof.clock`.
"""

from __future__ import annotations

from proof.clock import live_later
from reprobuild.cli.main import main

if __name__ == "__main__":
    live_later()
    main()
