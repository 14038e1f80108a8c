"""What runs inside an image: seeding, the entrypoint, the start-up hook, the freeze and the probes.

The standard library only (torch, NumPy and TensorFlow where they are the subject, imported when asked), Python 3.8
or newer. It needs no installation metadata: put the folder that holds it on `sys.path`.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from reprobuild_runtime.seeding import enforce_reproducibility, generator, seed_worker

__all__ = ["enforce_reproducibility", "generator", "seed_worker"]


def __getattr__(name: str) -> object:
    """Give a public function, imported only now: the start-up hook imports this package in every interpreter."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from reprobuild_runtime import seeding

    found: object = getattr(seeding, name)
    return found
