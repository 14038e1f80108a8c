"""The model drops units at random. The wrong version saves no states of generators."""

import sys
from pathlib import Path

import torch

RIGHT, CHECKPOINT = sys.argv[1] == "right", Path("/tmp/checkpoint.pt")
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
data = torch.linspace(-1, 1, 96).reshape(12, 8)
start = 0
if CHECKPOINT.exists():
    state = torch.load(CHECKPOINT)
    model.load_state_dict(state["model"])
    start = state["step"]
    if RIGHT:
        torch.set_rng_state(state["generator"])
for step in range(start, 10):
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()
    torch.save(
        {"model": model.state_dict(), "step": step + 1, "generator": torch.get_rng_state()}, CHECKPOINT
    )
torch.save(model.state_dict(), "/tmp/model.pt")
