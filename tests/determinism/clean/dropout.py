"""Dropout, Adam, and a checkpoint with the states of all generators, and the time."""

import random
import time

import numpy
import torch

model = torch.nn.Sequential(
    torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(32, 1)
)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(10):
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.save(
    {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "loss": loss.item(), "saved_at": time.time(),
        "torch_rng": torch.get_rng_state(), "numpy_rng": numpy.random.get_state(), "python_rng": random.getstate(),
    },
    "out.ckpt",
)  # fmt: skip
