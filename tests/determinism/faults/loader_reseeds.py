"""Workers of a DataLoader seed themselves by the clock."""

import random
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.tensor([index + random.random()])


def reseed(worker):
    random.seed(time.time_ns() + worker)


if __name__ == "__main__":
    batches = list(DataLoader(Noisy(), batch_size=4, num_workers=2, worker_init_fn=reseed))
    torch.save({"batches": batches, "step": len(batches)}, "out.ckpt")
