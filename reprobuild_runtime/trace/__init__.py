"""The recorder of a traced run: digests of each step's inputs and results.

`reprobuild trace` compares the records of two runs. Importing this package has no cost: its parts are imported after a
library, in traced runs alone.
"""

TYPE_CHECKING = False  # importing typing would cost every process some milliseconds
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "REPROBUILD_TRACE"  # JSON: the options of the recorder, see `recorder.Options`
# Libraries with a recorder of their own.
RECORDED = ("torch", "jax")


def begin() -> None:
    """Record this process; a failure is one line on stderr."""
    _guard("begin")


def watch(name: str, module: "Any") -> None:
    """Record the steps of a library from its import on.

    A failure is one line on stderr, and does not end the user's program.

    Args:
        name: the module's name, one of RECORDED.
        module: the module.
    """
    _guard("watch", name, module)


def _guard(action: str, *arguments: object) -> None:
    try:
        from reprobuild_runtime.trace import recorder

        getattr(recorder, action)(*arguments)
    except Exception as err:
        from reprobuild_runtime import settings

        settings.print_line(f"reprobuild: the run is not traced: {type(err).__name__}: {err}")
