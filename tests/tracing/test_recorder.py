"""The recorder does not change the program: what is compiled stays compiled, and what is freed is freed."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path

import pytest

from reprobuild.trace.divergence import find_divergence
from reprobuild.trace.log import ProcessLog, read_logs
from reprobuild_runtime.trace.recorder import Recorder, RecorderOptions
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


STEPS = """
import reprobuild_runtime.startup
import torch

data = torch.utils.data.TensorDataset(torch.randn(24, 2))
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
for (batch,) in torch.utils.data.DataLoader(data, 2, shuffle=True):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
print("done")
"""


def record_steps(
    python: Path, folder: Path, script: str = STEPS, **options: object
) -> tuple[str, ProcessLog]:
    """Run a script, of twelve steps unless it is another one; return the printed text and the log."""
    values = {"folder": str(folder / "logs"), "strides": {"": 4}, **options}
    env = {
        "PYTHONPATH": str(ROOT), "REPROBUILD_SEED": "7", "REPROBUILD_RECORD": "0", "HOME": str(folder),
        "REPROBUILD_TRACE": json.dumps(values),
    }  # fmt: skip
    folder.mkdir()
    (folder / "train.py").write_text(script)
    done = subprocess.run(
        [python, "train.py"], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    (log,) = read_logs(folder / "logs").values()
    return done.stdout, log


def test_a_run_with_operations_has_the_records_of_one_without(torch_python: Path, tmp_path: Path) -> None:
    """Also in the steps that the stride leaves out: 9 to 11."""
    said, plain = record_steps(torch_python, tmp_path / "plain")
    _, full = record_steps(torch_python, tmp_path / "full", first=0, last=63, lines=True)
    assert said == "done\n"
    assert find_divergence({"main": plain}, {"main": full}, of_steps=True) is None
    for step, is_due in ((6, True), (7, False), (8, True), (9, False)):
        kinds = {record.kind for record in plain.records(step)}
        assert ("parameters" in kinds, "batch" in kinds) == (is_due, is_due)
        details = {record.kind for record in full.records(step) if record.detail}
        assert details == {"gradients", "parameters", "state"} | ({"batch"} if not is_due else set())
    _, other = record_steps(torch_python, tmp_path / "other", strides={"": 3}, first=0, last=63)
    assert find_divergence({"main": plain}, {"main": other}, of_steps=True) is not None


def test_a_run_ends_after_a_step(torch_python: Path, tmp_path: Path) -> None:
    said, log = record_steps(torch_python, tmp_path / "a", stop=3, first=1, last=2, lines=True)
    assert (said, len(log)) == ("", 3)
    assert any(record.kind == "operation" for record in log.records(2))
    (lines,) = (tmp_path / "a" / "logs").glob("*.lines")
    assert "optimizer.step()" in lines.read_text()
    said, log = record_steps(torch_python, tmp_path / "b", stop=13)
    assert (said, len(log)) == ("done\n", 13)  # the last one holds what follows the twelve steps


PARTS = """
import reprobuild_runtime.startup
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(2):
    buffer = torch.empty(4)
    buffer[:2] = 1
    total = buffer.neg()
    if step:
        buffer.fill_(1)
        total = buffer.exp()
    model(torch.ones(4)).sum().backward()
    optimizer.step()
"""


def test_memory_that_is_written_in_part_keeps_its_allocation(torch_python: Path, tmp_path: Path) -> None:
    _, log = record_steps(torch_python, tmp_path / "a", PARTS, first=0, last=1)
    for step, name, writer in ((0, "aten.neg", "aten.empty"), (1, "aten.exp", "aten.fill_")):
        records = log.records(step)
        (reader,) = (record for record in records if record.name.startswith(name))
        assert records[reader.writers[0]].name.startswith(writer)


ADOPTED = """
import os
import reprobuild_runtime.startup
import torch

optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(64))], 0.1)
memory = bytearray(os.urandom(64))
source = torch.frombuffer(memory, dtype=torch.uint8)
taken = torch.tensor([], dtype=torch.uint8).set_(source.untyped_storage())
total = taken.float()
optimizer.step()
"""


def test_memory_that_is_taken_over_is_no_result(torch_python: Path, tmp_path: Path) -> None:
    """A worker of a DataLoader hands its tensors over in this way."""
    logs = [record_steps(torch_python, tmp_path / name, ADOPTED, last=0)[1] for name in ("a", "b")]
    found = find_divergence({"main": logs[0]}, {"main": logs[1]})
    assert found is not None
    assert (found.record.name, found.difference) == ("aten._to_copy.default", "inputs")
    assert found.writer is None


def test_the_last_lines_of_a_short_program_are_recorded(torch_python: Path, tmp_path: Path) -> None:
    script = "import reprobuild_runtime.startup\nimport torch\nvalue = torch.ones(2)\ntotal = value.sum()\n"
    record_steps(torch_python, tmp_path / "a", script, lines=True)
    (lines,) = (tmp_path / "a" / "logs").glob("*.lines")
    assert "total = value.sum()" in lines.read_text()


LOADED = """
import reprobuild_runtime.startup
import time
import torch

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        time.sleep(0.001 * (index % 5))
        return torch.full((2,), float(index))

if __name__ == "__main__":
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for batch in torch.utils.data.DataLoader(Slow(), 2, num_workers=2):
        model(batch).sum().backward()
        optimizer.step()
"""


def test_the_order_in_which_workers_send_is_not_recorded(torch_python: Path, tmp_path: Path) -> None:
    logs = [record_steps(torch_python, tmp_path / name, LOADED, last=63)[1] for name in "abc"]
    for other in logs[1:]:
        assert find_divergence({"main": logs[0]}, {"main": other}) is None
    assert [record.kind for record in logs[0].records(3)].count("batch") == 1


def test_a_thread_that_computes_digests_does_not_silence_another(tmp_path: Path) -> None:
    recorder = Recorder(RecorderOptions({"folder": str(tmp_path)}))
    begun, ended = threading.Barrier(2), threading.Event()
    seen: list[bool] = []

    def work() -> None:
        recorder.guard(lambda: (begun.wait(10), ended.wait(10)))
        seen.append(recorder.busy)

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait(10)
    seen.append(recorder.busy)
    recorder.guard(lambda: seen.append(recorder.busy))
    ended.set()
    thread.join(10)
    assert [*seen, recorder.busy] == [False, True, False, False]
