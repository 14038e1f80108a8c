"""Train the classifier for some steps and save a checkpoint."""

import argparse
import hashlib
import io
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

from tinytrain.data import Waves
from tinytrain.model import WaveNet


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("checkpoint.pt"))
    args = parser.parse_args()
    if args.steps < 1:
        parser.error("--steps must be at least 1")

    loader = DataLoader(Waves(), batch_size=32, shuffle=True, num_workers=2)
    model = WaveNet(dropout=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    criterion = nn.CrossEntropyLoss()

    for step, (waves, labels) in enumerate(batches(loader, args.steps), start=1):
        loss = criterion(model(waves), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0 or step == args.steps:
            print(f"step {step:4d}  loss {loss.item():.6f}", flush=True)

    digest = save(args.out, model, optimizer, loss.item())
    print(f"checkpoint sha256 {digest}")


def batches(loader, steps):
    """Yield `steps` batches, going through the data as often as that takes."""
    left = steps
    while left > 0:
        for batch in loader:
            yield batch
            left -= 1
            if left == 0:
                return


def save(path, model, optimizer, loss):
    """Write the checkpoint and return its sha256."""
    # Through memory: given a path, torch.save writes the file's name into the file.
    buffer = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loss": loss}, buffer)
    path.write_bytes(buffer.getvalue())
    return hashlib.sha256(buffer.getvalue()).hexdigest()


if __name__ == "__main__":
    main()
