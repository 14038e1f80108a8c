"""Addition by several threads at once: `index_put_` with accumulation."""

import torch

torch.set_num_threads(8)  # More than the cores: two threads of a busy machine run one after the other, in order.
values = torch.randn(1 << 20, generator=torch.Generator().manual_seed(1))
index = torch.arange(1 << 20) % 64
bins = torch.zeros(40, 64)
for step in range(40):
    bins[step].index_put_((index,), values, accumulate=True)
torch.save({"bins": bins, "step": 40}, "out.ckpt")
