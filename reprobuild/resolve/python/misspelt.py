"""Names of projects that a misspelt one may mean."""

from __future__ import annotations

from importlib.resources import files

from packaging.utils import canonicalize_name

from reprobuild.infra.suggest import find_close

_LEAST = 0.8  # likeness: `numpyy` and numpy have 0.91, `mylib` and mypy 0.67
_SHORTEST = 5  # characters: a short name is close to many
_FILE = "project_names.txt"  # well-known projects of PyPI, in the form of PEP 503


def suggest_project(name: str) -> str:
    """Return "; did you mean `NAME`?" for a name close to a well-known project, or an empty text."""
    close = find_project(name)
    return f"; did you mean `{close}`?" if close else ""


def find_project(name: str) -> str:
    """Return the well-known project whose name is close to another, or an empty text."""
    known = files("reprobuild.resolve.python").joinpath(_FILE).read_text().split()
    return find_close(str(canonicalize_name(name)), known, _LEAST) if len(name) >= _SHORTEST else ""
