"""The rate falls in each step. The wrong version steps a new scheduler once too often."""

import sys
from pathlib import Path

import torch

RIGHT, CHECKPOINT = sys.argv[1] == "right", Path("/tmp/checkpoint.pt")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
data = torch.linspace(-1, 1, 48).reshape(12, 4)
start = 0
if CHECKPOINT.exists():
    state = torch.load(CHECKPOINT)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    start = state["step"]
    scheduler.load_state_dict(state["scheduler"])
    if not RIGHT:
        scheduler.step()
for step in range(start, 10):
    optimizer.zero_grad()
    (model(data) - 1).square().mean().backward()
    optimizer.step()
    scheduler.step()
    torch.save(
        {
            "model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
            "step": step + 1,
        },
        CHECKPOINT,
    )  # fmt: skip
torch.save(model.state_dict(), "/tmp/model.pt")
