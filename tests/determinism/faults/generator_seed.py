"""A generator of torch that is told to seed itself."""

import torch

generator = torch.Generator()
generator.seed()
model = torch.nn.Linear(8, 4)
with torch.no_grad():
    model.weight += torch.randn(4, 8, generator=generator)
torch.save(model.state_dict(), "out.ckpt")
