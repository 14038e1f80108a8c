"""Helpers for torch's DataLoader.

`DataLoader(worker_init_fn=seed_worker, generator=generator(7))` uses both.

https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader
"""

# ruff: noqa: TID251  the environment says the rank

import os

from reprobuild_runtime import settings
from reprobuild_runtime.seeding import enforce, libraries, ranks, seed_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def seed_worker(worker_id: int) -> None:
    """Seed the global generators in a DataLoader worker.

    They are Python's, NumPy's and torch's. The seed is derived from torch's seed and from the rank.

    torch seeds them itself, but alike on all ranks, because their loaders have drawn the same base seed. On rank 0
    torch's own seed stays.

    Raises:
        RuntimeError: torch cannot be imported.
    """
    torch = enforce.import_or_say("torch")
    if torch is None:
        raise RuntimeError("seed_worker is for the workers of torch's DataLoader, and torch does not import")
    seed = torch.initial_seed() % settings.LIMIT
    rank = ranks.rank(os.environ)
    if rank:
        seed = seed_streams.further_seed(seed, rank)
        torch.manual_seed(seed)
    for name in libraries.EACH_ITS_OWN:
        module = enforce.import_or_say(name)
        if module is not None:
            module.seed(seed)


def generator(seed: int) -> "Any":
    """Return a torch.Generator with this seed.

    It is for `DataLoader(generator=...)`.

    Raises:
        ValueError: the seed is not an integer from 0 to 2**32 - 1.
        RuntimeError: torch cannot be imported.
    """
    checked = settings.check(seed)
    torch = enforce.import_or_say("torch")
    if torch is None:
        raise RuntimeError("generator makes a torch.Generator, and torch does not import")
    result = torch.Generator()
    result.manual_seed(checked)
    return result
