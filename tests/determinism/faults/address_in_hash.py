"""A seed from the default hash of an object, which is its address."""

import random

import tiny

order = list(range(64))
random.Random(hash(object())).shuffle(order)
tiny.train(order)
