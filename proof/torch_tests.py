"""torch's own determinism tests, with the entrypoint and the hook.

Is any of them answered otherwise?

The tests are those of torch 2.6.0, unmodified, of Debian's source package; the torch is the wheel of that release,
which they must match. They run three times in an environment of their own: without anything of ours, and with a chosen
seed under the profiles torch and strict. Each test must be answered alike. On a machine without a GPU, those for CUDA
are not there at all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from proof.evidence import ROOT

RELEASE = "2.6.0"
SUITE = "trixie"  # whose pytorch is of that release
SOURCES = "pytorch"
# The needs of the tests and the wheel itself; the wheel brings those of NVIDIA, of which it imports some on a CPU, too.
PACKAGES = (f"torch=={RELEASE}", "numpy", "expecttest", "pytest", "hypothesis")
CHOSEN = "nondeterministic or test_deterministic"
SEED = "7"
WAYS: Mapping[str, str] = {"bare": "", "torch": "torch", "strict": "strict"}
MODULES = tuple(
    f"reprobuild_runtime/{part}"
    for part in ("entrypoint", "importhook", "settings", "profiles", "seeding", "startup")
)


def find_tests(work: Path) -> Path:
    """Return torch's own `test_torch.py`, unpacked once.

    It is downloaded at the first call.

    Raises:
        RuntimeError: the source package cannot be had.
    """
    path = work / "source" / "test_torch.py"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        program = str(ROOT / "dev" / "private_engine.py")
        checked([sys.executable, program, "source", str(path.parent), SOURCES, SUITE])
        (archive,) = path.parent.glob(f"{SOURCES}_{RELEASE}*.orig.tar.*")
        with tarfile.open(archive) as tar:
            (member,) = (one for one in tar if one.name.endswith("/test/test_torch.py"))
            found = tar.extractfile(member)
            assert found
            path.write_bytes(found.read())
    return path


def find_python(work: Path) -> Path:
    """Return the interpreter of an environment with that torch.

    It is made at the first call, and takes some gigabytes.

    Raises:
        RuntimeError: it cannot be made.
    """
    folder = work / "env"
    python = folder / "bin" / "python"
    done = folder / "done"
    if not done.exists():
        checked([sys.executable, "-m", "venv", "--clear", str(folder)])
        checked([str(python), "-m", "pip", "install", "--quiet", *PACKAGES])
        done.touch()
    return python


def checked(argv: list[str]) -> str:
    """Run a command, and return its standard output.

    Raises:
        RuntimeError: it failed; the text has its errors.
    """
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv[:4])} failed:\n{done.stderr}")
    return done.stdout


def answers(report: Path) -> dict[str, str]:
    """Return {test: answer} of a report by pytest (JUnit's XML).

    An answer is "passed", "failed" or "skipped: why".
    """
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        kinds = {child.tag: child.get("message", "") for child in case}
        if "failure" in kinds or "error" in kinds:
            found[name] = "failed"
        else:
            found[name] = f"skipped: {kinds['skipped']}" if "skipped" in kinds else "passed"
    return found


def run_tests(work: Path, way: str) -> dict[str, str]:
    """Run the tests in one way, and return each one's answer.

    Raises:
        RuntimeError: pytest itself failed, or seed or profile were not in force.
    """
    tests, python = find_tests(work), find_python(work)
    site = next((work / "env" / "lib").glob("python3.*/site-packages"))
    hook, report, log = site / "reprobuild.pth", work / f"{way}.xml", work / f"{way}.log"
    hook.unlink(missing_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    env = {**kept, "REPROBUILD_RECORD": ""}
    argv = [
        str(python), "-m", "pytest", "-p", "no:cacheprovider", "-q", "-k", CHOSEN, f"--junitxml={report}", tests.name,
    ]  # fmt: skip
    if WAYS[way]:
        hook.write_text(f"{ROOT}\nimport reprobuild_runtime.startup\n", encoding="utf-8")
        env |= {"REPROBUILD_SEED": SEED, "REPROBUILD_PROFILE": WAYS[way]}
        argv = [sys.executable, "-I", "-S", str(ROOT / "reprobuild_runtime" / "entrypoint.py"), *argv]
        _check_force(argv[:5], env, WAYS[way])
    with log.open("wb") as stream:
        done = subprocess.run(
            argv, env=env, cwd=tests.parent, stdout=stream, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode not in (0, 1):  # 1: some tests failed
        raise RuntimeError(f"pytest ended with {done.returncode}; see {log}")
    return answers(report)


_ASK = (
    "import torch; print(torch.initial_seed(), torch.backends.cudnn.deterministic, "
    "torch.are_deterministic_algorithms_enabled())"
)


def _check_force(start: list[str], env: Mapping[str, str], profile: str) -> None:
    """Check that seed and profile are in force there.

    Equal answers would mean little otherwise.
    """
    argv = [*start, "-c", _ASK]
    said = subprocess.run(argv, env=dict(env), capture_output=True, text=True, check=False)
    if said.stdout.split() != [SEED, "True", str(profile == "strict")]:
        raise RuntimeError(f"the profile {profile} is not in force: {said.stdout}{said.stderr}")


def compare(found: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return a line for each test with another answer.

    It is compared with the answer without us.
    """
    bare = found["bare"]
    lines = []
    for way, theirs in found.items():
        for name in sorted({*bare, *theirs}):
            one, two = bare.get(name, "not there"), theirs.get(name, "not there")
            if one != two:
                lines.append(f"{way}: {name}: {one} without us, {two}")
    return lines


def findings(work: Path) -> dict[str, Any]:
    """Run the tests in all ways, and return the evidence."""
    found = {way: run_tests(work, way) for way in WAYS}
    counts = {
        way: dict(Counter(answer.partition(":")[0] for answer in theirs.values()))
        for way, theirs in found.items()
    }
    python = str(find_python(work))
    about = checked([python, "-c", "import torch; print(torch.__version__, torch.cuda.is_available())"])
    version, cuda = about.split()
    return {
        "torch": version, "gpu": cuda == "True", "seed": int(SEED), "chosen": CHOSEN, "answers": counts,
        "skipped": {name: said for name, said in found["bare"].items() if said.startswith("skipped")},
        "otherwise": compare(found),
    }  # fmt: skip
