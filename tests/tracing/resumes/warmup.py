"""The rate is 0 at first. The wrong version does not load the scheduler."""

import sys
from pathlib import Path

import torch

RIGHT, CHECKPOINT = sys.argv[1] == "right", Path("/tmp/checkpoint.pt")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0, step - 2) / 10)
data = torch.linspace(-1, 1, 48).reshape(12, 4)
start = 0
if CHECKPOINT.exists():
    state = torch.load(CHECKPOINT)
    model.load_state_dict(state["model"])
    start = state["step"]
    if RIGHT:
        scheduler.load_state_dict(state["scheduler"])
        optimizer.load_state_dict(state["optimizer"])
for step in range(start, 10):
    optimizer.zero_grad()
    (model(data) - 1).square().mean().backward()
    optimizer.step()
    scheduler.step()
    if step in (1, 5):
        torch.save(
            {
                "model": model.state_dict(), "step": step + 1, "scheduler": scheduler.state_dict(),
                "optimizer": optimizer.state_dict(),
            },
            CHECKPOINT,
        )  # fmt: skip
torch.save(model.state_dict(), "/tmp/model.pt")
