"""Programs of JAX: their steps, the causes of planted differences, and no effect on the program; with the real JAX."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from reprobuild.trace.log import ProcessLog, read_logs
from reprobuild.trace.rounds import Findings, TraceSearch
from reprobuild.trace.traced_run import ComparedFiles, TracedRun, TraceSettings
from tests.conftest import ROOT

RELEASES = (
    pytest.param(("numpy==1.26.4", "jax==0.4.30", "jaxlib==0.4.30"), id="0.4", marks=pytest.mark.long),
    pytest.param(("numpy==2.2.6", "jax==0.5.3", "jaxlib==0.5.3"), id="0.5"),
)
HOOK = "import runpy, sys, reprobuild_runtime.startup; runpy.run_path(sys.argv[1], run_name='__main__')"
START = """\
import functools, time
import jax, jax.numpy as jnp, numpy as np

def loss(params, batch):
    return jnp.mean((batch @ params["w"] + params["b"]) ** 2)

@functools.partial(jax.jit, donate_argnums=0)
def step(params, batch):
    value, gradients = jax.value_and_grad(loss)(params, batch)
    return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, gradients), value

params = {"w": jnp.ones((4, 2)), "b": jnp.zeros(2)}
"""
CLEAN = """
rng = np.random.default_rng(0)
for number in range(10):
    params, value = step(params, rng.normal(size=(8, 4)).astype("float32"))
print(float(value))
"""
DATA = """
rng = np.random.default_rng(time.time_ns())
for number in range(10):
    params, value = step(params, rng.normal(size=(8, 4)).astype("float32"))
"""
KEY = """
step(params, jnp.ones((8, 4)))
key = jax.random.key(time.time_ns() % 1000003)
noise = jax.jit(lambda key: jax.random.normal(key, (8, 4)))(key)
"""
CAPTURED = """
scale = 1 + time.time() % 1
scaled = jax.jit(lambda batch: batch * scale)
scaled(jnp.ones(3))
"""
CALLBACK = """
def draw(x):
    return np.float32(time.perf_counter_ns() % 1009)

@jax.jit
def noisy(x):
    return x + jax.pure_callback(draw, jax.ShapeDtypeStruct((), "float32"), x)

noisy(jnp.float32(1))
"""
MARK = """
from reprobuild_runtime.trace.recorder import mark_step

for number in range(3):
    drawn = jnp.asarray(time.time_ns() % 1009)
    mark_step(drawn=drawn)
"""


@pytest.fixture(scope="module", params=RELEASES)
def jax_site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a release of JAX."""
    site = tmp_path_factory.mktemp("jax") / "site-packages"  # lines of libraries are not recorded
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--only-binary", ":all:", "--target", site]
    subprocess.run([*uv, *request.param], check=True, timeout=600)
    return site


