"""One rank of the collectives: sums over all ranks, again and again, each round in a fresh process group."""

import datetime
import functools
import os

from reprobuild_runtime.digest import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

    Say = Callable[[Dict[str, Any]], None]

DTYPES = ("float32", "bfloat16")
SIZES = {"1 KiB": 256, "1 MiB": 1 << 18, "64 MiB": 1 << 24}
OPTIONAL = ("reduce_scatter float32 1 MiB",)  # gloo has it since torch 2.6
# A sum over the ranks that is 0, 1 or 2 in any order but the one in which it is computed.
CANCELLING = (1e8, 1.0, -1e8, 1.0)


def sizes(device: str) -> "Dict[str, int]":
    """Return the sizes on a kind of device, in elements."""
    return {name: count for name, count in SIZES.items() if device != "cpu" or count < 1 << 20}


def names(device: str) -> "List[str]":
    """Return the names of the probes on a kind of device."""
    reduced = [f"all_reduce {dtype} {name}" for dtype in DTYPES for name in sizes(device)]
    return [*reduced, *OPTIONAL, "all_reduce that cancels"]


def collective(torch: "Any", ask: "Dict[str, Any]", say: "Say") -> None:
    """Take part in the collectives as one rank, and say the digests of each round."""
    from torch import distributed

    backend, rank = ask["backend"], ask["rank"]
    # Torch's NCCL keeps from NVLS in this mode; the switch itself, without the import of torch's compiler.
    torch.set_deterministic_debug_mode("error")
    device = f"cuda:{rank}" if backend == "nccl" else "cpu"
    if backend == "nccl":
        torch.cuda.set_device(rank)
    for number in range(ask["rounds"]):
        say({"begin": f"round {number}"})
        distributed.init_process_group(
            backend, init_method="file://" + os.path.join(ask["folder"], f"rendezvous-{number}"),
            rank=rank, world_size=ask["world"], timeout=datetime.timedelta(seconds=ask["limit"]),
        )  # fmt: skip
        try:
            for name, compute in _probes(torch, distributed, ask, device).items():
                say({"probe": name, **_told(compute, ask["repeats"])})
        finally:
            distributed.destroy_process_group()


def _told(compute: "Callable[[], Any]", repeats: int) -> "Dict[str, Any]":
    try:
        values = [compute() for _ in range(repeats)]
    except Exception as err:
        missing = isinstance(err, (RuntimeError, NotImplementedError)) and "support" in str(err)
        if missing:
            return {"skipped": f"not applicable here: {str(err).splitlines()[0]}"[:300]}
        return {"error": f"{type(err).__name__}: {err}"[:2000]}
    dtype, shape = str(values[0].dtype).rpartition(".")[2], "x".join(map(str, values[0].shape))
    return {"digests": [digest([each]) for each in values], "dtype": dtype, "shape": shape}


def _probes(
    torch: "Any", distributed: "Any", ask: "Dict[str, Any]", device: str
) -> "Dict[str, Callable[[], Any]]":
    rank, world = ask["rank"], ask["world"]

    def values(count: int, dtype: "Any") -> "Any":
        """Return numbers over several magnitudes, of this rank's own."""
        private = torch.Generator()
        private.manual_seed(1000 + rank)
        power = torch.randint(-3, 4, (count,), generator=private).float()
        drawn = torch.randn(count, generator=private) * torch.pow(10.0, power)
        return drawn.to(device).to(dtype)

    def reduced(count: int, dtype: "Any") -> "Any":
        tensor = values(count, dtype)
        distributed.all_reduce(tensor)
        return tensor

    def scattered() -> "Any":
        source = values((1 << 18) // world * world, torch.float32)
        target = torch.empty(source.numel() // world, device=device)
        newest = getattr(distributed, "reduce_scatter_single", None)  # the name from torch 2.13 on
        (newest or distributed.reduce_scatter_tensor)(target, source)
        return target

    def cancelled() -> "Any":
        tensor = torch.full((4096,), CANCELLING[rank % 4], device=device)
        for shift in range(4):  # another rank has the great number in each part
            tensor[shift::4] = CANCELLING[(rank + shift) % 4] / 3
        distributed.all_reduce(tensor)
        return tensor

    found: "Dict[str, Callable[[], Any]]" = {}
    for dtype in DTYPES:
        for name, count in sizes(device).items():
            found[f"all_reduce {dtype} {name}"] = functools.partial(reduced, count, getattr(torch, dtype))
    found[OPTIONAL[0]] = scattered
    found["all_reduce that cancels"] = cancelled
    return found
