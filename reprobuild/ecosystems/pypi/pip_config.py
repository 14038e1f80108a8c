"""Pip's default index and settings, from `pip config list`.

https://pip.pypa.io/en/stable/cli/pip_config/. Starting pip takes a third of a second, so it can be started
before the answer is needed: modules with few imports import this one.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from reprobuild.errors import LockError
from reprobuild.infra import proc
from reprobuild.infra.proc.programs import with_absolute_paths

# In one process: its default index, and `pip config list`.
_ASK = (
    "from pip._internal.cli.main import main; from pip._internal.models.index import PyPI; "
    "print(PyPI.simple_url, flush=True); raise SystemExit(main(['config', 'list']))"
)
_RANK = {"global": 0, "download": 1, "install": 2, ":env:": 3}
_SECONDS = 60


class Asking:
    """A query to pip, started at once.

    It runs in its own process. The `with` block ends the process if its answer was not needed.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._asked = proc.Process(
            proc.own_code(_ASK),
            env=with_absolute_paths(env, "PIP_CONFIG_FILE"),
            cwd=proc.SAFE,
            purpose="ask pip for the indexes of this machine",
            missing=LockError,
        )
        self._lines: list[str] | None = None

    def __enter__(self) -> Asking:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._asked.end()

    def answer(self) -> tuple[str, dict[str, list[str]]]:
        """Return pip's default index and its settings.

        The order is pip's: environment over `install` over `global`.

        Raises:
            LockError: pip does not answer.
        """
        default, settings = self._read()
        return default, {name: value.split() for name, value in settings.items()}

    def _read(self) -> tuple[str, dict[str, str]]:
        if self._lines is None:
            try:
                self._lines = self._asked.result(_SECONDS).decode().splitlines()
            except proc.ProcessFailedError as err:
                hint = f"{sys.executable} -m pip must work: install pip there, or mend its configuration"
                raise LockError(str(err), hint=hint) from None
        settings: dict[str, tuple[int, str]] = {}
        default, *lines = self._lines
        for line in lines:
            key, equals, value = line.partition("=")
            section, _, name = key.rpartition(".")
            if not equals or section not in _RANK:
                continue
            if _RANK[section] >= settings.get(name, (-1, ""))[0]:
                settings[name] = (_RANK[section], str(ast.literal_eval(value)))
        return default, {name: value for name, (_, value) in settings.items()}

    def certificates(self) -> str:
        """Return the path of pip's setting `cert`, or "".

        Raises:
            LockError: pip does not answer.
        """
        path = self._read()[1].get("cert", "")
        return str(Path(path).expanduser()) if path else ""


def read_certificates(env: Mapping[str, str]) -> str:
    """Return the path of pip's setting `cert` in an environment, or ""."""
    with Asking(env) as query:
        return query.certificates()
