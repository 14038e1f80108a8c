"""The commands of kubectl that are printed: docs/cluster.md has them, and they lead from the job to the answer.

No cluster is here, so a stand-in for kubectl runs the job that it is given: a pod on each node, which prints what the
determinism test would.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reprobuild.cluster import check
from reprobuild.cluster.kubernetes_commands import shell_commands
from reprobuild.cluster.kubernetes_job import KubernetesJob
from reprobuild.context import RunContext
from reprobuild.errors import UsageError
from reprobuild.image.model import Image
from reprobuild.infra.http.client import Net
from reprobuild.pipeline.verify_options import VerifyOptions
from reprobuild.store.store import Store
from tests.conftest import PROGRAM, ROOT, reprobuild
from tests.image.made import Made
from tests.store.sealing import built, sealed
from tests.verify.samples import SHA, document, make_lock

JOB = KubernetesJob(image="registry.example/team/frozen", nodes=64, gpus=8, namespace="ml")

# Its nodes are n0, n1 and so on; `ended` says how the job ends, and `double` puts the second pod on the first node.
KUBECTL = """\
#!{python}
import json, os, sys
from pathlib import Path
here = Path({here!r})
words = sys.argv[1:]
with open(here / "calls", "a") as log:
    log.write(json.dumps(words) + "\\n")
if words[:2] != ["--namespace", "2-ml"]:
    sys.exit("the wrong namespace")
words = words[2:]
name = "reprobuild-verify-{{}}-abcde".format
def pods():
    spec = json.loads((here / "applied").read_text())["spec"]
    for number in range(spec["completions"]):
        node = "n0" if number == 1 and (here / "double").exists() else "n%d" % number
        index = {{"batch.kubernetes.io/job-completion-index": str(number)}}
        yield {{
            "metadata": {{"name": name(number), "annotations": index}},
            "spec": dict(spec["template"]["spec"], nodeName=node), "status": {{"phase": "Succeeded"}},
        }}
if words[0] == "delete":
    assert "--ignore-not-found" in words
elif words[0] == "apply":
    (here / "applied").write_text(Path(words[words.index("--filename") + 1]).read_text())
elif words[:2] == ["get", "job"]:
    asked = here / "asked"
    times = int(asked.read_text()) if asked.exists() else 0
    asked.write_text(str(times + 1))
    print("" if times < 2 else (here / "ended").read_text(), end="")
elif words[:2] == ["get", "pods"] and words[-1] == "json":
    print(json.dumps({{"items": list(pods())}}))
elif words[:2] == ["get", "pods"]:
    print("".join(each["metadata"]["name"] + "\\n" for each in pods()), end="")
elif words[0] == "logs":
    turn = words[words.index("--container") + 1]
    if not (here / turn).exists():
        print("half of it")
        sys.exit("no such container")
    print("Using seed: 42\\n" + (here / turn).read_text())
