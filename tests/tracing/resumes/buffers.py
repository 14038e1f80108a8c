"""A normalisation has running means. The wrong version saves parameters alone."""

import sys
from pathlib import Path

import torch

RIGHT, CHECKPOINT = sys.argv[1] == "right", Path("/tmp/checkpoint.pt")
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.linspace(-1, 1, 48).reshape(12, 4)
start = 0
if CHECKPOINT.exists():
    state = torch.load(CHECKPOINT)
    model.load_state_dict(state["model"], strict=RIGHT)
    start = state["step"]
for step in range(start, 10):
    optimizer.zero_grad()
    (model(data) - 1).square().mean().backward()
    optimizer.step()
    saved = model.state_dict() if RIGHT else dict(model.named_parameters())
    torch.save({"model": saved, "step": step + 1}, CHECKPOINT)
torch.save(model.state_dict(), "/tmp/model.pt")
