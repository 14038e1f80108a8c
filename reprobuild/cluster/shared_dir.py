"""The directory that the nodes of a cluster share.

It has small files of nodes, and their contents are untrusted:

nodes           the names of all that were asked, one in each line
step            those of them that the scheduler still has
NODE.json       the verdict file, or the document of a recorded run; it appears complete or not at all
NODE.trace/     the records of a recorded run
NODE.error      the node's own reason for a missing verdict
NODE.began      the node has begun
NODE.ended      the exit code of the node's process
NODE.told       the output of the process
NODE.log        its errors
NODE.lost       the scheduler's reason to count the node as lost
collectives-*/  the collectives between nodes on one kind of device: `nodes`, `step`, and `told`, `ended`,
`log`,
    `lost` of each, or `not-run`, the reason why they were not run, though they were requested
"""

from __future__ import annotations

import errno
import re
from pathlib import Path

from reprobuild.cluster.answer_table import escape_text
from reprobuild.errors import UsageError
from reprobuild.infra.untrusted.regular_files import open_plain

NODES, CERTIFICATE, BEGAN, ENDED, ERROR = "nodes", ".json", ".began", ".ended", ".error"
TOLD, LOG, LOST, COLLECTIVES = ".told", ".log", ".lost", "collectives-"
NOT_RUN, STEP, TRACE = "not-run", "step", ".trace"
# With the prefix and suffix of a file that is being written it stays within the limit of a name, 255.
LONGEST_NAME = 200
NODE = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{LONGEST_NAME - 1}}}")
LARGEST = 4096  # bytes of a file other than a verdict
LARGEST_LIST = 8 << 20
MOST_NODES = 100_000
HINT = "run `reprobuild cluster worker OUT --output DIR` on each node: it writes DIR/NODE.json"


def read_node_list(folder: Path) -> tuple[str, ...]:
    """Return the nodes that were asked, or ().

    The result is () without a list.

    Raises:
        UsageError: the list is not a file, or cannot be read; a name is not valid for a node.
    """
    path = folder / NODES
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UsageError(f"{path} is a link, or otherwise no file", hint=HINT)
    if not path.exists():
        return ()
    try:
        names = read_small(path, LARGEST_LIST).split()
    except OSError as err:
        raise UsageError(f"{path} cannot be read: {err.strerror}", hint=HINT) from None
    if bad := next((name for name in names if not NODE.fullmatch(name)), None):
        raise UsageError(f"{path}: {escape_text(bad)!r} is no name of a node", hint=HINT)
    if len(names) > MOST_NODES:
        raise UsageError(f"{path} has more than {MOST_NODES} names", hint=HINT)
    return tuple(dict.fromkeys(names))


def node_list_time(folder: Path) -> float | None:
    """Return the time of the list of nodes, or None.

    It is in seconds since 1970, and None without a list.
    """
    try:
        return (folder / NODES).stat().st_mtime
    except OSError:
        return None


def read_small(path: Path, largest: int = LARGEST) -> str:
    """Return the beginning of a small file, or a note.

    The note states that it is not a regular file.

    Raises:
        OSError: it cannot be read.
    """
    try:
        stream, _ = open_plain(path, links=False)
    except OSError as err:
        if err.errno not in (errno.ELOOP, errno.EINVAL, errno.EISDIR, errno.ENOENT, errno.ENXIO):
            raise
        return f"{path.name} is no file"
    with stream:
        return stream.read(largest).decode(errors="replace")


def describe_exit_code(text: str) -> str:
    """Return a process's end in words, from its exit code."""
    code = text.strip()
    if not re.fullmatch(r"[0-9]{1,3}", code) or int(code) > 255:
        return "its process ended, and how is not known"
    if int(code) > 128:
        killed = ", as for too much memory" if code == "137" else ""
        return f"its process was killed by signal {int(code) - 128}{killed}"
    return f"its process ended with exit code {code}"
