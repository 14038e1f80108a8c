"""A scaler of gradients grows every three steps. The wrong version begins with a new one."""

import sys
from pathlib import Path

import torch

RIGHT, CHECKPOINT = sys.argv[1] == "right", Path("/tmp/checkpoint.pt")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
data = torch.linspace(-1, 1, 48).reshape(12, 4)
start = 0
if CHECKPOINT.exists():
    state = torch.load(CHECKPOINT)
    model.load_state_dict(state["model"])
    start = state["step"]
    if RIGHT:
        scaler.load_state_dict(state["scaler"])
for step in range(start, 10):
    optimizer.zero_grad()
    scaler.scale((model(data) - 1).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
    torch.save({"model": model.state_dict(), "scaler": scaler.state_dict(), "step": step + 1}, CHECKPOINT)
torch.save(model.state_dict(), "/tmp/model.pt")
