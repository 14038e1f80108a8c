"""The values of `import.json`: the origin of each line of an imported snapshot."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_error
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.strings import Hex, Line, Size

FILE = "import.json"
# Formats whose list may name only what the job asks for; the others name all that was installed.
PARTIAL_FORMATS = frozenset(
    {
        "a file (requirements.txt)", "a file (environment.yml)", "MLflow model", "MLflow run", "Sacred run",
        "ClearML task", "SageMaker training job", "Hugging Face model card",
        "pyproject.toml", "setup.cfg",
    }
)  # fmt: skip


class ValueOrigin(Struct, frozen=True, kw_only=True):
    """The origin of one line of the snapshot.

    `file` and `line` (from 1; 0 for the whole file) are of the snapshot, `source` and `field` of the imported file.
    """

    file: Line
    line: int
    source: Line
    field: Line


class UnusedField(Struct, frozen=True, kw_only=True):
    """A field of an imported file that gives nothing to the snapshot, and the reason."""

    source: Line
    field: Line
    reason: Line


class DataFingerprint(Struct, frozen=True, kw_only=True):
    """A file or directory of data that a run read or wrote, as a tool of data versions records it.

    `path` is relative to the project. `md5` is the one of the file, or of DVC's list of a directory. `size` is in
    bytes, and `files` the number of files in a directory; both are None if unknown.
    """

    path: Line
    md5: Hex
    directory: bool = False
    size: Size | None = None
    files: Size | None = None
    source: Line
    field: Line


class ImportFacts(Struct, frozen=True, kw_only=True):
    """The contents of `import.json`.

    `started` is the start of the run in ISO 8601, `started_from` its origin; both are empty if unknown. `data` lists
    the data of the run. `requires_python` is the range of Python (PEP 440) that a format has in place of a version.
    """

    version: Literal[1] = 1
    format: Line
    started: Line = ""
    started_from: Line = ""
    origins: tuple[ValueOrigin, ...] = ()
    unused: tuple[UnusedField, ...] = ()
    data: tuple[DataFingerprint, ...] = ()
    requires_python: Line = ""

    @property
    def may_lack_requirements(self) -> bool:
        """Tell whether the format may list less than the environment had."""
        return self.format in PARTIAL_FORMATS


def read_import_facts(data: bytes) -> ImportFacts:
    """Return the contents of an `import.json`.

    Raises:
        SnapshotError: it is damaged.
    """
    try:
        return decode_json(data, ImportFacts)
    except (msgspec.MsgspecError, ValueError, RecursionError) as err:
        raise SnapshotError(
            f"{FILE} is damaged: {display_error(err)}",
            hint="import again, with `reprobuild import PATH -o DIR`",
        ) from None
