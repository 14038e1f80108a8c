"""One rank of the collectives.

It sums over all ranks repeatedly, each round in a fresh process group.
"""

# ruff: noqa: TID251  torchrun says in the environment which rank of its machine this is

import datetime
import functools
import os
import random
import re
import time

from reprobuild_runtime.digest import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

    Say = Callable[[Dict[str, Any]], None]

DTYPES = ("float32", "bfloat16")
SIZES = {"1 KiB": 256, "1 MiB": 1 << 18, "64 MiB": 1 << 24}
SCATTERED = "reduce_scatter float32 1 MiB"
# torch's errors if its gloo lacks an operation: reduce_scatter came with torch 2.6, its function in torch with 1.13,
# sums of bfloat16 with 2.2. Other errors are not a reason to skip.
# https://github.com/pytorch/pytorch/blob/v2.1.0/torch/csrc/distributed/c10d/ProcessGroupGloo.cpp
_LACKING = {
    "reduce_scatter": re.compile(
        r"(?:Backend |ProcessGroup)gloo does not support \w*reduce_scatter|has no attribute 'reduce_scatter_tensor'",
        re.IGNORECASE,
    ),
    "bfloat16": re.compile(r"\bInvalid scalar type\b"),
}
# Only between nodes: numbers are not added on the way, and each rank adds by itself. All must agree, so a rank that
# differs computes wrongly, while a sum that all were given does not show the faulty one.
OWN_SUM = "all_gather, summed by each rank"
# The inputs of a sum, without any sum: if they differ each time, so do the results of all others.
OWN_NUMBERS = "numbers of each rank"
CONTROL = "arrival_order"
CONTROL_RUNS = 5
# A sum over the ranks that is 0, 1 or 2 in any order except the one in which it is computed.
CANCELLING = (1e8, 1.0, -1e8, 1.0)


def sizes(device: str) -> "Dict[str, int]":
    """Return the sizes on a kind of device, in elements."""
    return {name: count for name, count in SIZES.items() if device != "cpu" or count < 1 << 20}


def names(device: str) -> "List[str]":
    """Return the names of the probes on a kind of device."""
    reduced = [f"all_reduce {dtype} {name}" for dtype in DTYPES for name in sizes(device)]
    return [*reduced, SCATTERED, "all_reduce that cancels"]


def list_node_probes(device: str) -> "List[str]":
    """Return the names of probes between nodes in every torch."""
    return [*(name for name in names(device) if name not in optional(device)), OWN_SUM, OWN_NUMBERS]


def optional(device: str) -> "List[str]":
    """Return the names of probes that some torches lack.

    They are gloo's, because NCCL has all.
    """
    return [name for name in names(device) if device == "cpu" and any(word in name for word in _LACKING)]


def collective(torch: "Any", ask: "Dict[str, Any]", say: "Say") -> None:
    """Run the collectives as one rank, and print each round's digests."""
    from torch import distributed

    backend, rank = ask["backend"], ask["rank"]
    if not distributed.is_available() or (backend == "gloo" and not _has_gloo(distributed)):
        say({"absent": f"not applicable here: this torch was built without torch.distributed or {backend}"})
        return
    # torch's NCCL avoids NVLS in this mode; the switch itself, without the import of torch's compiler.
    torch.set_deterministic_debug_mode("error")
    number_here = rank if "folder" in ask else int(os.environ["LOCAL_RANK"])
    device = f"cuda:{number_here}" if backend == "nccl" else "cpu"
    if backend == "nccl":
        torch.cuda.set_device(number_here)
    limit = datetime.timedelta(seconds=ask["limit"])
    store = _stores(distributed, ask, limit)
    for number in range(ask["rounds"]):
        say({"begin": f"round {number}"})
        distributed.init_process_group(
            backend, store=store(f"rendezvous-{number}"), rank=rank, world_size=ask["world"], timeout=limit
        )
        try:
            for name, compute in _probes(torch, distributed, ask, device).items():
                say({"probe": name, **_run_repeatedly(name, compute, ask["repeats"], backend)})
            if number == 0:
                for mode, compute in _control(torch, distributed, ask, device, store("arrivals")).items():
                    say({"control": mode, **_run_repeatedly(CONTROL, compute, CONTROL_RUNS, backend)})
        finally:
            distributed.destroy_process_group()


