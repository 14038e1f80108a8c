"""Application of settings: variables at launch, flags after imports.

Contradicting values are reported.
"""

import sys

from reprobuild_runtime import applied_env
from reprobuild_runtime.profiles import choose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Mapping, MutableMapping, Tuple

CHECKED = "REPROBUILD_ARGUMENTS"  # "1": a process above has checked the job's command line


def export(environ: "MutableMapping[str, str]", entries: "Iterable[Mapping[str, Any]]") -> "List[str]":
    """Set the unset variables of entries; return contradictions.

    There is a line for each value that contradicts its entry.

    Variables that are set stay, even if empty, unless we set them ourselves for another profile: a value that the user
    chose is never changed. XLA_FLAGS and the like get a word added if they have no word of that name.
    """
    contradictions = []
    for entry in filter(choose.is_variable, entries):
        name, have = entry["name"], environ.get(entry["name"])
        if entry.get("append"):
            flag = entry["value"].split("=")[0]
            if not any(word.split("=")[0] == flag for word in (have or "").split()):
                environ[name] = f"{have} {entry['value']}" if have else entry["value"]
        elif entry["value"] is not None and (have is None or _is_anothers(environ, entry)):
            applied_env.put(environ, name, entry["value"])
        if not choose.is_valid(entry, environ.get(name)):
            contradictions.append(describe_contradiction(entry, environ.get(name)))
    return contradictions


def _is_anothers(environ: "Mapping[str, str]", entry: "Mapping[str, Any]") -> bool:
    """Return whether a variable is ours from an incompatible profile.

    This profile's entry does not allow its value.
    """
    name = entry["name"]
    return applied_env.has_our_value(environ, name) and not choose.is_valid(entry, environ[name])


def describe_contradiction(entry: "Mapping[str, Any]", value: object) -> str:
    """Return the line on a setting that contradicts its profile."""
    requirement = "unset" if entry["value"] is None else display_value(entry["value"])
    current_value = "empty" if value == "" else display_value(value)
    return (
        f"profile {entry['profile']} wants {entry['name']} {requirement}; it is {current_value}, and stays so"
    )


def display_value(value: object, limit: int = 120) -> str:
    """Return a value in a form for one line of a log."""
    text = value if isinstance(value, str) else str(value)
    printable = "".join(c if c.isprintable() else "?" for c in text)
    return printable if len(printable) <= limit else printable[: limit - 3] + "..."


def check_arguments(rules: "Iterable[Mapping[str, Any]]", command: "Iterable[str]") -> "List[str]":
    """Return a line for each problem of a job's command line.

    It lacks a word, or has one that the profile refuses.
    """
    words = {word.partition("=")[0] for word in command if word.startswith("--")}
    problems = []
    for rule in rules:
        lacking = [word for word in rule.get("needs", ()) if word not in words]
        refused = [word for word in rule.get("refuses", ()) if word in words]
        problems += [f"the command line has no {word}: {rule['why']}" for word in lacking]
        problems += [f"the command line has {word}: {rule['why']}" for word in refused]
    return problems


def select_flags(module_name: str, entries: "Iterable[Mapping[str, Any]]") -> "List[Mapping[str, Any]]":
    """Return the entries that are flags of a module or its submodules."""
    consumers = choose.data()["consumers"]
    return [
        entry
        for entry in entries
        if not choose.is_variable(entry) and consumers[entry["consumer"]]["module"] == module_name
    ]


def resolve(path: str) -> "Tuple[Any, str]":
    """Return (object, attribute) of a dotted path.

    Only imported modules are searched; LookupError is raised if it is absent.
    """
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        holder = sys.modules.get(".".join(parts[:length]))
        if holder is None:
            continue
        try:
            for part in parts[length:-1]:
                holder = getattr(holder, part)
        except AttributeError as err:
            raise LookupError(path) from err
        return holder, parts[-1]
    raise LookupError(path)


def read_flag(entry: "Mapping[str, Any]") -> object:
    """Return a flag's current value.

    LookupError is raised if this release does not have it.
    """
    holder, attribute = resolve(entry.get("read", entry["name"]))
    try:
        flag = getattr(holder, attribute)
    except AttributeError as err:
        raise LookupError(entry["name"]) from err
    value = flag() if entry.get("call") else flag
    if value is True and "weakened" in entry:
        holder, attribute = resolve(entry["weakened"])
        if getattr(holder, attribute)():
            return attribute.split("is_deterministic_algorithms_")[-1].replace("_enabled", "")
    return value


def requested_value(entry: "Mapping[str, Any]") -> object:
    """Return an entry's requested value, in the form of a record."""
    return entry["value"] if choose.is_variable(entry) else requested_flag(entry)


def requested_flag(entry: "Mapping[str, Any]") -> object:
    """Return a flag's value if its entry is in force."""
    return entry.get("reads", entry["value"])


def set_flag(entry: "Mapping[str, Any]") -> None:
    """Set a flag; errors of the library are passed on."""
    holder, attribute = resolve(entry["name"])
    if entry.get("call"):
        values = () if entry["value"] is None else (entry["value"],)
        getattr(holder, attribute)(*values)
    else:
        setattr(holder, attribute, entry["value"])


def in_force(environ: "Mapping[str, str]", path: "Iterable[str]") -> "List[Dict[str, Any]]":
    """Return the entries of REPROBUILD_PROFILE.

    UnknownProfile is raised for an unknown name.
    """
    return choose.settings(choose.names(environ.get(choose.PROFILE)), path)


def launch(environ: "MutableMapping[str, str]", path: "Iterable[str]") -> "List[str]":
    """Set the profile's variables in a launch's environment; return messages.

    Args:
        environ: of the command.
        path: directories in which its interpreter will find distributions.

    Raises:
        UnknownProfileError: REPROBUILD_PROFILE has an unknown name.
    """
    return export(environ, in_force(environ, path))
