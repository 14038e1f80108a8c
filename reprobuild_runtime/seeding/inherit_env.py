"""The seed of a process with an empty environment.

It is that of a parent.

`subprocess.run(..., env={})` removes our variables. The kernel still shows the variables with which the processes above
were started, if they run as the same user (proc(5), /proc/PID/environ): the entrypoint's command has ours. A seed that
a parent set for itself after its start is not visible there, and neither are the variables of a process that has
overwritten its environment to change its title (setproctitle).
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import MutableMapping, Sequence

MOST_PARENTS = 32
MOST_BYTES = 4 * 2**20  # Linux allows no much larger environment


def inherit_variables(environ: "MutableMapping[str, str]", names: "Sequence[str]") -> bool:
    """Set the variables of a list from the nearest parent.

    It is the nearest one with the first variable. Return whether there was one.
    """
    process = os.getppid()
    for _ in range(MOST_PARENTS):
        if process <= 0:
            return False
        variables = _variables(process, names)
        if names[0] in variables:
            for name, value in variables.items():
                environ.setdefault(name, value)
            return True
        process = _parent(process)
    return False


def _variables(process: int, names: "Sequence[str]") -> "MutableMapping[str, str]":
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            entries = file.read(MOST_BYTES).split(b"\0")
    except OSError:  # another user's, or ended
        return {}
    pairs = (entry.decode("utf-8", "surrogateescape").partition("=") for entry in entries)
    return {name: value for name, _, value in pairs if name in names}


def _parent(process: int) -> int:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # the name, in brackets, may hold any text; the state and the parent follow it
            return int(file.read(4096).rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
