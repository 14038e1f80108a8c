"""Seeding of random number generators.

It is for user code and for the start-up hook (docs/seeds.md).

`enforce` is for users, `libraries` has a seeder for each library, `entropy` the numbers for generators without a seed,
`seed_streams` their computation, `process_id` and `ranks` the identity of this process, `inherit_env` the seed of a
process with an empty environment, `workers` the helpers for torch's DataLoader.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from reprobuild_runtime.seeding.enforce import enforce_reproducibility
    from reprobuild_runtime.seeding.workers import generator, seed_worker

__all__ = ["enforce_reproducibility", "generator", "seed_worker"]


def __getattr__(name: str) -> object:
    """Import a public function on first access.

    The start-up hook imports this package, so imports are late.
    """
    if name == "enforce_reproducibility":
        from reprobuild_runtime.seeding import enforce

        return enforce.enforce_reproducibility
    if name in __all__:
        from reprobuild_runtime.seeding import workers

        function: object = getattr(workers, name)
        return function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
