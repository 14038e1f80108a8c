"""The Python interface: each step of the command line as a function.

    from reprobuild import api

    result = api.from_snapshot("repro/42", "frozen")
    result.verdict.round_trip

`commands` has the functions, `results` their values. In a notebook, a result shows its report. Each function raises
`reprobuild.errors.ReproError`: its message names the cause, and its `hint` the next step. A wrong name of an argument
is Python's `TypeError`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reprobuild.api.commands.build import build
    from reprobuild.api.commands.capture import capture
    from reprobuild.api.commands.compare import compare
    from reprobuild.api.commands.from_snapshot import from_snapshot
    from reprobuild.api.commands.lock import lock
    from reprobuild.api.commands.read import import_snapshot, read_snapshot
    from reprobuild.api.commands.run import run
    from reprobuild.api.commands.verify import verify
    from reprobuild.api.context import open_context
    from reprobuild.config.overrides import Decisions
    from reprobuild.pipeline.build import BuildOptions
    from reprobuild.pipeline.verify_options import VerifyOptions
    from reprobuild.run.options import RunOptions

_MODULES = {
    "open_context": "reprobuild.api.context", "Decisions": "reprobuild.config.overrides",
    "BuildOptions": "reprobuild.pipeline.build", "VerifyOptions": "reprobuild.pipeline.verify_options",
    "RunOptions": "reprobuild.run.options", "import_snapshot": "reprobuild.api.commands.read",
    "read_snapshot": "reprobuild.api.commands.read",
}  # fmt: skip
__all__ = [
    "BuildOptions", "Decisions", "RunOptions", "VerifyOptions", "build", "capture", "compare", "from_snapshot",
    "import_snapshot", "lock", "open_context", "read_snapshot", "run", "verify",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Import a function on its first use: the command line imports this package, and needs few of them."""
    if name in __all__:
        value: object = getattr(import_module(_MODULES.get(name, f"reprobuild.api.commands.{name}")), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the names for completion, also before their import."""
    return sorted(__all__)
