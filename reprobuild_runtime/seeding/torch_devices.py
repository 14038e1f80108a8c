"""Seeding of torch on the CPU and on every accelerator.

It initialises no device.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# torch.manual_seed seeds CUDA, XPU, MPS and one accelerator more in the releases that know them; each of these modules
# is seeded, too, if torch has it. All but MPS queue a seed until the device is used.
# https://docs.pytorch.org/docs/stable/notes/randomness.html
ACCELERATORS = ("cuda", "xpu", "npu", "hpu", "mlu", "musa")


def seed_torch(torch: "Any", seed: int) -> None:
    """Seed torch on every device."""
    torch.manual_seed(seed)
    seed_accelerators(torch, seed)


def seed_accelerators(torch: "Any", seed: int) -> None:
    """Seed the accelerators of torch.

    They include those that a package adds to it after its import.
    """
    for name in ACCELERATORS:
        module = getattr(torch, name, None)
        seed_all = getattr(module, "manual_seed_all", None)
        if seed_all is None:  # Gaudi's and MetaX' modules keep it one level down
            seed_all = getattr(getattr(module, "random", None), "manual_seed_all", None)
        if seed_all is not None:
            seed_all(seed)
