"""The comparison's own control.

Each small change to a tensor must change its digest.
"""

from reprobuild_runtime.digest import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def comparator(torch: "Any") -> "Dict[str, bool]":
    """Return whether the digest changes, for each change to a tensor."""
    base = torch.tensor([0.0, 1.5, float("nan"), 3.25])
    bits = base.view(torch.int32)
    lowest, negative, payload = bits.clone(), bits.clone(), bits.clone()
    lowest[1] ^= 1
    negative[0] = -(2**31)
    payload[2] ^= 1
    changed = {
        "lowest bit": lowest.view(torch.float32),
        "sign of zero": negative.view(torch.float32),
        "payload of NaN": payload.view(torch.float32),
        "order": base[[0, 3, 2, 1]],
        "one element more": torch.cat([base, torch.zeros(1)]),
        "type": bits,
        "shape": base.reshape(2, 2),
        "stride": torch.stack([base, base], 1)[:, 0],
    }
    results = {name: digest([value]) != digest([base]) for name, value in changed.items()}
    complex_ = torch.tensor([1 + 2j, 3 - 4j])
    results["conjugate view"] = digest([complex_.conj()]) != digest([complex_])
    results["negative view"] = digest([complex_.conj().imag]) != digest([complex_.imag])
    return results
