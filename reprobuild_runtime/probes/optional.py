"""Probes of other packages' kernels, if they can be imported.

torch's own list and switch do not cover them.
"""

from importlib import import_module

from reprobuild_runtime.probes.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from reprobuild_runtime.probes.bench import Bench


def _package(b: "Bench", name: str) -> "Any":
    """Return a module; raise NotHereError if it does not import."""
    try:
        return import_module(name)
    except Exception as err:
        return b.need(None, f"{name.partition('.')[0]} does not import: {type(err).__name__}")


@probe(devices=("cuda",))
def flash_attn_backward(b: "Bench") -> "List[Any]":
    """Run flash-attn with `deterministic` as torch's switch has it.

    Its users have the choice of the profile.
    """
    function = _package(b, "flash_attn").flash_attn_func
    q, k, v = b.leaves(*(b.randn(4, 1024, 16, 64, spread=0).bfloat16() for _ in range(3)))
    strict = b.torch.are_deterministic_algorithms_enabled()
    return b.backward(function(q, k, v, causal=True, deterministic=strict), [q, k, v])


@probe(devices=("cuda",))
def transformer_engine_attention(b: "Bench") -> "List[Any]":
    engine = _package(b, "transformer_engine.pytorch")
    attention = engine.DotProductAttention(16, 64, attention_dropout=0.0, attn_mask_type="causal")
    q, k, v = b.leaves(*(b.randn(512, 4, 16, 64, spread=0).bfloat16() for _ in range(3)))
    return b.backward(attention(q, k, v), [q, k, v])


@probe(devices=("cuda",))
def mamba_scan(b: "Bench") -> "List[Any]":
    module = _package(b, "mamba_ssm").Mamba(d_model=128).to(b.device)
    (x,) = b.leaves(b.randn(4, 512, 128, spread=0))
    return b.backward(b.fill(module)(x), [x, *module.parameters()])


@probe()
def torchvision_roi_align(b: "Bench") -> "List[Any]":
    function = _package(b, "torchvision.ops").roi_align
    (x,) = b.leaves(b.randn(2, 8, 32, 32))
    corners = b.randn(64, 2, spread=0).abs() * 4
    batch = b.index(2, 64, 1).float()
    boxes = b.torch.cat([batch, corners, corners + 8], 1)
    return b.backward(function(x, boxes, 7), [x])
