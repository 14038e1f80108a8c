"""NumPy draws the noise of each batch. The wrong version saves the generator of PyTorch alone."""

import sys
from pathlib import Path

import numpy as np
import torch

RIGHT, CHECKPOINT = sys.argv[1] == "right", Path("/tmp/checkpoint.pt")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
data = torch.linspace(-1, 1, 48).reshape(12, 4)
start = 0
if CHECKPOINT.exists():
    state = torch.load(CHECKPOINT, weights_only=False)
    model.load_state_dict(state["model"])
    torch.set_rng_state(state["torch"])
    start = state["step"]
    if RIGHT:
        np.random.set_state(state["numpy"])
for step in range(start, 10):
    noise = torch.from_numpy(np.random.normal(size=(12, 4)).astype(np.float32))
    optimizer.zero_grad()
    (model(data + noise) - 1).square().mean().backward()
    optimizer.step()
    torch.save(
        {
            "model": model.state_dict(), "step": step + 1, "torch": torch.get_rng_state(),
            "numpy": np.random.get_state(),
        },
        CHECKPOINT,
    )  # fmt: skip
torch.save(model.state_dict(), "/tmp/model.pt")
