"""The commands of kubectl by which a job is run, and what its pods printed is brought here."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from reprobuild.cluster.kubernetes_job import Job, ends_after, names_of
from reprobuild.cluster.kubernetes_pods_json import PODS
from reprobuild.pipeline.verify import Checks

FILE, FOLDER = "job.json", "pods"
LATE = 120  # seconds in which the cluster, which ends the job itself, says so
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


def commands(job: Job, out: Path, checks: Checks, store: Path | None = None) -> str:
    """Return the lines for a shell that remove the job before this one, run it, wait, and judge what pods printed.

    A job ends as Complete or as Failed, and `kubectl wait` waits for one of them alone.

    Args:
        out, store: the folder of results and the store, as the user names them.
        checks: what the job asks; it is to be judged by the same.
    """
    return _LINES.format(
        kubectl=f"kubectl --namespace {job.namespace}" if job.namespace else "kubectl",
        name=job.name, file=FILE, seconds=ends_after(job) + LATE, folder=FOLDER, pods=PODS,
        selector=f"app.kubernetes.io/instance={job.name}", containers=" ".join(names_of(job)),
        out=shlex.quote(str(out)), nodes=job.nodes, options="".join(f" {word}" for word in _options(checks, store)),
    )  # fmt: skip


def _options(checks: Checks, store: Path | None) -> Sequence[str]:
    return [
        *(["--scope", "cpu"] if checks.cpu_only else []),
        *(["--thorough"] if checks.thorough else []),
        *([] if checks.control else ["--no-control"]),
        *(["--store", shlex.quote(str(store))] if store else []),
        *(word for name in checks.probes for word in ("--probe", shlex.quote(name))),
    ]
