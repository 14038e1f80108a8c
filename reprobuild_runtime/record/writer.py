"""The record of a process.

It is written after the first framework's import, and again at exit with the effective settings.
"""

# ruff: noqa: TID251  the environment is what it reads

import json
import os
import sys

from reprobuild_runtime import settings
from reprobuild_runtime.profiles import apply, choose, hook
from reprobuild_runtime.record import readback
from reprobuild_runtime.seeding import ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Optional

DEFAULT = "reprobuild-record"
FORMAT = 1
LONGEST_PATH = 4096  # Linux takes no longer one
_records: "List[ProcessRecord]" = []


def watch(name: str) -> None:
    """Begin this process's record, or add a framework to it."""
    if _records and _records[-1].process == os.getpid():
        _records[-1].begin(name)
        return
    where = os.environ.get(settings.RECORD, DEFAULT)
    if where in ("", "0"):
        return
    record = ProcessRecord(os.path.abspath(where))
    _records.append(record)
    record.begin(name)
    import atexit

    atexit.register(record.end)


def is_child() -> bool:
    """Return whether multiprocessing started this process.

    It may be a worker, which its parent's record covers.
    """
    try:
        with open("/proc/self/cmdline", "rb") as file:
            started = b"from multiprocessing." in file.read()
    except OSError:
        started = False
    process = sys.modules.get("multiprocessing.process")
    return started or (process is not None and process.parent_process() is not None)


def is_worker() -> bool:
    """Return whether this is a worker of a DataLoader or Pool.

    A worker is a daemon; other processes do work of their own.
    """
    process = sys.modules.get("multiprocessing.process")
    return process is not None and bool(process.current_process().daemon)


def rank_of(environ: "Mapping[str, str]") -> "Optional[int]":
    """Return the rank of this process in its job.

    Return None if no launcher gave it one.
    """
    has_rank = any(text.isascii() and text.isdigit() for text in map(environ.get, ranks.RANKS) if text)
    return ranks.rank(environ) if has_rank else None


class ProcessRecord:
    """The requested and effective settings of one process."""

    def __init__(self, folder: str) -> None:
        self.process = os.getpid()
        part = "" if rank_of(os.environ) is None else f"rank{rank_of(os.environ)}-"
        # Random, so that ranks, nodes and restarts do not collide; host and user are not named.
        self.path = os.path.join(folder, f"{part}{os.urandom(8).hex()}.json")
        self.frameworks: "List[str]" = []
        self.start: "Dict[str, Any]" = {}
        self.overrides: "Dict[str, Dict[str, Any]]" = {}
        self.child = is_child()
        self.failed = False

    def begin(self, name: str) -> None:
        """Record requested and effective settings after a framework's import."""
        self.frameworks.append(name)
        request = readback.requested()
        now = readback.take()
        self.start = {"requested": display_request(request), "effective": now}
        for override in overrides(request, "start"):
            self.overrides.setdefault(override["setting"], override)
        if not self.child:
            self._write(None)

    def end(self) -> None:
        """Record the settings at exit, and print the deviations.

        The deviations are from the requested settings, in one line.
        """
        if self.process != os.getpid() or (self.child and is_worker()):
            return  # a fork that ends as a program does runs its parent's handlers
        try:
            self._end()
        except Exception as err:
            settings.print_line(f"reprobuild: the record is not complete: {type(err).__name__}: {err}")

    def _end(self) -> None:
        request = readback.requested()
        changed = []
        for override in overrides(request, "exit"):
            known = self.overrides.get(override["setting"])
            if known is None or known["effective"] != override["effective"]:
                self.overrides[override["setting"]] = override
                changed.append(override)
        kind = getattr(sys, "last_type", None)
        final = {
            "requested": display_request(request),
            "effective": readback.take(),
            "exception": getattr(kind, "__name__", None),
        }
        self._write(final)
        if changed:
            text = ", ".join(
                f"{override['setting']} {override['effective']} (asked for: {override['requested']})"
                for override in changed
            )
            settings.print_line(
                f"reprobuild: at exit not as asked for: {apply.display_value(text, 800)}" + self._place()
            )

    def _place(self) -> str:
        return "" if self.failed else f"; see {apply.display_value(self.path, LONGEST_PATH)}"

    def _write(self, final: "Optional[Mapping[str, Any]]") -> None:
        """Write the record atomically.

        An unwritable directory is reported once.
        """
        if self.failed:
            return
        document = {
            "format": FORMAT,
            "frameworks": self.frameworks,
            "process": self.process,
            "parent": os.getppid(),
            "rank": rank_of(os.environ),
            "ranks": ranks.size(os.environ),
            "start": self.start,
            "exit": final,
            "overrides": list(self.overrides.values()),
            "set_by_profile": hook.changed,
        }
        part = self.path + ".part"
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with open(part, "w", encoding="utf-8", errors="backslashreplace") as file:
                json.dump(document, file, indent=1, sort_keys=True)
                file.write("\n")
            os.replace(part, self.path)
        except OSError as err:
            self.failed = True
            where = apply.display_value(os.path.dirname(self.path))
            settings.print_line(f"reprobuild: no record is written: {err.strerror}: {where}")
            _remove(part)


