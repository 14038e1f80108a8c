"""Names of conda's packages on PyPI."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from packaging.utils import canonicalize_name

from reprobuild.infra.untrusted.decode import decode_toml

INTERPRETER = "python"  # conda's package of the interpreter; on an index it would be another project
# conda's names of torch, which people write into lists for pip. On an index `pytorch` is another project.
TORCH = frozenset({"pytorch", "pytorch-cpu", "pytorch-gpu"})


@cache
def read_conda_names() -> dict[str, str]:
    """Return {name in conda: name on PyPI} of differing names."""
    raw = files("reprobuild.snapshot.parsers").joinpath("conda_names.toml").read_bytes()
    return decode_toml(raw, dict[str, str])


def find_pypi_name(name: str) -> str:
    """Return the PyPI name of a conda package, in PEP 503 form."""
    conda_name = str(canonicalize_name(name))
    return read_conda_names().get(conda_name, conda_name)
