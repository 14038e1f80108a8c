"""The programs inside an image.

They are seeding, the entrypoint, the start-up hook, the freeze and the probes.

The package uses the standard library only (torch, NumPy and TensorFlow if they are the subject, imported on request),
with Python 3.8 or newer. It needs no installation metadata: put the directory that holds it on `sys.path`.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from reprobuild_runtime.seeding import enforce_reproducibility, generator, seed_worker
    from reprobuild_runtime.trace.recorder import mark_step

__all__ = ["enforce_reproducibility", "generator", "mark_step", "seed_worker"]


def __getattr__(name: str) -> object:
    """Import a public function on first access.

    The start-up hook imports this package in every interpreter, so imports are late.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "mark_step":
        from reprobuild_runtime.trace.recorder import mark_step

        return mark_step
    from reprobuild_runtime import seeding

    function: object = getattr(seeding, name)
    return function
