"""List evidence that is missing, or older than the code that it is about.

    python -m proof.stale

`make evidence` runs it. Each line names the command that renews the evidence.
"""

from __future__ import annotations

from proof.evidence import states
from proof.kinds import KINDS, ON_OTHER_PAGES


def main() -> None:
    """Print one line for each kind of evidence that is to be renewed."""
    for line in states((*KINDS, *ON_OTHER_PAGES)) or ["evidence of every kind is as new as the code"]:
        print(line)


if __name__ == "__main__":
    main()
