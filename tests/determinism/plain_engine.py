"""An engine without containers: each task is processes of this machine, in directories of their own.

What the project runs in a container is run here as it is, the program that puts artefacts aside and the one that
compares them among it. Only their places are others.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from reprobuild.engines.model import Engine, Finished, Sink, Task
from reprobuild.verify.workload.container import OUTPUTS
from tests.conftest import ROOT

PROGRAMS = ROOT / "reprobuild_runtime" / "artefacts"


class PlainEngine:
    """Runs tasks of `compare_work` as processes."""

    NAME = "plain"

    def version(self, env: Mapping[str, str]) -> str | None:
        return "1"

    def load(
        self, layout: Path, reference: str, digests: object, env: Mapping[str, str], progress: object = None
    ) -> bool:
        return False

    def run(self, reference: str, task: Task, env: Mapping[str, str]) -> Finished:
        if task.kept is None:
            return self._compare({inside: host for host, inside in task.volumes}, env)
        words = [word.replace(OUTPUTS, str(task.kept)) for word in task.arguments]
        done = self._start(
            ["-I", "-S", str(PROGRAMS / "collect.py"), *words[4:]], {**env, **task.environment}
        )
        index = task.kept / "index.json"
        index.write_text(index.read_text().replace(str(task.kept), OUTPUTS))
        return done

    def _compare(self, places: Mapping[str, str], env: Mapping[str, str]) -> Finished:
        options = Path(places["/reprobuild-asked"], "options.json")
        asked = json.loads(options.read_text())
        asked.update({which: places[asked[which]] for which in ("one", "two")})
        options.write_text(json.dumps(asked))
        return self._start(["-I", str(PROGRAMS / "compare.py"), str(options)], env)

    def _start(self, arguments: list[str], env: Mapping[str, str]) -> Finished:
        done = subprocess.run(
            [sys.executable, *arguments], env=dict(env), capture_output=True, timeout=120, check=False
        )
        return Finished(code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def attach(self, reference: str, task: Task, env: Mapping[str, str], sink: Sink) -> int:
        finished = self.run(reference, task, env)
        sink(1, finished.stdout)
        return finished.code


_ENGINE: Engine = PlainEngine()  # it has the shape of one
