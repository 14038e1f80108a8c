"""Records of every operation of PyTorch's dispatcher, in the steps to examine.

An operation that a program calls through NumPy, a pointer or an extension does not pass the dispatcher. It is seen as
a tensor whose digest is another one than after the last recorded operation that wrote it.
"""

from reprobuild_runtime import settings
from reprobuild_runtime.trace import replay
from reprobuild_runtime.trace.digests import PendingDigest, list_tensors
from reprobuild_runtime.trace.places import ModuleNames, find_place
from reprobuild_runtime.trace.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Set, Tuple

# Their first argument is written without being read.
_OVERWRITE = ("zero_", "fill_", "copy_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_",
              "cauchy_", "geometric_", "set_", "resize_")  # fmt: skip
_EMPTY = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_",
          "_efficientzerotensor")  # fmt: skip
_ADOPT = "set_"  # takes memory that another library or process wrote
_LONGEST = 200  # characters of an operation's arguments


class OperationRecorder:
    """Switches the record of operations on and off."""

    def __init__(self, torch: "Any", recorder: Recorder) -> None:
        self._mode = _make_mode(_Operations(torch, recorder).run)
        self._on = False

    def switch(self, on: bool) -> None:
        """Begin or end the record."""
        if on and not self._on:
            self._mode.__enter__()
        elif self._on and not on:
            self._mode.__exit__(None, None, None)
        self._on = on


