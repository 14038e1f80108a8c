"""A generator seeded by the system's entropy."""

import os
import random

import tiny

order = list(range(64))
random.Random(os.urandom(16)).shuffle(order)
tiny.train(order)