class Program:
    """A script that runs in processes of this machine."""

    def __init__(self, site: Path, folder: Path, script: str) -> None:
        self._site, self._folder, self._runs = site, folder, 0
        self.profiles: list[str] = []
        (folder / "train.py").write_text(START + script)

    def execute(self, trace: dict[str, object] | None = None) -> str:
        """Run the script, and return the printed text."""
        env = {
            "PYTHONPATH": f"{ROOT}:{self._site}", "HOME": str(self._folder), "REPROBUILD_SEED": "7",
            "PYTHONHASHSEED": "7", "REPROBUILD_RECORD": "0", "JAX_PLATFORMS": "cpu",
        }  # fmt: skip
        if trace is not None:
            env["REPROBUILD_TRACE"] = json.dumps(trace)
        argv = [sys.executable, "-c", HOOK, str(self._folder / "train.py")]
        done = subprocess.run(
            argv, cwd=self._folder, env=env, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "traced" not in done.stderr
        return done.stdout

    def run(self, settings: TraceSettings, title: str) -> TracedRun:
        self._runs += 1
        self.profiles.append(settings.profile)
        folder = self._folder / f"logs{self._runs}"
        self.execute({**msgspec.to_builtins(settings), "folder": str(folder)})
        return TracedRun(folder=folder, logs=read_logs(folder))

    def compare_files(self, first: TracedRun, second: TracedRun) -> ComparedFiles:
        return ComparedFiles()

    def record(self, **options: object) -> ProcessLog:
        """Run the script once, and return the log of its process."""
        self.execute({"folder": str(self._folder / "logs"), **options})
        (log,) = read_logs(self._folder / "logs").values()
        return log


def look(program: Program) -> Findings:
    return TraceSearch(program, lambda _: None).find()[0]


def line_of(folder: Path, place: str) -> str:
    path, _, number = place.rpartition(":")
    assert Path(path).name == "train.py"
    return (folder / "train.py").read_text().splitlines()[int(number) - 1]


def test_each_call_is_a_step_and_the_program_is_the_same(jax_site: Path, tmp_path: Path) -> None:
    program = Program(jax_site, tmp_path, CLEAN)
    printed = program.execute()
    log = program.record(strides={"": 4})
    assert program.execute({"folder": str(tmp_path / "again"), "strides": {"": 4}}) == printed
    calls = [[record for record in log.stream(step) if record.kind == "call"] for step in range(10)]
    assert [[record.name for record in step] for step in calls] == [["step"]] * 10
    # Between two whole records, a step has its small results: parameters and the loss.
    assert [len(step[0].inputs) for step in calls] == [2] * 7 + [0, 2, 0]
    assert calls[0][0].outputs[0] == calls[1][0].inputs[0]
    assert "step(params" in line_of(tmp_path, calls[0][0].place)


def test_equal_runs_have_no_difference(jax_site: Path, tmp_path: Path) -> None:
    findings = look(Program(jax_site, tmp_path, CLEAN))
    assert (findings.differs, findings.runs, findings.steps) == (False, 2, 11)


@pytest.mark.parametrize(
    ("script", "kind", "line"),
    [
        pytest.param(DATA, "generator", "rng = np.random.default_rng(time", id="data"),
        pytest.param(KEY, "host code", "key = jax.random.key(time", id="key"),
        pytest.param(CAPTURED, "host code", "scale = 1 + time", id="captured", marks=pytest.mark.long),
        pytest.param(MARK, "host code", "drawn = jnp.asarray(time", id="mark", marks=pytest.mark.long),
    ],
)
def test_the_line_of_a_difference_is_named(
    script: str, kind: str, line: str, jax_site: Path, tmp_path: Path
) -> None:
    findings = look(Program(jax_site, tmp_path, script))
    assert findings.differs
    assert findings.cause
    assert findings.cause.kind == kind, findings.cause
    assert line in line_of(tmp_path, findings.cause.place)


def test_a_function_with_several_results_is_named(jax_site: Path, tmp_path: Path) -> None:
    """No profile cures a callback, which the search has tried."""
    program = Program(jax_site, tmp_path, CALLBACK)
    findings = look(program)
    assert findings.cause
    assert (findings.cause.kind, findings.cause.subject) == ("kernel", "the jitted function noisy")
    assert "noisy(jnp.float32(1))" in line_of(tmp_path, findings.cause.place)
    assert "in 200 repetitions on the same inputs" in findings.cause.reason
    assert (findings.cured, program.profiles.count("jax")) == (False, 2)


ATTRIBUTES = """
class Model:
    @functools.partial(jax.jit, static_argnums=0)
    def __call__(self, x):
        return x + 1

inner = jax.jit(lambda x: x * 2)

@jax.jit
def outer(x):
    '''Double it.'''
    return inner(x) + 1

print(outer.__name__, outer.__doc__, outer.__wrapped__ is not outer, outer.lower(1.0).as_text()[:6])
print(Model()(2.0), jax.grad(outer)(3.0), jax.vmap(outer)(jnp.ones(2)), jax.jit(outer)(1.0), hash(outer) == hash(outer))
print(jax.eval_shape(outer, 1.0), float(jax.pmap(lambda x: x.sum())(jnp.ones((1, 2)))[0]))
import copy, threading
print(float(copy.deepcopy({"step": outer})["step"](1.0)), hasattr(outer, "missing"))
thread = threading.Thread(target=lambda: outer(1.0))
thread.start(); thread.join()
"""


def test_a_recorded_function_is_used_as_one_of_jax(jax_site: Path, tmp_path: Path) -> None:
    """Calls inside of other functions, and those of other threads, are no steps."""
    program = Program(jax_site, tmp_path, ATTRIBUTES)
    plain = program.execute()
    assert plain.splitlines()[0] == "outer Double it. True module"
    log = program.record()
    assert program.execute({"folder": str(tmp_path / "again")}) == plain
    names = [record.name for step in range(len(log)) for record in log.stream(step) if record.kind == "call"]
    assert names == ["__call__", "outer", "<lambda>"]
