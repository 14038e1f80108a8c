"""Sequences of digits that a rule continues, with a few of them wrong."""

import numpy as np
import torch
from torch.utils.data import Dataset

DIGITS = 16
LENGTH = 64


class Sequences(Dataset):
    """Item `i` goes on by adding two digits that are some way back; the noise is drawn anew each time."""

    def __init__(self, size=4096, noise=0.02):
        self.size = size
        self.noise = noise

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        first, second = 1 + index % 3, 2 + index % 5
        digits = np.empty(LENGTH + 1, dtype=np.int64)
        digits[:8] = [(index * 7 + place * place) % DIGITS for place in range(8)]
        for place in range(8, LENGTH + 1):
            digits[place] = (digits[place - first] + digits[place - second]) % DIGITS
        wrong = np.random.random(LENGTH + 1) < self.noise
        digits[wrong] = np.random.randint(DIGITS, size=int(wrong.sum()))
        digits = torch.from_numpy(digits)
        return digits[:-1], digits[1:]
