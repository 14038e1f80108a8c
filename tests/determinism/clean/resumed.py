"""Training that is stopped and resumed with the state of its generator."""

import json
import random

import tiny

generator = random.Random(1)
tiny.train(generator.sample(range(64), 64), name="half.json", log="half.jsonl")
state = json.loads(json.dumps(generator.getstate()))
with open("half.json") as file:
    checkpoint = json.load(file)
generator = random.Random()
generator.setstate((state[0], tuple(state[1]), state[2]))
tiny.train(generator.sample(range(64), 64), weights=checkpoint["weights"])