else:
    sys.exit(2)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with an image in `out`, its store in `made`, and the stand-in."""
    made = Made(tmp_path / "made")
    lock = sealed(made, "alpha")
    made.store.release()
    built(lock, tmp_path / "reprobuild.lock", made.store, tmp_path / "out")
    (tmp_path / "bin").mkdir()
    (tmp_path / "cluster").mkdir()
    for name, text in (
        ("kubectl", KUBECTL.format(python=sys.executable, here=str(tmp_path / "cluster"))),
        ("reprobuild", f'#!/bin/sh\nPYTHONPATH={ROOT} exec {" ".join(PROGRAM)} "$@"\n'),
    ):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    for turn in ("first", "second"):
        found = document(quick=turn == "second")
        (tmp_path / "cluster" / f"cpu-{turn}").write_text(json.dumps(found, indent=1))
    return tmp_path


def run(place: Path, ended: str) -> subprocess.CompletedProcess[str]:
    """Print the job, and run the lines that are printed with it, in a shell."""
    (place / "cluster" / "ended").write_text(ended)
    printed = reprobuild(
        "cluster", "job", "out", "--nodes", "3", "--repository", "registry.example/team/frozen",
        "--namespace", "2-ml", "--timeout", "60", "--store", "made/store", "--json", cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert printed.returncode == 0, printed.stderr
    (place / "job.json").write_text(printed.stdout)
    lines = printed.stderr[printed.stderr.index("kubectl --namespace 2-ml delete") :]
    assert "timeout 780 sh -c" in lines
    return subprocess.run(
        ["sh", "-c", lines.replace("sleep 10", "sleep 0.1")], cwd=place, capture_output=True, text=True, timeout=600,
        env={**os.environ, "PATH": f"{place / 'bin'}:{os.environ['PATH']}"}, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("ended", ["SuccessCriteriaMet Complete", "FailureTarget Failed"])
def test_the_printed_lines_lead_from_the_job_to_the_answer(place: Path, ended: str) -> None:
    done = run(place, ended)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "cluster: same; 3 of 3 nodes answered" in done.stdout
    assert "was not asked" not in done.stdout
    calls = [json.loads(line)[2:] for line in (place / "cluster" / "calls").read_text().splitlines()]
    assert [words[0] for words in calls[:2]] == ["delete", "apply"]
    assert sum(words[:2] == ["get", "job"] for words in calls) == 3
    again = run(place, ended)
    assert (
        again.returncode != 0
    )  # the directory has the pods of the job before, which say nothing of this one
    assert "pods" in again.stderr
    assert "cluster:" not in again.stdout


def test_two_pods_on_one_node_leave_it_open(place: Path) -> None:
    (place / "cluster" / "double").touch()
    done = run(place, "Complete")
    assert done.returncode == 9, done.stderr + done.stdout
    assert "index_1: gave no answer: " in done.stdout
    assert "cluster: inconclusive; 2 of 3 nodes answered" in done.stdout


def test_half_a_log_is_not_kept(place: Path) -> None:
    (place / "cluster" / "cpu-second").unlink()
    done = run(place, "Complete")
    assert done.returncode == 9, done.stderr + done.stdout
    assert sorted(path.name for path in (place / "pods").glob("*.log")) == [
        f"reprobuild-verify-{number}-abcde.cpu-first.log" for number in range(3)
    ]


def test_the_page_has_the_lines_that_are_printed() -> None:
    page = (ROOT / "docs" / "cluster.md").read_text()
    lines = shell_commands(JOB, Path("frozen"), VerifyOptions())
    assert "".join(f"    {line}\n" for line in lines.splitlines()) in page
    words = "--nodes 64 --node-gpus 8 --repository registry.example/team/frozen --namespace ml > job.json"
    assert f"    reprobuild cluster job frozen {words}\n" in page


def test_the_lines_have_what_the_job_was_asked() -> None:
    job = KubernetesJob(image="h/n", nodes=2, deadline=7200, retries=1)
    lines = shell_commands(
        job,
        Path("of us"),
        VerifyOptions(cpu_only=True, controls=False, thorough=True, probes=("conv2d",)),
        Path("s"),
    )
    assert "--namespace" not in lines
    assert "cuda-first" not in lines
    assert f"timeout {2 * 7200 + 600 + 120} sh" in lines
    options = "--cpu-only --thorough --no-controls --store s --probe conv2d"
    assert lines.endswith(f"reprobuild cluster gather-pods 'of us' pods --nodes 2 {options}\n")


def test_gpus_that_are_not_to_be_asked_are_refused(tmp_path: Path) -> None:
    session = RunContext(
        store=Store(tmp_path / "store"), net=Net(offline=True), env={}, folder=tmp_path, say=print,
        progress=lambda *_, **__: None, now=0,
    )  # fmt: skip
    image = Image(
        layout="image",
        reference="r",
        tree=f"sha256:{SHA}",
        config=f"sha256:{SHA}",
        manifest=f"sha256:{SHA}",
        layers=1,
    )
    with pytest.raises(UsageError, match="--cpu-only asks no GPU, but --node-gpus is 8") as caught:
        check.kubernetes_manifest(make_lock(), image, session, VerifyOptions(cpu_only=True), JOB)
    assert caught.value.hint == "leave one of the two options out"
