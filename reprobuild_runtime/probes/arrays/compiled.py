"""Probes of JAX on the CPU: code compiled by XLA.

XLA has its own threads.
"""

from reprobuild_runtime.probes.arrays.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List

    from reprobuild_runtime.probes.arrays.bench import ArrayBench


def _compile_and_run(b: "ArrayBench", function: "Callable[..., Any]", *inputs: "Any") -> "List[Any]":
    """Compile and run a function on the CPU.

    It is compiled once in a process. The results are NumPy's arrays.
    """
    jax = b.package("jax")
    with jax.default_device(jax.devices("cpu")[0]):
        compiled = b.kept.setdefault(function.__qualname__, jax.jit(function))
        results = compiled(*map(jax.numpy.asarray, inputs))
        return [b.numpy.asarray(result) for result in jax.tree_util.tree_leaves(results)]


@probe("jax")
def jax_matmul(b: "ArrayBench") -> "List[Any]":
    single = "float32"
    return _compile_and_run(
        b,
        lambda x, y: (x @ y, (x @ x.T).sum(0)),
        b.randn(256, 384, dtype=single),
        b.randn(384, 200, dtype=single),
    )


@probe("jax")
def jax_reductions(b: "ArrayBench") -> "List[Any]":
    jax = b.package("jax")

    def compute(x: "Any") -> "Any":
        return (
            x.sum(),
            x.mean(0),
            x.var(1),
            jax.nn.softmax(x),
            jax.scipy.special.logsumexp(x, axis=1),
            x.cumsum(1),
        )

    return _compile_and_run(b, compute, b.randn(256, 401, dtype="float32"))


@probe("jax")
def jax_scatter(b: "ArrayBench") -> "List[Any]":
    """Add to places that are named many times."""
    jax = b.package("jax")

    def compute(index: "Any", values: "Any") -> "Any":
        return jax.numpy.zeros(64).at[index].add(values), jax.ops.segment_sum(values, index, 64)

    return _compile_and_run(b, compute, b.index(64, 50000), b.randn(50000, dtype="float32"))


@probe("jax")
def jax_convolution(b: "ArrayBench") -> "List[Any]":
    jax = b.package("jax")

    def compute(x: "Any", kernel: "Any", upstream: "Any") -> "Any":
        def loss(x: "Any", kernel: "Any") -> "Any":
            return (jax.lax.conv(x, kernel, (1, 1), "SAME") * upstream).sum()

        return jax.grad(loss, argnums=(0, 1))(x, kernel)

    shapes = ((4, 8, 24, 24), (16, 8, 3, 3), (4, 16, 24, 24))
    return _compile_and_run(b, compute, *(b.randn(*shape, dtype="float32") for shape in shapes))


@probe("jax")
def jax_draws(b: "ArrayBench") -> "List[Any]":
    jax = b.package("jax")

    def compute(key: "Any") -> "Any":
        first, second, third = jax.random.split(key, 3)
        return (
            jax.random.normal(first, (1000,)),
            jax.random.permutation(second, 500),
            jax.random.gumbel(third, (500,)),
        )

    return _compile_and_run(b, compute, jax.random.PRNGKey(b.seed % 2**32))


@probe("jax")
def jax_training(b: "ArrayBench") -> "List[Any]":
    """Train a small network for a few steps."""
    jax = b.package("jax")

    def loss(weights: "Any", x: "Any", y: "Any") -> "Any":
        return ((jax.numpy.tanh(x @ weights[0]) @ weights[1] - y) ** 2).mean()

    def train(first: "Any", second: "Any", x: "Any", y: "Any") -> "Any":
        def step(_number: "Any", weights: "Any") -> "Any":
            slopes = jax.grad(loss)(weights, x, y)
            return weights[0] - 0.05 * slopes[0], weights[1] - 0.05 * slopes[1]

        return jax.lax.fori_loop(0, 10, step, (first, second))

    inputs = [
        b.randn(*shape, spread=0, dtype="float32") for shape in ((32, 64), (64, 8), (256, 32), (256, 8))
    ]
    return _compile_and_run(b, train, inputs[0] / 6, inputs[1] / 8, *inputs[2:])
