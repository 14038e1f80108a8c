"""Ten small trainings, whose steps take some 100 ms on one processor; prints the processor time of their steps.

    python benchmarks/traced_steps.py NAME FIRST STEPS

It runs where PyTorch is, and imports nothing else of this project.
"""

# mypy: ignore-errors
# PyTorch is not there for the type checker.

import json
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


def train(model, make_input, loss=lambda output: output.square().mean()):
    """Return a function that makes one step of a training."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss(model(*make_input())).backward()
        optimizer.step()

    return step


def mlp():
    model = nn.Sequential(
        nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 64)
    )
    return train(model, lambda: (torch.randn(1200, 512),))


def cnn():
    layers = [nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
    return train(
        nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 10)), lambda: (torch.randn(48, 3, 48, 48),)
    )


def transformer():
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.1, batch_first=True)
    return train(nn.TransformerEncoder(layer, 4), lambda: (torch.randn(8, 96, 128),))


def rnn():
    model = nn.LSTM(64, 256, batch_first=True)
    return train(model, lambda: (torch.randn(96, 48, 64),), lambda output: output[0].square().mean())


class Diffusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(4, 64, 3, padding=1), nn.GroupNorm(8, 64), nn.SiLU(), nn.Conv2d(64, 64, 3, padding=1),
            nn.GroupNorm(8, 64), nn.SiLU(), nn.Conv2d(64, 3, 3, padding=1),
        )  # fmt: skip

    def forward(self, image):
        noise, time = torch.randn_like(image), torch.rand(len(image), 1, 1, 1)
        seen = torch.cat([image * (1 - time) + noise * time, time.expand(-1, 1, *image.shape[2:])], 1)
        return self.inner(seen) - noise


def diffusion():
    return train(Diffusion(), lambda: (torch.randn(24, 3, 32, 32),))


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(128, 256), nn.Linear(256, 64)
        self.edges = torch.randint(4000, (2, 40_000), generator=torch.Generator().manual_seed(1))

    def forward(self, nodes):
        for layer in (self.first, self.second):
            values = layer(nodes)
            nodes = torch.zeros_like(values).index_add(0, self.edges[1], values[self.edges[0]]).relu()
        return nodes


def graph():
    return train(Graph(), lambda: (torch.randn(4000, 128),))


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingBag(20_000, 64)
        self.layer = nn.Sequential(
            nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1)
        )

    def forward(self, words):
        return self.layer(self.table(words))


def sparse():
    return train(Sparse(), lambda: (torch.randint(20_000, (1024, 32)),))


def compiled():
    model = nn.Sequential(
        nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 64)
    )
    return train(torch.compile(model, backend="aot_eager"), lambda: (torch.randn(1200, 512),))


class Images(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, number):
        image = torch.randn(3, 64, 64)
        return image.flip(2).roll(number % 7, 1).sub(image.mean()).div(image.std())


def loader():
    batches = iter(DataLoader(Images(), batch_size=1024))
    model = nn.Sequential(nn.Conv2d(3, 8, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 15 * 15, 10))
    return train(model, lambda: (next(batches),))


def numpy():
    generator = np.random.default_rng(1)
    model = nn.Linear(512, 64)

    def make_input():
        matrix = generator.normal(size=(700, 700))
        return (torch.from_numpy(np.linalg.qr(matrix)[0][:512, :512].astype(np.float32)),)

    return train(model, make_input)


WORK = (mlp, cnn, transformer, rnn, diffusion, graph, sparse, compiled, loader, numpy)


def main(name, first, steps):
    step = {work.__name__: work for work in WORK}[name]()
    for _ in range(first):
        step()
    began = time.process_time()
    for _ in range(steps):
        step()
    print(json.dumps((time.process_time() - began) / steps))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
