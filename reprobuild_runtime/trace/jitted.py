"""Records of a JAX program: the arguments and results of each call of a jitted function.

Each call ends a step. A jitted function inside of another one is a part of it. Calls in other threads are not recorded,
because their order is another one in each run.
"""

import functools
import threading
import weakref

from reprobuild_runtime.trace.digests import digest_bytes
from reprobuild_runtime.trace.jax_arrays import is_array, is_tracer, read_array
from reprobuild_runtime.trace.patch import patch
from reprobuild_runtime.trace.places import find_place
from reprobuild_runtime.trace.recorder import Recorder, now
from reprobuild_runtime.trace.strides import Stride

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Tuple

_LONGEST = 200  # characters of a name
_SMALL = 4096  # bytes of an array that each step records: a loss, and no parameters
_PLAIN = (str, bytes, int, float, bool, complex, type(None))


def hook_into(jax: "Any", recorder: Recorder) -> None:
    """Record the calls of functions that the program compiles with `jax.jit` or `jax.pmap`."""
    calls = _Calls(jax, recorder)
    for name in ("jit", "pmap"):
        patch(jax, name, functools.partial(_record_function, calls))


def _record_function(calls: "_Calls", original: "Callable[..., Any]", *args: "Any", **kwargs: "Any") -> "Any":
    compiled = original(*args, **kwargs)
    if not hasattr(compiled, "lower"):  # a decorator, which newer releases return without a function
        return lambda function: RecordedFunction(compiled(function), calls)
    return RecordedFunction(compiled, calls)


class RecordedFunction:
    """A jitted function that records its calls; its other attributes are those of JAX's object."""

    def __init__(self, function: "Any", calls: "_Calls") -> None:
        functools.update_wrapper(self, function)
        vars(self)["__wrapped__"] = getattr(function, "__wrapped__", function)
        self._recorded, self._calls = function, calls
        self._name = str(getattr(function, "__name__", type(function).__name__))[:_LONGEST]

    def __call__(self, *args: "Any", **kwargs: "Any") -> "Any":
        return self._calls.run(self._recorded, self._name, args, kwargs)

    def __get__(self, subject: object, owner: object = None) -> "Any":
        return self if subject is None else functools.partial(self, subject)

    def __getattr__(self, name: str) -> "Any":
        if name == "_recorded":  # of an object that is not initialised
            raise AttributeError(name)
        return getattr(self._recorded, name)

    def __reduce__(self) -> "Any":
        return _return, (self._recorded,)  # a copy, or a pickle in another process, is JAX's own object


def _return(function: "Any") -> "Any":
    return function


class _Calls:
    """Runs jitted functions, and records each call."""

    def __init__(self, jax: "Any", recorder: Recorder) -> None:
        self._jax, self._recorder, self._stride = jax, recorder, Stride(recorder)
        self._running = False
        self._known: "Dict[int, Tuple[Any, str]]" = {}  # digests of living arrays, which never change

    def run(
        self, function: "Callable[..., Any]", name: str, args: "Tuple[Any, ...]", kwargs: "Dict[str, Any]"
    ) -> "Any":
        """Call a function, and record what went in and what came out."""
        recorder = self._recorder
        if self._running or recorder.busy or not recorder.active or self._is_inner((args, kwargs)):
            return function(*args, **kwargs)
        record: "Dict[str, Any]" = {"place": find_place(3)}
        self._running = True
        try:
            self._guard(self._begin, function, args, kwargs, record)
            result = function(*args, **kwargs)
        finally:
            self._running = False
        if not self._is_inner(result):
            self._guard(self._finish, name, result, record)
        return result

    def _is_inner(self, value: object) -> bool:
        """Return whether JAX traces another function now, or another thread calls."""
        if threading.current_thread() is not threading.main_thread():
            return True
        return any(is_tracer(leaf) for leaf in self._jax.tree_util.tree_leaves(value))

    def _guard(self, action: "Callable[..., None]", *args: "Any") -> None:
        began = now()
        self._recorder.guard(action, *args)
        self._stride.spend(now() - began)

    def _begin(
        self, function: "Callable[..., Any]", args: "Any", kwargs: "Any", record: "Dict[str, Any]"
    ) -> None:
        if self._stride.is_due():
            values = (*args, *(kwargs[name] for name in sorted(kwargs)))
            record["inputs"] = [self._digest(value) for value in values]
        self._repeat(function, args, kwargs, record)

    def _finish(self, name: str, result: "Any", record: "Dict[str, Any]") -> None:
        recorder = self._recorder
        parts = result if isinstance(result, (tuple, list)) else (result,)
        if "inputs" in record:
            recorder.add("call", name, outputs=[self._digest(part) for part in parts], **record)
        elif small := [leaf for leaf in self._jax.tree_util.tree_leaves(result) if _is_small(leaf)]:
            recorder.add("call", name, outputs=[self._digest(small)], **record)
        self._stride.end_step()

    def _digest(self, value: object) -> str:
        """Return one digest of all arrays and plain values in a value.

        Of other objects their types count: an object as text has its address.
        """
        leaves: "List[str]" = []
        for leaf in self._jax.tree_util.tree_leaves(value):
            if is_array(leaf):
                leaves.append(self._digest_once(leaf))
            elif hasattr(leaf, "tobytes") and hasattr(leaf, "dtype"):
                leaves.append(digest_bytes(leaf.tobytes(), f"{leaf.dtype} {leaf.shape}"))
            else:
                leaves.append(repr(leaf) if isinstance(leaf, _PLAIN) else type(leaf).__name__)
        return digest_bytes("\n".join(leaves).encode(errors="backslashreplace"), "values")

    def _digest_once(self, array: "Any") -> str:
        known = self._known.get(id(array))
        if known is not None and known[0]() is array:
            return known[1]
        digest, key = digest_bytes(*read_array(array)), id(array)
        self._known[key] = weakref.ref(array, lambda _: self._known.pop(key, None)), digest
        return digest

    def _repeat(
        self, function: "Callable[..., Any]", args: "Any", kwargs: "Any", record: "Dict[str, Any]"
    ) -> None:
        """Repeat a call on copies of its arguments, if the options name it; record the number of results."""
        recorder = self._recorder
        request = recorder.options.replay
        if request is None or [recorder.name, recorder.step, recorder.number] != list(request[:3]):
            return
        results: "Dict[str, int]" = {}
        for _ in range(int(request[3])):
            copied, named = self._jax.tree_util.tree_map(_copy, (args, kwargs))
            key = self._digest(function(*copied, **named))
            results[key] = results.get(key, 0) + 1
        record["replayed"] = sorted(results.values(), reverse=True)


def _copy(leaf: "Any") -> "Any":
    return leaf.copy() if is_array(leaf) else leaf


def _is_small(leaf: "Any") -> bool:
    return is_array(leaf) and getattr(leaf, "nbytes", 0) <= _SMALL
