"""A hint beside torch's error for a nondeterministic operation."""

import json
import os
import sys

from reprobuild_runtime import settings
from reprobuild_runtime.profiles import choose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

MODE = "torch.use_deterministic_algorithms"
TEXT = "does not have a deterministic implementation"
_installed: "List[Tuple[str, ...]]" = []


def install(profiles: "Tuple[str, ...]") -> None:
    """Print a hint after an uncaught refusal of torch, on any thread.

    Present exception handlers still run first.

    Exceptions are not caught, and the program is not slowed: the hook runs when the interpreter is about to exit.
    """
    _installed.append(profiles)
    if len(_installed) > 1:
        return
    previous = sys.excepthook

    def of_process(kind: "Any", error: "Any", trace: "Any") -> None:
        previous(kind, error, trace)
        _print_refusal(error)

    sys.excepthook = of_process
    import threading

    before = threading.excepthook

    def of_thread(args: "Any") -> None:
        before(args)
        _print_refusal(args.exc_value)

    threading.excepthook = of_thread


def _print_refusal(error: object) -> None:
    try:
        text = str(error) if isinstance(error, RuntimeError) else ""
        if TEXT in text:
            settings.print_line("reprobuild: hint: " + hint(text, _installed[-1]))
    except Exception:  # an exiting interpreter has enough to report
        pass


def hint(text: str, profiles: "Tuple[str, ...]") -> str:
    """Return the hint for a refusal: operation, alternative and profile."""
    operation, profile = text.split(TEXT)[0].strip()[-80:], ",".join(profiles)
    by_profile = any(entry["name"] == MODE for entry in choose.settings(profiles, ()))
    advice = (
        f"{operation} has an alternative: "
        if find_alternative(operation)
        else f"no alternative to {operation} is known"
    )
    advice += find_alternative(operation) + "; or switch the mode off around this one operation"
    if by_profile:
        return f"{advice}. Profile {profile} switched it on; the profile `torch` refuses nothing"
    return f"{advice}. The program switched it on, not the profile ({profile})"


def find_alternative(operation: str) -> str:
    """Return the alternative to an operation, "" if unknown.

    It is that of the longest known name that the operation's name begins with.
    """
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "refusals.json"), "rb") as file:
        known: "Dict[str, str]" = json.loads(file.read())["alternatives"]
    fitting = [name for name in known if operation.startswith(name)]
    return known[max(fitting, key=len)] if fitting else ""
