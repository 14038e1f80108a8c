"""Records of what was asked for and what was in effect, at start and at exit, next to the job's outputs.

Importing this package costs nothing: its parts are imported when a framework was.
"""

TYPE_CHECKING = False  # importing typing would cost every process some milliseconds
if TYPE_CHECKING:
    from typing import Any

# A process that imports one of these writes a record.
RECORDED = ("torch", "tensorflow", "jax")


def watch(name: str, module: "Any") -> None:
    """Record the settings now that a framework was imported and seeded, and again when the process ends.

    A fault is one line on stderr, and never more.

    Args:
        name: the module's name, one of RECORDED.
        module: the module.
    """
    try:
        from reprobuild_runtime.record import keep

        keep.watch(name)
    except Exception as err:
        from reprobuild_runtime import launch

        launch.say(f"reprobuild: no record is written: {type(err).__name__}: {err}")
