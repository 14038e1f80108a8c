"""A hint beside torch's error where an operation has no deterministic implementation."""

import json
import os
import sys

from reprobuild_runtime import launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

TEXT = "does not have a deterministic implementation"
_installed: "List[Tuple[str, ...]]" = []


def install(asked: "Tuple[str, ...]") -> None:
    """Say a hint after an uncaught refusal of torch, on any thread; what handles exceptions now still does so first.

    Nothing is caught and nothing is slowed: it runs when the interpreter is about to give up.
    """
    _installed.append(asked)
    if len(_installed) > 1:
        return
    previous = sys.excepthook

    def of_process(kind: "Any", error: "Any", trace: "Any") -> None:
        previous(kind, error, trace)
        _say(error)

    sys.excepthook = of_process
    import threading

    before = threading.excepthook

    def of_thread(args: "Any") -> None:
        before(args)
        _say(args.exc_value)

    threading.excepthook = of_thread


def _say(error: object) -> None:
    try:
        text = str(error) if isinstance(error, RuntimeError) else ""
        if TEXT in text:
            launch.say("reprobuild: hint: " + hint(text, ",".join(_installed[-1])))
    except Exception:  # an interpreter that is giving up has enough to say
        pass


def hint(text: str, profile: str) -> str:
    """Return what to do about a refusal: operation, alternative and profile."""
    operation = text.split(TEXT)[0].strip()[-80:]
    return (
        f"{operation} is refused by deterministic mode (profile {profile}): {alternative(operation)}; "
        "or turn the mode off around this one operation; or take the profile `torch`, which does not refuse"
    )


def alternative(operation: str) -> str:
    """Return what can stand in for an operation, by the longest name in `refusals.json` that its own begins with."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "refusals.json"), "rb") as file:
        known: "Dict[str, str]" = json.loads(file.read())["alternatives"]
    fitting = [name for name in known if operation.startswith(name)]
    return known[max(fitting, key=len)] if fitting else "no alternative is known"