def _make_mode(run: "Callable[[Any, Tuple[Any, ...], Dict[str, Any]], Any]") -> "Any":
    """Return a mode of the dispatcher that passes each operation to a function."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[misc]  # PyTorch is not there for the type checker
        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True  # else PyTorch compiles nothing while the mode is active

        def __torch_dispatch__(
            self, func: "Any", types: "Any", args: "Tuple[Any, ...]" = (), kwargs: "Any" = None
        ) -> "Any":
            return run(func, args, kwargs or {})

    return Mode()


class _Operations:
    """Runs operations, and records each."""

    def __init__(self, torch: "Any", recorder: Recorder) -> None:
        self._torch, self._recorder = torch, recorder
        self._modules = ModuleNames(torch)
        self._places: "Dict[int, Tuple[str, str]]" = {}  # of forward operations, by their sequence number
        self._writers: "Dict[Tuple[str, int], int]" = {}  # the record that wrote a storage
        self._unwritten: "Set[Tuple[str, int]]" = set()  # storages of which a part may still be unwritten

    def run(self, func: "Any", args: "Tuple[Any, ...]", kwargs: "Dict[str, Any]") -> "Any":
        """Run an operation, and record its inputs, its outputs and its call site."""
        if self._recorder.busy or not self._recorder.active or _is_view(func):
            return func(*args, **kwargs)
        try:
            begun = self._begin(func, args, kwargs)
        except Exception as err:
            settings.print_line(f"reprobuild: {func} is not traced: {type(err).__name__}: {err}")
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        if self._recorder.options.fill and _name(func) in _EMPTY:
            for tensor in list_tensors(self._torch, result):
                tensor.zero_()
        self._finish(func, args, kwargs, result, begun)
        return result

    def _begin(self, func: "Any", args: "Any", kwargs: "Any") -> "Dict[str, Any]":
        name = _name(func)
        read = args[1:] if name in _OVERWRITE else () if name == "wait_tensor" else args
        tensors = list_tensors(self._torch, (read, {k: v for k, v in kwargs.items() if k != "out"}))
        place, module, backward = self._locate()
        record: "Dict[str, Any]" = {
            "inputs": [self._start(tensor) for tensor in tensors],
            "writers": [self._writers.get(_storage(tensor), -1) for tensor in tensors],
            "place": place, "module": module,
        }  # fmt: skip
        plain = [value for value in (*args, *kwargs.values()) if _is_plain(value)]
        if plain:
            record["arguments"] = repr(plain)[:_LONGEST]
        if backward:
            record["backward"] = backward
        if self._is_seeded(func):
            record["generator"] = True
            generator = kwargs.get("generator") or self._torch.default_generator
            record["inputs"].append(self._start(generator.get_state()))
            record["writers"].append(-1)
        replay.repeat(self._torch, self._recorder, func, args, kwargs, record)
        return record

    def _finish(
        self, func: "Any", args: "Any", kwargs: "Any", result: "Any", record: "Dict[str, Any]"
    ) -> None:
        try:
            name = _name(func)
            written = list_tensors(self._torch, (result, *_list_written(func, args, kwargs)))
            unique = list({id(tensor): tensor for tensor in written}.values())
            unknown = name in (*_EMPTY, _ADOPT) or (_is_collective(func) and name != "wait_tensor")
            record["outputs"] = [] if unknown else [self._start(tensor) for tensor in unique]
            for tensor in unique:
                if name == _ADOPT:
                    self._forget_writer(tensor)
                else:
                    self._note_writer(tensor, is_empty=name in _EMPTY)
            self._recorder.add("operation", str(func), **record)
        except Exception as err:
            settings.print_line(f"reprobuild: {func} is not traced: {type(err).__name__}: {err}")

    def _note_writer(self, tensor: "Any", is_empty: bool) -> None:
        """Take note of the record that wrote a tensor.

        Memory that was allocated without a value keeps its allocation, until one operation writes all of it.
        """
        storage = _storage(tensor)
        if is_empty:
            self._unwritten.add(storage)
        elif storage in self._unwritten:
            if not _is_whole(tensor):
                return
            self._unwritten.discard(storage)
        self._writers[storage] = self._recorder.number

    def _forget_writer(self, tensor: "Any") -> None:
        storage = _storage(tensor)
        self._unwritten.discard(storage)
        self._writers.pop(storage, None)

    def _start(self, tensor: "Any") -> PendingDigest:
        digests = self._recorder.digests
        assert digests is not None
        return digests.start(tensor)

    def _locate(self) -> "Tuple[str, str, str]":
        """Return the place, the module, and the node of the backward pass.

        An operation of the backward pass has the place of its forward operation.
        """
        torch = self._torch
        node = torch._C._current_autograd_node()
        if node is not None:
            known = self._places.get(node._sequence_nr())
            place, module = known or (find_place(4), "")
            return place, module, node.name()
        place, module = find_place(4), self._modules.find(4)
        self._places.setdefault(torch.autograd._get_sequence_nr() - 1, (place, module))
        return place, module, ""

    def _is_seeded(self, func: "Any") -> bool:
        tags = getattr(self._torch, "Tag", None)
        return tags is not None and tags.nondeterministic_seeded in getattr(func, "tags", ())


def _is_collective(func: "Any") -> bool:
    """Return whether an operation may go on after its call: its result is read by the next operation."""
    return str(func._schema.name).partition("::")[0] in ("c10d", "_c10d_functional", "c10d_functional")


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(isinstance(item, (int, float, str)) for item in value)
    return isinstance(value, (int, float, str))


def _name(func: "Any") -> str:
    return str(func._schema.name).rpartition("::")[2]


def _is_view(func: "Any") -> bool:
    """Return whether an operation only describes memory otherwise."""
    returns = func._schema.returns
    return bool(returns) and all(
        value.alias_info is not None and not value.alias_info.is_write for value in returns
    )


def _list_written(func: "Any", args: "Any", kwargs: "Any") -> "List[Any]":
    """Return the arguments that an operation writes."""
    written = []
    for number, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            if number < len(args):
                written.append(args[number])
            elif argument.name in kwargs:
                written.append(kwargs[argument.name])
    return written


def _storage(tensor: "Any") -> "Tuple[str, int]":
    try:
        return str(tensor.device), tensor.untyped_storage().data_ptr()
    except (AttributeError, NotImplementedError, RuntimeError):  # PyTorch 1, or a tensor without a storage
        return str(tensor.device), id(tensor)


def _is_whole(tensor: "Any") -> bool:
    """Return whether a tensor has as many bytes as its storage."""
    try:
        return bool(tensor.numel() * tensor.element_size() >= tensor.untyped_storage().nbytes())
    except (AttributeError, NotImplementedError, RuntimeError):  # as above: nothing else can be in its memory
        return True
