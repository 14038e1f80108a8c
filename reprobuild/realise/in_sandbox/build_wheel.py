"""Builds one wheel through the project's own backend. Runs inside the sandbox, standard library only.

    python -I -S build_wheel.py SITE PROJECT OUT editable|plain

SITE holds the unpacked build requirements, PROJECT is the project's folder, OUT receives the wheel, whose
name is the last line on standard output. Hooks: https://peps.python.org/pep-0517/, pep-0660.
"""

import os
import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple


def build_system(project: str) -> "Tuple[str, List[str]]":
    """Return (backend, backend-path) of the project's pyproject.toml, or what PEP 517 says in its absence."""
    path = os.path.join(project, "pyproject.toml")
    table: "Dict[str, Any]" = {}
    if os.path.exists(path):
        # Before Python 3.11 the build requirements bring tomli.
        reader = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
        with open(path, "rb") as stream:
            table = reader.load(stream).get("build-system", {})
    return table.get("build-backend", "setuptools.build_meta:__legacy__"), table.get("backend-path", [])


def main() -> None:
    site, project, out, mode = sys.argv[1:]
    sys.path.insert(0, site)
    os.chdir(project)  # noqa: TID251  # PEP 517: hooks run in the project's folder
    backend, local = build_system(project)
    sys.path[:0] = [os.path.join(project, folder) for folder in local]
    module, _, attribute = backend.partition(":")
    hooks: "Any" = import_module(module)
    for part in filter(None, attribute.split(".")):
        hooks = getattr(hooks, part)
    hook = "build_editable" if mode == "editable" else "build_wheel"
    if not hasattr(hooks, hook):
        sys.exit(f"the backend {backend} has no {hook}")
    print(getattr(hooks, hook)(out))


if __name__ == "__main__":
    main()
