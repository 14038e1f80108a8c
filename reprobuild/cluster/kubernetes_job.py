"""The determinism test through Kubernetes, one pod a node.

It is an Indexed Job. Results are read from the logs of the pods. Each pod runs the image itself, so a node
needs neither an engine of ours nor this program. The questions of the test are containers of one pod, one
after the other: all but the last are init containers, each fresh, as in `verify`. Each prints its answer;
`kubernetes_collect` judges it here, so that no node judges itself. Pods share no data.

https://kubernetes.io/docs/concepts/workloads/controllers/job/
https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/ (`minDomains`: 1.30, beta
in 1.27)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from reprobuild.errors import UsageError
from reprobuild.lock.model import Lock
from reprobuild.verify.check import check_seed
from reprobuild.verify.determinism.document import Device
from reprobuild.verify.determinism.expected import Expected
from reprobuild.verify.determinism.run import PROGRAM, PYTHON, container_options

IMAGES = 600  # seconds for pulling images and scheduling pods
HOST = "kubernetes.io/hostname"
TURNS = ("first", "second")
SEED = "REPROBUILD_SEED"
_LABEL = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_SECRET = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,50}[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DIGEST = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._:/-]*)(@sha256:[0-9a-f]{64})?")


class KubernetesJob(Struct, frozen=True, kw_only=True):
    """A request for Kubernetes.

    Attributes:
        image: the repository of the pushed image; the digest of the image's manifest is appended.
        nodes: the number of nodes, each with one pod.
        name: of the job.
        namespace: empty for that of the context.
        gpus: of each node; 0 for none.
        resource: the resource name of the GPUs.
        selector: labels of the nodes.
        pull_secrets: names of the secrets by which nodes may pull the image; the cluster holds their
            contents.
        deadline: seconds that a pod may run.
        retries: the number of restarts of a failed pod.
    """

    image: str
    nodes: int
    name: str = "reprobuild-verify"
    namespace: str = ""
    gpus: int = 0
    resource: str = "nvidia.com/gpu"
    selector: dict[str, str] = {}
    pull_secrets: tuple[str, ...] = ()
    deadline: int = 1800
    retries: int = 0


def job_manifest(
    job: KubernetesJob, lock: Lock, digest: str, expected: Mapping[Device, Expected], *, controls: bool, thorough: bool,
    probes: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Return the Job, of `batch/v1`.

    Args:
        digest: of the image's manifest.
        expected: the questions that the image can answer.

    Raises:
        UsageError: Kubernetes does not allow a name, or a probe is unknown.
    """
    match = _DIGEST.fullmatch(job.image)
    if not match:
        raise UsageError(
            f"{job.image!r} is no repository", hint="name the one that `reprobuild push` wrote to: HOST/NAME"
        )
    if not _NAME.fullmatch(job.name):  # the names of pods contain it, so it is shorter than a namespace's
        raise UsageError(
            f"{job.name!r} is no name of a job", hint="use lower-case letters, digits and `-`, 52 at most"
        )
    if job.namespace and not _NAMESPACE.fullmatch(job.namespace):
        raise UsageError(
            f"{job.namespace!r} is no name of a namespace", hint="`kubectl get namespaces` lists them"
        )
    for name in job.pull_secrets:
        if not _SECRET.fullmatch(name):
            raise UsageError(f"{name!r} is no name of a secret", hint="`kubectl get secrets` lists them")
    repository = re.sub(r":[^/:]*$", "", match["name"])
    containers = [
        _make_container(job, name, f"{repository}@{digest}", arguments, check_seed(lock))
        for device in _devices(job)
        for name, arguments in container_arguments(
            device, expected[device], lock, controls=controls, thorough=thorough, probes=probes
        ).items()
    ]
    labels = {"app.kubernetes.io/name": "reprobuild", "app.kubernetes.io/instance": job.name}
    pod = {
        "restartPolicy": "Never", "activeDeadlineSeconds": job.deadline, "enableServiceLinks": False,
        "automountServiceAccountToken": False, "initContainers": containers[:-1], "containers": containers[-1:],
        "topologySpreadConstraints": [{
            # One pod on each node: with `minDomains` a node may have one pod more than none, and not a
            # second. A completed pod is not counted, so another may follow on that node: `kubernetes_collect`
            # reports it.
            "maxSkew": 1, "minDomains": job.nodes, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
        }],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
        **({"imagePullSecrets": [{"name": name} for name in job.pull_secrets]} if job.pull_secrets else {}),
        **({"nodeSelector": dict(sorted(job.selector.items()))} if job.selector else {}),
        **({"tolerations": [{"key": job.resource, "operator": "Exists", "effect": "NoSchedule"}]} if job.gpus else {}),
    }  # fmt: skip
    return {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": job.name, "labels": labels, **({"namespace": job.namespace} if job.namespace else {}),
        },
        "spec": {
            "completionMode": "Indexed", "completions": job.nodes, "parallelism": job.nodes,
            "backoffLimitPerIndex": job.retries, "activeDeadlineSeconds": job_time_limit(job),
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }  # fmt: skip


def job_time_limit(job: KubernetesJob) -> int:
    """Return a job's time limit from its start, in seconds."""
    return job.deadline * (1 + job.retries) + IMAGES


def container_names(job: KubernetesJob) -> tuple[str, ...]:
    """Return the names of a job's containers, in order.

    They are those of each pod.
    """
    return tuple(f"{device}-{turn}" for device in _devices(job) for turn in TURNS)


def _devices(job: KubernetesJob) -> tuple[Device, ...]:
    return ("cpu", "cuda") if job.gpus else ("cpu",)


def parse_labels(labels: Sequence[str]) -> dict[str, str]:
    """Return the labels of `KEY=VALUE` texts.

    Raises:
        UsageError: a text is not a label.
    """
    pairs = {}
    for text in labels:
        key, equals, value = text.partition("=")
        if not equals or not _LABEL.fullmatch(key) or not _VALUE.fullmatch(value):
            raise UsageError(
                f"{text!r} is not a valid label of a node", hint="for example: --node-selector pool=h100"
            )
        pairs[key] = value
    return pairs


def container_arguments(
    device: Device, expectation: Expected, lock: Lock, *, controls: bool, thorough: bool, probes: Sequence[str] = (),
) -> dict[str, list[str]]:  # fmt: skip
    """Return the arguments of a device's containers, by name.

    Raises:
        UsageError: the image lacks a named probe.
    """
    option_sets = container_options(
        device, expectation, seed=check_seed(lock), controls=controls, thorough=thorough, probes=probes
    )
    return {
        f"{device}-{turn}": [PYTHON, PROGRAM, json.dumps(options, sort_keys=True)]
        for turn, options in zip(TURNS, option_sets, strict=True)
    }


def _make_container(
    job: KubernetesJob, name: str, image: str, arguments: list[str], seed: int
) -> dict[str, Any]:
    """Return a container that answers one question.

    The image's own entrypoint starts it, seeded.
    """
    limits = {job.resource: job.gpus} if name.startswith("cuda") else {}
    return {
        "name": name, "image": image, "args": arguments, "env": [{"name": SEED, "value": str(seed)}],
        # The default in Kubernetes is 64 MiB, too little for collectives between GPUs, and no other field
        # sets it.
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
        "securityContext": {"allowPrivilegeEscalation": False},
        **({"resources": {"limits": limits}} if limits else {}),
    }  # fmt: skip
