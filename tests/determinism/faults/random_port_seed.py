"""A seed from the port of the rendezvous, which the system chooses."""

import random
import socket

import tiny

numbers = []
for _ in range(4):
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        numbers.append(listening.getsockname()[1])
order = list(range(64))
random.Random(str(numbers)).shuffle(order)
tiny.train(order)
