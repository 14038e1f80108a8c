"""Each epoch ends with a validation and a checkpoint. The wrong version does not load the optimizer."""

import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

RIGHT, CHECKPOINT = sys.argv[1] == "right", Path("/tmp/checkpoint.pt")
model = torch.nn.Linear(4, 1)
measure = torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
dataset = TensorDataset(torch.linspace(-1, 1, 80).reshape(20, 4))
sampler = DistributedSampler(dataset, num_replicas=1, rank=0)
first = 0
if CHECKPOINT.exists():
    state = torch.load(CHECKPOINT)
    model.load_state_dict(state["model"])
    first = state["epoch"]
    if RIGHT:
        optimizer.load_state_dict(state["optimizer"])
for epoch in range(first, 4):
    sampler.set_epoch(epoch)
    for (batch,) in DataLoader(dataset, batch_size=4, sampler=sampler):
        optimizer.zero_grad()
        measure(model(batch), torch.ones(4, 1)).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        measure(model(dataset.tensors[0]), torch.ones(20, 1))
    model.train()
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}, CHECKPOINT
    )
torch.save(model.state_dict(), "/tmp/model.pt")
