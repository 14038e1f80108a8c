"""The wrong version saves the parameters with 8 bits of precision."""

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
    start = state["step"]
for step in range(start, 10):
    optimizer.zero_grad()
    (model(data) - 1).square().mean().backward()
    optimizer.step()
    kind = torch.float32 if RIGHT else torch.bfloat16
    torch.save(
        {"model": {name: value.to(kind) for name, value in model.state_dict().items()}, "step": step + 1},
        CHECKPOINT,
    )
torch.save(model.state_dict(), "/tmp/model.pt")
