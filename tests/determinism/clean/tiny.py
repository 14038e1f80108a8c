"""A linear model trained by hand, in plain Python: small, and exact to the last bit in what it is given.

Whatever changes the order of the samples, or a sum, shows in `weights.json` and `log.jsonl`; `config.json` never
changes, so that a comparison that calls everything drift is seen, too.
"""

import json
import math

STEPS = 20
SAMPLES = 64


def samples(count=SAMPLES):
    """Return (features, target) by a formula, over several magnitudes so that the order of sums matters."""
    made = []
    for number in range(count):
        scale = 10.0 ** (number % 5 - 2)
        features = [math.sin(1.0 + number * k) * scale for k in (1, 2, 3)]
        made.append((features, sum(features) * 0.3 + math.cos(number)))
    return made


def total(numbers):
    """Return the sum in the order in which the numbers come."""
    result = 0.0
    for number in numbers:
        result += number
    return result


def train(order, rate=lambda step: 0.0005, steps=STEPS, weights=None, name="weights.json", log="log.jsonl"):
    """Train on samples, an index each, in this order, which is repeated; write losses and weights."""
    data, weights = samples(), list(weights or [0.1, 0.2, 0.3])
    order = list(order)
    with open(log, "w") as file:
        for step in range(steps):
            features, target = data[order[step % len(order)] % len(data)]
            error = total(w * x for w, x in zip(weights, features)) - target
            weights = [w - rate(step) * error * x for w, x in zip(weights, features)]
            file.write(json.dumps({"step": step, "loss": error * error}) + "\n")
    write(name, {"weights": weights})
    write("config.json", {"samples": SAMPLES})
    return weights


def write(name, value):
    """Write a JSON document."""
    with open(name, "w") as file:
        json.dump(value, file)


def work(amount):
    """Compute for a moment, as long as the machine takes."""
    return total(math.sqrt(number) for number in range(1, amount))
