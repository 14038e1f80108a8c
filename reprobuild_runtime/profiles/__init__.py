"""Profiles: settings beside the seed, as data (`profiles.json`).

The package also puts them in force.

A profile takes effect only if the user chose the seed; without one no settings are changed. Settings that must be set
before the interpreter (P), before an import (I) or before the first use of the device (C) go into the environment at
launch; settings that may be set at any time (A) are set after the import of their library, without importing it.

Importing this package has no cost: its parts are imported on use.
"""

TYPE_CHECKING = False  # importing typing would cost every process some milliseconds
if TYPE_CHECKING:
    from typing import Any, List, Optional

# Modules with settings or checks after their import: those of the consumers with such an entry.
WATCHED = ("torch", "tensorflow", "megatron.core")


def after_import(name: str, module: "Any", explicit: bool) -> None:
    """Set the profile's settings for a just imported library.

    Without a chosen seed, no settings are changed.

    Args:
        name: the module's name, one of WATCHED.
        module: the module.
        explicit: whether the user chose the seed.
    """
    if explicit:
        from reprobuild_runtime.profiles import hook

        hook.after_import(name, module)


def enforce(explicit: bool, profile: "Optional[str]" = None) -> "List[str]":
    """Put the profile in force as far as still possible.

    It covers this process and its children. Without a chosen seed, it does not change anything.

    Args:
        explicit: whether the user chose the seed.
        profile: names of profiles, comma separated; None: those of REPROBUILD_PROFILE.

    Returns:
        The settings that are too late to take effect in this process, in words.

    Raises:
        ValueError: `profile` has an unknown name.
    """
    if not explicit:
        return []
    from reprobuild_runtime.profiles import hook

    return hook.enforce(profile)
