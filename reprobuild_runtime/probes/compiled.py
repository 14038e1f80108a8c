"""Probes of torch.compile, if the image has a compiler."""

import importlib.util
import shutil

from reprobuild_runtime.probes.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List

    from reprobuild_runtime.probes.bench import Bench


def explain_absence(torch: "Any", device: str) -> str:
    """Return the reason for which torch.compile cannot compile here, or "".

    It needs a C++ compiler on the CPU, and Triton and a C compiler on a GPU.
    """
    if not hasattr(torch, "compile"):
        return "this torch has no torch.compile"
    names = ("g++", "clang++") if device == "cpu" else ("gcc", "cc", "clang")
    if not any(shutil.which(name) for name in names):
        return "there is no compiler in this environment"
    if device == "cuda" and not importlib.util.find_spec("triton"):
        return "there is no Triton in this environment"
    return ""


def _compiler(b: "Bench") -> "Any":
    """Return torch.compile, if its compilers are available."""
    absence = explain_absence(b.torch, b.device)
    return b.need(None if absence else b.torch.compile, absence)


def _run(b: "Bench", compute: "Callable[[], List[Any]]") -> "List[Any]":
    """Compute without earlier compilations: a warm cache is a hidden input."""
    from torch._inductor import utils

    b.torch._dynamo.reset()
    fresh = getattr(utils, "fresh_cache", None) or getattr(utils, "fresh_inductor_cache", None)
    cold = b.need(fresh, "this torch cannot compile with a cold cache")
    try:
        with cold():
            return compute()
    except Exception as err:
        if type(err).__module__.startswith(("torch._dynamo", "torch._inductor")):
            lines = str(err).strip().splitlines() or [""]
            b.need(None, f"torch.compile does not work in this environment: {lines[0]}")
        raise


@probe(devices=("cuda",), most=1, thorough=True)
def compiled_gpt_block(b: "Bench") -> "List[Any]":
    from reprobuild_runtime.probes.training import gpt

    compile_ = _compiler(b)
    model = gpt(b, checkpointed=False)
    block = model.blocks[0]
    (x,) = b.leaves(b.randn(b.pick(2, 8), b.pick(16, 128), block.out.in_features, spread=0))
    block.eval()  # the draws of compiled dropout are inductor's own
    return _run(b, lambda: b.backward(compile_(block)(x), [x, *block.parameters()]))


@probe(most=1, thorough=True)
def compiled_reduction(b: "Bench") -> "List[Any]":
    compile_ = _compiler(b)
    (x,) = b.leaves(b.randn(b.pick(64, 4096), b.pick(512, 4096)))

    def function(value: "Any") -> "Any":
        return b.functional.gelu(b.torch.softmax(value, -1) * value).sum(-1)

    return _run(b, lambda: b.backward(compile_(function)(x), [x]))


@probe(devices=("cuda",), most=1, thorough=True)
def compiled_flex_attention(b: "Bench") -> "List[Any]":
    try:
        from torch.nn.attention.flex_attention import flex_attention
    except ImportError:
        flex_attention = b.need(None, "this torch has no flex_attention")
    compile_ = _compiler(b)
    q, k, v = b.leaves(*(b.randn(2, 4, 512, 64, spread=0).bfloat16() for _ in range(3)))
    return _run(b, lambda: b.backward(compile_(flex_attention)(q, k, v), [q, k, v]))
