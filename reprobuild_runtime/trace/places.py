"""The line of the user's program that a record belongs to."""

import os
import sys
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable, Dict, Optional

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_STANDARD = os.path.dirname(os.__file__) + os.sep
_LONGEST = 200  # frames
_OPTIMIZED = 1  # inspect.CO_OPTIMIZED: the variables are not in the dictionary
_OURS = 3  # references to the dictionary: of the frame, of a variable, of an argument
_libraries: "Dict[str, bool]" = {}  # {file name: whether it belongs to a library}


def find_place(depth: int = 1) -> str:
    """Return `FILE:LINE` of the innermost frame of the user's code, or of the outermost frame."""
    frame: "Optional[FrameType]" = sys._getframe(depth)
    last = ""
    for _ in range(_LONGEST):
        if frame is None:
            break
        name = frame.f_code.co_filename
        if not is_library(name):
            return f"{name}:{frame.f_lineno}"
        if not name.startswith(_OWN):
            last = f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return last


def is_library(name: str) -> bool:
    """Return whether a file of code belongs to a library, or to this recorder."""
    known = _libraries.get(name)
    if known is None:
        parts = name.replace("\\", "/").split("/")
        in_packages = "site-packages" in parts or "dist-packages" in parts
        known = _libraries[name] = in_packages or name.startswith((_OWN, "<", _STANDARD))
    return known


def _find_self(frame: "FrameType") -> "Any":
    """Return the argument `self` of a function's frame.

    Before Python 3.13 a frame keeps the dictionary of its variables that is made here, so that deleted ones would live
    on. It is emptied, unless the program itself has it by `locals()`.
    """
    values = frame.f_locals
    subject = values.get("self")
    if type(values) is dict and frame.f_code.co_flags & _OPTIMIZED and sys.getrefcount(values) <= _OURS:
        values.clear()
    return subject


class ModuleNames:
    """The qualified names of modules in the frames of a call."""

    def __init__(self, torch: "Any") -> None:
        self._class = torch.nn.Module
        self._outer: "Callable[[], Any]" = lambda: None
        self._names: "Dict[int, str]" = {}

    def find(self, depth: int = 1) -> str:
        """Return the name of the innermost module that runs, with the name of the class in front of it."""
        frame: "Optional[FrameType]" = sys._getframe(depth)
        inner: "Any" = None
        outer: "Any" = None
        for _ in range(_LONGEST):
            if frame is None:
                break
            subject = _find_self(frame) if "self" in frame.f_code.co_varnames[:1] else None
            if isinstance(subject, self._class):
                inner = inner or subject
                outer = subject
            frame = frame.f_back
        if inner is None:
            return ""
        if self._outer() is not outer or id(inner) not in self._names:
            self._outer = weakref.ref(outer)  # the program may free it
            root = type(outer).__name__
            self._names = {
                id(module): f"{root}.{name}" if name else root for name, module in outer.named_modules()
            }
        return self._names.get(id(inner), type(inner).__name__)
