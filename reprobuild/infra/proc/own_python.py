"""Commands for this program's Python, safe from the current directory.

No code of the current directory can run in them. `-I` leaves out the current directory, PYTHONPATH,
PYTHONSTARTUP and the user's own `site-packages` (https://docs.python.org/3/using/cmdline.html#cmdoption-I).
If this program itself comes from one of these, the new Python gets that one directory as a value: its code
runs already.
"""

from __future__ import annotations

import site
import sys
from pathlib import Path

from reprobuild.errors import EngineError
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.infra.proc.run import run

SAFE = Path("/")  # a current directory without files of other users
INSTALL = (
    "install reprobuild with pip into the Python that runs it (a checkout with `pip install --editable`)"
)
_SEAL = Path(__file__).parents[1] / "sandbox" / "seal.py"
_STANDARD = str(Path(site.__file__).parent)
_ABOVE = "import sys; sys.path.insert(0, {folder!r}); "
# Before the system's `site-packages`, as in Python itself.
_USER_SITE = (
    "import site, sys; k = sys.path[:]; site.addsitedir({folder!r}); "
    "i = next((i for i, p in enumerate(k) if p in site.getsitepackages()), len(k)); "
    "sys.path[:] = k[:i] + sys.path[len(k):] + k[i:]; "
)
# Each thread needs memory for its stack, and uv starts as many as there are processors.
_LIMITED = (
    "import os, resource, runpy\n"
    "for name, most in (('DATA', {memory}), ('CPU', {seconds}), ('CORE', 0)):\n"
    "    kind = getattr(resource, f'RLIMIT_{{name}}')\n"
    "    hard = resource.getrlimit(kind)[1]\n"
    "    most = most if hard == resource.RLIM_INFINITY else min(most, hard)\n"
    "    resource.setrlimit(kind, (most, most))\n"
    "os.environ.update(RAYON_NUM_THREADS='1', TOKIO_WORKER_THREADS='1')\n"
    "runpy.run_module({module!r}, run_name='__main__', alter_sys=True)\n"
)
# Exit codes for SIGABRT, SIGKILL and SIGXCPU: a failed allocation aborts uv, and the kernel ends a program that has
# used up its time. Windows has neither these limits nor the last two.
_ENDED = (-6, -9, -24)


def own_module(module: str, *words: str) -> list[str]:
    """Return the command that runs one of our modules.

    The module is in a package of this Python.
    """
    if not _prelude():
        return [sys.executable, "-I", "-m", module, *words]
    return own_code(
        f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)", *words
    )


def own_sealed_module(module: str) -> list[str]:
    """Return the command that runs one of our modules from a copy of this Python in memory.

    It is for a process that becomes a program of an image (see `infra/sandbox/seal.py`).
    """
    return [sys.executable, "-I", "-S", str(_SEAL), *own_module(module)]


def own_limited_module(module: str, *words: str, memory: int, seconds: int) -> list[str]:
    """Return the command that runs one of our modules within limits.

    Args:
        module: in a package of this Python.
        words: its arguments.
        memory: bytes of data for each process.
        seconds: of processor time for each process.
    """
    return own_code(_LIMITED.format(module=module, memory=memory, seconds=seconds), *words)


def is_ended_by_limit(err: ProcessFailedError) -> bool:
    """Return whether a limit of `own_limited_module` ended the program, as far as its exit code shows."""
    return err.code in _ENDED


def own_code(code: str, *words: str) -> list[str]:
    """Return the command that runs a line of code.

    It may import this Python's own packages.
    """
    return [sys.executable, "-I", "-c", _prelude() + code, *words]


def check_installed() -> None:
    """Check that an isolated Python finds this program.

    Raises:
        EngineError: it does not.
    """
    try:
        run(own_code("import reprobuild"), env={}, purpose="find reprobuild", timeout=60)
    except ProcessFailedError:
        raise EngineError(f"`{sys.executable} -I` does not find reprobuild", hint=INSTALL) from None


def _prelude() -> str:
    """Return the code that makes our packages importable, or "".

    It is empty if an isolated Python has them already.
    """
    root, standard = str(Path(__file__).parents[3]), sys.path.index(_STANDARD) if _STANDARD in sys.path else 0
    if root in sys.path[:standard]:  # from PYTHONPATH, or `python -m` in a checkout
        return _ABOVE.format(folder=root)
    folder = site.getusersitepackages()
    return _USER_SITE.format(folder=folder) if Path(folder).is_absolute() and folder in sys.path else ""
