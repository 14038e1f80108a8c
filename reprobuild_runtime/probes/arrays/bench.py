"""The context of NumPy's probes, and their register.

The rules of `probes/bench.py` hold: inputs from a private generator, normal numbers over several powers of ten. Each
run of a probe begins with the states that the start-up hook left in the global generators, so draws without a seed are
the same in two processes if and only if the hook seeded them.
"""

import random
import zlib
from importlib import import_module

from reprobuild_runtime.probes.bench import NotHereError, RuntimeProbe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

    Function = Callable[[Any], List[Any]]

PROBES: "Dict[str, RuntimeProbe]" = {}


def probe(library: str = "numpy", *, promised: bool = True) -> "Callable[[Function], Function]":
    """Register a probe under the name of its function.

    Args:
        library: the name of the distribution.
        promised: False if the library promises no equal bits with several threads; the result is then only
            informational.
    """

    def enter(function: "Function") -> "Function":
        assert function.__name__ not in PROBES
        entry = RuntimeProbe(
            function, (), devices=("cpu",), most=1 << 30, fresh=False, thorough=False,
            informational=() if promised else ("cpu",),
        )  # fmt: skip
        entry.library = library
        PROBES[function.__name__] = entry
        return function

    return enter


class ArrayBench:
    """The context of a probe: NumPy, the seed, and inputs."""

    device = "cpu"

    def __init__(self, numpy: "Any", seed: int) -> None:
        self.numpy, self.seed = numpy, seed
        self.kept: "Dict[str, Any]" = {}  # by the probes, for later runs in this process
        self._legacy = numpy.random.get_state()
        self._python = random.getstate()
        maker = getattr(numpy.random, "default_rng", None)  # NumPy 1.17
        self._fresh = maker() if maker is not None else None
        self._state = self._fresh.bit_generator.state if self._fresh is not None else None

    def begin(self, name: str) -> None:
        """Start a run of a probe.

        Its inputs depend on its name, and the global generators are as the hook left them.
        """
        self.private = self.numpy.random.RandomState(zlib.crc32(name.encode()))
        self.numpy.random.set_state(self._legacy)
        random.setstate(self._python)
        self.shapes: "List[str]" = []
        self.others: "List[List[Any]]" = []

    def unseeded(self) -> "Any":
        """Return this process's first `default_rng()`, in its first state."""
        if self._fresh is None:
            raise NotHereError("this NumPy has no default_rng")
        self._fresh.bit_generator.state = self._state
        return self._fresh

    def randn(self, *shape: int, spread: int = 1, dtype: str = "float64", note: bool = True) -> "Any":
        """Return normal numbers, each times a power of ten.

        The power is from -spread to spread.
        """
        values = self.private.standard_normal(shape)
        if spread:
            values = values * 10.0 ** self.private.randint(-spread, spread + 1, shape)
        if note:
            self.shapes.append("x".join(map(str, shape)))
        return values.astype(dtype)

    def index(self, high: int, *shape: int) -> "Any":
        """Return indices below `high`, most of them several times."""
        return self.private.randint(0, high, shape)

    def definite(self, size: int) -> "Any":
        """Return a symmetric, positive definite matrix."""
        half = self.randn(size, size, spread=0)
        return half @ half.T + size * self.numpy.eye(size)

    def package(self, name: str) -> "Any":
        """Return a module; raise NotHereError if it does not import."""
        try:
            return import_module(name)
        except Exception as err:
            raise NotHereError(
                "{} does not import: {}: {}".format(name.partition(".")[0], type(err).__name__, err)[:500]
            ) from None
