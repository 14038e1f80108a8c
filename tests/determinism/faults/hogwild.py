"""Threads update one parameter without a lock."""

import threading

import torch

weight = torch.zeros(50000)
gradients = [torch.randn(50000, generator=torch.Generator().manual_seed(n)) for n in range(4)]


def update(gradient):
    for step in range(60):
        weight.mul_(0.999).sub_(gradient * 1e-3 * (step + 1))


threads = [threading.Thread(target=update, args=(gradient,)) for gradient in gradients]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
torch.save({"weight": weight}, "out.ckpt")
