"""A script that builds one wheel by the project's own backend.

It runs inside the sandbox, with the standard library only.

    ENVIRONMENT/bin/python build_wheel.py PROJECT OUT editable|plain compiles|pure

The environment of the interpreter holds the build requirements, PROJECT is the project's directory. OUT receives the
wheel, and `answer.json`: {"requires": [the requirements of the backend], "editable": whether it was built as such,
"tools": [the versions of compilers, and the flags of this Python]}. Hooks: https://peps.python.org/pep-0517/, pep-0660.
A backend without `build_editable` builds a plain wheel, and so does one whose editables compile again when they are
imported, because an image has no compiler.
"""

import json
import os
import sys
import sysconfig
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

COMPILERS = ("cc", "c++", "gfortran", "rustc", "nvcc", "cmake", "ninja", "meson", "cython")
FLAGS = ("CC", "CFLAGS", "LDSHARED")
# https://mesonbuild.com/meson-python/how-to-guides/editable-installs.html
COMPILES_AT_IMPORT = ("mesonpy",)


def build_system(project: str) -> "Tuple[str, List[str]]":
    """Return the backend and backend-path of pyproject.toml.

    Without the file, return the defaults of PEP 517.
    """
    path = os.path.join(project, "pyproject.toml")
    table: "Dict[str, Any]" = {}
    if os.path.exists(path):
        # Before Python 3.11 the build requirements include tomli.
        reader = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
        with open(path, "rb") as stream:
            table = reader.load(stream).get("build-system", {})
    return table.get("build-backend", "setuptools.build_meta:__legacy__"), table.get("backend-path", [])


def hooks_of(backend: str, project: str, local: "List[str]") -> "Any":
    """Return the backend's object, with its hooks as attributes."""
    sys.path[:0] = [os.path.join(project, folder) for folder in local]
    module, _, attribute = backend.partition(":")
    hooks: "Any" = import_module(module)
    for part in filter(None, attribute.split(".")):
        hooks = getattr(hooks, part)
    return hooks


def tools() -> "List[str]":
    """Return the compilers' version lines and Python's build flags.

    A version line is the first line of `--version`.
    """
    lines = []
    for name in COMPILERS:
        with os.popen(name + " --version 2>&1") as answer:
            line = answer.readline().strip()
            status = answer.close()
        if status is None and line:
            lines.append(name + ": " + line)
    return lines + ["%s: %s" % (name, sysconfig.get_config_var(name)) for name in FLAGS]


def main() -> None:
    """Write the backend's requirements, and build."""
    project, out, mode, compiles = sys.argv[1:]
    sys.path.pop(0)  # the directory of this script
    os.chdir(project)  # noqa: TID251  # PEP 517: hooks run in the project's directory
    backend, local = build_system(project)
    hooks = hooks_of(backend, project, local)
    able = hasattr(hooks, "build_editable") and backend not in COMPILES_AT_IMPORT
    kind = "editable" if mode == "editable" and able else "wheel"
    ask: "Any" = getattr(hooks, "get_requires_for_build_" + kind, list)
    answer = {
        "requires": list(ask()), "editable": kind == "editable",
        "tools": tools() if compiles == "compiles" else [],
    }  # fmt: skip
    with open(os.path.join(out, "answer.json"), "w") as stream:
        json.dump(answer, stream)
    getattr(hooks, "build_" + kind)(out)


if __name__ == "__main__":
    main()