def _stores(distributed: "Any", ask: "Dict[str, Any]", limit: "datetime.timedelta") -> "Callable[[str], Any]":
    """Return a function from names to stores.

    The stores are files in a directory of this machine, or torchrun's.
    """
    if "folder" in ask:
        return lambda name: distributed.FileStore(os.path.join(ask["folder"], name), ask["world"])
    from torch.distributed.rendezvous import rendezvous

    shared = next(rendezvous("env://", timeout=limit))[0]
    return lambda name: distributed.PrefixStore(name, shared)


def _has_gloo(distributed: "Any") -> bool:
    """Return whether this torch has gloo.

    torch before 2.0 always has it, and has no function for that.
    """
    return bool(getattr(distributed, "is_gloo_available", lambda: True)())


def _run_repeatedly(name: str, compute: "Callable[[], Any]", repeats: int, backend: str) -> "Dict[str, Any]":
    """Return a rank's results of a probe.

    It is skipped only if gloo itself reports that it lacks the operation.
    """
    result: "Dict[str, Any]" = {"digests": []}
    try:
        for _ in range(repeats):
            value = compute()
            result["digests"].append(digest([value]))
            result["dtype"], result["shape"] = (
                str(value.dtype).rpartition(".")[2],
                "x".join(map(str, value.shape)),
            )
    except Exception as err:
        if backend == "gloo" and any(
            word in name and text.search(str(err)) for word, text in _LACKING.items()
        ):
            return {"skipped": f"not applicable here: {str(err).splitlines()[0]}"[:300]}
        return {"error": f"{type(err).__name__}: {err}"[:2000]}
    return result


def _values(torch: "Any", rank: int, device: str, count: int, dtype: "Any") -> "Any":
    """Return a rank's own numbers over several magnitudes.

    They are drawn on the device.
    """
    private = torch.Generator(device)
    private.manual_seed(1000 + rank)
    power = torch.randint(-3, 4, (count,), generator=private, device=device).float()
    return (torch.randn(count, generator=private, device=device) * torch.pow(10.0, power)).to(dtype)


def _control(
    torch: "Any", distributed: "Any", ask: "Dict[str, Any]", device: str, store: "Any"
) -> "Dict[str, Callable[[], Any]]":
    """Return a sum over the ranks in order of arrival, and its cure.

    The cure is their own order.

    A sum of two has no visible order, so this needs three ranks.
    """
    rank, world = ask["rank"], ask["world"]
    runs = iter(range(1 << 30))

    def compute(ordered: bool) -> "Any":
        time.sleep(random.SystemRandom().random() / 50)
        place = store.add(f"run {next(runs)}", 1)  # the number of ranks that have arrived so far
        tensor = torch.cat(
            [torch.tensor([float(place)], device=device), _values(torch, rank, device, 4096, torch.float32)]
        )
        gathered = [torch.empty_like(tensor) for _ in range(world)]
        distributed.all_gather(gathered, tensor)
        if not ordered:
            gathered.sort(key=lambda part: float(part[0]))
        total = torch.zeros_like(tensor[1:])
        for part in gathered:
            total += part[1:]
        return total

    return {"default": functools.partial(compute, False), "cured": functools.partial(compute, True)}


def _probes(
    torch: "Any", distributed: "Any", ask: "Dict[str, Any]", device: str
) -> "Dict[str, Callable[[], Any]]":
    rank, world = ask["rank"], ask["world"]

    def values(count: int, dtype: "Any") -> "Any":
        return _values(torch, rank, device, count, dtype)

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
        for shift in range(4):  # another rank has the large number in each part
            tensor[shift::4] = CANCELLING[(rank + shift) % 4] / 3
        distributed.all_reduce(tensor)
        return tensor

    def own_sum() -> "Any":
        tensor = values(4096, torch.float32)
        gathered = [torch.empty_like(tensor) for _ in range(world)]
        distributed.all_gather(gathered, tensor)
        total = torch.zeros_like(tensor)
        for part in gathered:
            total += part / 3
        return total

    computations: "Dict[str, Callable[[], Any]]" = {}
    for dtype in DTYPES:
        for name, count in sizes(device).items():
            computations[f"all_reduce {dtype} {name}"] = functools.partial(
                reduced, count, getattr(torch, dtype)
            )
    computations[SCATTERED] = scattered
    computations["all_reduce that cancels"] = cancelled
    if "folder" not in ask:
        computations[OWN_SUM] = own_sum
        computations[OWN_NUMBERS] = functools.partial(values, 4096, torch.float32)
    return computations
