"""Parser of `nvidia-smi.txt`.

It reads the table of `nvidia-smi`, the log of `nvidia-smi -q`, or the list of `nvidia-smi -L`.
"""

from __future__ import annotations

import re

from reprobuild.infra.display import display_text
from reprobuild.snapshot import text
from reprobuild.snapshot.model import MachineReport, ParseNote, ReportedValue, SourceLocation

_VERSIONS = re.compile(
    r"\|\s*NVIDIA-SMI\s+\S+\s+(Driver|KMD) Version:\s+(?P<driver>[\w.]+)"
    r"(\s+CUDA (UMD )?Version:\s+(?P<cuda>[\w./]+))?\s*\|"
)
_GPU = re.compile(
    r"\|\s+(?P<index>\d{1,3})\s+(?P<name>\S.*?\S)\s+(On|Off|N/A|WDDM|TCC|MCDM)\s*\|\s+(?P<bus>[0-9A-Fa-f:.]{7,16})\s.*\|"
)
_LISTED = re.compile(r"GPU (?P<index>\d{1,3}): (?P<name>\S.*?) \(UUID: (?P<uuid>[\w-]+)\)")
_PART = re.compile(r"MIG (?P<name>\S+)\s+Device\s+\d+: \(UUID: [\w-]+\)")
_FACT = re.compile(r"(?P<name>\S.{0,60}?)\s*:(\s(?P<value>.*))?")
_HEADING = re.compile(r"(GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+|[A-Za-z][\w ()/-]{0,60})")
_TABLE = re.compile(r"[|+].*")
_DATE = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} [ \d]\d \d\d:\d\d:\d\d( [AP]M)?( \w+)? \d{4}")
_FAILED = re.compile(
    r"NVIDIA-SMI has failed.*|No devices were found.*|Failed to initialize NVML.*|Unable to determine .*"
)
_LOG = re.compile(r"=+NVSMI LOG=+")

Read = tuple[tuple[MachineReport, ...], tuple[ParseNote, ...]]


def parse(data: bytes, file: str = "nvidia-smi.txt") -> Read:
    """Return the report, if the program succeeded, and remarks.

    Raises:
        SnapshotError: it is not text.
    """
    rows = text.decode_lines(data, file)
    facts: list[ReportedValue] = []
    remarks: list[ParseNote] = list(text.empty_file_remarks(file, rows))
    log = False
    for number, row in enumerate(rows, 1):
        line = row.strip()
        if not line:
            continue
        log = log or bool(_LOG.fullmatch(line))
        items = _parse_row(file, number, line, log=log)
        for item in items:
            if isinstance(item, ReportedValue):
                facts.append(item)
            else:
                remarks.append(item)
    return ((_make_report(file, facts),) if facts else ()), tuple(remarks)


def _parse_row(file: str, number: int, line: str, *, log: bool) -> list[ReportedValue | ParseNote]:
    place = SourceLocation(file, number)
    if len(line) > text.LONGEST_ROW:
        return [text.remark(file, number, line, "too long for a line of nvidia-smi", understood=False)]
    if note := _extra_row_remark(file, number, line):
        return [note]
    if match := _VERSIONS.fullmatch(line):
        versions: list[ReportedValue | ParseNote] = [
            ReportedValue(place=place, name="Driver Version", value=match["driver"])
        ]
        return versions + (
            [ReportedValue(place=place, name="CUDA Version", value=match["cuda"])] if match["cuda"] else []
        )
    if match := _GPU.fullmatch(line) or _LISTED.fullmatch(line):
        gpu = ReportedValue(place=place, name="Product Name", value=display_text(match["name"]))
        cut = text.remark(file, number, match["name"], "nvidia-smi cut this name", understood=False)
        return [gpu, cut] if "..." in match["name"] else [gpu]
    if _PART.fullmatch(line):
        return [text.remark(file, number, line, "a part of a GPU")]
    if _TABLE.fullmatch(line):
        return [text.remark(file, number, line, "a line of the table")]
    if log and (match := _FACT.fullmatch(line)) and not _HEADING.fullmatch(line):
        return [
            ReportedValue(
                place=place,
                name=display_text(match["name"]),
                value=display_text(match["value"] or "").strip(),
            )
        ]
    if log and _HEADING.fullmatch(line):
        return [text.remark(file, number, line, "a heading")]
    return [text.remark(file, number, line, "not a line of nvidia-smi", understood=False)]


def _extra_row_remark(file: str, number: int, line: str) -> ParseNote | None:
    if _FAILED.fullmatch(line):
        return text.remark(file, number, line, "nvidia-smi failed: it saw no GPU", understood=False)
    if _LOG.fullmatch(line) or _DATE.fullmatch(line) or re.match(r"Every [\d.]+s: ", line):
        return text.remark(file, number, line, "a header")
    # `|` and `$` begin rows of tables and prompts alike
    return text.secret_remark(file, number, line) or (
        None if line[0] in "|+" else text.noise_remark(file, number, line)
    )


def _make_report(file: str, facts: list[ReportedValue]) -> MachineReport:
    def first(name: str) -> str:
        value = next((fact.value for fact in facts if fact.name == name), None) or ""
        return "" if value in ("N/A", "Not Found") else value

    gpus = tuple(fact.value for fact in facts if fact.name == "Product Name" and fact.value)
    return MachineReport(
        file=file, kind="nvidia-smi", facts=tuple(facts), cuda=first("CUDA Version"), gpus=gpus,
        driver=first("Driver Version"),
    )  # fmt: skip
