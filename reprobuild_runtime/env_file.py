"""Variables in a file of the image.

They are those that a recipe's own syntax cannot carry, for example several lines.
"""

import json
import os

from reprobuild_runtime.settings import print_line


def apply(path: str) -> None:
    """Set each unset variable of the file, {"NAME": "value"}.

    An error is printed to stderr.

    Values are written as UTF-8 whatever the locale is; other bytes as they stand in the file, or as \\udcXX.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            entries = json.load(file)
        for name, value in entries.items():
            _set(name, value)
    except Exception as err:
        print_line(f"reprobuild: {path} is not applied: {type(err).__name__}: {err}")


def _set(name: str, value: object) -> None:
    key = name.encode("utf-8", "surrogateescape")
    if not isinstance(value, str) or not key or b"=" in key or "\0" in name + value:
        print_line(f"reprobuild: environ.json: {name!r} is not a variable that can be set")
    elif key not in os.environb:
        os.environb[key] = value.encode("utf-8", "surrogateescape")
