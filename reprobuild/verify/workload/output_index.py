"""The index of a run's files, as `reprobuild_runtime/artefacts/collect.py` writes it. It comes from a container."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from reprobuild.infra.untrusted.strings import OptionalSha256
from reprobuild.verify.workload.file_names import mask_run_parts

# The numbers of `reprobuild_runtime/artefacts/collect.py` and `written.py`; those of older images are not larger.
MOST_FILES, MOST_BESIDE, MOST_WRITTEN = 10_000, 20, 200
Text = Annotated[str, Meta(max_length=10000)]
Number = Annotated[str, Meta(pattern=r"\A[0-9]{0,6}\Z")]


class OutputEntry(Struct, frozen=True, kw_only=True):
    """One path that a pattern matched after the command.

    `stored` is its number among the kept files.
    """

    pattern: Text
    path: Text
    kind: Literal["file", "fifo", "socket", "device", "folder", "system", "dangling", "unreadable"]
    stored: Number
    size: Annotated[int, Meta(ge=0)]
    written: bool
    link: Text


Names = Annotated[tuple[Text, ...], Meta(max_length=MOST_BESIDE)]
OUTPUTS = "/reprobuild-out"  # `{out}`


class WrittenFile(Struct, frozen=True, kw_only=True):
    """A file that a run wrote and no pattern matched; `digest` is empty for a large one."""

    path: Text
    size: Annotated[int, Meta(ge=0)]
    digest: OptionalSha256 = ""


class OutputIndex(Struct, frozen=True, kw_only=True):
    """The report of `reprobuild_runtime/artefacts/collect.py` on one run.

    `written_count` counts all files of `written`, unless the search for them took too long: then `written_whole` is
    false. An older image has names below `{out}` in `others` instead.
    """

    code: int
    began: float
    ended: float
    host: Text
    files: Annotated[tuple[OutputEntry, ...], Meta(max_length=MOST_FILES)]
    there: Annotated[dict[Text, Names], Meta(max_length=MOST_FILES)]
    failed: Text
    pid: int = 0
    last: int = 0
    zone: int = 0
    others: Names = ()
    other: int = 0
    written: Annotated[tuple[WrittenFile, ...], Meta(max_length=MOST_WRITTEN)] = ()
    written_count: int = 0
    written_whole: bool = True

    def mask_run_parts(self, path: str) -> str:
        """Return a path with marks for this run's times and host."""
        return mask_run_parts(path, self.began, self.ended, self.host, self.zone, (self.pid, self.last))
