"""Packages of conda for a file that says what was asked for, chosen as of a day in the past.

rattler's solver chooses them from the file's channels, by strict priority. A chosen package is a `solved` line of the
lock, never a captured one.
"""

from __future__ import annotations

import datetime
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from packaging.utils import canonicalize_name

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.conda.channels import Channel
from reprobuild.ecosystems.conda.conda_config import Channels, read_channels
from reprobuild.ecosystems.conda.linking import check_rattler
from reprobuild.ecosystems.conda.repodata import Repodata
from reprobuild.ecosystems.conda.solve import (
    ChannelList,
    SolvedPackage,
    UnsolvableError,
    VirtualPackage,
    solve,
)
from reprobuild.errors import FetchError, LockError
from reprobuild.infra.display import display_text, escape_text
from reprobuild.resolve.architecture import MACHINES
from reprobuild.resolve.as_of import SolvedLines
from reprobuild.resolve.as_of_moment import SOLVED, choose_moment, describe_moment
from reprobuild.resolve.conda.channel_addresses import make_channel_resolver
from reprobuild.resolve.conda.files import SUBDIRS
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.interpreter.evidence import gather_evidence
from reprobuild.snapshot.model import CapturedCondaPackage, CondaRequest, ParseNote, Snapshot, SourceLocation
from reprobuild.snapshot.parsers.conda_list import ASKED, PYPI
from reprobuild.snapshot.parsers.conda_names import INTERPRETER
from reprobuild_portable.secrets import redact

# What pixi takes for a machine that nobody describes: https://pixi.prefix.dev/latest/workspace/system_requirements/
_KERNEL, _GLIBC = "4.18", "2.28"
_MOST_CHANNELS = 50  # each is two downloads, or four
_CUDA = "CONDA_OVERRIDE_CUDA"  # conda's own variable for the driver's newest CUDA
_OF_CHANNEL = re.compile(r"(?P<channel>[^\s:\[]\S*?)::(?P<rest>.*)")
_FREE_THREADED = "python-freethreading"  # conda-forge's package that selects the build of PEP 703


def solve_conda_requests(
    snapshot: Snapshot, decisions: Decisions, platform: str, context: ResolveContext
) -> SolvedLines:
    """Return the snapshot with a package of conda for each request, as of a moment.

    Without a moment, or without a request, the snapshot is returned as it is. The moment is that of
    `solve_open_lines`. Packages with a build in the file stay as they are.

    Args:
        platform: of the image.

    Raises:
        LockError: no packages fit together; the message is rattler's.
        FetchError: the network is forbidden, or a channel is unavailable.
        EngineError: rattler is missing.
    """
    moment, evidence = choose_moment(snapshot, decisions)
    if not moment or not snapshot.conda_requests:
        return SolvedLines(snapshot=snapshot)
    if context.net.offline:
        raise FetchError("packages of conda as of a date are chosen on the channels, and --offline forbids it",
                         hint="leave --offline out, or capture the environment with `conda env export`")  # fmt: skip
    check_rattler()
    when = f"as of {describe_moment(moment)} ({evidence})"
    context.say(f"conda: {len(snapshot.conda_requests)} requests {when}, by rattler")
    channels = read_channels(context.env, decisions.channels)
    context.net.learn(channels.credentials, channels.tokens, channels.addresses)
    places = _order_places(snapshot.conda_requests, channels, decisions.channels, context)
    cuda = _find_cuda(snapshot, context)
    with context.store.scratch() as scratch:
        lists = list(_fetch_lists(places, SUBDIRS[platform], Repodata(context.net, scratch)))
        if not lists:
            raise _no_channel(places)
        try:
            chosen = solve(
                lists, list(_specs(snapshot, decisions)), _virtual_packages(MACHINES[platform][1], cuda),
                _seconds_until(moment), scratch,
            )  # fmt: skip
        except UnsolvableError as err:
            raise _solution_error(str(err), when, cuda) from None
    return _apply(snapshot, chosen, {place.name: place.url for place in reversed(places)}, when)


def _order_places(
    requests: Sequence[CondaRequest], channels: Channels, decided: Sequence[str], context: ResolveContext
) -> list[Channel]:
    """Return the channels by priority: the file's own before those of this machine, as conda has it.

    A channel of the user comes first, unless it is the address of one of the file's. With `nodefaults` in the file,
    those of this machine are left out.
    """
    named = [match["channel"] for request in requests if (match := _OF_CHANNEL.fullmatch(request.text))]
    file_channels = list(dict.fromkeys((*requests[0].channels, *named)))
    first = [name for name in decided if not any(name.endswith(f"/{channel}") for channel in file_channels)]
    resolver = make_channel_resolver(channels, context.services)
    names = (*first, *file_channels)
    if not requests[0].nodefaults:
        names = (*names, *channels.order) or ("defaults",)
    if not names:
        raise LockError("the file excludes the channels of this machine (`nodefaults`), and names no other",
                        hint="name the channels of its packages: --channel NAME")  # fmt: skip
    places = [place for name in names for place in resolver.list_channels(name)]
    if not places:
        folders = [folder for name in file_channels for folder in resolver.withheld(name)]
        raise LockError(
            f"a snapshot opens no directory of this machine as a channel: {', '.join(map(escape_text, folders))}",
            hint=" ".join(f"--channel {shlex.quote(escape_text(folder))}" for folder in folders),
        )
    count = len({place.name for place in places})
    if count > _MOST_CHANNELS:
        raise LockError(
            f"{count} channels are named for the packages of conda, and at most {_MOST_CHANNELS} are asked",
            hint="leave out the channels that have none of the packages",
        )
    return list({place.url: place for place in places}.values())


