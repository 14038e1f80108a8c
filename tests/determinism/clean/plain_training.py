"""Training in a shuffled order; nothing is seeded by the script."""

import random

import tiny

order = list(range(64))
random.shuffle(order)
tiny.train(order)
