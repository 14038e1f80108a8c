"""The recorder does not change the program: what is compiled stays compiled, and what is freed is freed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from reprobuild.trace.log import read_logs
from tests.conftest import ROOT

TRAIN = """
import gc, sys, weakref
import reprobuild_runtime.startup
import torch

def train(model, call=None):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    call = model if call is None else call
    call(torch.ones(2, 2)).sum().backward()
    optimizer.step()
"""
COMPILED = """
graphs = []

def backend(graph, inputs):
    graphs.append(graph)
    return graph.forward

model = torch.nn.Linear(2, 2)
train(model, torch.compile(model, backend=backend, fullgraph=True))
print(len(graphs))
"""
FREED = """
class Program:
    def main(self):
        model, other = torch.nn.Linear(2, 2), torch.nn.Linear(3, 3)
        freed = weakref.ref(model), weakref.ref(other)
        train(model)
        del model, other
        return [reference() is None for reference in freed]

print(Program().main())
"""
LOCALS = """
class Program:
    def main(self):
        model, word = torch.nn.Linear(2, 2), "kept"
        values = locals()
        train(model)
        return values["word"]

print(Program().main())
"""


@pytest.mark.parametrize(
    ("script", "said"),
    [(COMPILED, "1"), (FREED, "[True, True]"), (LOCALS, "kept")],
    ids=["compiled", "freed", "locals"],
)
@pytest.mark.parametrize("recorded", [False, True])
def test_a_recorded_program_is_the_same(
    script: str, said: str, recorded: bool, torch_python: Path, tmp_path: Path
) -> None:
    options = {"folder": str(tmp_path / "logs"), "first": 0, "last": 3, "stride": 1, "components": True}
    env = {"PYTHONPATH": str(ROOT), "REPROBUILD_SEED": "7", "REPROBUILD_RECORD": "0", "HOME": str(tmp_path)}
    if recorded:
        env["REPROBUILD_TRACE"] = json.dumps(options)
    (tmp_path / "train.py").write_text(TRAIN + script)
    argv = [torch_python, tmp_path / "train.py"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, f"{said}\n"), done.stderr
    if recorded:
        (log,) = read_logs(tmp_path / "logs").values()
        assert any(record.kind == "operation" for record in log.records(0))
