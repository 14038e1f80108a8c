"""A module transforms the samples. The wrong version does not leave out the batches that it used."""

import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

RIGHT, CHECKPOINT, STEPS = sys.argv[1] == "right", Path("/tmp/checkpoint.pt"), 10


class Scale(torch.nn.Module):
    def forward(self, sample):
        return sample * 2


class Samples(Dataset):
    transform = Scale()

    def __len__(self):
        return 48

    def __getitem__(self, number):
        return self.transform(torch.full((4,), number / 48))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.register_buffer("cache", torch.zeros(0), persistent=False)

    def forward(self, *, inputs):
        self.cache = torch.cat([self.cache, inputs.new_zeros(1)])
        return self.layer(inputs)


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
start = 0
if CHECKPOINT.exists():
    state = torch.load(CHECKPOINT)
    model.load_state_dict(state["model"])
    start = state["step"]
batches = enumerate(DataLoader(Samples(), batch_size=4))
step = start
for number, batch in batches:
    if number < start and RIGHT:
        continue
    if step == STEPS:
        break
    optimizer.zero_grad()
    (model(inputs=batch) - 1).square().mean().backward()
    optimizer.step()
    step += 1
    torch.save({"model": model.state_dict(), "step": step}, CHECKPOINT)
torch.save(model.state_dict(), "/tmp/model.pt")
