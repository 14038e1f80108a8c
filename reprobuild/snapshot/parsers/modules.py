"""Parser of `modules.txt`, the output of `module list`.

The forms are those of Lmod, Tcl modules and Cray.
"""

from __future__ import annotations

import re

from reprobuild.snapshot import text
from reprobuild.snapshot.model import Module, ParseNote, SourceLocation

_LOADED = re.compile(r"(?i)Currently Loaded Module(s|files)\s*:\s*")
_EMPTY = re.compile(r"(?i)No Module(s|files) (Currently )?Loaded\.?|No modules loaded\.?")
_OTHERS = re.compile(
    r"(?i)(Inactive Modules.*|The following .*(reloaded|replaced|unloaded|deactivated|swapped).*|Activating Modules.*"
    r"|Lmod (is automatically|has detected).*|Due to MODULEPATH changes.*):"
)
_LEGEND = re.compile(r"(?i)(Where|Key):")
_NAME = r"[A-Za-z0-9_.+][\w.+/=~@:-]*"
# The tags after a name: Lmod's (H,S), Tcl's <aL> and (default).
_TAGS = r"(?:\s{0,80}(?:\([A-Za-z][A-Za-z0-9,:=\s]*\)|<[A-Za-z:]+>))*"
_ENTRY = re.compile(rf"(?<!\d)(\d{{1,4}})\)\s{{1,80}}({_NAME})(?:\s+->\s+({_NAME}))?{_TAGS}(?=\s|$)")
_CHANGE = re.compile(rf"(?<!\d)\d{{1,4}}\)\s{{1,80}}{_NAME}(?:\s+=>\s+{_NAME})?{_TAGS}(?=\s|$)")
_TERSE = re.compile(rf"({_NAME}){_TAGS}")

Read = tuple[tuple[Module, ...], tuple[ParseNote, ...]]


def parse(data: bytes, file: str = "modules.txt") -> Read:
    """Return the loaded modules by number, and remarks.

    An alias `A -> B` is the module B. Modules listed as inactive or as swapped are remarks.

    Raises:
        SnapshotError: it is not text.
    """
    rows = text.decode_lines(data, file)
    modules: list[tuple[int, Module]] = []
    remarks: list[ParseNote] = list(text.empty_file_remarks(file, rows))
    section = "loaded"
    has_header = False
    for number, row in enumerate(rows, 1):
        line = re.sub(r"^(>\s+)+", "", row.strip()).strip()
        if not line:
            if row.strip():
                remarks.append(text.remark(file, number, row, "a quoted empty line"))
            continue
        if len(line) > 5 * text.LONGEST_ROW:
            remarks.append(text.remark(file, number, row, "too long for a list of modules", understood=False))
            continue
        if leak := text.secret_remark(file, number, line):
            remarks.append(leak)
            continue
        if header := _LOADED.match(line):
            section, has_header, line = "loaded", True, line[header.end() :]
            if not line:
                remarks.append(text.remark(file, number, row, "the header of the loaded modules"))
                continue
        elif _OTHERS.fullmatch(line) or _LEGEND.fullmatch(line):
            section = "legend" if _LEGEND.fullmatch(line) else "others"
            remarks.append(text.remark(file, number, row, "the header of what is not a loaded module"))
            continue
        if section == "loaded" and (
            entries := _parse_entries(file, number, line, terse=has_header, start=len(modules))
        ):
            modules += entries
            continue
        remarks.append(_other_row_remark(file, number, row, line, section))
    modules.sort(key=lambda pair: pair[0])
    return tuple(module for _, module in modules), tuple(remarks)


def _parse_entries(file: str, number: int, line: str, *, terse: bool, start: int) -> list[tuple[int, Module]]:
    """Return (number in the list, module) for each entry of a line.

    The result is empty unless the whole line has entries.
    """
    if not _ENTRY.sub("", line).strip():
        return [(int(m[1]), _parse_module(file, number, m[3] or m[2])) for m in _ENTRY.finditer(line)]
    if terse and (match := _TERSE.fullmatch(line)):  # `module -t list`
        return [(start + 1, _parse_module(file, number, match[1]))]
    return []


def _parse_module(file: str, number: int, written: str) -> Module:
    # The first slash: the rest belongs to the version (`openmpi/1.6.5/intel/14.0.2`), and joins again.
    name, slash, version = written.partition("/")
    return Module(place=SourceLocation(file, number), name=name, version=version if slash else None)


def _other_row_remark(file: str, number: int, row: str, line: str, section: str) -> ParseNote:
    if _EMPTY.fullmatch(line):
        return text.remark(file, number, row, "no module was loaded")
    if section == "others" and not _CHANGE.sub("", line).strip():
        return text.remark(file, number, row, "modules that were inactive or swapped: not loaded")
    if note := text.noise_remark(file, number, line):
        return note
    if section == "legend" and re.fullmatch(
        r"([A-Za-z*]+|<[^>]*>|\([^)]*\)|[\w-]+=.*):?\s{1,40}\S.*|<\S+>.*", line
    ):
        return text.remark(file, number, row, "the legend")
    return text.remark(file, number, row, "not a line that `module list` prints", understood=False)
