"""Real interpreters with the start-up hook in their site-packages, and small stand-ins for the libraries it seeds."""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "reprobuild_runtime"

TORCH = """
import types
calls = []
def manual_seed(seed):
    calls.append(["torch", seed])
def initial_seed():
    return 2**40 + 5
class Generator:
    def manual_seed(self, seed):
        self.seed = seed
cuda = types.SimpleNamespace(manual_seed_all=lambda seed: calls.append(["cuda", seed]))
npu = types.SimpleNamespace(manual_seed_all=lambda seed: calls.append(["npu", seed]))
xpu = types.SimpleNamespace(manual_seed_all=lambda seed: calls.append(["xpu", seed]))
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(deterministic=False, benchmark=True))
def seen():
    cudnn = backends.cudnn
    return {"calls": calls, "flags": [cudnn.deterministic, cudnn.benchmark]}
"""
NUMPY_RANDOM = """
import types
calls = []
bit_generator = types.SimpleNamespace(randbits=lambda k: 1)
def seed(value):
    calls.append(value)
"""
TENSORFLOW = """
import types
calls = []
random = types.SimpleNamespace(set_seed=calls.append)
"""


@dataclass(frozen=True)
class Ran:
    """What a process left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return standard output as the document that it is."""
        return json.loads(self.out)


def run(*argv: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Ran:
    """Run a program with nothing in its environment but PATH, no wish for records, and `env`."""
    full = {"PATH": os.environ["PATH"], "REPROBUILD_RECORD": "", **(env or {})}
    done = subprocess.run(argv, env=full, input=stdin, capture_output=True, text=True, timeout=60)
    return Ran(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True)
class Environment:
    """A virtual environment without pip."""

    python: Path
    site: Path

    def install(self, **files: str) -> None:
        """Write modules or packages, by name."""
        for name, text in files.items():
            path = self.site.joinpath(*name.split("__")) / "__init__.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def run(self, code: str, *options: str, env: Mapping[str, str] | None = None) -> Ran:
        """Run a program text."""
        return run(str(self.python), *options, "-c", code, env=env)


def make_environment(folder: Path) -> Environment:
    """Make a virtual environment with the start-up hook, as an image has it."""
    venv.create(folder, with_pip=False, symlinks=True)
    site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (site / "reprobuild.pth").write_text(f"{ROOT}\nimport reprobuild_runtime.startup\n")
    return Environment(folder / "bin" / "python", site)


@pytest.fixture
def bare(tmp_path: Path) -> Environment:
    """An environment with the hook and nothing else."""
    return make_environment(tmp_path / "bare")


@pytest.fixture(scope="session")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the hook and the stand-ins; not to be written to."""
    made = make_environment(tmp_path_factory.mktemp("hooked"))
    made.install(torch=TORCH, numpy="", numpy__random=NUMPY_RANDOM, tensorflow=TENSORFLOW)
    return made


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Return a function that writes `environ.json` and gives the variable that points there."""

    def write(entries: Mapping[str, object], ascii_only: bool = False) -> dict[str, str]:
        folder = tmp_path / "files"
        folder.mkdir(exist_ok=True)
        text = json.dumps(entries, ensure_ascii=ascii_only)
        (folder / "environ.json").write_bytes(text.encode("utf-8", "surrogateescape"))
        return {"REPROBUILD_FILES": str(folder)}

    return write
