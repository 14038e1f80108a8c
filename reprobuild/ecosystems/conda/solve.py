"""Packages of conda that fit together, chosen by rattler's solver."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from reprobuild.ecosystems.conda.linking import run_rattler
from reprobuild.ecosystems.conda.package import split_filename
from reprobuild.errors import BuildError, FetchError
from reprobuild.infra.untrusted.decode import decode_value
from reprobuild.infra.untrusted.strings import CondaName, FileName, Hex, OptionalSha256, Text

# 500,000 packages that all can be reached need 1.9 GiB.
_SECONDS, _MOST_MEMORY = 900, 4 << 30
_HINT = "a channel is broken, or no channel; name another with `--channel URL`"


class ChannelList(NamedTuple):
    """The file of a channel's repodata.json, the channel's name, and the subdir."""

    file: Path
    channel: Text
    subdir: str


class VirtualPackage(NamedTuple):
    """A fact about the machine, as conda's packages ask for it."""

    name: str
    version: str
    build: str = "0"


class SolvedPackage(Struct, frozen=True, kw_only=True):
    """A package that the solver chose; `sha256` and `md5` are empty if the channel does not state them."""

    name: CondaName
    version: CondaName
    build: CondaName
    filename: FileName
    channel: Text
    subdir: CondaName
    sha256: OptionalSha256 = ""
    md5: Hex = ""


class _Solution(Struct, frozen=True, kw_only=True):
    packages: tuple[SolvedPackage, ...] = ()
    unsolvable: Text = ""


class UnsolvableError(Exception):
    """No packages fit together; the message is rattler's."""


def solve(
    lists: Sequence[ChannelList],
    specs: Sequence[str],
    virtual: Sequence[VirtualPackage],
    moment: float,
    scratch: Path,
) -> tuple[SolvedPackage, ...]:
    """Return the packages of an environment.

    A package is only chosen from the first channel that has its name (conda's strict priority).

    Args:
        lists: of the channels, by priority.
        specs: the requirements, in conda's form.
        virtual: the facts about the machine.
        moment: in seconds since 1970; packages that came later do not count. A package without a time counts.
        scratch: a directory of this run.

    Raises:
        UnsolvableError: no packages fit together, or a requirement is not valid.
        FetchError: a list is not valid.
        EngineError: rattler is not installed.
    """
    job = {
        "lists": [(str(file), channel, subdir) for file, channel, subdir in lists],
        "specs": list(specs), "virtual": [list(package) for package in virtual], "moment": moment,
    }  # fmt: skip
    try:
        answer = run_rattler({"solve": job}, scratch, "choose packages of conda", _SECONDS, _MOST_MEMORY)
        solution = decode_value(answer, _Solution)
    except (BuildError, msgspec.ValidationError) as err:
        raise FetchError(f"the packages of conda cannot be chosen: {err}", hint=_HINT) from None
    if solution.unsolvable:
        raise UnsolvableError(solution.unsolvable)
    known = {(channel_list.channel, channel_list.subdir) for channel_list in lists}
    for package in solution.packages:
        is_named = (split_filename(package.filename) or ("",))[0] == package.name
        if not is_named or (package.channel, package.subdir) not in known:
            raise FetchError(f"{package.filename} is no package {package.name} of a channel", hint=_HINT)
    return solution.packages
