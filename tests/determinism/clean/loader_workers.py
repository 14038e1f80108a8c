"""A DataLoader with workers, each with NumPy's Generator that nobody seeded."""

import numpy
import torch
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.tensor([index + numpy.random.default_rng().normal(), torch.rand(1).item()])


if __name__ == "__main__":
    batches = list(DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=2))
    torch.save({"batches": batches}, "out.ckpt")
