"""Parser of `collect_env.txt`.

It reads the output of `python -m torch.utils.collect_env` and of vLLM's version of it.

The report is evidence: its facts are kept in their original text, and a few important ones also as fields of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import UNSET

from reprobuild.infra.display import display_text
from reprobuild.snapshot import text
from reprobuild.snapshot.model import MachineReport, ParseNote, ReportedValue, SourceLocation
from reprobuild_portable import secrets

# torch/utils/collect_env.py of 1.5 to 2.13, and vllm/collect_env.py.
_KEYS = frozenset({
    "pytorch version", "is debug build", "cuda used to build pytorch", "rocm used to build pytorch",
    "xpu used to build pytorch", "os", "gcc version", "clang version", "cmake version", "libc version",
    "python version", "python platform", "is cuda available", "cuda runtime version", "cuda_module_loading set to",
    "gpu models and configuration", "nvidia driver version", "cudnn version", "is xpu available",
    "intel gpu driver version", "intel gpu models onboard", "intel gpu models detected", "hip runtime version",
    "miopen runtime version", "is xnnpack available", "caching allocator config", "rocm version",
    "neuron sdk version", "vllm version", "vllm build flags", "cuda archs", "gpu topology", "cann", "ascend-toolkit",
})  # fmt: skip
_SECTIONS = {"cpu": "cpu", "versions of relevant libraries": "libraries", "env variables": "variables",
             "environment variables": "variables", "cann": "cann", "gpu topology": "topology"}  # fmt: skip
_KEY = re.compile(r"(?P<key>[A-Za-z][\w ()/.+-]{0,60}?)\s*:(?:\s+(?P<value>.*))?")
_LIBRARY = re.compile(r"\[(?P<where>pip3?|conda)\]\s+(?P<name>[A-Za-z0-9_][\w.+-]*)(?:==|\s+)(?P<rest>\S.*)")
_NONE = re.compile(r"\[(pip3?|conda)\]\s+(Could not collect|No relevant packages)")
_ASSIGNED = re.compile(r"(?P<key>[A-Za-z_]\w*)=(?P<value>.*)", re.ASCII)
_BANNER = re.compile(
    r"Collecting environment information\.*|=+|[A-Z][A-Za-z /&]* (Info|Flags|Variables|Versions|Topology)"
)
_WARNED = re.compile(r"\S+:\d+:.*|.*\b\w*Warning\b.*")
_NOTHING = re.compile(r"(?i)could not collect|n/?a|none|no cuda|-?")
_HEAD = "pytorch version"
_LONGEST = 200  # lines of one fact

Read = tuple[tuple[MachineReport, ...], tuple[ParseNote, ...]]


def parse(data: bytes, file: str = "collect_env.txt") -> Read:
    """Return the reports of a file, mostly one, and the remarks.

    Raises:
        SnapshotError: it is not text.
    """
    rows = text.decode_lines(data, file)
    reader = _Reader(file)
    for number, row in enumerate(rows, 1):
        reader.read(number, row.strip())
    reader.finish()
    remarks = [*text.empty_file_remarks(file, rows), *reader.remarks]
    if any(row.strip() for row in rows) and not reader.reports:
        remarks.append(text.remark(file, 1, "", "not a report of collect_env", understood=False))
    return tuple(reader.reports), tuple(remarks)


class _Reader:
    """The state of the parser.

    It has the facts of this report, the section, and the fact that may continue.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.reports: list[MachineReport] = []
        self.remarks: list[ParseNote] = []
        self.facts: list[ReportedValue] = []
        self.section = "before"
        self.open: list[str] | None = None  # the lines of the last fact, which may go on
        self.warned = False
        self.named = False  # whether this section has a fact

    def read(self, number: int, line: str) -> None:
        """Parse one line by the first form that fits."""
        if not line:
            self._close()
            if self.section == "cpu":
                self.section = "main"
            return
        if len(line) > text.LONGEST_ROW * 5:
            self._remark(number, line, "too long for a report of collect_env", understood=False)
            return
        forms: tuple[Callable[[int, str], bool], ...] = (
            self._around, self._read_library, self._key, self._read_section_line, self._read_continuation,
        )  # fmt: skip
        if not any(form(number, line) for form in forms):
            self._remark(number, line, "not a line of collect_env", understood=False)

    def _around(self, number: int, line: str) -> bool:
        if _BANNER.fullmatch(line):
            self.warned = False
            self._remark(number, line, "a header")
            return True
        if note := text.noise_remark(self.file, number, line):
            self._close()
            self.remarks.append(note)
            self.warned = note.understood  # a typed command may have been wrapped
            return True
        match = _KEY.fullmatch(line)
        if self.section == "before" and not (match and match["key"].lower() in _KEYS):
            self.warned = self.warned or bool(_WARNED.fullmatch(line))
            self._remark(number, line, "what was printed before the report", understood=self.warned)
            return True
        return False

    def _read_library(self, number: int, line: str) -> bool:
        if _NONE.fullmatch(line):
            self._remark(number, line, "no libraries were found")
            return True
        match = _LIBRARY.fullmatch(line)
        if match:
            self._keep(number, f"[{match['where']}] {match['name']}", " ".join(match["rest"].split()))
        return match is not None

    def _key(self, number: int, line: str) -> bool:
        match = _KEY.fullmatch(line)
        key = match["key"].lower() if match else ""
        if not match or (key not in _KEYS and key not in _SECTIONS):
            return False
        if key == _HEAD:
            self.finish()
            self.section = "main"
        if key in _SECTIONS and not match["value"]:
            self.section, self.named = _SECTIONS[key], False
            self._remark(number, line, "the header of a section")
        else:
            self.section = "main"
            self._keep(number, match["key"], match["value"] or "")
        return True

    def _read_section_line(self, number: int, line: str) -> bool:
        if self.section == "topology":
            self._remark(number, line, "the topology of the GPUs")
            return True
        if self.section not in ("cpu", "variables", "cann"):
            return False
        match = _ASSIGNED.fullmatch(line) or (_KEY.fullmatch(line) if self.section == "cpu" else None)
        if match and self.section == "variables":
            hidden = secrets.secret_variable(match["key"], match["value"])
            self._keep(number, f"variable {match['key']}", None if hidden else match["value"])
        elif self.section == "variables":
            reason = "no variable, or a piece of one, which may be a secret: not kept"
            self._remark(number, "", reason, understood=False)
        elif match:
            self._keep(number, f"{self.section}: {match['key']}", match["value"] or "")
        elif self.section == "cpu" and not self.named:
            self._keep(number, "cpu: Model name", line)
        else:
            return False
        self.named = True
        return True

    def _read_continuation(self, number: int, line: str) -> bool:
        """Take a line that continues the fact before.

        Such lines are GPUs, files of cuDNN, and values that mail has wrapped.
        """
        if self.open is None or len(self.open) > _LONGEST:
            return False
        name, so_far = self.facts[-1].name.lower(), "\n".join(self.open)
        patterns = {"gpu models and configuration": r"GPU \d+: .*", "cudnn version": r"(/|[A-Za-z]:\\).*"}
        wrapped = any(so_far.count(a) > so_far.count(b) for a, b in ("[]", "()"))
        if not (wrapped or re.fullmatch(patterns.get(name, r"(?!)"), line)):
            return False
        self.open.append(line)
        last = self.facts[-1]
        self.facts[-1] = ReportedValue(place=last.place, name=last.name, value=None, lines=last.lines + 1)
        return True

    def _keep(self, number: int, name: str, value: str | None) -> None:
        self._close()
        self.facts.append(
            ReportedValue(place=SourceLocation(self.file, number), name=display_text(name), value=None)
        )
        self.open = None if value is None else [value]

    def _close(self) -> None:
        """Write the lines of the open fact into it, without secrets."""
        if self.open is not None and self.facts:
            value = "\n".join(display_text(line) for line in self.open if line)
            last = self.facts[-1]
            self.facts[-1] = ReportedValue(place=last.place, name=last.name, value=value, lines=last.lines)
        self.open = None

    def finish(self) -> None:
        """End a report."""
        self._close()
        if self.facts:
            self.reports.append(_make_report(self.file, tuple(self.facts)))
            self.remarks += _other_torch_remarks(self.reports[-1])
        self.facts = []

    def _remark(self, number: int, line: str, reason: str, *, understood: bool = True) -> None:
        self._close()
        self.remarks.append(text.remark(self.file, number, line, reason, understood=understood))


