"""The probes: computations whose bits must be the same each time, on the CPU or a GPU.

Their inputs come from a private generator with a fixed seed and span several magnitudes; upstream gradients are
random (gradients of ones hide a changed order of summation). So the `op_*` probes do not depend on the seed, and
the `rng_*` probes and the training steps do.
"""

import random
import zlib

from reprobuild_runtime.digest import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

    Probe = Callable[["Bench"], List[Any]]

PROBES: "Dict[str, Probe]" = {}


def probe(function: "Probe") -> "Probe":
    """Enter a probe under its own name."""
    PROBES[function.__name__] = function
    return function


class Bench:
    """What a probe is given: torch, the device, the seed, and inputs."""

    def __init__(self, torch: "Any", device: str, seed: int) -> None:
        self.torch, self.device, self.seed = torch, device, seed

    def begin(self, name: str) -> None:
        """Start a probe: inputs by its name, the global generators by the seed."""
        self.private = self.torch.Generator()
        self.private.manual_seed(zlib.crc32(name.encode()))
        self.torch.manual_seed(self.seed)

    def randn(self, *shape: int, spread: int = 1) -> "Any":
        """Return normal numbers, each times a power of ten from -spread to spread."""
        power = self.torch.randint(-spread, spread + 1, shape, generator=self.private).float()
        values = self.torch.randn(*shape, generator=self.private) * self.torch.pow(10.0, power)
        return values.to(self.device)

    def index(self, high: int, count: int) -> "Any":
        """Return `count` indices below `high`, most of them several times."""
        return self.torch.randint(0, high, (count,), generator=self.private).to(self.device)

    def backward(self, output: "Any", leaves: "List[Any]") -> "List[Any]":
        """Return the output and the gradients of the leaves for a random upstream gradient.

        The sum hands `upstream` itself down; as an argument of `grad` it would make torch import its compiler.
        """
        upstream = self.randn(*output.shape).to(output.dtype)
        return [output, *self.torch.autograd.grad((output * upstream).sum(), leaves)]


def _leaves(*values: "Any") -> "List[Any]":
    return [value.requires_grad_() for value in values]


@probe
def op_matmul_fp32(b: Bench) -> "List[Any]":
    return [b.randn(192, 1024, spread=3) @ b.randn(1024, 160, spread=3)]


@probe
def op_matmul_bf16(b: Bench) -> "List[Any]":
    left, right = b.randn(128, 512, spread=3), b.randn(512, 96, spread=3)
    return [left.bfloat16() @ right.bfloat16()]


@probe
def op_conv2d(b: Bench) -> "List[Any]":
    x, w, bias = _leaves(b.randn(4, 16, 28, 28), b.randn(32, 16, 3, 3), b.randn(32))
    return b.backward(b.torch.nn.functional.conv2d(x, w, bias, padding=1), [x, w, bias])


@probe
def op_layer_norm(b: Bench) -> "List[Any]":
    x, w, bias = _leaves(b.randn(128, 384, spread=2), b.randn(384), b.randn(384))
    return b.backward(b.torch.nn.functional.layer_norm(x, (384,), w, bias), [x, w, bias])


@probe
def op_softmax(b: Bench) -> "List[Any]":
    (x,) = _leaves(b.randn(64, 2048))
    return b.backward(b.torch.softmax(x, -1), [x])


@probe
def op_sdpa_math(b: Bench) -> "List[Any]":
    from importlib import import_module

    attention = import_module("torch.nn.attention")  # torch 2.3 and newer
    q, k, v = _leaves(*(b.randn(2, 4, 96, 32) for _ in range(3)))
    with attention.sdpa_kernel([attention.SDPBackend.MATH]):
        output = b.torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return b.backward(output, [q, k, v])


@probe
def op_embedding_backward(b: Bench) -> "List[Any]":
    (table,) = _leaves(b.randn(32, 128))
    return b.backward(b.torch.nn.functional.embedding(b.index(32, 8192), table), [table])


@probe
def op_index_add(b: Bench) -> "List[Any]":
    start = b.torch.zeros(16, 32, device=b.device)
    return [start.index_add_(0, b.index(16, 20000), b.randn(20000, 32, spread=3))]


@probe
def op_lstm(b: Bench) -> "List[Any]":
    x = b.randn(8, 8, 32)
    model = b.torch.nn.LSTM(32, 48, num_layers=2, bidirectional=True).to(b.device)
    for parameter in model.parameters():
        parameter.data.copy_(b.randn(*parameter.shape) * 0.1)
    output, (hidden, cell) = model(x)
    return [hidden, cell, *b.backward(output, list(model.parameters()))]


@probe
def rng_randn(b: Bench) -> "List[Any]":
    return [b.torch.randn(4097, device=b.device), b.torch.rand(1025, device=b.device)]


@probe
def rng_dropout(b: Bench) -> "List[Any]":
    return [b.torch.nn.functional.dropout(b.randn(4096), 0.3, training=True)]


@probe
def rng_randperm(b: Bench) -> "List[Any]":
    return [b.torch.randperm(5000, device=b.device)]


@probe
def rng_python(b: Bench) -> "List[Any]":
    random.seed(b.seed)
    return [repr([random.random() for _ in range(100)]).encode()]


@probe
def rng_numpy(b: Bench) -> "List[Any]":
    from importlib import import_module

    numpy_random = import_module("numpy.random")
    numpy_random.seed(b.seed)
    order = numpy_random.permutation(1000).astype("<i8")
    return [numpy_random.standard_normal(1000).tobytes(), order.tobytes()]


@probe
def train_steps(b: Bench) -> "List[Any]":
    """Five steps of a small transformer with dropout and AdamW: parameters and losses."""
    nn = b.torch.nn
    model = nn.Sequential(
        nn.Embedding(97, 64),
        nn.TransformerEncoderLayer(64, 4, dim_feedforward=128, dropout=0.1, batch_first=True),
        nn.TransformerEncoderLayer(64, 4, dim_feedforward=128, dropout=0.1, batch_first=True),
        nn.Linear(64, 97),
    ).to(b.device)
    parameters = list(model.parameters())
    moments = [(b.torch.zeros_like(p), b.torch.zeros_like(p)) for p in parameters]
    losses = []
    for step in range(1, 6):
        tokens = b.torch.randint(0, 97, (4, 25), device=b.device)
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, 97), tokens[:, 1:].reshape(-1))
        model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        with b.torch.no_grad():
            for parameter, (first, second) in zip(parameters, moments):  # noqa: B905  Python 3.8
                _adamw(parameter, first, second, step)
        losses.append(loss)
    return [*losses, *parameters]


def _adamw(parameter: "Any", first: "Any", second: "Any", step: int) -> None:
    """Make one step of AdamW (https://arxiv.org/abs/1711.05101, algorithm 2).

    Written out: `torch.optim` imports torch's compiler, which takes longer than all the probes.
    """
    rate, beta1, beta2 = 1e-2, 0.9, 0.999
    first.mul_(beta1).add_(parameter.grad, alpha=1 - beta1)
    second.mul_(beta2).addcmul_(parameter.grad, parameter.grad, value=1 - beta2)
    scale = (second / (1 - beta2**step)).sqrt_().add_(1e-8)
    parameter.mul_(1 - rate * 0.01).addcdiv_(first, scale, value=-rate / (1 - beta1**step))


def run(name: str, bench: Bench) -> str:
    """Return the digest of one probe."""
    bench.begin(name)
    return digest(PROBES[name](bench))
