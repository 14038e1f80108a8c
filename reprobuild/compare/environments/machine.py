"""`capture.json`: what it says of interpreter, distributions, GPU and machine, checked; `snapshot` has the rest.

Nothing in it is trusted: types are checked, texts are bounded by the size of the file, and what looks like a
secret is cut out.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct, field

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import escaped
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import Key, Line, Text
from reprobuild.snapshot.file_kinds import kind_of
from reprobuild.snapshot.parsers.capture_json import DAMAGED, FILE
from reprobuild.snapshot.text import LIMIT


class CapturePart(Struct, frozen=True):
    """How the capture of one part ended: `done`, `not-there`, `failed`, `timed-out`."""

    outcome: Line


class PythonFacts(Struct, frozen=True):
    """The interpreter."""

    version: Line
    implementation: Line = ""
    libc: Line = ""


class InstalledDistribution(Struct, frozen=True):
    """One installed distribution."""

    name: Line
    version: Line


class Distributions(Struct, frozen=True):
    """All that the interpreter sees."""

    found: tuple[InstalledDistribution, ...]


class CapturedGpu(Struct, frozen=True):
    """What files and `nvidia-smi` say."""

    driver: Text = ""
    headers: dict[Key, Text] = {}
    cards: tuple[dict[Key, Text], ...] = ()
    libraries: tuple[Text, ...] = ()
    torch: dict[Key, Text] = {}
    nvidia_smi: tuple[Text, ...] | None = None
    nvidia_smi_fields: tuple[Text, ...] = ()


class Cpu(Struct, frozen=True):
    """The first processor of `/proc/cpuinfo`, and how many there are and may be used."""

    count: int | None = None
    usable: tuple[int, ...] = ()
    vendor: Text = field(default="", name="vendor_id")
    model_name: Text = field(default="", name="model name")
    family: Text = field(default="", name="cpu family")
    model: Text = ""
    stepping: Text = ""
    microcode: Text = ""
    flags: Text = ""
    part: Text = field(default="", name="CPU part")
    features: Text = field(default="", name="Features")


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


class CapturedMachine(Struct, frozen=True):
    """All of it; None for a part that was not there or failed, as `parts` says."""

    parts: dict[Key, CapturePart]
    python: PythonFacts | None = None
    distributions: Distributions | None = None
    gpu: CapturedGpu | None = None
    machine: MachineFacts | None = None

    def without(self, part: str) -> bool:
        """Say whether the capture looked for a part, and there was none."""
        return part in self.parts and self.parts[part].outcome == "not-there"


def read_facts(folder: Path) -> CapturedMachine | None:
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
        return msgspec.json.decode(read_plain(path, LIMIT), type=CapturedMachine)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:  # nested brackets
        raise SnapshotError(f"{escaped(str(path))}: {escaped(str(err))}", hint=DAMAGED) from None
