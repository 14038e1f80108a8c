"""The comparison's own control.

Each small change to an array must change its digest.
"""

from reprobuild_runtime.digest import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def comparator(numpy: "Any") -> "Dict[str, bool]":
    """Return whether the digest changes, for each change to an array."""
    base = numpy.array([0.0, 1.5, float("nan"), 3.25], dtype="float32")
    bits = base.view("int32")
    lowest, negative, payload = bits.copy(), bits.copy(), bits.copy()
    lowest[1] ^= 1
    negative[0] = -(2**31)
    payload[2] ^= 1
    changed = {
        "lowest bit": lowest.view("float32"),
        "sign of zero": negative.view("float32"),
        "payload of NaN": payload.view("float32"),
        "order": base[[0, 3, 2, 1]],
        "one element more": numpy.concatenate([base, numpy.zeros(1, dtype="float32")]),
        "type": bits,
        "shape": base.reshape(2, 2),
        "stride": numpy.stack([base, base], 1)[:, 0],
        "byte order": base.astype(">f4"),
    }
    return {name: digest([value]) != digest([base]) for name, value in changed.items()}
