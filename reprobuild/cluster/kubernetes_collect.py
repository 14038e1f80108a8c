"""Conversion of pods' logs from `kubectl` into nodes' verdict files.

The output of pods is untrusted.

pods.json           of `kubectl get pods --output json`: the pods, their nodes, containers and ends
POD.CONTAINER.log   of `kubectl logs POD --container CONTAINER`
verdicts/           made of these, for `aggregate`: a separate directory, so a node cannot have the name of
another file

A pod without a node is named by the number of the pod, with a `_`, because names of nodes have none.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from reprobuild import __version__
from reprobuild.cluster.kubernetes_job import SEED, TURNS, container_arguments
from reprobuild.cluster.kubernetes_pods_json import PODS, Pod, read_pods
from reprobuild.cluster.shared_dir import BEGAN, CERTIFICATE, ERROR, LONGEST_NAME, NODES
from reprobuild.image.model import Image
from reprobuild.infra.atomic import atomic_directory
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.infra.untrusted.write_below import write_below
from reprobuild.lock.distributions import distributions
from reprobuild.lock.model import Lock
from reprobuild.pipeline.verify_options import VerifyOptions
from reprobuild.verify.check import check_seed
from reprobuild.verify.determinism.document import LARGEST, Device, Document, read_document
from reprobuild.verify.determinism.expected import Expected
from reprobuild.verify.determinism.judge import judge_smoke
from reprobuild.verify.determinism.summary import judge_determinism
from reprobuild.verify.verdict import VERSION, Smoke, Verdict

VERDICTS = "verdicts"


def write_certificates(
    folder: Path, lock: Lock, image: Image, expected: Mapping[Device, Expected], checks: VerifyOptions, *, now: int,
    nodes: int,
) -> Path:  # fmt: skip
    """Judge the output of pods, and write verdict files.

    The files are for `aggregate`. Earlier files are replaced.

    Args:
        checks: the options of the job.
        nodes: the number of pods of the job; missing pods are listed by their number.

    Returns:
        The directory of the verdict files.

    Raises:
        UsageError: the directory has no pods, or a probe is unknown.
    """
    pods = read_pods(folder / PODS)
    other = _make_pod_check(pods, lock, image, expected, checks)
    numbers = {pod.index for pod in pods}
    names = [f"index_{number}" for number in range(nodes) if str(number) not in numbers]
    with atomic_directory(folder / VERDICTS) as directory:
        for name, pod, why in _name_pods(_sort_pods(pods, other)):
            names.append(name)
            if why:
                write_below(directory, f"{name}{ERROR}", f"pod {pod.name}: {why}".encode(errors="replace"))
                continue
            smoke = list(_judge_pod(folder, pod, lock, expected, checks))
            if smoke:
                verdict = _make_verdict(lock, image, smoke, now, cpu_only=checks.cpu_only)
                write_below(directory, f"{name}{CERTIFICATE}", msgspec.json.encode(verdict))
            else:
                _record_silence(directory, name, pod)
        (directory / NODES).write_text("".join(f"{name}\n" for name in names))
    return folder / VERDICTS


def _record_silence(directory: Path, name: str, pod: Pod) -> None:
    """Record the state of a pod without an answer."""
    reasons = {
        "Failed": f"pod {pod.name} failed: {pod.why}",
        "Succeeded": f"pod {pod.name} came to its end, and its logs are not here",
    }
    if pod.phase in reasons:
        write_below(directory, f"{name}{ERROR}", reasons[pod.phase].encode(errors="replace"))
    elif pod.node:
        write_below(directory, f"{name}{BEGAN}", b"")


def _make_pod_check(
    pods: Iterable[Pod], lock: Lock, image: Image, expected: Mapping[Device, Expected], checks: VerifyOptions
) -> Callable[[Pod], str]:
    """Return a function that explains why pods do not count.

    It returns "" for a pod that answers the questions for this image.
    """
    container_names = {container.name for pod in pods for container in pod.containers}
    questions = {
        name: arguments
        for device, expectation in expected.items()
        if device == "cpu" or container_names & {f"{device}-{turn}" for turn in TURNS}
        for name, arguments in container_arguments(
            device,
            expectation,
            lock,
            controls=checks.controls,
            thorough=checks.thorough,
            probes=checks.probes,
        ).items()
    }
    seed = str(check_seed(lock))

    def other(pod: Pod) -> str:
        if pod.wrong:
            return pod.wrong
        containers = [container for container in pod.containers if container.name in questions]
        if not {f"cpu-{turn}" for turn in TURNS} <= {container.name for container in containers}:
            return "it has not the containers of the job"
        for container in containers:
            if not container.image.endswith(f"@{image.manifest}"):
                return f"it ran another image: {container.image[:200] or 'none is told'}"
            seeds = [variable.value for variable in container.env if variable.name == SEED]
            if container.command or list(container.args) != questions[container.name] or seeds != [seed]:
                return "it was asked otherwise: name the --probe, --no-controls and --thorough of the job"
        return ""

    return other


def _sort_pods(pods: Iterable[Pod], other: Callable[[Pod], str]) -> Iterator[tuple[Pod, str]]:
    """Yield the pods to count, then all others.

    The former are each pod that succeeded, and the last pod of an index without one.
    """
    judged = [(pod, other(pod)) for pod in pods]
    good = [pod for pod, why in judged if not why]
    done = [pod for pod in good if pod.phase == "Succeeded"]
    numbers = {pod.index for pod in done}
    last = {pod.index: pod for pod in good if pod.index not in numbers}
    yield from ((pod, "") for pod in (*done, *last.values()))
    yield from ((pod, why) for pod, why in judged if why)


def _name_pods(pods: Iterable[tuple[Pod, str]]) -> Iterator[tuple[str, Pod, str]]:
    """Yield each pod with its node's name and reason.

    The reason is that against counting it, empty for a pod that counts. A second pod on one node does not
    count: the node would be compared with itself. In that case another node was not reached, because the
    scheduler ignores completed pods when it spreads others.
    """
    taken: dict[str, Pod] = {}
    for number, (pod, why) in enumerate(pods):
        name = _shorten_name(pod.node)
        if other := taken.get(name):
            why = why or f"it ran on {pod.node}, as {other.name} did, and so another node was not asked"
        if not name or other:
            name = f"index_{pod.index}" if pod.index else f"pod_{number}"
        if name in taken:
            name = f"pod_{number}"
        taken[name] = pod
        yield name, pod, why


def _shorten_name(node: str) -> str:
    """Return a node's name, shortened if it is too long.

    A hash keeps a shortened name unique.
    """
    if len(node) <= LONGEST_NAME:
        return node
    return f"{node[: LONGEST_NAME - 20]}_{hashlib.sha256(node.encode()).hexdigest()[:16]}"


def _make_verdict(lock: Lock, image: Image, smoke: list[Smoke], now: int, *, cpu_only: bool) -> Verdict:
    by_device: dict[str, Smoke] = {result.device: result for result in smoke}
    determinism, notes = judge_determinism(
        by_device.get("cpu"), by_device.get("cuda"), (), cpu_only=cpu_only, profile=lock.profile
    )
    moment = datetime.datetime.fromtimestamp(now, datetime.timezone.utc)
    return Verdict(
        version=VERSION, made=f"{moment:%Y-%m-%dT%H:%M:%SZ}", program=__version__, image=image.manifest,
        tree=image.tree, lock=f"sha256:{lock.digest}", seed=check_seed(lock), profile=lock.profile,
        determinism=determinism, round_trip="not-run", smoke=tuple(smoke), comparisons=(), differences=(),
        notes=tuple(notes), engine="kubernetes", parts=("probes",),
    )  # fmt: skip


def _judge_pod(
    folder: Path, pod: Pod, lock: Lock, expected: Mapping[Device, Expected], checks: VerifyOptions
) -> Iterator[Smoke]:
    """Yield the judged answers of a pod.

    A pod without logs that can be read has none.
    """
    pinned = set(distributions(lock))
    for device, expectation in expected.items():
        files = [folder / f"{pod.name}.{device}-{turn}.log" for turn in TURNS]
        try:
            first, second = (_read_log(path, device) for path in files)
        except OSError:
            continue
        yield judge_smoke(
            device, first, second, expectation, controls=checks.controls, thorough=checks.thorough,
            profile=lock.profile, pinned=pinned, only=checks.probes,
        )  # fmt: skip


def _read_log(path: Path, device: Device) -> Document | str:
    """Return the document in a log with standard error.

    It is the last one that begins and ends a line.

    Raises:
        OSError: it is missing, is a link or no plain file, or cannot be read.
    """
    with open_plain(path, links=False)[0] as stream:
        data = b"\n" + stream.read(2 * LARGEST).rstrip() + b"\n"
    begin, end = data.rfind(b"\n{\n"), data.rfind(b"\n}\n")
    if begin < 0 or end < begin:
        return "the log of its container holds no document"
    return read_document(data[begin : end + 3].strip(), device)
