"""Put settings in force: variables before a program starts, flags after an import; and say what stands against them."""

import sys

from reprobuild_runtime import settled
from reprobuild_runtime.profiles import choose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Mapping, MutableMapping, Tuple

CHECKED = "REPROBUILD_ARGUMENTS"  # "1": the job's command line was looked at, in a process above


def export(environ: "MutableMapping[str, str]", entries: "Iterable[Mapping[str, Any]]") -> "List[str]":
    """Set the variables of entries that are not set yet, and return a line for each that stands against its entry.

    What is set already stays, also where it is empty, unless we set it ourselves for another profile: a value that
    somebody chose is never changed. XLA_FLAGS and its like get a word added where they have none of that name.
    """
    said = []
    for entry in filter(choose.is_variable, entries):
        name, have = entry["name"], environ.get(entry["name"])
        if entry.get("append"):
            flag = entry["value"].split("=")[0]
            if not any(word.split("=")[0] == flag for word in (have or "").split()):
                environ[name] = f"{have} {entry['value']}" if have else entry["value"]
        elif entry["value"] is not None and (have is None or _is_anothers(environ, entry)):
            settled.put(environ, name, entry["value"])
        if not choose.is_valid(entry, environ.get(name)):
            said.append(against(entry, environ.get(name)))
    return said


def _is_anothers(environ: "Mapping[str, str]", entry: "Mapping[str, Any]") -> bool:
    """Tell whether a variable is as we set it for another profile, which this one's entry does not allow."""
    name = entry["name"]
    return settled.ours(environ, name) and not choose.is_valid(entry, environ[name])


def against(entry: "Mapping[str, Any]", value: object) -> str:
    """Return the line on a setting that stands against its profile."""
    wanted = "unset" if entry["value"] is None else shown(entry["value"])
    found = "empty" if value == "" else shown(value)
    return f"profile {entry['profile']} wants {entry['name']} {wanted}; it is {found}, and stays so"


def shown(value: object, limit: int = 120) -> str:
    """Return a value as it can stand in one line of a log."""
    text = value if isinstance(value, str) else str(value)
    printable = "".join(c if c.isprintable() else "?" for c in text)
    return printable if len(printable) <= limit else printable[: limit - 3] + "..."


def check_arguments(rules: "Iterable[Mapping[str, Any]]", command: "Iterable[str]") -> "List[str]":
    """Return a line for each word that a job's command line lacks, or has against the profile."""
    words = {word.partition("=")[0] for word in command if word.startswith("--")}
    said = []
    for rule in rules:
        lacking = [word for word in rule.get("needs", ()) if word not in words]
        refused = [word for word in rule.get("refuses", ()) if word in words]
        said += [f"the command line has no {word}: {rule['why']}" for word in lacking]
        said += [f"the command line has {word}: {rule['why']}" for word in refused]
    return said


def flags(module_name: str, entries: "Iterable[Mapping[str, Any]]") -> "List[Mapping[str, Any]]":
    """Return the entries that are flags of a module, or of one below it."""
    consumers = choose.data()["consumers"]
    return [
        entry
        for entry in entries
        if not choose.is_variable(entry) and consumers[entry["consumer"]]["module"] == module_name
    ]


def resolve(path: str) -> "Tuple[Any, str]":
    """Return (object, attribute) of a dotted path, by what is imported already; LookupError where there is none."""
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        found = sys.modules.get(".".join(parts[:length]))
        if found is None:
            continue
        try:
            for part in parts[length:-1]:
                found = getattr(found, part)
        except AttributeError as err:
            raise LookupError(path) from err
        return found, parts[-1]
    raise LookupError(path)


def read_flag(entry: "Mapping[str, Any]") -> object:
    """Return a flag's value as it is now; LookupError where this release has none."""
    holder, attribute = resolve(entry.get("read", entry["name"]))
    try:
        found = getattr(holder, attribute)
    except AttributeError as err:
        raise LookupError(entry["name"]) from err
    value = found() if entry.get("call") else found
    if value is True and "weakened" in entry:
        holder, attribute = resolve(entry["weakened"])
        if getattr(holder, attribute)():
            return attribute.split("is_deterministic_algorithms_")[-1].replace("_enabled", "")
    return value


def wanted(entry: "Mapping[str, Any]") -> object:
    """Return what an entry asks for, as a record has it."""
    return entry["value"] if choose.is_variable(entry) else wanted_flag(entry)


def wanted_flag(entry: "Mapping[str, Any]") -> object:
    """Return the value that a flag has when its entry is in force."""
    return entry.get("reads", entry["value"])


def set_flag(entry: "Mapping[str, Any]") -> None:
    """Set a flag; whatever the library raises passes."""
    holder, attribute = resolve(entry["name"])
    if entry.get("call"):
        values = () if entry["value"] is None else (entry["value"],)
        getattr(holder, attribute)(*values)
    else:
        setattr(holder, attribute, entry["value"])


def in_force(environ: "Mapping[str, str]", path: "Iterable[str]") -> "List[Dict[str, Any]]":
    """Return the entries of REPROBUILD_PROFILE; UnknownProfile where it names none."""
    return choose.settings(choose.names(environ.get(choose.PROFILE)), path)


def launch(environ: "MutableMapping[str, str]", path: "Iterable[str]") -> "List[str]":
    """Put the profile's variables into the environment of a launch; return what is to be said.

    Args:
        environ: of the command.
        path: folders in which its interpreter will find distributions.

    Raises:
        UnknownProfileError: REPROBUILD_PROFILE names none.
    """
    return export(environ, in_force(environ, path))
