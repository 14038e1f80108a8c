"""The entrypoint of an image.

It settles the seed and the environment, then becomes the command or supervises it.

    /usr/bin/python3.11 -I -S /opt/reprobuild/lib/reprobuild_runtime/entrypoint.py [CMD [ARG...]]

`-I -S` keep the user's PYTHONPATH, working directory and site-packages out of this process; the command has them. Exit
codes of its own: 125 for a bad seed or an unknown profile, 126 for a command that cannot be run, 127 for a missing one.
"""

# ruff: noqa: TID251  the environment is what it reads and writes

import os
import sys

sys.dont_write_bytecode = True  # leave no trace in the container
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # it is run by its path

from reprobuild_runtime import settings, supervise  # noqa: E402  after the path
from reprobuild_runtime.seeding import options  # noqa: E402  after the path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List


def uncoerce_locale() -> None:
    """Undo the LC_CTYPE that Python itself sets in the C locale.

    The command must have the original value.

    https://peps.python.org/pep-0538/
    """
    try:
        with open("/proc/self/environ", "rb") as file:  # as it was when this process was started
            entries = [entry for entry in file.read().split(b"\0") if entry.startswith(b"LC_CTYPE=")]
    except OSError:
        return
    os.environb.pop(b"LC_CTYPE", None)
    if entries:
        os.environb[b"LC_CTYPE"] = entries[0].partition(b"=")[2]


def main(argv: "List[str]") -> int:
    """Run the command, or a shell; return the exit code."""
    uncoerce_locale()
    try:
        settings.settle(os.environ)
    except ValueError as err:
        seed_hint = f"give {settings.SEED}=N, or leave it out and a seed is drawn and logged"
        settings.print_line(f"reprobuild: error: {err}")
        settings.print_line(f"reprobuild: hint: {getattr(err, 'hint', seed_hint)}")
        return 125
    for line in options.uncovered(options.user_command(argv)):
        settings.print_line(f"reprobuild: {line}")
    command = argv or ["/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"]
    return supervise.look_after(command) if os.getpid() == 1 else supervise.replace_process(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
