"""The experiment on ordinary environments.

Each is made and captured, and `from-snapshot` makes its image, as a person without knowledge of options does.

The result of each is kept, so that a run that was cut off goes on there. The job of each environment runs on the
machine and in the image; both print digests of their results.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from proof.environments.cases import PRINT, Case
from proof.environments.machine import Machine
from proof.evidence import ROOT, machine

MODULES = (
    "reprobuild/compare/environments",
    "reprobuild/image",
    "reprobuild/lock",
    "reprobuild/realise",
    "reprobuild/resolve",
    "reprobuild/snapshot",
    "reprobuild/verify",
    "reprobuild_runtime/capture",
)
PROGRAM = (sys.executable, "-m", "reprobuild.cli")
HEAD = (
    "environment",
    "machine",
    "captured by",
    "decisions",
    "exit code",
    "refused",
    "minutes",
    "MB",
    "CPU",
    "its job in the image",
)
# The decision that the hint of `lock` offers for a Python that cannot be had; the machine is asked for it at once.
_PACK = "--include interpreter"
_RECIPE = re.compile(r"```bash\n(REPRO_DIR=.*?)```", re.DOTALL)


class Environments:
    """The experiment.

    Args:
        store: gets the files of the environments.
        folder: gets the machines, the environments, and `done.json`.

    Raises:
        SystemExit: the directory is inside a repository, so `capture` would take that for the one of each job.
    """

    def __init__(self, store: Path, folder: Path) -> None:
        if above := next((path for path in folder.absolute().parents if (path / ".git").exists()), None):
            raise SystemExit(
                f"{folder} is inside the repository {above}; name another directory: make proof PROOF=DIR"
            )
        self.store, self.folder = store, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "done.json"
        # The remotes of repositories: a directory that a server publishes, as git's "dumb" protocol has it.
        files = partial(SimpleHTTPRequestHandler, directory=str(folder))
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), files)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def done(self) -> dict[str, dict[str, Any]]:
        """Return the results so far, by the environments' names."""
        found: dict[str, dict[str, Any]] = json.loads(self.path.read_bytes()) if self.path.exists() else {}
        return found

    def do(self, cases: Sequence[Case]) -> list[dict[str, Any]]:
        """Do each case that is not done, and return all results."""
        done = self.done()
        for case in cases:
            if case.name not in done:
                done[case.name] = self._one(case)
                self.path.write_text(json.dumps(done, indent=1))
                print(json.dumps(done[case.name]), flush=True)
        return [done[case.name] for case in cases]

    def _one(self, case: Case) -> dict[str, Any]:
        work = self.folder / re.sub(r"[^a-z0-9.]+", "-", case.name.lower())
        shutil.rmtree(work, ignore_errors=True)
        (work / "job").mkdir(parents=True)
        facts = {
            "name": case.name,
            "machine": case.machine,
            "capture": case.capture,
            "commit": machine()["commit"],
        }
        made = self._prepare(case, work) or self._snapshot(case, work)
        if made:
            return {**facts, "not made": made}
        found = {**facts, **self._image(case, work)}
        if _PACK in found.get("hint", "") and _PACK not in case.options:
            shutil.rmtree(work / "snapshot")
            again = msgspec.structs.replace(case, capture="capture", options=_PACK)
            if made := self._snapshot(again, work):
                return {**facts, "not made": made}
            found = {**facts, "first hint": found["hint"], "decisions": [_PACK], **self._image(case, work)}
        if (work / "frozen" / "image.json").exists():
            found["job"] = self._job(work)
        _forget(work)
        return found

    def _prepare(self, case: Case, work: Path) -> str:
        """Make the environment, run its job, and return a failure."""
        remote = f"http://127.0.0.1:{self.server.server_port}/{work.name}"
        (work / "job" / "train.py").write_text(PRINT + case.job)
        shutil.copyfile(ROOT / "reprobuild_runtime" / "capture.py", work / "capture.py")
        tools = f"export UV={_uv()} PYENV={_pyenv()} REMOTE={remote} GIT_CONFIG_NOSYSTEM=1\n"
        make = self._step(case, work, "environment", f"{tools}{case.project}\n{case.make}")
        return make or self._step(
            case, work, "job", _inside(case, f"{_python(case)} train.py > ../answer.txt")
        )

    def _snapshot(self, case: Case, work: Path) -> str:
        """Take the snapshot, and return a failure."""
        command = f"{_python(case)} ../capture.py -o ../snapshot {case.options}"
        script = command if case.capture == "capture" else recipe(case)
        return self._step(case, work, "snapshot", _inside(case, script))

    def _step(self, case: Case, work: Path, name: str, script: str) -> str:
        """Run a script on the machine of a case.

        It runs in the case's job, if there is one; returns the error.
        """
        in_job = case.slurm and name != "environment"
        computer = Machine(case.machine, self.folder / "machines")
        done = computer.run(self._srun(script) if in_job else script, home=work)
        return f"{name}: {done.stderr[-600:]}" if done.returncode != 0 else ""

    def _srun(self, script: str) -> str:
        """Return a script that runs another one as a cluster job.

        It has `module` as a login has it.
        """
        script = f"source /usr/share/lmod/lmod/init/bash\n{script}"
        cluster = f"python3 {ROOT / 'dev' / 'private_slurm.py'} run --folder {self.folder / 'slurm'} --"
        return f"{cluster} srun -n1 bash -euo pipefail -c {shlex.quote(script)}"

    def _image(self, case: Case, work: Path) -> dict[str, Any]:
        out = work / "frozen"
        argv = [
            *PROGRAM,
            "from-snapshot",
            str(work / "snapshot"),
            "-o",
            str(out),
            "--store",
            str(self.store),
            "--json",
        ]
        began = time.perf_counter()
        env = os.environ if case.here else self._elsewhere()
        done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
        (work / "stdout.json").write_text(done.stdout)
        (work / "stderr.txt").write_text(done.stderr)
        found = {"exit code": done.returncode, "seconds": round(seconds, 1)}
        document = json.loads(done.stdout) if done.stdout.startswith("{") else {}
        image = [path.stat().st_size for path in (out / "image").rglob("*") if path.is_file()]
        return {**found, **_said(document), "MB": round(sum(image) / 1e6) if image else None}

    def _elsewhere(self) -> dict[str, str]:
        """Return the environment of a computer without the machine's Pythons."""
        nowhere, pyenv = str(self.folder / "nowhere"), _pyenv()
        path = [each for each in os.environ["PATH"].split(os.pathsep) if not each.startswith(pyenv)]
        managers = {"PYENV_ROOT": nowhere, "UV_PYTHON_INSTALL_DIR": nowhere}
        return {**os.environ, **managers, "PATH": os.pathsep.join(path)}

    def _job(self, work: Path) -> str:
        """Run the job in the image, and compare its output.

        It is compared with the output on the machine.
        """
        argv = [
            *PROGRAM,
            "run",
            str(work / "frozen"),
            "-v",
            f"{work / 'job'}:/job:ro",
            "--workdir",
            "/job",
            "--",
        ]
        done = subprocess.run(
            [*argv, "python", "train.py"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        (work / "job.txt").write_text(done.stdout + done.stderr)
        if done.returncode != 0:
            return "fails"
        return "the same bytes" if done.stdout == (work / "answer.txt").read_text() else "other bytes"


def _python(case: Case) -> str:
    return case.python if case.python.startswith("/") else "python"


def _inside(case: Case, script: str) -> str:
    """Return a script that runs within the job and environment.

    It enters the directory of the job.
    """
    enter = "" if case.python.startswith("/") else f"source {Path(case.python).parent / 'activate'}\n"
    return f"{enter}cd job\n{script}"


def row(each: Mapping[str, Any]) -> list[str]:
    """Return the cells of one environment, in the order of `HEAD`."""
    if "not made" in each:
        return [each["name"], each["machine"], each["capture"], "", "not made", "", "", "", "", ""]
    return [
        each["name"], each["machine"], each["capture"], " ".join(each.get("decisions", ())) or "0",
        str(each["exit code"]), str(each["refused"]), f"{each['seconds'] / 60:.1f}", str(each.get("MB") or ""),
        each.get("verdict") or "", each.get("job", ""),
    ]  # fmt: skip


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows for a terminal."""
    return "\n".join([" | ".join(row(each)) for each in found] + [sentence(found)])


def sentence(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the counts by which the experiment is judged."""
    made = [each for each in found if "not made" not in each]
    plain = [each for each in made if each["exit code"] == 0 and not each.get("decisions")]
    one = [each for each in made if each["exit code"] == 0]
    jobs = [each for each in made if "job" in each]
    same = sum(each["job"] == "the same bytes" for each in jobs)
    return (
        f"Of {len(made)} environments {len(plain)} end with exit code 0 without a decision, and {len(one)} with at "
        f"most one decision. In {same} of {len(jobs)} images the job computes the bytes that it computed "
        f"on its machine; {len(_wrong(made))} images are wrong without a word."
    )


def held(found: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the claims hold.

    80 % succeed without a decision, 95 % with at most one, and no image is wrong without a word.
    """
    plain = sum(each.get("exit code") == 0 and not each.get("decisions") for each in found)
    one = sum(each.get("exit code") == 0 for each in found)
    return plain >= 0.8 * len(found) and one >= 0.95 * len(found) and not _wrong(found)


def _wrong(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the environments with an image that passes wrongly.

    Its job fails or computes something else.
    """
    return [
        each["name"] for each in found if each.get("exit code") == 0 and each.get("job") != "the same bytes"
    ]


def _said(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a run's document.

    It is the verdict and the lines that are not as captured, or the error.
    """
    if "error" in document:
        error = document["error"]
        return {
            "refused": len(error.get("refused", ())),
            "error": error["message"][:600],
            "hint": error["hint"][:600],
        }
    verdict = document.get("verdict") or {}
    return {
        "refused": len(document.get("deviations", ())), "verdict": verdict.get("determinism", {}).get("cpu"),
        "round trip": verdict.get("round_trip"),
    }  # fmt: skip


def recipe(case: Case) -> str:
    """Return the recipe of docs/snapshots.md.

    It is adapted to a repository that is installed in place, if the case has one.
    """
    match = _RECIPE.search((ROOT / "docs" / "snapshots.md").read_text(encoding="utf-8"))
    assert match is not None
    lines = match[1].replace("$HOME/repro/$SLURM_JOB_ID", "../snapshot").splitlines()
    if "-e lib" in case.make:
        lines = [line.replace("~/mylib", "../lib").replace("/mylib.diff", "/tinylib.diff") for line in lines]
        # The recipe enters another directory, from which a relative one is none.
        lines = [line.replace("$REPRO_DIR/tinylib", "$OLDPWD/$REPRO_DIR/tinylib") for line in lines]
    else:
        lines = [line for line in lines if "mylib" not in line]
    return "\n".join(["set +e", *lines, "true"])


def _forget(work: Path) -> None:
    """Remove the environment and the image.

    The snapshot and the output stay.
    """
    image = work / "frozen" / "image.json"
    if image.exists():
        reference = json.loads(image.read_bytes())["reference"]
        subprocess.run(["docker", "image", "rm", "--force", reference], capture_output=True, check=False)
    shutil.rmtree(work / "env", ignore_errors=True)
    for path in sorted((work / "frozen").glob("*")) if (work / "frozen").exists() else []:
        if path.is_dir():
            shutil.rmtree(path)


def _uv() -> str:
    from uv import find_uv_bin

    return str(find_uv_bin())


def _pyenv() -> str:
    return os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv")
