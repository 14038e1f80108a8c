"""What stands for the objects of a pickle while it is read: the calls that it asks for, and what lies outside of it."""

from reprobuild_runtime.artefacts.found import UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple


class Bytes(bytearray):
    """Stands for `bytearray` where a pickle calls it: zeros of any number would be made of nothing."""

    __slots__ = ()

    def __init__(self, *args: "Any") -> None:
        if args and isinstance(args[0], int):
            raise UnreadableError("it asks for a number of zeros")
        super().__init__(*args)


class Calls(type):
    """Tells a class that a pickle calls from one of which it makes an object without calling it."""

    def __call__(cls, *args: "Any", **more: "Any") -> "Any":
        made: "Any" = cls.__new__(cls, *args, **more)  # type: ignore[arg-type]  # what a metaclass calls
        made.steps[0] = "called"
        return made


class PickleCall(metaclass=Calls):
    """A call that a pickle asks for, and what is done to its result.

    Attributes:
        steps: what was done, in order.
    """

    called = ""
    calls: "List[PickleCall]"

    def __new__(cls, *args: "Any", **more: "Any") -> "PickleCall":
        made = object.__new__(cls)
        made.args, made.more = args, more
        made.state, made.items, made.pairs = None, [], {}
        made.steps = ["made"]
        cls.calls.append(made)
        return made

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
        """Take an item, as a list does."""
        self._step("items")
        self.items.append(item)

    def add(self, item: "Any") -> None:
        """Take an item, as a set does."""
        self._step("members")
        if "items" in self.steps:
            raise UnreadableError("an object is made in a strange order")
        self.items.append(item)

    def extend(self, items: "Any") -> None:
        """Take items, as a list does."""
        self._step("items")
        if "members" in self.steps:
            raise UnreadableError("an object is made in a strange order")
        self.items.extend(items)


class Outside:
    """Lies outside of the pickle: what it is called there."""

    def __init__(self, pid: "Any") -> None:
        self.pid = pid

    def __setstate__(self, state: "Any") -> None:
        raise UnreadableError("a state of something outside of the pickle")


class Storage(Outside):
    """The storage of tensors: its type, its key in the file, the number of its elements."""

    def __init__(self, dtype: str, key: str, elements: int, location: str) -> None:
        super().__init__(())
        self.dtype, self.key, self.elements, self.location = dtype, key, elements, location


def text(value: "Any") -> str:
    """Return a text that Python 2 may have written as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
