"""The wrong version counts its steps from 0 again."""

import sys
from pathlib import Path

import torch

RIGHT, CHECKPOINT = sys.argv[1] == "right", Path("/tmp/checkpoint.pt")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.linspace(-1, 1, 48).reshape(12, 4)
start = 0
if CHECKPOINT.exists():
    state = torch.load(CHECKPOINT)
    model.load_state_dict(state["model"])
    start = state["step"] if RIGHT else 0
for step in range(start, 10):
    optimizer.zero_grad()
    (model(data) - 1).square().mean().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "step": step + 1}, CHECKPOINT)
torch.save(model.state_dict(), "/tmp/model.pt")
