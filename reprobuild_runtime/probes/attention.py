"""Probes of attention, by each of torch's implementations."""

import warnings

from reprobuild_runtime.probes import expectations
from reprobuild_runtime.probes.bench import NotHereError, probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from reprobuild_runtime.probes.bench import Bench


def _sdpa(b: "Bench", backend: str, shape: "Any", *, dtype: str = "float32", heads: int = 0) -> "List[Any]":
    """Run a backend forwards and backwards.

    `heads` is the number of heads of keys and values, if they have fewer.
    """
    try:
        from torch.nn import attention
    except ImportError:
        attention = None
    kernel = b.need(
        getattr(attention, "sdpa_kernel", None), "this torch cannot choose its attention (2.3 and newer can)"
    )
    chosen = b.need(
        getattr(attention.SDPBackend, backend, None), f"this torch has no attention of the kind {backend}"
    )
    kind = getattr(b.torch, dtype)
    fewer = (shape[0], heads or shape[1], *shape[2:])
    q, k, v = (b.randn(*dimensions).to(kind) for dimensions in (shape, fewer, fewer))
    q, k, v = b.leaves(q, k, v)
    more = {"enable_gqa": True} if heads else {}
    with kernel([chosen]), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            try:
                output = b.functional.scaled_dot_product_attention(q, k, v, is_causal=True, **more)
            except TypeError as err:
                if "enable_gqa" not in str(err):
                    raise
                raise NotHereError("this torch has no enable_gqa (2.5 and newer have it)") from err
            results = b.backward(output, [q, k, v])
        except RuntimeError as err:
            if "No available kernel" not in str(err):
                raise
            messages = [str(warning.message) for warning in caught]
            refusal = next((text for text in messages if expectations.find_alert_operation(text)), "")
            if refusal:  # torch leaves a backend out in strict mode, and gives the reason in a warning
                raise RuntimeError(refusal) from err
            b.need(None, f"torch has no {backend} kernel for this device and these shapes")
            raise
    for warning in caught:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return results


@probe()
def sdpa_math(b: "Bench") -> "List[Any]":
    return _sdpa(b, "MATH", b.pick((2, 4, 64, 32), (2, 8, 512, 64)))


@probe()
def sdpa_flash(b: "Bench") -> "List[Any]":
    return _sdpa(
        b, "FLASH_ATTENTION", b.pick((2, 4, 96, 32), (1, 8, 2048, 128)), dtype=b.pick("float32", "bfloat16")
    )


@probe(devices=("cuda",))
def sdpa_flash_grouped(b: "Bench") -> "List[Any]":
    return _sdpa(b, "FLASH_ATTENTION", (1, 16, 1024, 128), dtype="bfloat16", heads=4)


@probe(devices=("cuda",))
def sdpa_efficient(b: "Bench") -> "List[Any]":
    return _sdpa(b, "EFFICIENT_ATTENTION", (1, 2, 8192, 64), dtype="bfloat16")


@probe(devices=("cuda",))
def sdpa_cudnn(b: "Bench") -> "List[Any]":
    return _sdpa(b, "CUDNN_ATTENTION", (2, 16, 1024, 64), dtype="bfloat16")


@probe()
def multihead_attention(b: "Bench") -> "List[Any]":
    width = b.pick(64, 512)
    module = b.fill(b.nn.MultiheadAttention(width, 4, batch_first=True))
    (x,) = b.leaves(b.randn(4, b.pick(32, 256), width))
    return b.backward(module(x, x, x)[0], [x, *module.parameters()])
