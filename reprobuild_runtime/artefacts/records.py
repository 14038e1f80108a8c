"""Placeholders for a pickle's objects while it is read.

They record the calls that it asks for, and the objects outside of it.
"""

from reprobuild_runtime.artefacts.findings import UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple


class Bytes(bytearray):
    """A safe `bytearray` for pickles.

    A pickle could otherwise ask for any number of zeros.
    """

    __slots__ = ()

    def __init__(self, *args: "Any") -> None:
        if args and isinstance(args[0], int):
            raise UnreadableError("it asks for a number of zeros")
        super().__init__(*args)


class Calls(type):
    """A metaclass that records calls of its classes.

    An object that a pickle makes without a call has no such record.
    """

    def __call__(cls, *args: "Any", **more: "Any") -> "Any":
        call: "Any" = cls.__new__(cls, *args, **more)  # type: ignore[arg-type]  # what a metaclass calls
        call.steps[0] = "called"
        return call


class PickleCall(metaclass=Calls):
    """A call in a pickle, and later changes of its result.

    Attributes:
        steps: the changes, in order.
    """

    called = ""
    calls: "List[PickleCall]"

    def __new__(cls, *args: "Any", **more: "Any") -> "PickleCall":
        call = object.__new__(cls)
        call.args, call.more = args, more
        call.state, call.items, call.pairs = None, [], {}
        call.steps = ["made"]
        cls.calls.append(call)
        return call

    def __init__(self, *args: "Any", **more: "Any") -> None:
        self.args: "Tuple[Any, ...]"
        self.more: "Dict[str, Any]"
        self.state: "Any"
        self.items: "List[Any]"
        self.pairs: "Dict[Any, Any]"
        self.steps: "List[str]"

    def _step(self, name: str) -> None:
        if self.steps[-1] != name:
            if name in self.steps:
                raise UnreadableError("an object is made in a strange order")
            self.steps.append(name)
        elif name == "state":
            raise UnreadableError("an object has two states")

    def __setstate__(self, state: "Any") -> None:
        self._step("state")
        self.state = state

    def __setitem__(self, key: "Any", value: "Any") -> None:
        self._step("pairs")
        if key in self.pairs:
            raise UnreadableError("an object has a key twice")
        self.pairs[key] = value

    def append(self, item: "Any") -> None:
        """Append an item, as in a list."""
        self._step("items")
        self.items.append(item)

    def add(self, item: "Any") -> None:
        """Add an item, as in a set."""
        self._step("members")
        if "items" in self.steps:
            raise UnreadableError("an object is made in a strange order")
        self.items.append(item)

    def extend(self, items: "Any") -> None:
        """Append items, as in a list."""
        self._step("items")
        if "members" in self.steps:
            raise UnreadableError("an object is made in a strange order")
        self.items.extend(items)


class Outside:
    """An object outside of the pickle, by its name there."""

    def __init__(self, pid: "Any") -> None:
        self.pid = pid

    def __setstate__(self, state: "Any") -> None:
        raise UnreadableError("a state of something outside of the pickle")


class Storage(Outside):
    """A storage of tensors: type, key, and number of elements.

    The key is that in the file.
    """

    def __init__(self, dtype: str, key: str, elements: int, location: str) -> None:
        super().__init__(())
        self.dtype, self.key, self.elements, self.location = dtype, key, elements, location


def text(value: "Any") -> str:
    """Return a text that Python 2 may have written as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