def _fetch_lists(places: Sequence[Channel], subdir: str, repodata: Repodata) -> Iterator[ChannelList]:
    """Yield the lists of each channel, from the first of its addresses that has any."""
    known: set[str] = set()
    for place in places:
        if place.name in known:
            continue
        files = [(repodata.fetch_list(place.url, part), part) for part in (subdir, "noarch")]
        lists = [ChannelList(file, place.name, part) for file, part in files if file is not None]
        if lists:
            known.add(place.name)
        yield from lists


def _no_channel(places: Sequence[Channel]) -> FetchError:
    urls = ", ".join(escape_text(place.url) for place in places)
    return FetchError(
        f"no channel of conda is at {urls}",
        hint="name a channel that this machine reaches: --channel NAME or --channel URL",
    )


def _specs(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Yield the requirements in conda's form, with the Python that the user or another file names."""
    for request in snapshot.conda_requests:
        match = _OF_CHANNEL.fullmatch(request.text)
        yield match["rest"] if match and match["channel"] == "defaults" else request.text
    for package in snapshot.conda:
        if package.channel != PYPI:
            yield f"{package.name} =={package.version}" + (f" {package.build}" if package.build else "")
    ran = next((python for python in gather_evidence(snapshot).pythons if python.ran), None)
    version = decisions.python or (ran.version if ran else "")
    number = version.removesuffix("t")
    if number:
        yield f"{INTERPRETER} {'==' if number.count('.') == 2 else ''}{number}{'.*' * (number.count('.') < 2)}"
    else:
        yield INTERPRETER
    if version.endswith("t"):
        yield _FREE_THREADED


def _find_cuda(snapshot: Snapshot, context: ResolveContext) -> str:
    """Return the newest CUDA of the driver, `12.4`, or empty for a machine without a GPU."""
    captured = [report.cuda for report in snapshot.reports if report.kind == "nvidia-smi"]
    for version in (context.env.get(_CUDA, ""), *captured):
        if re.fullmatch(r"\d{1,3}(\.\d{1,3}){0,2}", version):
            return version
    context.say(
        f"conda: no driver was captured, so packages are chosen for a machine without a GPU; {_CUDA}=12.4 chooses "
        "those for a driver of CUDA 12.4"
    )
    return ""


def _virtual_packages(machine: str, cuda: str) -> list[VirtualPackage]:
    packages = [
        VirtualPackage("__unix", "0"), VirtualPackage("__linux", _KERNEL), VirtualPackage("__glibc", _GLIBC),
        VirtualPackage("__archspec", "1", machine),
    ]  # fmt: skip
    return [*packages, VirtualPackage("__cuda", cuda)] if cuda else packages


def _seconds_until(moment: str) -> float:
    """Return the last second before a moment of `parse_moment`: rattler counts the moment itself."""
    return datetime.datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() - 1


def _solution_error(text: str, when: str, cuda: str) -> LockError:
    rows = [row.strip() for row in map(display_text, redact(text).splitlines())]
    advice = "choose a later date, name a channel that has it (--channel NAME), or correct the line"
    if not cuda and "__cuda" in text:
        advice = f"name the CUDA of the driver: {_CUDA}=12.4 in the environment of this command; or {advice}"
    return LockError(
        f"no packages of conda {when} fit together" + "".join(f"\n  {row}" for row in rows if row),
        hint=advice,
    )


def _apply(
    snapshot: Snapshot, chosen: Iterable[SolvedPackage], urls: dict[str, str], when: str
) -> SolvedLines:
    """Return the snapshot with the chosen packages in place of the requests."""
    requests = {request.name.lower(): request for request in snapshot.conda_requests}
    captured = {package.name.lower() for package in snapshot.conda if package.channel != PYPI}
    used: set[SourceLocation] = set()
    packages: list[CapturedCondaPackage] = []
    reasons: dict[str, str] = {}
    for number, package in enumerate(sorted(chosen, key=lambda item: item.name), 1):
        if package.name in captured:
            continue
        request = requests.pop(package.name, None)
        text = f"{package.name}={package.version}={package.build}"
        why = f" for `{request.text}`" if request else ": other packages need it"
        reasons[str(canonicalize_name(package.name))] = (
            f"{when}, rattler chose {package.version} {package.build}{why}"
        )
        # A list on one line names several packages at one place.
        place = request.place if request and request.place not in used else SourceLocation(SOLVED, number)
        used.add(place)
        packages.append(
            CapturedCondaPackage(
                place=place,
                text=request.text if request else text, name=package.name, version=package.version,
                build=package.build, channel=package.channel, md5=package.md5 or None, sha256=package.sha256 or None,
                url=f"{urls[package.channel]}/{package.subdir}/{package.filename}",
            )
        )  # fmt: skip
    request_lines = {(request.place, request.name) for request in snapshot.conda_requests}
    return SolvedLines(
        snapshot=msgspec.structs.replace(
            snapshot, conda=(*snapshot.conda, *packages), conda_requests=(),
            requirements=tuple(line for line in snapshot.requirements if (line.place, line.name) not in request_lines),
            remarks=tuple(_answer(remark, when) for remark in snapshot.remarks),
        ),
        reasons=reasons,
    )  # fmt: skip


def _answer(remark: ParseNote, when: str) -> ParseNote:
    if remark.reason != ASKED:
        return remark
    return msgspec.structs.replace(remark, reason=f"asked of conda, and chosen {when}", understood=True)
