"""`capture.json`: what it says of interpreter, distributions, GPU and machine, checked; `snapshot` has the rest.

Nothing in it is trusted: types are checked, texts are bounded by the size of the file, and what looks like a
secret is cut out.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct, field

from reprobuild.errors import SnapshotError
from reprobuild.guard.plain import read_plain
from reprobuild.snapshot.captured import DAMAGED, FILE
from reprobuild.snapshot.kinds import kind_of
from reprobuild.snapshot.text import LIMIT, escaped


class Part(Struct, frozen=True):
    """How the capture of one part ended: `done`, `not-there`, `failed`, `timed-out`."""

    outcome: str


class Python(Struct, frozen=True):
    """The interpreter."""

    version: str
    implementation: str = ""
    libc: str = ""


class Distribution(Struct, frozen=True):
    """One installed distribution."""

    name: str
    version: str


class Distributions(Struct, frozen=True):
    """All that the interpreter sees."""

    found: tuple[Distribution, ...]


class Gpu(Struct, frozen=True):
    """What files and `nvidia-smi` say."""

    driver: str = ""
    headers: dict[str, str] = {}
    cards: tuple[dict[str, str], ...] = ()
    libraries: tuple[str, ...] = ()
    torch: dict[str, str] = {}
    nvidia_smi: tuple[str, ...] | None = None
    nvidia_smi_fields: tuple[str, ...] = ()


class Cpu(Struct, frozen=True):
    """The first processor of `/proc/cpuinfo`, and how many there are and may be used."""

    count: int | None = None
    usable: tuple[int, ...] = ()
    vendor: str = field(default="", name="vendor_id")
    model_name: str = field(default="", name="model name")
    family: str = field(default="", name="cpu family")
    model: str = ""
    stepping: str = ""
    microcode: str = ""
    flags: str = ""
    part: str = field(default="", name="CPU part")
    features: str = field(default="", name="Features")


class Machine(Struct, frozen=True):
    """Processor, memory, kernel, limits and release of the system."""

    host: str = ""
    uname: tuple[str, ...] = ()
    cpu: Cpu = Cpu()
    memory_bytes: int | None = None
    limits: dict[str, tuple[int, int]] = {}
    cgroup: dict[str, str] = {}
    huge_pages: str = ""
    release: dict[str, str] = {}
    container: tuple[str, ...] = ()


class Captured(Struct, frozen=True):
    """All of it; None for a part that was not there or failed, as `parts` says."""

    parts: dict[str, Part]
    python: Python | None = None
    distributions: Distributions | None = None
    gpu: Gpu | None = None
    machine: Machine | None = None

    def without(self, part: str) -> bool:
        """Say whether the capture looked for a part, and there was none."""
        return part in self.parts and self.parts[part].outcome == "not-there"


def read_facts(folder: Path) -> Captured | None:
    """Return what `reprobuild capture` wrote down of a machine; None in a snapshot that a recipe took.

    Args:
        folder: one that `read_snapshot` has read, so that its files are regular, and not endless.

    Raises:
        SnapshotError: the file is damaged.
    """
    kinds = ((path, kind_of(path.name)) for path in sorted(folder.iterdir()))
    path = next((path for path, kind in kinds if kind and kind.name == FILE), None)
    if path is None:
        return None
    try:
        return msgspec.json.decode(read_plain(path, LIMIT), type=Captured)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:  # nested brackets
        raise SnapshotError(f"{escaped(str(path))}: {escaped(str(err))}", hint=DAMAGED) from None
