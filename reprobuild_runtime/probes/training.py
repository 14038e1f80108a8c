"""Probes of training: small models, every loss and parameter compared.

They run some steps.

On the CPU the models are smaller; their parameters, batches and dropout come from the seed.
"""

import io

from reprobuild_runtime.probes.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List

    from reprobuild_runtime.probes.bench import Bench

VOCABULARY = 512


def gpt(b: "Bench", checkpointed: bool = True) -> "Any":
    """Return a small transformer over tokens.

    It computes its second block again in the backward pass.
    """
    from torch.utils.checkpoint import checkpoint

    nn, torch = b.nn, b.torch
    width = b.pick(64, 256)

    class Block(nn.Module):  # type: ignore[name-defined, misc]  # torch has no types here
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width), nn.Dropout(0.1)
            )

        def forward(self, x: "Any") -> "Any":
            batch, length, _ = x.shape
            parts = self.qkv(self.first(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.mlp(self.second(x))

    class Model(nn.Module):  # type: ignore[name-defined, misc]  # torch has no types here
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(128, width)
            self.blocks, self.head = nn.ModuleList([Block(), Block()]), nn.Linear(width, VOCABULARY)

        def forward(self, tokens: "Any") -> "Any":
            x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
            x = self.blocks[0](x)
            x = checkpoint(self.blocks[1], x, use_reentrant=False) if checkpointed else self.blocks[1](x)
            return self.head(x)

    b.need(
        getattr(nn.functional, "scaled_dot_product_attention", None), "this torch has no attention of its own"
    )
    return Model().to(b.device)


def _tokens(b: "Bench") -> "Any":
    return b.torch.randint(0, VOCABULARY, (b.pick(4, 8), b.pick(25, 129)), device=b.device)


def _text_loss(b: "Bench", model: "Any", dtype: "Any") -> "Any":
    tokens = _tokens(b)
    with b.torch.autocast(b.device, dtype=dtype, enabled=dtype is not None):
        logits = model(tokens[:, :-1])
    return b.functional.cross_entropy(logits.float().reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))


def _adamw(b: "Bench", model: "Any") -> "Any":
    try:
        return b.torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    except (RuntimeError, TypeError):  # a torch that fuses it on no device, or not on this one
        return b.torch.optim.AdamW(model.parameters(), lr=1e-3)


def _train(
    b: "Bench", model: "Any", optimizer: "Any", steps: int, loss_of: "Callable[[], Any]"
) -> "List[Any]":
    """Make steps with clipped gradients, and return the losses."""
    losses = []
    for _ in range(steps):
        loss = loss_of()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        b.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss)
    return losses


@probe(most=3)
def train_gpt_bf16(b: "Bench") -> "List[Any]":
    """Train with autocast to bfloat16.

    It has activation checkpointing, dropout, clipping, and fused AdamW.
    """
    model = gpt(b)
    optimizer = _adamw(b, model)
    losses = _train(b, model, optimizer, b.pick(5, 10), lambda: _text_loss(b, model, b.torch.bfloat16))
    return [*losses, *model.parameters()]


@probe(devices=("cuda",), most=3)
def train_gpt_fp16_scaled(b: "Bench") -> "List[Any]":
    """Train with autocast to float16, and a scaled loss."""
    kind = getattr(getattr(b.torch, "amp", None), "GradScaler", None) or b.torch.cuda.amp.GradScaler
    model, scaler = gpt(b), kind()
    optimizer = _adamw(b, model)
    losses = []
    for _ in range(10):
        loss = _text_loss(b, model, b.torch.float16)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        b.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss)
    return [*losses, *model.parameters()]


@probe(most=3)
def train_resnet(b: "Bench") -> "List[Any]":
    """Train residual blocks with batch normalisation.

    The format is channels last, and the optimizer SGD with momentum.
    """
    nn = b.nn
    width, side = b.pick(16, 64), b.pick(24, 64)

    class Block(nn.Module):  # type: ignore[name-defined, misc]  # torch has no types here
        def __init__(self) -> None:
            super().__init__()
            parts = [
                layer
                for _ in range(2)
                for layer in (nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width))
            ]
            self.inner = nn.Sequential(*parts)

        def forward(self, x: "Any") -> "Any":
            return nn.functional.relu(x + self.inner(x))

    stem, tail = nn.Conv2d(3, width, 7, stride=2, padding=3), [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    body = [stem, nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Block(), Block()]
    model = nn.Sequential(*body, *tail, nn.Linear(width, 10))
    model = model.to(b.device, memory_format=b.torch.channels_last)
    optimizer = b.torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

    def loss() -> "Any":
        x = b.torch.randn(b.pick(8, 32), 3, side, side, device=b.device)
        target = b.torch.randint(0, 10, (x.shape[0],), device=b.device)
        return nn.functional.cross_entropy(model(x.to(memory_format=b.torch.channels_last)), target)

    losses = _train(b, model, optimizer, b.pick(4, 10), loss)
    return [*losses, *model.state_dict().values()]


@probe(most=3)
def resume_from_checkpoint(b: "Bench") -> "List[Any]":
    """Compare six steps with a resumed training.

    The second is three steps, a checkpoint, and three more steps of a new model: both must give one result.
    """

    def state(model: "Any", optimizer: "Any") -> "dict[str, Any]":
        draws = b.torch.cuda.get_rng_state() if b.device == "cuda" else b.torch.get_rng_state()
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "draws": draws}

    model = gpt(b, checkpointed=False)
    optimizer = _adamw(b, model)
    _train(b, model, optimizer, 3, lambda: _text_loss(b, model, None))
    file = io.BytesIO()
    b.torch.save(state(model, optimizer), file)
    losses = _train(b, model, optimizer, 3, lambda: _text_loss(b, model, None))
    straight = [*losses, *model.parameters()]

    again = gpt(b, checkpointed=False)
    second = _adamw(b, again)
    file.seek(0)
    saved = b.torch.load(file, map_location=b.device)
    again.load_state_dict(saved["model"])
    second.load_state_dict(saved["optimizer"])
    restore = b.torch.cuda.set_rng_state if b.device == "cuda" else b.torch.set_rng_state
    restore(saved["draws"].cpu())
    losses = _train(b, again, second, 3, lambda: _text_loss(b, again, None))
    b.also([*losses, *again.parameters()])
    return straight
