"""What profiles do inside a running interpreter: flags after an import, and all of it when user code asks."""

# ruff: noqa: TID251  the environment is what it reads and writes

import os
import sys

from reprobuild_runtime import launch, settled
from reprobuild_runtime.profiles import apply, choose, kernels, refusals, versions
from reprobuild_runtime.seeding import ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Container, Dict, List, Optional

# Flags that a profile set to another value than they had, by name: for the record.
changed: "Dict[str, Dict[str, object]]" = {}


def after_import(name: str, module: "Any") -> None:
    """Set the flags of a library just imported, and look at the job's command line, once.

    A program that imports a framework is also told here that its hash order is lost, if nobody could tell it before:
    other programs are not (what `python -I -c` prints may be read by a program).
    """
    launch.say_hash_order(os.environ)
    try:
        asked = choose.names(os.environ.get(choose.PROFILE))
    except choose.UnknownProfileError:
        return  # said when this process, or the one that started it, was settled
    path = versions.own_path()
    entries = choose.settings(asked, path)
    if name == "torch" and entries:
        # What a launcher lost on the way, and is still in time; before the flags, of which one imports inductor. What
        # is said about presets was said at launch.
        apply.export(os.environ, [one for one in entries if not one.get("append") and not _bound(one)])
        refusals.install(asked)
        for problem in kernels.settle(module):
            launch.say("reprobuild: " + problem)
    for problem in set_flags(apply.flags(name, entries)):
        launch.say("reprobuild: " + problem)
    if os.environ.get(apply.CHECKED) != "1" and ranks.rank(os.environ) == 0:
        rules = [rule for rule in choose.arguments(asked, path) if _module(rule) == name]
        if rules:
            os.environ[apply.CHECKED] = "1"  # workers have the same one
        for problem in apply.check_arguments(rules, sys.argv):
            launch.say(f"reprobuild: profile {','.join(asked)}: {problem}")


def _read(entry: "Dict[str, Any]") -> object:
    try:
        return apply.read_flag(entry)
    except Exception:  # a release may set what it cannot tell
        return None


def _module(rule: "Dict[str, Any]") -> str:
    return str(choose.data()["consumers"][rule["consumer"]]["module"])


def set_flags(entries: "List[Any]") -> "List[str]":
    """Set flags and note what each was; return a line for each that this release does not have, or refuses."""
    said = []
    for entry in entries:
        try:
            before = _read(entry)
            apply.set_flag(entry)
            if before != apply.wanted_flag(entry) or _is_for_good(entry):
                changed.setdefault(entry["name"], {"before": before})["after"] = apply.wanted_flag(entry)
        except LookupError:
            said.append(f"profile {entry['profile']}: this release has no {entry['name']}")
        except Exception as err:
            said.append(
                f"profile {entry['profile']}: {entry['name']} is not set: {type(err).__name__}: {err}"
            )
    return said


def enforce(profile: "Optional[str]") -> "List[str]":
    """Put a profile in force now, for this process and its children; return what comes too late, in words.

    A variable that somebody set to what the profile refuses stays, and is among what is returned. What was set for
    another profile, and this one does not name, is taken back.

    Raises:
        UnknownProfile: `profile` names none. That REPROBUILD_PROFILE names none is said, and ends no job.
    """
    try:
        asked = choose.names(profile if profile is not None else os.environ.get(choose.PROFILE))
    except choose.UnknownProfileError as err:
        if profile is not None:
            raise
        launch.say(f"reprobuild: no profile is in force: {err}")
        return _hash_seed()
    if profile is not None:
        os.environ[choose.PROFILE] = ",".join(asked)  # children and later imports do the same
    entries = choose.settings(asked, versions.own_path())
    late = _hash_seed() + _take_back({one["name"] for one in entries})
    bound: "Dict[str, List[str]]" = {}
    for entry in filter(choose.is_variable, entries):
        before = os.environ.get(entry["name"])
        against = apply.export(os.environ, [entry])
        late += against
        why = "" if against or os.environ.get(entry["name"]) == before else _bound(entry)
        if why:
            bound.setdefault(why, []).append(entry["name"])
    late += [f"{', '.join(names)}: {why}" for why, names in bound.items()]
    for name in sorted({str(one["module"]) for one in choose.data()["consumers"].values()}):
        if name in sys.modules:
            late += set_flags(apply.flags(name, entries))
    if "torch" in sys.modules and entries:
        refusals.install(asked)
        late += kernels.settle(sys.modules["torch"])
    return late


def _hash_seed() -> "List[str]":
    if launch.hash_order_is_chosen():
        return []
    return ["PYTHONHASHSEED: the order of sets was drawn when this interpreter started"]


def _take_back(named: "Container[str]") -> "List[str]":
    """Undo what we set for another profile, but for some names; return what stays in this process, in words."""
    every = choose.data()["profiles"].values()
    known = {entry["name"]: entry for one in every for entry in one["settings"]}
    stays: "Dict[str, List[str]]" = {}
    for name in settled.names(os.environ):
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
    """Set a flag to what it was before ours, if it still is ours; return why that cannot be, else ""."""
    if _is_for_good(entry):
        return "it cannot be taken back"
    try:
        if apply.read_flag(entry) == was["after"]:
            apply.set_flag(dict(entry, value=was["before"]))
    except Exception as err:
        return f"{type(err).__name__}: {err}"
    return ""


def _is_for_good(entry: "Dict[str, Any]") -> bool:
    """Tell a function that switches something on and knows no way back."""
    return bool(entry.get("call")) and entry["value"] is None


def _bound(entry: "Any") -> str:
    """Return why a variable of an entry comes too late in this process, "" where it does not."""
    if entry["binds"] == "C":
        return "CUDA is initialised already" if _cuda_is_up() else ""
    module = choose.data()["consumers"][entry["consumer"]]["module"]
    if entry["binds"] == "I" and module in sys.modules:
        return f"{module} is imported already"
    return ""


def _cuda_is_up() -> bool:
    """Tell whether torch has initialised CUDA, without initialising it."""
    torch = sys.modules.get("torch")
    try:
        return bool(torch.cuda.is_initialized()) if torch is not None else False
    except Exception:
        return False
