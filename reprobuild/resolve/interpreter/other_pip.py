"""A freeze that another pip wrote than the environment's: the image would lack what the environment had."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import chain

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.infra.display import display_text
from reprobuild.infra.untrusted.strings import AbsolutePath, PlainPath, is_valid
from reprobuild.lock.model import Resolution
from reprobuild.resolve.environment.path_mapping import unquote_directory
from reprobuild.snapshot.model import Requirement, Snapshot, SourceLocation

OTHER = "other-pip"  # the class of the deviation
AGAIN = "; take it again with "  # before the command at the end of a reason
_FILE = "requirements.txt"
_SHOWN = 5
_TORCH = ("torch", "pytorch", "pytorch-cpu", "pytorch-gpu")  # in a freeze, and in conda's lists
_VARIABLES = ("VIRTUAL_ENV", "CONDA_PREFIX")
# `/usr/lib/python3/dist-packages` is Debian's, for each of its Pythons.
_SITE = re.compile(
    r"(?P<prefix>/.*?|)/(?:local/)?lib(?:64)?/python(?P<version>3(?:\.\d{1,3})?)/(?:site|dist)-packages(?:/.*|)"
)
_USER = "/.local"  # each Python of a user sees the distributions below it
_TAIL = 2  # last parts of a path that tell one environment reached over two mounts


class OtherPip(Struct, frozen=True, kw_only=True):
    """A freeze that another pip wrote.

    `place` shows it, and `sign` says how. `missing` are distributions of the environment that the freeze lacks.
    `command` takes the freeze with the environment's own Python.
    """

    place: SourceLocation
    sign: str
    missing: tuple[str, ...]
    command: str

    def sentence(self) -> str:
        """Return one sentence for a person."""
        return (
            f"{_FILE} was written by another pip than the environment's: {self.sign}"
            f"{AGAIN}`{self.command} > {_FILE}`"
        )


def find_other_pip(snapshot: Snapshot) -> OtherPip | None:
    """Return the sign that another pip wrote the freeze, or None."""
    if _FILE in snapshot.absent:
        return None
    sign = next(chain(_capture_signs(snapshot), _torch_signs(snapshot), _path_signs(snapshot)), None)
    if sign is None:
        return None
    place, words, missing = sign
    return OtherPip(place=place, sign=words, missing=missing, command=_freeze_command(snapshot))


def rule_other_pip(snapshot: Snapshot) -> tuple[Resolution, ...]:
    """Rule a freeze (`other-pip`) that another pip wrote."""
    freeze = find_other_pip(snapshot)
    if freeze is None:
        return ()
    return (
        Resolution(
            file=freeze.place.file, line=freeze.place.line, subject=_FILE, outcome="unresolved",
            reason=freeze.sentence(), kind=OTHER,
        ),
    )  # fmt: skip


Sign = tuple[SourceLocation, str, tuple[str, ...]]


def _capture_signs(snapshot: Snapshot) -> Iterator[Sign]:
    """Yield the distributions that capture.json names and the freeze does not."""
    missing = snapshot.unfrozen
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        yield (
            SourceLocation("capture.json", 1),
            f"capture.json names {', '.join(missing[:_SHOWN])}{more}, which the freeze does not list",
            missing,
        )


def _torch_signs(snapshot: Snapshot) -> Iterator[Sign]:
    """Yield the torch that a report names and the freeze does not."""
    names = {line.name for line in snapshot.requirements} | {package.name for package in snapshot.conda}
    if any(canonicalize_name(name) in _TORCH for name in names):
        return
    for report in snapshot.reports:
        if report.torch:
            place = report.place("PyTorch version")
            yield place, f"{place} names torch {report.torch}, and the freeze lists no torch", ("torch",)


def _path_signs(snapshot: Snapshot) -> Iterator[Sign]:
    """Yield the lines of a freeze that lie below another interpreter than the environment's."""
    if snapshot.captured is not None:  # the interpreter that ran the capture wrote the freeze
        return
    prefixes = _environment_prefixes(snapshot)
    version, evidence = _find_stated_version(snapshot)
    for line in snapshot.requirements:
        match = _SITE.fullmatch(_line_path(line))
        if match is None:
            continue
        prefix = match["prefix"] or "/"
        if (
            prefixes
            and not prefix.endswith(_USER)
            and not any(_same_directory(prefix, folder) for folder in prefixes.values())
        ):
            name, folder = next(iter(prefixes.items()))
            yield (
                line.place,
                f"{line.place} lies below {display_text(prefix)}, and {name} is {display_text(folder)}",
                (),
            )
        elif version and "." in match["version"] and match["version"] != version:
            yield (
                line.place,
                f"{line.place} is of Python {match['version']}, and {evidence} has {version}",
                (),
            )


def _line_path(line: Requirement) -> str:
    return "" if line.kind == "conda" else line.path or ""


def _environment_prefixes(snapshot: Snapshot) -> dict[str, str]:
    """Return the directories of the environment by the variables that name them."""
    values = {variable.name: (variable.value or "").rstrip("/") for variable in snapshot.variables}
    return {name: values[name] for name in _VARIABLES if is_valid(values.get(name, ""), AbsolutePath)}


def _same_directory(first: str, second: str) -> bool:
    tails = [folder.split("/")[-_TAIL:] for folder in (first, second)]
    return first == second or (tails[0] == tails[1] and len(tails[0]) == _TAIL and "" not in tails[0])


def _find_stated_version(snapshot: Snapshot) -> tuple[str, str]:
    """Return the `X.Y` of the Python that `python -VV` printed, and where it stands."""
    for report in snapshot.reports:
        if report.kind == "python" and report.python:
            return ".".join(report.python.split(".")[:2]), str(report.place("Python version"))
    return "", ""


def _freeze_command(snapshot: Snapshot) -> str:
    captured = snapshot.captured.python if snapshot.captured else None
    known = [
        unquote_directory(captured.prefix) if captured else "",
        *_environment_prefixes(snapshot).values(),
    ]
    prefix = next((folder for folder in known if is_valid(folder, PlainPath)), "")
    return shlex.join([f"{prefix}/bin/python" if prefix else "python", "-m", "pip", "freeze", "--all"])
