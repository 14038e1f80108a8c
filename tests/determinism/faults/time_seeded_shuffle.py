"""A shuffle seeded by the clock."""

import random
import time

import tiny

order = list(range(64))
random.Random(time.time_ns()).shuffle(order)
tiny.train(order)
