"""Facts: the statements of a side, in one form.

A side is silent about facts that it cannot know: a lock knows no GPU. A fact that only one side knows is
reported, and is not a difference; so absent kinds, absent aspects and absent names are distinct here.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import product
from typing import Literal, get_args

from msgspec import Struct
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprobuild.compare.environments.channel import same_channel
from reprobuild.lock.model import Lock
from reprobuild_portable import secrets

Kind = Literal[
    "interpreter",
    "python",  # distributions, by their names on PyPI
    "conda",  # packages from conda that pip does not know
    "system",
    "environment",
    "module",
    "source",  # repositories from which something is installed
    "job",  # other repositories, such as that of the job's own directory
    "gpu",  # and its software: driver, CUDA, cuDNN, NCCL
    "machine",
    "release",
    "recipe",  # the fields of a lock beyond the environment
    "choices",  # of compilers, saved in an output directory for each platform
    "realised",  # the results of a sealed lock: programs that ran once, and their outputs
]
KINDS: tuple[Kind, ...] = get_args(Kind)

# The statements on one thing, by aspect; empty if only its name is known.
Aspect = Literal[
    "version",
    "series",
    "implementation",
    "value",
    "build",  # of a conda package; of an interpreter, with compiler and date
    "threading",  # of an interpreter: CPython's build with or without the global lock (PEP 703)
    "ABI flags",  # of an interpreter, such as that of a debug build
    "platform",  # of an interpreter, as `sysconfig` has it
    "packed build",  # of the interpreter in a snapshot: its build, and its place of installation
    "origin",  # of a distribution: see `origin`
    "distribution",
    "codename",
    "commit",
    "subdirectory",  # of a repository or an archive: the project in it
    "install",  # of a repository: as an editable, or a copy
    "tree",
    "trees",  # of a repository and those inside it, if no git id covers all
    "changes",
    "channel",  # of a conda package: the possible ones, separated by blanks
    "sha256",  # the possible ones of the file, separated by blanks; of an interpreter, its archive
    "md5",  # of a conda package, or in the address of an archive
    "sha1",  # this and the next: in the address of an archive
    "sha224",
    "sha384",
    "sha512",
    "sha256 of .tar.bz2",  # many builds exist as .conda, too, and the two files differ
    "md5 of .tar.bz2",
]
ASPECTS: tuple[Aspect, ...] = get_args(Aspect)  # in display order
Aspects = dict[Aspect, str]
CutPlace = tuple[Kind, str, Aspect]  # the name of a thing, and its aspect with an address that was cut
DIGESTS: tuple[Aspect, ...] = ("md5", "sha1", "sha224", "sha384", "sha512")
HASHES: tuple[Aspect, ...] = ("sha256", *DIGESTS, "sha256 of .tar.bz2", "md5 of .tar.bz2")
# A fact of the list of system packages, by a name that no package has.
ARCHITECTURE = "architecture of the packages"
Facts = dict[str, Aspects]
# Distributions that `pip freeze` leaves out, of any Python (pip, commands/freeze.py).
HIDDEN = frozenset({"pip", "setuptools", "wheel", "distribute", "python", "wsgiref", "argparse"})
# Longer values (processor flags, versions) do not come from a machine or a list.
LONGEST = 1 << 16
LONGEST_VERSION = 200
# Maximum number of compared pairs of channels; an environment has some five.
_MOST_CHANNELS = 4096
_ANY = ("", "all", "noarch")  # architectures of packages for every machine
# If empty, these have the same effect as unset: ld.so(8).
_LOADER = ("LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH")


Weight = Literal["note", "stated", "hidden"]


class Doubt(Struct, frozen=True, kw_only=True):
    """Names of a kind that cannot be compared, and why.

    `{}` in `reason` stands for the side. The `weight` is `note` if no difference can hide there, `stated` if
    one may hide unless both sides state the same, and `hidden` if one may hide even then: the content is not
    in the snapshot.
    """

    kind: Kind
    reason: str
    names: tuple[str, ...]
    weight: Weight


class UnreadLine(Struct, frozen=True):
    """A line of a snapshot that was not understood.

    Two of them are equal if `kind`, the file and `text` are. An empty `text` equals no other: the line is shortened or
    redacted, or a file of an unknown kind.
    """

    place: str
    text: str
    kind: Literal["line", "request", "channels", "variables", "extras"] = "line"


class RepositoryEvidence(Struct, frozen=True, kw_only=True):
    """The proof of a captured repository's tree.

    It is the hash of its diff, which begins at `start`, and of its bundle. `stated` is true if the bundle is
    the one that capture.json states. A packed interpreter has its archive as `bundle`.
    """

    start: str
    diff: str
    bundle: str
    stated: bool


class Environment(Struct, frozen=True, kw_only=True):
    """A side: one of two environments.

    `name` is the user's name for it and `form` its form. `known` has the facts of each kind that the side can
    know, including empty kinds. `unlisted` are names that it does not list even if they are present.
    `left_out` has the reasons why a lock left something out, and `unneeded` are those that no job needs.
    `doubled` counts repeated names; the first one counts, as for Python, and `repeats` has the others.
    `partial` are kinds that a side states only in part. `doubts` and `unread` cannot be compared. `lock` is
    the lock of a side that is one: two locks are compared field by field, too. `evidence` has a row for each
    captured repository, for those inside it, and for a packed interpreter. `cut` has the digests of
    addresses that are stated in part, by the aspect that states it: see `hash_cut_address`.
    """

    name: str
    form: str
    known: dict[Kind, Facts]
    unlisted: dict[Kind, frozenset[str]] = {}
    left_out: dict[tuple[Kind, str], str] = {}
    unneeded: frozenset[tuple[Kind, str]] = frozenset()
    doubled: dict[Kind, int] = {}
    partial: frozenset[Kind] = frozenset()
    repeats: frozenset[tuple[Kind, str, str]] = frozenset()
    doubts: tuple[Doubt, ...] = ()
    unread: tuple[UnreadLine, ...] = ()
    lock: Lock | None = None
    evidence: dict[tuple[Kind, str], tuple[RepositoryEvidence, ...]] = {}
    cut: dict[CutPlace, tuple[str, ...]] = {}


def find_kinds(first: Environment, second: Environment) -> list[Kind]:
    """Return the kinds to compare: all, but saved choices only if a side has some."""
    return [kind for kind in KINDS if kind != "choices" or first.known.get(kind) or second.known.get(kind)]


class EnvironmentBuilder:
    """Facts that are collected line by line."""

    def __init__(self) -> None:
        self.known: dict[Kind, Facts] = {}
        self.doubled: dict[Kind, int] = {}
        self.repeats: set[tuple[Kind, str, str]] = set()
        self.evidence: dict[tuple[Kind, str], tuple[RepositoryEvidence, ...]] = {}
        self.cut: dict[CutPlace, tuple[str, ...]] = {}
        self._doubts: dict[tuple[Kind, str, Weight], list[str]] = {}

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """The facts that cannot be compared."""
        rows = self._doubts.items()
        return tuple(Doubt(kind=k, reason=r, names=tuple(names), weight=w) for (k, r, w), names in rows)

    def doubt(self, kind: Kind, reason: str, name: str, weight: Weight = "stated") -> None:
        """Add a thing that cannot be compared; see `Doubt`."""
        self._doubts.setdefault((kind, reason, weight), []).append(shorten_value(name))

    def begin(self, kind: Kind) -> Facts:
        """Return the facts of a kind, now marked as known."""
        return self.known.setdefault(kind, {})

    def add(self, kind: Kind, name: str, aspects: Mapping[Aspect, str | None]) -> None:
        """Add the statements on a thing.

        None and "" are ignored, and the first statement stays.
        """
        facts = self.begin(kind)
        stated: Aspects = {aspect: shorten_value(value) for aspect, value in aspects.items() if value}
        former = facts.setdefault(name, stated)
        if former is stated:
            return
        if any(former.get(aspect, value) != value for aspect, value in stated.items()):
            self.doubled[kind] = self.doubled.get(kind, 0) + 1
            self.repeats.add((kind, name, str(sorted(stated.items()))))
        for aspect, value in stated.items():
            former.setdefault(aspect, value)

    def variables(self, pairs: Iterable[tuple[str, str | None]]) -> None:
        """Add variables, but only the names of secrets.

        A secret has the value None, or looks like one. If a name is repeated with another value, all values
        count, in order.
        """
        facts, values = self.begin("environment"), dict[str, dict[str, None]]()
        for name, value in pairs:
            if value is None or secrets.secret_variable(name, value):
                facts[name] = {}
            elif (value or name not in _LOADER) and facts.get(name) != {}:
                values.setdefault(name, {})[value] = None
                facts.setdefault(name, {"value": value})
        for name, several in values.items():
            if len(several) > 1 and facts[name]:
                facts[name] = {"value": ", and again as ".join(several)}

    def packages(self, rows: Iterable[tuple[str, str, str, str]]) -> None:
        """Add system packages: (name, version, architecture, sha256 or "").

        The sha256 is that of the package's file. Foreign packages are named as dpkg names them; the native
        architecture is that of most packages.
        """
        packages = list(rows)
        self.begin("system")
        counts = Counter(row[2] for row in packages)
        native = max(counts.keys() - _ANY, key=lambda candidate: (counts[candidate], candidate), default="")
        for name, version, architecture, sha256 in packages:
            foreign = architecture not in (*_ANY, native)
            shown = f"{name}:{architecture}" if foreign else name
            self.add("system", shown, {"version": version, "sha256": sha256})
        if native:  # a machine may have lists of dpkg and of rpm
            former = self.known["system"].pop(ARCHITECTURE, {}).get("value")
            self.add("system", ARCHITECTURE, {"value": f"{former}, {native}" if former else native})


def shorten_value(value: str) -> str:
    """Return a value, or a digest of a long one."""
    if len(value) <= LONGEST:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    return f"({len(value)} characters, sha256:{digest})"


def normalise_name(name: str) -> str:
    """Return the name of a distribution, normalised by PEP 503."""
    return str(canonicalize_name(name))


def python_series(version: str) -> str:
    """Return X.Y of a Python version."""
    return ".".join(version.split(".")[:2])


def same_statement(kind: Kind, aspect: Aspect, first: str, second: str) -> bool:
    """Return whether two statements are the same.

    Python versions are compared by PEP 440.
    """
    if first == second:
        return True
    if aspect == "sha256":
        return not set(first.split(" ")).isdisjoint(second.split(" "))
    if aspect == "channel":
        return _common_channel(first, second)
    if kind not in ("python", "interpreter") or aspect != "version":
        return False
    versions = _parse_version(first), _parse_version(second)
    return versions[0] is not None and versions[0] == versions[1]


@cache
def _common_channel(first: str, second: str) -> bool:
    first_channels, second_channels = first.split(" "), second.split(" ")
    return len(first_channels) * len(second_channels) <= _MOST_CHANNELS and any(
        same_channel(a, b) for a, b in product(first_channels, second_channels)
    )


def differs_in_build(first: str, second: str) -> bool:
    """Return whether two versions differ only in their local part.

    An example is 2.13.0 and 2.13.0+cpu.
    """
    versions = _parse_version(first), _parse_version(second)
    if versions[0] is None or versions[1] is None:
        return False
    return versions[0] != versions[1] and Version(versions[0].public) == Version(versions[1].public)


def _parse_version(text: str) -> Version | None:
    try:
        return Version(text) if len(text) <= LONGEST_VERSION else None
    except InvalidVersion:
        return None
