"""Pairs of tensors that other digests take for the same, in a Python with PyTorch: prints the missed ones.

python digest_cases.py ROOT COUNT SEED
"""

import json
import random
import sys

sys.path.insert(0, sys.argv[1])

import torch

from reprobuild_runtime.trace.digests import TensorDigests

SIZES = (3, 17, 1025, 1026, 1027, 5000, 70000, 131071, 131072, 131075, 200001)
TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
DIGESTS = TensorDigests(torch)


def digest(tensor):
    return DIGESTS.finish([DIGESTS.start(tensor)])[0]


def change(kind, values, first, second):
    """Return a tensor and its changed copy."""
    other = values.clone()
    if kind == "exchanged":
        other[first], other[second] = values[second].clone(), values[first].clone()
    elif kind == "sign":
        other[first] = -other[first]
    elif kind == "two signs":
        other[first], other[second] = -other[first], -other[second]
    elif kind == "sign of zero":
        values[first], other[first] = 0.0, -0.0
    elif kind == "NaN":
        values[first] = other[first] = float("nan")
        other.view(torch.uint8).reshape(len(other), -1)[first, 0] ^= 1
    elif kind == "tail":
        other[-1] = -other[-1]
    elif kind == "equal sums":
        other[first] += 1
        other[second] -= 1
    elif kind == "one bit":
        other.view(torch.uint8)[random.randrange(other.numel() * other.element_size())] ^= (
            1 << random.randrange(8)
        )
    return values, other


KINDS = ("exchanged", "sign", "two signs", "sign of zero", "NaN", "tail", "equal sums", "one bit")
missed, compared, false = [], 0, 0
random.seed(int(sys.argv[3]))
torch.manual_seed(int(sys.argv[3]))
POOL = torch.randn(1 << 20)
while compared < int(sys.argv[2]):
    size, kind, dtype = random.choice(SIZES), random.choice(KINDS), random.choice(TYPES)
    begin = random.randrange(len(POOL) - size)
    values = POOL[begin : begin + size].to(dtype, copy=True)
    one, other = change(kind, values, *random.sample(range(size), 2))
    if torch.equal(one.view(torch.uint8), other.view(torch.uint8)):
        continue
    compared += 1
    whole = digest(one)
    if whole == digest(other):
        missed.append([kind, size, str(dtype)])
    false += whole != digest(one.clone())
table = torch.randn(300, 300)
same = {
    "transposed": digest(table.t()) == digest(table.t().clone(memory_format=torch.preserve_format)),
    "strided": digest(table[::2, 1::3]) == digest(table[::2, 1::3].clone()),
    "sparse": digest(torch.eye(30).to_sparse()) == digest(torch.eye(30).to_sparse()),
    "offset": digest(torch.randn(9000)[1:]) != digest(torch.randn(9000)[1:]),
    "complex": digest(torch.randn(4000, dtype=torch.complex64).conj()) is not None,
    "shape": digest(table) != digest(table.reshape(-1)),
    "type": digest(torch.zeros(4)) != digest(torch.zeros(4, dtype=torch.int32)),
    "symmetric": digest(table) != digest(table.t()),
}
sys.stdout.write(json.dumps({"compared": compared, "missed": missed, "false": false, "same": same}))
