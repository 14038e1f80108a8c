"""A reader of the pod list of `kubectl get pods`.

The list comes from `kubectl get pods --output json`. The contents are untrusted.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.errors import UsageError
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import Key, Line, Text

PODS = "pods.json"
LARGEST = 64 << 20  # a pod of the job has 10 to 20 KB
# Of the list: they take up to 120 bytes of memory each, and four bytes can be one. A pod has some 60 objects.
MOST_OBJECTS, MOST_VALUES = 600_000, 2_000_000
INDEX = "batch.kubernetes.io/job-completion-index"
HINT = (
    "fill the directory with the commands that `reprobuild cluster job` prints; docs/cluster.md has them, too"
)
_LARGE_HINT = "save the pods of one job alone, with the command that `reprobuild cluster job` prints"
# A node's name in Kubernetes is the name of a file here; a pod's name begins one. Those of our job are short.
_NODE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_POD = re.compile(r"[a-z0-9]([-a-z0-9.]{0,198}[a-z0-9])?")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,5}")


class PodVariable(Struct, frozen=True):
    """A variable of a container; its value may be empty.

    It is empty if it comes from elsewhere.
    """

    name: Line
    value: Text = ""


class Container(Struct, frozen=True):
    """A container of a pod: its image, command and variables."""

    name: Line
    image: Line = ""
    command: tuple[Text, ...] = ()
    args: tuple[Text, ...] = ()
    env: tuple[PodVariable, ...] = ()


class Pod(Struct, frozen=True, kw_only=True):
    """A pod.

    Attributes:
        node: empty before it has one.
        index: its number in the job; empty if it has none.
        phase: its phase; `why` explains that of a failed one.
        wrong: the reason why it cannot belong to our job, or "".
    """

    name: str
    node: str
    index: str
    phase: str
    why: str
    containers: tuple[Container, ...]
    wrong: str = ""


class _Metadata(Struct, frozen=True):
    name: Line
    annotations: dict[Key, Text] | None = None


class _Spec(Struct, frozen=True, rename="camel"):
    node_name: Line = ""
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()


class _Status(Struct, frozen=True):
    phase: Text = ""
    reason: Text = ""
    message: Text = ""


class _Item(Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec
    status: _Status = _Status()


class _List(Struct, frozen=True):
    items: tuple[_Item, ...]


def read_pods(path: Path) -> tuple[Pod, ...]:
    """Return the pods of a list.

    A pod with invalid names is marked as `wrong`, and the others stay.

    Raises:
        UsageError: the file is missing, is not from kubectl, is too large, or has no pod.
    """
    try:
        content = read_plain(path, LARGEST, links=False)
        _check_size(path, content)
        pod_list = decode_json(content, _List)
    except FileNotFoundError:
        raise UsageError(f"there is no {path}", hint=HINT) from None
    except OSError as err:
        hint = _LARGE_HINT if err.errno == errno.EFBIG else HINT
        raise UsageError(f"{path} cannot be read: {err.strerror}", hint=hint) from None
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise UsageError(f"{path} is no list of pods, as kubectl writes it", hint=HINT) from None
    if not pod_list.items:
        raise UsageError(f"{path} has no pod", hint=HINT)
    return tuple(map(_convert_pod, pod_list.items))


def _check_size(path: Path, content: bytes) -> None:
    """Refuse a list with too many objects or values, before they are in memory.

    A bracket or comma before an escaped quote is in a string, as in the arguments of our containers.
    """
    objects = content.count(b"{") - content.count(b'{\\"')
    values = content.count(b",") - content.count(b',\\"') - content.count(b', \\"')
    for count, most, subject in ((objects, MOST_OBJECTS, "objects"), (values, MOST_VALUES, "values")):
        if count > most:
            raise UsageError(f"{path} has more than {most:,} {subject}", hint=_LARGE_HINT)


def _convert_pod(item: _Item) -> Pod:
    name, node = item.metadata.name, item.spec.node_name
    index = (item.metadata.annotations or {}).get(INDEX, "")
    number = bool(_NUMBER.fullmatch(index))
    why = item.status.reason or item.status.message or "no reason is given"
    return Pod(
        name=name, node=node if _NODE.fullmatch(node) else "", index=index if number else "",
        phase=item.status.phase, why=why[:300], containers=(*item.spec.init_containers, *item.spec.containers),
        wrong="; ".join(_check_pod(name, node, index)),
    )  # fmt: skip


def _check_pod(name: str, node: str, index: str) -> Iterator[str]:
    if not _POD.fullmatch(name):
        yield "its name is none of a pod of the job"
    if node and not _NODE.fullmatch(node):
        yield f"{node[:80]!r} is no name of a node"
    if not _NUMBER.fullmatch(index):
        yield "it has no number in the job"
