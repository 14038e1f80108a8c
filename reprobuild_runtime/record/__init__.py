"""Records of requested and effective settings, at start and exit.

They are next to the job's outputs.

Importing this package has no cost: its parts are imported after a framework.
"""

TYPE_CHECKING = False  # importing typing would cost every process some milliseconds
if TYPE_CHECKING:
    from typing import Any

# A process that imports one of these writes a record.
RECORDED = ("torch", "tensorflow", "jax")


def watch(name: str, module: "Any") -> None:
    """Record the settings after a framework's import, and at exit.

    The framework was seeded before.

    A failure is at most one line on stderr.

    Args:
        name: the module's name, one of RECORDED.
        module: the module.
    """
    try:
        from reprobuild_runtime.record import writer

        writer.watch(name)
    except Exception as err:
        from reprobuild_runtime import settings

        settings.print_line(f"reprobuild: no record is written: {type(err).__name__}: {err}")
