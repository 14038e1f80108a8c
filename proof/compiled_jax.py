"""A compiled function: prints a hash of its output as JSON; the experiment `choices` runs it in containers."""

import hashlib
import json
import time
from importlib import import_module
from typing import Any

import numpy as np

jax, jnp = import_module("jax"), import_module("jax.numpy")  # not among the requirements of this project


def loss(weights: Any, data: Any) -> Any:
    for weight in weights:
        data = jax.nn.gelu(data @ weight)
    return (data * data).mean()


key = jax.random.key(0)
weights, data = jax.random.normal(key, (6, 256, 256)), jnp.ones((64, 256))
lowered = jax.jit(jax.grad(loss)).lower(weights, data)
began = time.perf_counter()
compiled = lowered.compile()  # a cache replaces this part of the first call; tracing stays
seconds = time.perf_counter() - began
gradient = np.asarray(compiled(weights, data))
digest = hashlib.sha256(gradient.tobytes()).hexdigest()[:16]
print(json.dumps({"result": digest, "measured": 0, "seconds": round(seconds, 2)}))
