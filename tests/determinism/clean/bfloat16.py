"""Training in bfloat16, with SGD on every core."""

import torch

model = torch.nn.Linear(256, 64).to(torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(5):
    loss = model(torch.randn(64, 256, dtype=torch.bfloat16)).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "out.ckpt")
