"""The tests, run in two lines side by side.

One line has the tests on the example's store; the other has all others, then some of the first.

    python dev/run_tests.py [ARGUMENT OF PYTEST...]

The things that a session makes once, first of all the example's image, are so made twice and no more, and both lines
take about as long (`tests/conftest.py` has the parts). The output of the second line is printed after both have ended.
The exit code is the first that is not 0; a part without tests has none.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from typing import IO

FAILED, NO_TESTS = 1, 5  # https://docs.pytest.org/en/stable/reference/exit-codes.html
LINES = (("store",), ("rest", "more"))


def main(arguments: list[str]) -> int:
    """Run both lines, and return the exit code."""
    codes: list[int] = []
    with tempfile.TemporaryFile() as said:
        second = threading.Thread(target=lambda: codes.extend(run(LINES[1], arguments, said)))
        second.start()
        codes.extend(run(LINES[0], arguments, None))
        second.join()
        said.seek(0)
        sys.stdout.buffer.write(said.read())
        sys.stdout.flush()
    failed = [code for code in codes if code not in (0, NO_TESTS)]
    return failed[0] if failed else min(codes)


def run(parts: tuple[str, ...], arguments: list[str], said: IO[bytes] | None) -> list[int]:
    """Run parts in order, and return their exit codes.

    Their output goes into the file `said`, if there is one.
    """
    codes: list[int] = []
    for part in parts:
        if codes and codes[-1] not in (0, FAILED, NO_TESTS):  # interrupted, or no test could be run at all
            break
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--part", part, *arguments], check=False,
            stdout=said, stderr=said and subprocess.STDOUT,
        )  # fmt: skip
        codes.append(done.returncode)
    return codes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
