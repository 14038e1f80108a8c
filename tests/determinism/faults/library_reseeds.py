"""A library seeds Python's global generator by the clock when it is imported."""

import random

import reseeding_library  # noqa: F401  what it does on import is the fault
import tiny

order = list(range(64))
random.shuffle(order)
tiny.train(order)
