"""Train the transformer for some steps in mixed precision, and save a checkpoint."""

import argparse
import hashlib
import io
from pathlib import Path

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from gputrain.data import DIGITS, Sequences
from gputrain.model import Transformer

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def main():
    args = arguments()
    device = torch.device(args.device)
    loader = DataLoader(
        Sequences(), batch_size=32, shuffle=True, num_workers=2, pin_memory=device.type == "cuda", drop_last=True
    )
    model = Transformer().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    # fp16 has so few exponents that small gradients vanish: the loss is scaled up, and they are scaled down again.
    scaler = torch.amp.GradScaler(device.type, enabled=args.precision == "fp16")
    for step, (digits, following) in enumerate(batches(loader, args.steps), start=1):
        digits, following = digits.to(device, non_blocking=True), following.to(device, non_blocking=True)
        with torch.autocast(device.type, PRECISIONS[args.precision], enabled=args.precision != "fp32"):
            loss = F.cross_entropy(model(digits).reshape(-1, DIGITS), following.reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        if step % 5 == 0 or step == args.steps:
            print(f"step {step:4d}  loss {loss.item():.6f}", flush=True)
    digest = save(args.out, model, optimizer, scaler)
    print(f"{device.type} {args.precision} checkpoint sha256 {digest}")


def arguments():
    """Return the options; without `--device` a GPU is taken where there is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", choices=tuple(PRECISIONS), default="bf16")
    parser.add_argument("--out", type=Path, default=Path("checkpoint.pt"))
    args = parser.parse_args()
    if args.steps < 1:
        parser.error("--steps must be at least 1")
    return args


def batches(loader, steps):
    """Yield `steps` batches, going through the data as often as that takes."""
    left = steps
    while left > 0:
        for batch in loader:
            yield batch
            left -= 1
            if left == 0:
                return


def save(path, model, optimizer, scaler):
    """Write the checkpoint and return its sha256."""
    # Through memory: given a path, torch.save writes the file's name into the file.
    buffer = io.BytesIO()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}
    torch.save(state, buffer)
    path.write_bytes(buffer.getvalue())
    return hashlib.sha256(buffer.getvalue()).hexdigest()


if __name__ == "__main__":
    main()
