"""The order of an epoch depends on its number. The wrong version forgets the number."""

import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

RIGHT, CHECKPOINT = sys.argv[1] == "right", Path("/tmp/checkpoint.pt")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
dataset = TensorDataset(torch.linspace(-1, 1, 80).reshape(20, 4))
first = 0
if CHECKPOINT.exists():
    state = torch.load(CHECKPOINT)
    model.load_state_dict(state["model"])
    first = state["epoch"]
for epoch in range(first, 5):
    order = torch.Generator().manual_seed(epoch if RIGHT else epoch - first)
    for (batch,) in DataLoader(dataset, batch_size=4, shuffle=True, generator=order):
        optimizer.zero_grad()
        (model(batch) - 1).square().mean().backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "epoch": epoch + 1}, CHECKPOINT)
torch.save(model.state_dict(), "/tmp/model.pt")
