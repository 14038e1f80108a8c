"""Resuming without the state of the generator: the script seeds anew, by the clock, when it finds none."""

import json
import random
import time

import tiny

generator = random.Random(1)
tiny.train(generator.sample(range(64), 64), name="half.json", log="half.jsonl")
with open("half.json") as file:
    checkpoint = json.load(file)
generator = random.Random(checkpoint.get("generator", time.time_ns()))
tiny.train(generator.sample(range(64), 64), weights=checkpoint["weights"])
