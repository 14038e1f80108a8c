"""The document `capture.json`, as `reprobuild capture` writes it.

Each string has a grammar or a bound, because the file is untrusted.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from reprobuild.infra.untrusted.strings import Key, Line, QuotedPath, Text, Value
from reprobuild.snapshot.capture_model import CapturedRepository, PackedInterpreter

_Short = Annotated[str, Meta(max_length=100)]
_Field = Annotated[str, Meta(max_length=4096)]  # the capture reads that much of a Release file
_Words = Annotated[tuple[Value, ...], Meta(max_length=100_000)]


class CapturePart(Struct, frozen=True):
    """The end of the capture of one part.

    It is `done`, `not-there`, `failed` or `timed-out`.
    """

    outcome: Line


class PythonFacts(Struct, frozen=True):
    """The interpreter, with the parts of Python's `platform` and `sysconfig`.

    `prefix` is the environment's directory, `base_prefix` the installation's.
    """

    version: Annotated[str, Meta(pattern=r"^\d{1,3}\.\d{1,3}\.\d{1,3}[0-9a-z+.-]{0,30}\Z")]
    implementation: _Short = ""
    libc: _Short = ""
    abiflags: _Short = ""
    platform: _Short = ""
    build: tuple[Line, Line] = ("", "")
    compiler: Line = ""
    prefix: QuotedPath = ""
    base_prefix: QuotedPath = ""


class InstalledDistribution(Struct, frozen=True):
    """An installed distribution.

    `location` is the directory of its record.
    """

    name: Line
    version: Line
    installer: Line = ""
    location: QuotedPath = ""


class InstalledDistributions(Struct, frozen=True):
    """All distributions that the interpreter sees."""

    found: Annotated[tuple[InstalledDistribution, ...], Meta(max_length=1_000_000)] = ()


class ReleaseFile(Struct, frozen=True):
    """A Release file below /var/lib/apt/lists.

    `file` is its name (the address, with `_` for `/`), `dated` the time of fetching; the rest are its own fields.
    """

    file: _Field
    dated: _Field = ""
    date: _Field = ""
    origin: _Field = ""
    suite: _Field = ""
    codename: _Field = ""


class DpkgFacts(Struct, frozen=True):
    """The package lists that apt had."""

    lists: Annotated[tuple[ReleaseFile, ...], Meta(max_length=10_000)] = ()


class ProcessFacts(Struct, frozen=True):
    """A process that started the job."""

    arguments: _Words = ()


class CommandFacts(Struct, frozen=True):
    """The job's command; `folder` is its working directory."""

    argv: _Words = ()
    folder: QuotedPath = ""
    processes: Annotated[tuple[ProcessFacts, ...], Meta(max_length=1000)] = ()


class CapturedGpu(Struct, frozen=True):
    """The GPU facts from files and `nvidia-smi`."""

    driver: Text = ""
    headers: dict[Key, Text] = {}
    cards: tuple[dict[Key, Text], ...] = ()
    libraries: tuple[Text, ...] = ()
    torch: dict[Key, Text] = {}
    nvidia_smi: tuple[Text, ...] | None = None
    nvidia_smi_fields: tuple[Text, ...] = ()


class Cpu(Struct, frozen=True):
    """The first processor of `/proc/cpuinfo`, with processor counts.

    They are the number of processors, and the usable ones.
    """

    count: int | None = None
    usable: tuple[int, ...] = ()
    vendor: Text = msgspec.field(default="", name="vendor_id")
    model_name: Text = msgspec.field(default="", name="model name")
    family: Text = msgspec.field(default="", name="cpu family")
    model: Text = ""
    stepping: Text = ""
    microcode: Text = ""
    flags: Text = ""
    part: Text = msgspec.field(default="", name="CPU part")
    features: Text = msgspec.field(default="", name="Features")


class MachineFacts(Struct, frozen=True):
    """Processor, memory, kernel, limits and release of the system."""

    host: Text = ""
    uname: tuple[Text, ...] = ()
    cpu: Cpu = Cpu()
    memory_bytes: int | None = None
    limits: dict[Key, tuple[int, int]] = {}
    cgroup: dict[Key, Text] = {}
    huge_pages: Text = ""
    release: dict[Key, Text] = {}
    container: tuple[Text, ...] = ()


class CaptureDocument(Struct, frozen=True):
    """All facts of a capture; None for a missing or failed part.

    `parts` records the end of each part. `notes` are for people; older captures have none. `interpreter` is UNSET if it
    was not asked for.
    """

    capture: int
    parts: dict[Key, CapturePart] = {}
    repositories: tuple[CapturedRepository, ...] = ()
    python: PythonFacts | None = None
    distributions: InstalledDistributions | None = None
    dpkg: DpkgFacts | None = None
    command: CommandFacts | None = None
    gpu: CapturedGpu | None = None
    machine: MachineFacts | None = None
    notes: tuple[Text, ...] | UnsetType = UNSET
    interpreter: PackedInterpreter | UnsetType | None = UNSET

    def lacks(self, part: str) -> bool:
        """Return whether the capture looked for an absent part."""
        return part in self.parts and self.parts[part].outcome == "not-there"
