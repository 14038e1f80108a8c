"""The parser that CONTRIBUTING.md shows, as a contributor would copy it."""

from __future__ import annotations

import re
import textwrap
from types import ModuleType
from typing import Any

import pytest

from reprobuild.errors import SnapshotError
from tests.conftest import ROOT
from tests.snapshot.samples import covered, written

# The form of pixi's documentation of its lock file, https://pixi.sh/latest/workspace/lockfile/, with other values.
LOCK = b"""version: 6
environments:
  default:
    channels:
    - url: https://conda.example/conda-forge/
    packages:
      linux-64:
      - conda: https://conda.example/conda-forge/linux-64/bzip2-1.0.8-h4bc722e_7.conda
      - pypi: https://files.example/six-1.16.0-py2.py3-none-any.whl

packages:
- conda: https://conda.example/conda-forge/linux-64/bzip2-1.0.8-h4bc722e_7.conda
  sha256: 5ced96500d945fb286c9c838e54fa759aa04a7129c59800f0846b4335cee770d
  license: bzip2-1.0.6
- pypi: https://files.example/six-1.16.0-py2.py3-none-any.whl
  name: six
  version: 1.16.0
"""


def load_example() -> ModuleType:
    """Return the module of the first block of Python in the example."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    block = re.search(r"^   ```python\n(.*?)^   ```$", page, re.DOTALL | re.MULTILINE)
    assert block
    module = ModuleType("pixi_lock")
    exec(
        compile(textwrap.dedent(block[1]), "CONTRIBUTING.md", "exec"), module.__dict__
    )  # the page's own code
    return module


def read(data: bytes) -> Any:
    return load_example().parse(data)


def test_the_example_reads_a_lock() -> None:
    packages, remarks = read(LOCK)
    (package,) = packages
    assert (package.name, package.version, package.build) == ("bzip2", "1.0.8", "h4bc722e_7")
    assert (package.channel, package.place.line) == ("https://conda.example/conda-forge", 12)
    assert {remark.reason for remark in remarks} == {"another field of the lock"}
    assert covered(packages, remarks) >= written(LOCK)


def test_the_example_keeps_no_login() -> None:
    packages, remarks = read(LOCK.replace(b"- conda: https://", b"- conda: https://ada:s3kr1t-pa55w0rd9@"))
    assert "s3kr1t" not in f"{packages}{remarks}"
    assert packages[0].url.startswith("https://conda.example/")
    assert "the address held a credential, removed" in {remark.reason for remark in remarks}


def test_the_example_refuses_two_versions_of_a_package() -> None:
    with pytest.raises(SnapshotError, match=r"conda's `bzip2` is 1\.0\.9=h_0 here and 1\.0\.8=h4bc722e_7"):
        read(LOCK + b"- conda: https://conda.example/conda-forge/linux-64/bzip2-1.0.9-h_0.conda\n")
