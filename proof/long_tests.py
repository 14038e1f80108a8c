"""The tests that are marked `long`: each takes most of a minute or more, and has shorter neighbours in `make test`.

They run as `pytest --long`, in two processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from proof.evidence import ROOT

MODULES = ("reprobuild", "reprobuild_runtime", "reprobuild_portable")
MARK = "pytest.mark.long"
COMMAND = ("-m", "pytest", "-q", "--long", "-n", "2", "--no-loadscope-reorder")


def find_files(folder: Path = ROOT / "tests") -> list[Path]:
    """Return the files with marked tests, in the order of their paths."""
    return sorted(path for path in folder.rglob("test_*.py") if MARK in path.read_text(encoding="utf-8"))


def measure(work: Path, files: Sequence[Path]) -> dict[str, Any]:
    """Run the marked tests of files, and return each one's answer and seconds.

    Raises:
        RuntimeError: pytest itself failed.
    """
    report = work / "long-tests.xml"
    argv = [sys.executable, *COMMAND, f"--junitxml={report}", *map(str, files)]
    done = subprocess.run(argv, cwd=ROOT, env=dict(os.environ), check=False)
    if done.returncode not in (0, 1):  # 1: some tests failed
        raise RuntimeError(f"pytest ended with {done.returncode}")
    return {"tests": read_report(report)}


def read_report(path: Path) -> list[dict[str, Any]]:
    """Return name, answer and seconds of each test in a JUnit report."""
    tests = []
    for case in ElementTree.parse(path).iter("testcase"):
        problem = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), None)
        name = f"{case.get('classname', '')}::{case.get('name', '')}".partition("@")[0]
        tests.append(
            {"test": name, "answer": problem or "passed", "seconds": round(float(case.get("time", 0)), 1)}
        )
    return sorted(tests, key=lambda test: str(test["test"]))


def held(findings: Mapping[str, Any]) -> bool:
    """Return whether there are tests, and each of them passed."""
    return set(Counter(test["answer"] for test in findings["tests"])) == {"passed"}
