"""Seeding of the random number generators, for user code and for the start-up hook (docs/seeds.md).

`enforce` is what users call, `libraries` has a seeder for each library, `entropy` what generators without a seed get,
`streams` the numbers that it is made of, `place` and `ranks` which process this is, `inherited` where a process with
an empty environment finds its seed, `workers` the helpers for torch's DataLoader.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from reprobuild_runtime.seeding.enforce import enforce_reproducibility
    from reprobuild_runtime.seeding.workers import generator, seed_worker

__all__ = ["enforce_reproducibility", "generator", "seed_worker"]


def __getattr__(name: str) -> object:
    """Give a public function, imported only now: the start-up hook imports this package."""
    if name == "enforce_reproducibility":
        from reprobuild_runtime.seeding import enforce

        return enforce.enforce_reproducibility
    if name in __all__:
        from reprobuild_runtime.seeding import workers

        found: object = getattr(workers, name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
