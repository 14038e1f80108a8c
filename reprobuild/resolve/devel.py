"""The base in which projects are compiled: never in the image."""

from __future__ import annotations

from collections.abc import Callable

from reprobuild.lock import Base, Interpreter
from reprobuild.resolve.ground import Packages


def devel_base(
    system: Packages, base: Base, interpreter: Interpreter, packages: dict[str, str],
    say: Callable[[str], None],
) -> Base | None:  # fmt: skip
    """Return the image's own packages with compilers from the same archives; None where nothing compiles.

    Args:
        system: where the base comes from.
        base: the image's own.
        interpreter: the image's, whose headers are needed where it is the system's.
        packages: what compiling needs, each with who asks.
        say: told when it begins.

    Raises:
        LockError: a package is nowhere.
    """
    if not packages:
        return None
    say(f"system: compilers, for {'; '.join(dict.fromkeys(packages.values()))}")
    wanted = dict.fromkeys(base.installed, "the base") | packages
    if interpreter.kind == "system":
        wanted[f"{interpreter.executable.rpartition('/')[2]}-dev"] = "what is compiled against Python"
    return system.pin(wanted)[0]
