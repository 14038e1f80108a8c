"""Variables with lists of directories, rewritten for the image."""

from __future__ import annotations

import re

from msgspec import Struct

from reprobuild.resolve.environment.modules import LoadedModules
from reprobuild.resolve.environment.path_mapping import PathMap

# The loader's default directories: ld.so(8).
_DEFAULT = re.compile(r"/(usr/)?(local/)?lib(32|64)?(/[a-z0-9_]+-linux-gnu[a-z0-9]*)?")
# The directories of vendors' additions in their images: NVIDIA's /usr/local/cuda, /opt/hpcx, AWS' /opt/amazon.
_OF_IMAGE = re.compile(r"/(?:usr/local|opt)/")


class RewrittenPath(Struct, frozen=True, kw_only=True):
    """A rewritten list of directories.

    `value` is the list in the image and may be empty.

    `left_out` has a reason for each entry that is not needed; `missing` are entries without a replacement.
    """

    value: str
    left_out: tuple[str, ...]
    missing: tuple[str, ...]


def rewrite_libraries(
    value: str, places: PathMap, loaded: LoadedModules, *, in_base: bool = False
) -> RewrittenPath:
    """Return `LD_LIBRARY_PATH` for the image.

    Args:
        value: the captured one.
        places: the mapping of directories to the image.
        loaded: the modules of the job.
        in_base: whether the base is an image of the same vendor as the image of the capture.
    """
    entries, left_out, missing = [], [], []
    for entry in _absolute_entries(value):
        moved = places.move(entry)
        if moved:
            entries.append(moved)
        elif in_base and _OF_IMAGE.match(entry):
            entries.append(entry)
        elif not _DEFAULT.fullmatch(entry):
            replacement = loaded.find_replacement(entry)
            if replacement and replacement.reason:
                left_out.append(f"{entry} ({replacement.reason})")
            else:
                missing.append(entry)
    return RewrittenPath(value=":".join(entries), left_out=tuple(left_out), missing=tuple(missing))


def rewrite_sources(value: str, places: PathMap) -> RewrittenPath:
    """Return `PYTHONPATH` for the image.

    It has captured repositories and the environment, and no other directories.
    """
    entries = [(entry, places.move(entry)) for entry in _absolute_entries(value)]
    relative = [
        f"{entry} (relative)" for entry in dict.fromkeys(value.split(":")) if entry and entry[0] != "/"
    ]
    return RewrittenPath(
        value=":".join(moved for _, moved in entries if moved),
        left_out=(*(entry for entry, moved in entries if not moved), *relative), missing=(),
    )  # fmt: skip


def _absolute_entries(value: str) -> list[str]:
    """Return the absolute entries, each once.

    Empty and relative ones mean the current working directory.
    """
    return list(
        dict.fromkeys(entry.rstrip("/") or "/" for entry in value.split(":") if entry.startswith("/"))
    )
