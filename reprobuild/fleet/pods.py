"""The answers of pods, as `kubectl` gives them, become the certificates of nodes. What pods print may be anything.

pods.json           of `kubectl get pods --output json`: which pod ran on which node, and how it ended
POD.CONTAINER.log   of `kubectl logs POD --container CONTAINER`
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from reprobuild import __version__
from reprobuild.errors import UsageError
from reprobuild.fleet.folder import BEGAN, CERTIFICATE, ERROR, NODE, NODES
from reprobuild.fleet.kubernetes import TURNS
from reprobuild.image.build import Image
from reprobuild.lock import Lock
from reprobuild.verify.check import seed_of
from reprobuild.verify.document import LARGEST, Device, Document, read_document
from reprobuild.verify.expected import Expected
from reprobuild.verify.headline import judge_determinism
from reprobuild.verify.judge import judge_smoke
from reprobuild.verify.verdict import VERSION, Smoke, Verdict
from reprobuild.whole import write_file

PODS = "pods.json"
LARGEST_PODS = 256 << 20
INDEX = "batch.kubernetes.io/job-completion-index"
HINT = "docs/fleets.md has the two commands of kubectl that fill it"


class Pod(Struct, frozen=True, kw_only=True):
    """A pod: its name, its node (empty before it has one), its number in the job, and how it ended."""

    name: str
    node: str
    index: str
    phase: str
    why: str


def certificates(
    folder: Path, lock: Lock, image: Image, expected: Mapping[Device, Expected], *, controls: bool, thorough: bool,
    probes: tuple[str, ...], now: int, nodes: int,
) -> None:  # fmt: skip
    """Judge what pods printed, and write the certificates into the same folder, as `gathering` reads them.

    Args:
        nodes: how many pods the job was to have; those of which nothing is known are asked for by their number.

    Raises:
        UsageError: the folder has no pods, the number is not told, or two pods were on one node.
    """
    if not nodes:
        raise UsageError("how many nodes were asked is not told", hint="add the --nodes N of the job")
    pods = list(_read_pods(folder / PODS))
    if not pods:
        raise UsageError(f"{folder / PODS} has no pod", hint=HINT)
    _refuse_two(pods)
    numbers = {pod.index for pod in pods}
    lost = [f"index-{number}" for number in range(nodes) if str(number) not in numbers]
    write_file(folder / NODES, "".join(f"{name}\n" for name in [*map(_name, pods), *lost]).encode())
    for name in lost:
        _clear(folder, name)
    for pod in pods:
        name = _name(pod)
        _clear(folder, name)
        smoke = list(_smoke(folder, pod, lock, expected, controls=controls, thorough=thorough, probes=probes))
        if smoke:
            write_file(
                folder / f"{name}{CERTIFICATE}", msgspec.json.encode(_verdict(lock, image, smoke, now))
            )
        elif pod.phase == "Failed":
            write_file(folder / f"{name}{ERROR}", f"pod {pod.name} failed: {pod.why}".encode())
        elif pod.node:
            (folder / f"{name}{BEGAN}").touch()


def _clear(folder: Path, name: str) -> None:
    """Remove what an earlier judgement of these pods left of a node."""
    for suffix in (CERTIFICATE, ERROR, BEGAN):
        (folder / f"{name}{suffix}").unlink(missing_ok=True)


def _refuse_two(pods: Sequence[Pod]) -> None:
    """Refuse two pods on one node: it would be compared with itself, and another node not at all."""
    seen: dict[str, Pod] = {}
    for pod in pods:
        other = seen.setdefault(_name(pod), pod)
        if other is not pod:
            raise UsageError(
                f"the pods {other.name} and {pod.name} were both on {_name(pod)}",
                hint="one pod on each node is needed: delete the job, and apply it again as it is printed",
            )


def _name(pod: Pod) -> str:
    """Return the name of a pod's node; without one the number of the pod."""
    return pod.node or f"index-{pod.index}"


def _verdict(lock: Lock, image: Image, smoke: list[Smoke], now: int) -> Verdict:
    by_device: dict[str, Smoke] = {each.device: each for each in smoke}
    own, notes = judge_determinism(
        by_device.get("cpu"), by_device.get("cuda"), (), cpu_only=False, profile=lock.profile
    )
    made = datetime.datetime.fromtimestamp(now, datetime.timezone.utc)
    return Verdict(
        version=VERSION, made=f"{made:%Y-%m-%dT%H:%M:%SZ}", program=__version__, image=image.manifest, tree=image.tree,
        lock=f"sha256:{lock.digest}", seed=seed_of(lock), profile=lock.profile, determinism=own, round_trip="not-run",
        smoke=tuple(smoke), comparisons=(), differences=(), notes=tuple(notes), engine="kubernetes",
    )  # fmt: skip


def _smoke(
    folder: Path, pod: Pod, lock: Lock, expected: Mapping[Device, Expected], *, controls: bool, thorough: bool,
    probes: tuple[str, ...],
) -> Iterator[Smoke]:  # fmt: skip
    """Yield what a pod answered, judged; nothing where it printed nothing."""
    pinned = {wheel.name for wheel in lock.wheels if wheel.role == "environment"}
    for device, wanted in expected.items():
        files = [folder / f"{pod.name}.{device}-{turn}.log" for turn in TURNS]
        if not all(path.is_file() and not path.is_symlink() for path in files):
            continue
        first, second = (_document(path, device) for path in files)
        yield judge_smoke(
            device, first, second, wanted, controls=controls, thorough=thorough, profile=lock.profile, pinned=pinned,
            only=probes,
        )  # fmt: skip


def _document(path: Path, device: Device) -> Document | str:
    """Return the document in a log, which has standard error in it, too: it is the last that begins and ends a line."""
    with path.open("rb") as stream:
        data = b"\n" + stream.read(2 * LARGEST).rstrip() + b"\n"
    begin, end = data.rfind(b"\n{\n"), data.rfind(b"\n}\n")
    if begin < 0 or end < begin:
        return "the log of its container holds no document"
    return read_document(data[begin : end + 3].strip(), device)


def _read_pods(path: Path) -> Iterator[Pod]:
    """Yield the pods, the last of each index.

    Raises:
        UsageError: the file is none of kubectl.
    """
    try:
        with path.open("rb") as stream:
            found = msgspec.json.decode(stream.read(LARGEST_PODS), type=dict[str, Any])
        items = [_pod(item) for item in found["items"]]
    except FileNotFoundError:
        raise UsageError(f"there is no {path}", hint=HINT) from None
    except (msgspec.MsgspecError, RecursionError, ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{path} is no list of pods, as kubectl writes it", hint=HINT) from None
    last: dict[str, Pod] = {}
    for pod in items:  # one that succeeded is not replaced by one that did not
        if pod.index not in last or last[pod.index].phase != "Succeeded":
            last[pod.index] = pod
    yield from last.values()


def _pod(item: dict[str, Any]) -> Pod:
    status, meta = item.get("status", {}), item["metadata"]
    name, node = str(meta["name"]), str(item["spec"].get("nodeName", ""))
    index = str((meta.get("annotations") or {}).get(INDEX, name))
    if not all(NODE.fullmatch(text) for text in (name, index)) or (node and not NODE.fullmatch(node)):
        raise ValueError(name)
    why = str(status.get("reason") or status.get("message") or "no reason is given")
    return Pod(name=name, node=node, index=index, phase=str(status.get("phase", "")), why=why[:300])
