"""The settings in force.

They follow from the profiles' data, the requested names, and the installed releases.
"""

import json
import os

from reprobuild_runtime.profiles import versions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

PROFILE = "REPROBUILD_PROFILE"
DEFAULT = "torch"
HINT = f"give {PROFILE} one of the names of docs/profiles.md, or several with commas between: {{names}}"
_loaded: "List[Dict[str, Any]]" = []


class UnknownProfileError(ValueError):
    """An unknown profile name, with a hint."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def data() -> "Dict[str, Any]":
    """Return the content of `profiles.json`, read once."""
    if not _loaded:
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "profiles.json"), "rb") as file:
            _loaded.append(json.loads(file.read()))
    return _loaded[0]


def names(text: "Optional[str]") -> "Tuple[str, ...]":
    """Return the profiles that a text names, or the default one.

    The default is that of REPROBUILD_PROFILE.

    Raises:
        UnknownProfileError: a name is not in `profiles.json`.
    """
    profiles = tuple(dict.fromkeys(word.strip() for word in (text or "").split(",") if word.strip())) or (
        DEFAULT,
    )
    known = data()["profiles"]
    for name in profiles:
        if name not in known:
            hint = HINT.format(names=", ".join(known))
            raise UnknownProfileError(f"there is no profile {name[:80]!r}", hint)
    return profiles


def _with_included(profiles: "Iterable[str]") -> "List[str]":
    """Return the profiles with their included ones, each once.

    The included ones come first.
    """
    result: "List[str]" = []
    for name in profiles:
        inside = _with_included(data()["profiles"][name].get("includes", ()))
        result += [profile for profile in (*inside, name) if profile not in result]
    return result


def settings(profiles: "Iterable[str]", path: "Iterable[str]") -> "List[Dict[str, Any]]":
    """Return the entries in force for the installed releases.

    The releases are found in site-packages directories. Of two entries for one name, the later counts.

    An entry for certain releases also counts if the release is unknown, and if it is for the newest ones. Entries that
    append to one variable all count.
    """
    finder = versions.VersionFinder(data()["consumers"], path)
    entries: "Dict[Tuple[str, object], Dict[str, Any]]" = {}
    for profile in _with_included(profiles):
        for entry in data()["profiles"][profile]["settings"]:
            if is_applicable(entry, finder):
                key = (entry["name"], entry["value"] if entry.get("append") else None)
                entries.pop(key, None)
                entries[key] = dict(entry, profile=profile)
    return list(entries.values())


def list_argument_rules(profiles: "Iterable[str]", path: "Iterable[str]") -> "List[Dict[str, Any]]":
    """Return the rules in force for a job's command line."""
    finder = versions.VersionFinder(data()["consumers"], path)
    return [
        rule
        for profile in _with_included(profiles)
        for rule in data()["profiles"][profile].get("arguments", ())
        if is_applicable(rule, finder)
    ]


def is_applicable(entry: "Mapping[str, Any]", finder: versions.VersionFinder) -> bool:
    """Return whether an entry is for the installed release."""
    conditions = entry.get("versions", "")
    if not conditions and not entry.get("installed"):
        return True  # directories are read only if an entry depends on them
    version = finder.version(entry["consumer"])
    if version is None:
        return not entry.get("installed") and versions.is_for_the_newest(conditions)
    return versions.matches(version, conditions)


def is_valid(entry: "Mapping[str, Any]", value: "Optional[str]") -> bool:
    """Return whether a variable's value fulfils an entry.

    It is the entry's own value, or an equivalent one.
    """
    if entry.get("append"):
        return entry["value"] in (value or "").split()
    if value is None or entry["value"] is None:
        return value is None and entry["value"] is None
    allowed: "List[str]" = entry.get("valid", [entry["value"]])
    if entry.get("list"):
        words = [word.strip() for word in value.split(",") if word.strip()]
        return bool(words) and all(word in allowed for word in words)
    return value in allowed


def is_variable(entry: "Mapping[str, Any]") -> bool:
    """Return whether an entry is an environment variable.

    The name of a library's flag has a dot.
    """
    return "." not in entry["name"]
