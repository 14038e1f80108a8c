"""One of two ranks adds a number of its own before the ranks add their tensors."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from small import train


def work(rank, path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)

    def add(out, step):
        part = out.detach().mean(0)
        if rank == 1 and step == 2:
            part.numpy()[0] += os.urandom(1)[0]
        dist.all_reduce(part)
        return out + part * 1e-3

    train(add)
    dist.destroy_process_group()


if __name__ == "__main__":
    path = os.path.join(os.getcwd(), f"ranks-{os.getpid()}")
    mp.start_processes(work, (path,), nprocs=2, start_method="spawn")
    sys.exit(0)
