"""Profiles: what is set beside the seed, as data (`profiles.json`), and how it is put in force.

A profile takes effect only where somebody chose the seed; without one nothing is set. What binds before the
interpreter (P), before an import (I) or before the first use of the device (C) goes into the environment at launch;
what binds at any time (A) is set after the import of its library, without importing it.

Importing this package costs nothing: its parts are imported when they are used.
"""

TYPE_CHECKING = False  # importing typing would cost every process some milliseconds
if TYPE_CHECKING:
    from typing import Any, List, Optional

# After whose import something is to be set or checked: the modules of the consumers with such an entry.
WATCHED = ("torch", "tensorflow", "megatron.core")


def after_import(name: str, module: "Any", explicit: bool) -> None:
    """Set what the profile in force says for a library that was just imported; nothing without a chosen seed.

    Args:
        name: the module's name, one of WATCHED.
        module: the module.
        explicit: whether somebody chose the seed.
    """
    if explicit:
        from reprobuild_runtime.profiles import hook

        hook.after_import(name, module)


def enforce(explicit: bool, profile: "Optional[str]" = None) -> "List[str]":
    """Put the profile in force as far as this process still allows, also for its children; nothing if not explicit.

    Args:
        explicit: whether somebody chose the seed.
        profile: names of profiles, comma separated; None: those of REPROBUILD_PROFILE.

    Returns:
        What comes too late to take effect in this process, in words.

    Raises:
        ValueError: `profile` names none.
    """
    if not explicit:
        return []
    from reprobuild_runtime.profiles import hook

    return hook.enforce(profile)
