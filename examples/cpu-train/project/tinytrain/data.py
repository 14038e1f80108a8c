"""Waves of eight frequencies, made by a formula and roughened while they are read."""

import random

import numpy as np
import torch
from torch.utils.data import Dataset

CLASSES = 8
LENGTH = 128


class Waves(Dataset):
    """Item `i` is a sine of frequency `1 + i % CLASSES`, augmented anew each time."""

    def __init__(self, size=1024):
        self.size = size
        self.time = np.arange(LENGTH, dtype=np.float32) / LENGTH

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        label = index % CLASSES
        phase = 2 * np.pi * (index // CLASSES) / self.size
        wave = np.sin(2 * np.pi * (1 + label) * self.time + phase)
        return torch.from_numpy(augment(wave).astype(np.float32)), label


def augment(wave):
    """Shift, scale and perhaps flip the wave, then add noise."""
    wave = np.roll(wave, random.randrange(LENGTH)) * random.uniform(0.5, 1.5)
    if random.random() < 0.5:
        wave = wave[::-1]
    return wave + np.random.normal(scale=0.3, size=wave.shape)
