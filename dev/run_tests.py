"""Run the tests in two processes side by side: those on the example's store, and all others.

    python dev/run_tests.py [ARGUMENT OF PYTEST...]

What a session makes once, first of all the example's image, is so made once. What the second process says comes when
both have ended. The exit code is the first that is not 0; a process for which no test is left has none.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

NO_TESTS = 5  # https://docs.pytest.org/en/stable/reference/exit-codes.html


def main(arguments: list[str]) -> int:
    """Run both, and return the exit code."""
    with tempfile.TemporaryFile() as said:
        first = subprocess.Popen([sys.executable, "-m", "pytest", "--part", "store", *arguments])
        second = subprocess.Popen(
            [sys.executable, "-m", "pytest", "--part", "rest", *arguments],
            stdout=said, stderr=subprocess.STDOUT,
        )  # fmt: skip
        codes = [first.wait(), second.wait()]
        said.seek(0)
        sys.stdout.buffer.write(said.read())
        sys.stdout.flush()
    failed = [code for code in codes if code not in (0, NO_TESTS)]
    return failed[0] if failed else min(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
