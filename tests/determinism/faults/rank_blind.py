"""Two ranks that draw the same stream: the same twice, and wrong. `--expect-different 'rank*.jsonl'` tells."""

import random

import tiny

for rank in range(2):
    generator = random.Random(7)  # should be 7 + rank
    tiny.train(generator.sample(range(64), 64), log="rank%d.jsonl" % rank)
