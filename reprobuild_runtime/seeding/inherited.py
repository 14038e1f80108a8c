"""The seed of a process that was started with an empty environment: it stands in that of a parent.

`subprocess.run(..., env={})` takes our variables away. The kernel still shows with which variables the processes
above were started, where they run as the same user (proc(5), /proc/PID/environ): the entrypoint's command has ours.
A seed that a parent set for itself after its start is not shown there, and nothing is of a process that has written
over its environment to change its title (setproctitle).
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import MutableMapping, Sequence

MOST_PARENTS = 32
MOST_BYTES = 4 * 2**20  # Linux lets no environment be much greater


def recover(environ: "MutableMapping[str, str]", names: "Sequence[str]") -> bool:
    """Set the variables of a list as the nearest parent has them that has the first; return whether one had it."""
    process = os.getppid()
    for _ in range(MOST_PARENTS):
        if process <= 0:
            return False
        found = _variables(process, names)
        if names[0] in found:
            for name, value in found.items():
                environ.setdefault(name, value)
            return True
        process = _parent(process)
    return False


def _variables(process: int, names: "Sequence[str]") -> "MutableMapping[str, str]":
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            entries = file.read(MOST_BYTES).split(b"\0")
    except OSError:  # another user's, or gone
        return {}
    pairs = (entry.decode("utf-8", "surrogateescape").partition("=") for entry in entries)
    return {name: value for name, _, value in pairs if name in names}


def _parent(process: int) -> int:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # the name, in brackets, may hold anything; behind it stand the state and the parent
            return int(file.read(4096).rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
