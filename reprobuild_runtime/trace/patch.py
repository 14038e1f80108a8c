"""A function around one of a library's own."""

import functools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def patch(owner: "Any", name: str, around: "Callable[..., Any]") -> None:
    """Replace a function by another one, which has the original as its first argument.

    The compiler of PyTorch does not trace it: `_torchdynamo_disable` is set as `torch._dynamo.disable` sets it, because
    importing that module would cost seconds.
    """
    original = getattr(owner, name)

    @functools.wraps(original)
    def patched(*args: "Any", **kwargs: "Any") -> "Any":
        return around(original, *args, **kwargs)

    vars(patched)["_torchdynamo_disable"] = True
    setattr(owner, name, patched)
