"""The digest of tensors sees what sums, norms and XOR do not see."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

CASES = Path(__file__).with_name("digest_cases.py")


def run_cases(python: Path, count: int, seed: int) -> dict[str, object]:
    """Return the answer of the program with the cases."""
    argv = [python, CASES, ROOT, str(count), str(seed)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_changed_tensor_has_the_digest_of_the_other(torch_python: Path, count: int) -> None:
    answer = run_cases(torch_python, count, 1)
    assert (answer["compared"], answer["missed"], answer["false"]) == (count, [], 0)
    same = answer["same"]
    assert isinstance(same, dict)
    assert [name for name, is_right in same.items() if not is_right] == []
