"""The sizes of an installation that the README names are those of the packages that it installs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT

# Bytes of a new virtual environment with pip and setuptools, of Python 3.10 to 3.12; later ones have no setuptools.
EMPTY = 26_000_000


def installed(name: str, extra: str, known: set[str]) -> Iterator[Distribution]:
    """Yield a distribution and what it requires, each once."""
    if canonicalize_name(name) in known:
        return
    known.add(canonicalize_name(name))
    try:
        found = distribution(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed here")
    yield found
    for text in found.requires or ():
        required = Requirement(text)
        if required.marker is None or required.marker.evaluate({"extra": extra}):
            yield from installed(required.name, "", known)


def size_of(paths: Iterator[Path]) -> int:
    """Return the bytes that files take on a disk with blocks of 4 KiB."""
    return sum((path.stat().st_size + 4095) // 4096 * 4096 for path in set(paths) if path.is_file())


@pytest.mark.parametrize(("command", "extra"), [("pip install .", ""), ("pip install '.[conda]'", "conda")])
def test_the_size_that_the_readme_names(command: str, extra: str) -> None:
    (figure,) = re.findall(
        rf"^    {re.escape(command)} +# (\d+) MB", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    whole = EMPTY
    for found in installed("reprobuild", extra, set()):
        whole += size_of(Path(str(found.locate_file(file))) for file in found.files or ())
    own = ("reprobuild", "reprobuild_portable", "reprobuild_runtime")  # this checkout, which is not copied
    whole += size_of(path for name in own for path in (ROOT / name).rglob("*"))
    assert 0.8 < whole / (int(figure) * 1_048_576) < 1.25
