"""Probes of TensorFlow on the CPU, eager and by `tf.function`.

TensorFlow has its own kernels and threads.
"""

import os

from reprobuild_runtime.probes.arrays.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List

    from reprobuild_runtime.probes.arrays.bench import ArrayBench

_NAME = "tensorflow"


def _package(b: "ArrayBench") -> "Any":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # noqa: TID251  of this process, before the first import
    return b.package(_NAME)


def _run_eager_and_graph(b: "ArrayBench", function: "Callable[..., Any]", *inputs: "Any") -> "List[Any]":
    """Run a function on the CPU, eagerly and as a graph.

    The graph is traced once in a process. The results are NumPy's arrays.
    """
    tf = _package(b)
    with tf.device("/CPU:0"):
        graph = b.kept.setdefault(function.__qualname__, tf.function(function))
        values = [tf.constant(value) for value in inputs]
        results = [*tf.nest.flatten(function(*values)), *tf.nest.flatten(graph(*values))]
    return [b.numpy.asarray(result) for result in results]


@probe(_NAME)
def tensorflow_matmul(b: "ArrayBench") -> "List[Any]":
    tf = _package(b)
    return _run_eager_and_graph(
        b,
        lambda x, y: (tf.matmul(x, y), tf.einsum("ij,kj->ik", x, x)),
        b.randn(256, 384, dtype="float32"),
        b.randn(384, 200, dtype="float32"),
    )


@probe(_NAME)
def tensorflow_reductions(b: "ArrayBench") -> "List[Any]":
    tf = _package(b)

    def compute(x: "Any") -> "Any":
        return (
            tf.reduce_sum(x), tf.reduce_mean(x, 0), tf.math.reduce_variance(x, 1), tf.nn.softmax(x),
            tf.reduce_logsumexp(x, 1), tf.cumsum(x, 1), tf.nn.moments(x, [0])[1],
        )  # fmt: skip

    return _run_eager_and_graph(b, compute, b.randn(256, 401, dtype="float32"))


@probe(_NAME)
def tensorflow_scatter(b: "ArrayBench") -> "List[Any]":
    """Add to places that are named many times."""
    tf = _package(b)

    def compute(index: "Any", values: "Any") -> "Any":
        return (
            tf.math.unsorted_segment_sum(values, index, 64),
            tf.scatter_nd(index[:, None], values, [64, 16]),
            tf.tensor_scatter_nd_add(tf.zeros([64, 16]), index[:, None], values),
        )

    return _run_eager_and_graph(b, compute, b.index(64, 20000), b.randn(20000, 16, dtype="float32"))


@probe(_NAME)
def tensorflow_convolution(b: "ArrayBench") -> "List[Any]":
    tf = _package(b)

    def compute(x: "Any", kernel: "Any", upstream: "Any") -> "Any":
        with tf.GradientTape() as tape:
            tape.watch([x, kernel])
            total = tf.reduce_sum(tf.nn.conv2d(x, kernel, 1, "SAME") * upstream)
        return tape.gradient(total, [x, kernel])

    shapes = ((4, 24, 24, 8), (3, 3, 8, 16), (4, 24, 24, 16))
    return _run_eager_and_graph(b, compute, *(b.randn(*shape, dtype="float32") for shape in shapes))


@probe(_NAME)
def tensorflow_embedding(b: "ArrayBench") -> "List[Any]":
    """Look up rows many times, and take the table's gradient."""
    tf = _package(b)

    def compute(table: "Any", index: "Any") -> "Any":
        with tf.GradientTape() as tape:
            tape.watch(table)
            total = tf.reduce_sum(tf.nn.embedding_lookup(table, index) ** 2)
        return tf.convert_to_tensor(tape.gradient(total, table))

    return _run_eager_and_graph(b, compute, b.randn(200, 32, dtype="float32"), b.index(200, 8000))


@probe(_NAME)
def tensorflow_draws(b: "ArrayBench") -> "List[Any]":
    """Draw from the global seed, a seeded generator, and statelessly."""
    tf = _package(b)
    tf.random.set_seed(b.seed % 2**31)
    generator = tf.random.Generator.from_seed(b.seed % 2**31)
    draws = [
        tf.random.normal([1000]), tf.random.shuffle(tf.range(500)), generator.normal([1000]),
        generator.uniform([500]), tf.random.stateless_normal([500], [b.seed % 2**31, 1]),
    ]  # fmt: skip
    return [b.numpy.asarray(draw) for draw in draws]


@probe(_NAME)
def tensorflow_training(b: "ArrayBench") -> "List[Any]":
    """Train a small Keras network, with shuffling and dropout."""
    tf = _package(b)
    keras = tf.keras
    keras.utils.set_random_seed(b.seed % 2**31)
    model = keras.Sequential(
        [keras.layers.Dense(64, activation="tanh"), keras.layers.Dropout(0.2), keras.layers.Dense(8)]
    )
    model.compile(optimizer="adam", loss="mse")
    values = [b.randn(*shape, spread=0, dtype="float32") for shape in ((256, 32), (256, 8))]
    history = model.fit(*values, batch_size=32, epochs=2, shuffle=True, verbose=0)
    return [*model.get_weights(), b.numpy.asarray(history.history["loss"])]