def _make_report(file: str, facts: tuple[ReportedValue, ...]) -> MachineReport:
    values = {fact.name.lower(): fact.value or "" for fact in reversed(facts)}

    def plain(name: str) -> str:
        value = values.get(name, "")
        return "" if _NOTHING.fullmatch(value) else value

    python = re.match(r"\d+\.\d+(\.\d+)?", plain("python version"))
    cudnn = re.search(r"libcudnn\.so\.([\d.]*\d)|^(\d[\d.]*)$", plain("cudnn version"))
    models = [re.sub(r"^GPU \d+: ", "", line) for line in plain("gpu models and configuration").split("\n")]
    return MachineReport(
        file=file, kind="collect_env", facts=facts, python=python[0] if python else "",
        torch=plain("pytorch version"), cuda=plain("cuda used to build pytorch"),
        cudnn=(cudnn[1] or cudnn[2]) if cudnn else "", gpus=tuple(model for model in models if model),
        driver=plain("nvidia driver version"), os=plain("os"), libc=plain("libc version"),
        free_threaded=True if "free-threading build" in plain("python version") else UNSET,  # sys.version has it
    )  # fmt: skip


def _other_torch_remarks(report: MachineReport) -> list[ParseNote]:
    """Return remarks on torches other than the report's own.

    They are those of pip and conda.
    """
    remarks = []
    for fact in report.facts:
        version = (fact.value or "").split(" ")[0]
        torch_version = report.torch.partition("+")[0]
        if re.fullmatch(r"\[\w+\] (torch|pytorch)", fact.name) and version.partition("+")[0] != torch_version:
            reason = f"another torch than the report's own, {report.torch}"
            shown = f"{fact.name} {version}"
            remarks.append(text.remark(fact.place.file, fact.place.line, shown, reason, understood=False))
    return remarks
