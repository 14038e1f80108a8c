"""The kubectl commands that run and read a job."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from reprobuild.cluster.kubernetes_job import KubernetesJob, container_names, job_time_limit
from reprobuild.cluster.kubernetes_pods_json import PODS
from reprobuild.infra.shell_words import quote_path
from reprobuild.pipeline.verify_options import VerifyOptions

FILE, FOLDER = "job.json", "pods"
LATE = 120  # seconds for the cluster, which ends the job itself, to report that
_LINES = """\
{kubectl} delete job {name} --ignore-not-found --cascade=foreground
{kubectl} apply --filename {file}
timeout {seconds} sh -c 'until {kubectl} get job {name} --output "jsonpath={{.status.conditions[*].type}}" |
  grep --quiet --word-regexp --regexp=Complete --regexp=Failed; do sleep 10; done'
mkdir {folder} && {kubectl} get pods --selector {selector} --output json > {folder}/{pods} &&
  {kubectl} get pods --selector {selector} --output 'jsonpath={{range .items[*]}}{{.metadata.name}}{{"\\n"}}{{end}}' |
  while read -r pod; do for one in {containers}; do
    {kubectl} logs "$pod" --container "$one" > "{folder}/$pod.$one.log" || rm "{folder}/$pod.$one.log"; done; done &&
  reprobuild cluster gather-pods {out} {folder} --nodes {nodes}{options}
"""


def shell_commands(job: KubernetesJob, out: Path, checks: VerifyOptions, store: Path | None = None) -> str:
    """Return the shell lines that run and judge a job.

    They first remove the job before this one, and wait for the end. A job ends as Complete or as Failed, and
    `kubectl wait` waits for only one of them.

    Args:
        out, store: the output directory and the store, as the user names them.
        checks: the options of the job, and of the judgement.
    """
    return _LINES.format(
        kubectl=f"kubectl --namespace {job.namespace}" if job.namespace else "kubectl",
        name=job.name, file=FILE, seconds=job_time_limit(job) + LATE, folder=FOLDER, pods=PODS,
        selector=f"app.kubernetes.io/instance={job.name}", containers=" ".join(container_names(job)),
        out=quote_path(out), nodes=job.nodes,
        options="".join(f" {word}" for word in _verify_options(checks, store)),
    )  # fmt: skip


def _verify_options(checks: VerifyOptions, store: Path | None) -> Sequence[str]:
    return [
        *(["--cpu-only"] if checks.cpu_only else []),
        *(["--thorough"] if checks.thorough else []),
        *([] if checks.controls else ["--no-controls"]),
        *(["--store", quote_path(store)] if store else []),
        *(word for name in checks.probes for word in ("--probe", shlex.quote(name))),
    ]
