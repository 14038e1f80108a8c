"""Which settings are in force: the profiles' data, the names that were asked for, the releases installed."""

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
    """A name that is no profile's, with what to do about it."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.hint = hint


def data() -> "Dict[str, Any]":
    """Return the content of `profiles.json`, read once."""
    if not _loaded:
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "profiles.json"), "rb") as file:
            _loaded.append(json.loads(file.read()))
    return _loaded[0]


def names(text: "Optional[str]") -> "Tuple[str, ...]":
    """Return the profiles that a text names, those of REPROBUILD_PROFILE's default where it names none.

    Raises:
        UnknownProfileError: a name is none of `profiles.json`.
    """
    asked = tuple(dict.fromkeys(word.strip() for word in (text or "").split(",") if word.strip())) or (
        DEFAULT,
    )
    known = data()["profiles"]
    for name in asked:
        if name not in known:
            hint = HINT.format(names=", ".join(known))
            raise UnknownProfileError(f"there is no profile {name[:80]!r}", hint)
    return asked


def _with_included(asked: "Iterable[str]") -> "List[str]":
    """Return the profiles and those that they include, each once, the included ones first."""
    found: "List[str]" = []
    for name in asked:
        inside = _with_included(data()["profiles"][name].get("includes", ()))
        found += [one for one in (*inside, name) if one not in found]
    return found


def settings(asked: "Iterable[str]", path: "Iterable[str]") -> "List[Dict[str, Any]]":
    """Return the entries in force, for the releases found in folders of site-packages; of two for one name, the later.

    An entry for certain releases counts also where the release is not known, if it is for the newest ones. Entries
    that append to one variable all count.
    """
    finder = versions.VersionFinder(data()["consumers"], path)
    found: "Dict[Tuple[str, object], Dict[str, Any]]" = {}
    for profile in _with_included(asked):
        for entry in data()["profiles"][profile]["settings"]:
            if applies(entry, finder):
                key = (entry["name"], entry["value"] if entry.get("append") else None)
                found.pop(key, None)
                found[key] = dict(entry, profile=profile)
    return list(found.values())


def arguments(asked: "Iterable[str]", path: "Iterable[str]") -> "List[Dict[str, Any]]":
    """Return the rules for a job's command line that are in force."""
    finder = versions.VersionFinder(data()["consumers"], path)
    return [
        rule
        for profile in _with_included(asked)
        for rule in data()["profiles"][profile].get("arguments", ())
        if applies(rule, finder)
    ]


def applies(entry: "Mapping[str, Any]", finder: versions.VersionFinder) -> bool:
    """Tell whether an entry is for the release that is installed."""
    wanted = entry.get("versions", "")
    if not wanted and not entry.get("installed"):
        return True  # no look into folders where nothing depends on it
    version = finder.version(entry["consumer"])
    if version is None:
        return not entry.get("installed") and versions.is_for_the_newest(wanted)
    return versions.matches(version, wanted)


def is_valid(entry: "Mapping[str, Any]", value: "Optional[str]") -> bool:
    """Tell whether a variable's value fulfils an entry: the entry's own, or one of those that do as well."""
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
    """Tell an environment variable from a flag of a library, whose name has a dot."""
    return "." not in entry["name"]