def _remove(path: str) -> None:
    try:  # noqa: SIM105  importing contextlib takes longer
        os.unlink(path)
    except OSError:
        pass


def display_request(request: "Mapping[str, Any]") -> "Dict[str, Any]":
    """Return the requested settings in the form of the record.

    Of an entry, it has only the setting, and the point from which it takes effect.
    """
    entries = [
        {key: entry[key] for key in ("name", "value", "binds", "profile")} for entry in request["entries"]
    ]
    return dict(request, entries=entries)


def overrides(request: "Mapping[str, Any]", when: str) -> "List[Dict[str, Any]]":
    """Return each setting that is not in effect as requested."""
    deviations = []
    for entry in request["entries"]:
        if choose.is_variable(entry):
            value = readback.variable(entry["name"])
            same, valid = value == entry["value"] or _is_appended(entry, value), choose.is_valid(entry, value)
            have: object = value
        elif _module(entry) in sys.modules:
            try:
                have = apply.read_flag(entry)
            except LookupError:
                if "read" in entry:
                    continue  # this release cannot tell
                have = None
            same = valid = have == apply.requested_flag(entry)
        else:
            continue
        if not same:
            deviations.append(_override(entry["name"], apply.requested_value(entry), have, valid, when))
    if request["explicit"] and not settings.hash_order_is_chosen():
        deviations.append(_override(settings.HASH_SEED, str(request["seed"]), None, False, when))
    return deviations + _seed(request, when)


def _is_appended(entry: "Mapping[str, Any]", value: "Optional[str]") -> bool:
    return bool(entry.get("append")) and choose.is_valid(entry, value)


def _module(entry: "Mapping[str, Any]") -> str:
    return str(choose.data()["consumers"][entry["consumer"]]["module"])


def _seed(request: "Mapping[str, Any]", when: str) -> "List[Dict[str, Any]]":
    """Return an override if torch has another seed.

    Other generators do not report theirs.
    """
    torch = sys.modules.get("torch")
    if not request["explicit"] or torch is None:
        return []
    try:
        have = int(torch.initial_seed())
    except Exception:
        return []
    return (
        []
        if have == request["seed"]
        else [_override("torch.initial_seed", request["seed"], have, True, when)]
    )


def _override(name: str, requirement: object, have: object, valid: bool, when: str) -> "Dict[str, Any]":
    """Return an override.

    `valid` is set if the profile's purpose is still served.
    """
    shown_value = apply.display_value(have) if isinstance(have, str) else have
    return {"setting": name, "requested": requirement, "effective": shown_value, "valid": valid, "when": when}
