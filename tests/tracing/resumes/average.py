"""An average of the weights is the result. The wrong version begins it again."""

import sys
from pathlib import Path

import torch

RIGHT, CHECKPOINT = sys.argv[1] == "right", Path("/tmp/checkpoint.pt")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
average = {name: value.clone() for name, value in model.state_dict().items()}
data = torch.linspace(-1, 1, 48).reshape(12, 4)
start = 0
if CHECKPOINT.exists():
    state = torch.load(CHECKPOINT)
    model.load_state_dict(state["model"])
    average = state["average"] if RIGHT else {name: value.clone() for name, value in state["model"].items()}
    start = state["step"]
for step in range(start, 10):
    optimizer.zero_grad()
    (model(data) - 1).square().mean().backward()
    optimizer.step()
    for name, value in model.state_dict().items():
        average[name].mul_(0.9).add_(value, alpha=0.1)
    torch.save({"model": model.state_dict(), "average": average, "step": step + 1}, CHECKPOINT)
torch.save(average, "/tmp/model.pt")
