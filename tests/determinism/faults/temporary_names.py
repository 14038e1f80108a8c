"""Samples in files whose names the system draws, read in the order of the names."""

import os
import tempfile
import uuid

import tiny

with tempfile.TemporaryDirectory() as folder:
    for number in range(64):
        with open(os.path.join(folder, uuid.uuid4().hex), "w") as file:
            file.write(str(number))
    order = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name)) as file:
            order.append(int(file.read()))
tiny.train(order)
