"""Profiles inside a running interpreter.

Flags are set after an import, and all settings when user code asks.
"""

# ruff: noqa: TID251  the environment is what it reads and writes

import os
import sys

from reprobuild_runtime import applied_env, settings
from reprobuild_runtime.profiles import apply, choose, kernels, nondeterministic_ops, versions
from reprobuild_runtime.seeding import ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Container, Dict, List, Optional

# Flags that a profile changed, by name: for the record.
changed: "Dict[str, Dict[str, object]]" = {}


def after_import(name: str, module: "Any") -> None:
    """Set the flags of a just imported library.

    The job's command line is checked once.

    A program that imports a framework also gets a message here if its hash order is lost, and no process could report
    it before: other programs do not (the output of `python -I -c` may be read by a program).
    """
    settings.say_hash_order(os.environ)
    try:
        profiles = choose.names(os.environ.get(choose.PROFILE))
    except choose.UnknownProfileError:
        return  # reported when this process, or the one that started it, was settled
    path = versions.list_own_directories()
    entries = choose.settings(profiles, path)
    if name == "torch" and entries:
        # Variables that a launcher lost on the way, and that are still in time; before the flags, because one imports
        # inductor. Contradictions of preset variables were reported at launch.
        apply.export(
            os.environ, [entry for entry in entries if not entry.get("append") and not _bound(entry)]
        )
        nondeterministic_ops.install(profiles)
        for problem in kernels.settle(module):
            settings.print_line("reprobuild: " + problem)
    for problem in set_flags(apply.select_flags(name, entries)):
        settings.print_line("reprobuild: " + problem)
    if os.environ.get(apply.CHECKED) != "1" and ranks.rank(os.environ) == 0:
        rules = [rule for rule in choose.list_argument_rules(profiles, path) if _module(rule) == name]
        if rules:
            os.environ[apply.CHECKED] = "1"  # workers have the same one
        for problem in apply.check_arguments(rules, sys.argv):
            settings.print_line(f"reprobuild: profile {','.join(profiles)}: {problem}")


def _read(entry: "Dict[str, Any]") -> object:
    try:
        return apply.read_flag(entry)
    except Exception:  # a release may set a flag that it cannot read
        return None


def _module(rule: "Dict[str, Any]") -> str:
    return str(choose.data()["consumers"][rule["consumer"]]["module"])


def set_flags(entries: "List[Any]") -> "List[str]":
    """Set flags and record their former values.

    Return a line for each that this release lacks or refuses.
    """
    problems = []
    for entry in entries:
        try:
            before = _read(entry)
            apply.set_flag(entry)
            if before != apply.requested_flag(entry) or _is_for_good(entry):
                changed.setdefault(entry["name"], {"before": before})["after"] = apply.requested_flag(entry)
        except LookupError:
            problems.append(f"profile {entry['profile']}: this release has no {entry['name']}")
        except Exception as err:
            problems.append(
                f"profile {entry['profile']}: {entry['name']} is not set: {type(err).__name__}: {err}"
            )
    return problems


def enforce(profile: "Optional[str]") -> "List[str]":
    """Put a profile in force now, for this process and its children.

    Return the settings that are too late, in words.

    A variable that the user set to a refused value stays, and is in the result. Settings for another profile that this
    one does not name are undone.

    Raises:
        UnknownProfile: `profile` has an unknown name. An unknown name in REPROBUILD_PROFILE is reported, and ends no
            job.
    """
    try:
        profiles = choose.names(profile if profile is not None else os.environ.get(choose.PROFILE))
    except choose.UnknownProfileError as err:
        if profile is not None:
            raise
        settings.print_line(f"reprobuild: no profile is in force: {err}")
        return _hash_seed()
    if profile is not None:
        os.environ[choose.PROFILE] = ",".join(profiles)  # children and later imports do the same
    entries = choose.settings(profiles, versions.list_own_directories())
    late = _hash_seed() + _take_back({entry["name"] for entry in entries})
    bound: "Dict[str, List[str]]" = {}
    for entry in filter(choose.is_variable, entries):
        before = os.environ.get(entry["name"])
        against = apply.export(os.environ, [entry])
        late += against
        why = "" if against or os.environ.get(entry["name"]) == before else _bound(entry)
        if why:
            bound.setdefault(why, []).append(entry["name"])
    late += [f"{', '.join(names)}: {why}" for why, names in bound.items()]
    for name in sorted({str(consumer["module"]) for consumer in choose.data()["consumers"].values()}):
        if name in sys.modules:
            late += set_flags(apply.select_flags(name, entries))
    if "torch" in sys.modules and entries:
        nondeterministic_ops.install(profiles)
        late += kernels.settle(sys.modules["torch"])
    return late


def _hash_seed() -> "List[str]":
    if settings.hash_order_is_chosen():
        return []
    return ["PYTHONHASHSEED: the order of sets was drawn when this interpreter started"]


def _take_back(named: "Container[str]") -> "List[str]":
    """Undo settings for another profile, except some names.

    Return the settings that stay in this process, in words.
    """
    every = choose.data()["profiles"].values()
    known = {entry["name"]: entry for profile in every for entry in profile["settings"]}
    stays: "Dict[str, List[str]]" = {}
    for name in applied_env.names(os.environ):
        if name in known and name not in named:
            del os.environ[name]
            stays.setdefault(_bound(known[name]), []).append(name)
    for name in [name for name in changed if name not in named]:
        why = _restore(known[name], changed[name])
        stays.setdefault(why, []).append(name)
        if not why:
            del changed[name]
    return [f"{', '.join(names)}, set for another profile: {why}" for why, names in stays.items() if why]


def _restore(entry: "Dict[str, Any]", was: "Dict[str, object]") -> str:
    """Restore a flag's former value, if it still has ours.

    Return the reason if that is impossible, else "".
    """
    if _is_for_good(entry):
        return "it cannot be taken back"
    try:
        if apply.read_flag(entry) == was["after"]:
            apply.set_flag(dict(entry, value=was["before"]))
    except Exception as err:
        return f"{type(err).__name__}: {err}"
    return ""


def _is_for_good(entry: "Dict[str, Any]") -> bool:
    """Return whether a flag is a function without an inverse."""
    return bool(entry.get("call")) and entry["value"] is None


def _bound(entry: "Any") -> str:
    """Return why a variable is too late in this process, else ""."""
    if entry["binds"] == "C":
        return "CUDA is initialised already" if _cuda_is_up() else ""
    module = choose.data()["consumers"][entry["consumer"]]["module"]
    if entry["binds"] == "I" and module in sys.modules:
        return f"{module} is imported already"
    return ""


def _cuda_is_up() -> bool:
    """Return whether torch has initialised CUDA, without initialising it."""
    torch = sys.modules.get("torch")
    try:
        return bool(torch.cuda.is_initialized()) if torch is not None else False
    except Exception:
        return False
