"""Parser of `env.txt`: `printenv`, `env -0`, `export -p` and the like.

`printenv` writes raw newlines, and sorting its lines tears values apart. So a dump is read in one of three ways:
records between NULs, blocks of lines in the order of the environment, or single lines of a sorted file, with every
possible torn piece marked as suspect. Values of secrets are dropped here.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections import Counter

from msgspec.structs import replace

from reprobuild.snapshot import text
from reprobuild.snapshot.model import ParseNote, SourceLocation, Variable
from reprobuild.snapshot.parsers import modules
from reprobuild.snapshot.parsers.env_sorted import PEM, describe_suspicion, is_fragment, is_sorted
from reprobuild.snapshot.parsers.shell_quoting import count_value_rows, suggests_continuation, unquote
from reprobuild_portable import secrets

_VARIABLE = re.compile(r"(?P<name>[A-Za-z_][\w.-]*)=(?P<value>.*)", re.ASCII | re.DOTALL)
_EXPORT = re.compile(
    r"(?:export|declare\s+-[a-z]*x[a-z]*|typeset\s+-x)\s+(?P<rest>[A-Za-z_]\w*(?:=.*)?)", re.ASCII
)
_FUNCTION = re.compile(r"(?:(?P<name>BASH_FUNC_[^\s=]+)|[A-Za-z_]\w*)=\(\)\s*\{.*", re.ASCII)
# A line of an exported function as bash writes it: indented, with a word or an end of its grammar.
_OF_FUNCTION = re.compile(
    r"[ \t]+(?![ \t])"
    r"(?:(?:if|elif|case|for|while|until|select|local|declare|export|unset|return|eval|echo|printf|set|shift|read"
    r"|test|exec|source|builtin|command|trap)\b.*|(?:fi|done|esac|else|then|do)\b.*|\}.*|[^\s=]+\)|\*?'[^'=]*'\*?\)|.*;|[\[{(].*"
    r"|\w+=(?:'[^']*'|\"[^\"]*\"|\$\S+|\d))"
)
# `set` of a shell: these two are in every one, quoted, and never in an environment.
_OF_SET = re.compile(r"IFS=\$'.*|BASH_VERSINFO=\(.*")
_SET_FUNCTION = re.compile(r"[A-Za-z_][\w.:-]* \(\)\s*")
_COMMENTED = re.compile(r"#\s*(export\s+)?[A-Za-z_]\w*=.*", re.ASCII)
PIECE = "no variable: a piece of a torn value, or the output of another command"
OF_FUNCTION = "a line of an exported shell function, which `sort` tore apart"
_LONGEST = 300  # lines of one quoted value: a private key has some dozens
_LARGEST = 1 << 17  # of one variable, for Linux (MAX_ARG_STRLEN)
_NOT_KEPT = "({} characters, not kept: a piece of a value may be a piece of a secret)"

Read = tuple[tuple[Variable, ...], tuple[ParseNote, ...]]


def parse(data: bytes, file: str = "env.txt") -> Read:
    """Return the variables in the order of the file, and remarks.

    Raises:
        SnapshotError: it is not text.
    """
    whole = text.decode(data, file, nul=True)
    text.check_environment(len(whole), file)
    if "\0" in whole:
        text.check_lines(whole.count("\n") + whole.count("\0"), file)
        return _parse_records(whole, file)
    rows = text.split_lines(whole)
    indent = min((len(row) - len(row.lstrip(" ")) for row in rows if row.strip()), default=0)
    reader = _Blocks(file, [row[indent:] for row in rows])
    reader.read_all()
    remarks = [*text.empty_file_remarks(file, rows), *reader.remarks]
    return _mark_repeated_names(reader.variables), tuple(remarks)


def parse_exact(data: bytes, file: str = "env.nul") -> Read:
    """Return the variables of `env -0`, and remarks.

    Bytes that are not text make a value suspect, and are not an error.

    Raises:
        SnapshotError: it is too large, is UTF-16 without its mark, or has no NUL and is not text either.
    """
    if b"\0" not in data or data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return parse(data, file)
    text.check_environment(len(data), file)
    text.check_lines(data.count(b"\n") + data.count(b"\0"), file)
    whole = data.decode("utf-8", "surrogateescape")
    text.check_nul(whole, file, nul=True)
    return _parse_records(whole, file)


def _parse_records(whole: str, file: str) -> Read:
    """Read `env -0`.

    Its values are not torn, so only bytes that are not UTF-8 make one suspect.
    """
    variables: list[Variable] = []
    remarks: list[ParseNote] = []
    line = 1
    for raw in whole.split("\0"):
        record = raw.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        suspect = "its bytes are no UTF-8 text" if record != raw else ""
        lines = record.count("\n") + 1
        if _FUNCTION.match(record):
            remarks.append(_function_remark(file, line, record, lines))
        elif match := _VARIABLE.fullmatch(record):
            variables.append(
                _make_variable(file, line, match["name"], match["value"], lines=lines, suspect=suspect)
            )
        elif record.strip():
            remarks.append(_piece_remark(file, line, record, "a record without a name", lines=lines))
        line += lines - 1
    return _mark_repeated_names(variables), tuple(remarks)


class _Blocks:
    """A reader of a dump, line by line.

    Each step moves the cursor past the lines that it used.
    """

    def __init__(self, file: str, rows: list[str]) -> None:
        self.file = file
        self.rows = rows
        self.at = 0
        self.variables: list[Variable] = []
        self.remarks: list[ParseNote] = []
        first = next((i for i, row in enumerate(rows) if _VARIABLE.fullmatch(row)), len(rows))
        body = [row for row in rows[first:] if row.strip() and not text.noise_remark(file, 1, row)]
        self.sorted = is_sorted(body)
        self.debris = any(not _VARIABLE.fullmatch(row) or _FUNCTION.match(row) for row in body)
        self.pem = any(PEM.search(row) for row in rows)
        self.torn_secret = self.sorted and (
            self.pem
            or any(m and _is_open_secret(m["name"], m["value"]) for m in map(_VARIABLE.fullmatch, body))
        )
        self.of_set = any(_OF_SET.fullmatch(row) for row in rows)
        self.ends = [i for i, row in enumerate(rows) if row == "}"]
        self.functions = [i for i, row in enumerate(rows) if self._is_function(row)]

    def read_all(self) -> None:
        """Read every line.

        The module list that some tools print comes first, then one block after the other.
        """
        self._skip_module_list()
        while self.at < len(self.rows):
            row = self.rows[self.at]
            if not row.strip():
                self.at += 1
            elif self._is_function(row):
                self._function()
            elif self.of_set and _VARIABLE.fullmatch(row):
                self._read_export(row)
            elif (match := _EXPORT.fullmatch(row)) and "=" in row:
                self._read_export(match["rest"])
            elif (match := _VARIABLE.fullmatch(row)) and not is_fragment(
                match["name"], match["value"], self.pem
            ):
                self._read_variable(match["name"], match["value"])
            else:
                self._read_other_row(row)

    def _skip_module_list(self) -> None:
        start = next((i for i, row in enumerate(self.rows) if row.strip()), 0)
        if start == len(self.rows) or not self.rows[start].startswith("Currently Loaded Module"):
            return
        end = next(
            (i for i in range(start, len(self.rows)) if _VARIABLE.fullmatch(self.rows[i])), len(self.rows)
        )
        block = "\n".join(self.rows[:end]).encode()
        loaded, others = modules.parse(block, self.file)
        for line in sorted({m.place.line for m in loaded} | {r.place.line for r in others}):
            self._remark(line, self.rows[line - 1], "a module list in front of the variables")
        self.at = end

    def _is_function(self, row: str) -> bool:
        return bool(_FUNCTION.match(row) or (self.of_set and _SET_FUNCTION.fullmatch(row)))

    def _function(self) -> None:
        """Skip an exported shell function.

        It ends at its `}`, or at the next name if the end was cut off.
        """
        if self.sorted:
            self.remarks.append(_function_remark(self.file, self.at + 1, self.rows[self.at], 1))
            self.at += 1
            return
        start, row = self.at, self.rows[self.at]
        following = _find_next_place(self.functions, start, len(self.rows))
        closing = _find_next_place(self.ends, start, following)
        if row.rstrip().endswith("}") and row.count("{") == row.count("}"):
            self.at = start + 1
        elif closing < following:
            self.at = closing + 1
        else:
            self.at = next(
                (i for i in range(start + 1, following) if _VARIABLE.fullmatch(self.rows[i])), following
            )
        end = self.at
        while end > start + 1 and not self.rows[end - 1].strip():
            end -= 1
        self.remarks.append(_function_remark(self.file, start + 1, row, end - start))

    def _read_export(self, rest: str) -> None:
        name, _, quoted = rest.partition("=")
        start, lines = self.at, 1
        value = unquote(quoted)
        # An open quote continues in the next lines: `declare -x` writes values so.
        while value.open and lines < _LONGEST and start + lines < len(self.rows):
            row = self.rows[start + lines]
            if _EXPORT.fullmatch(row) or len(quoted) + len(row) > _LARGEST:
                break
            quoted += "\n" + row
            lines += 1
            if '"' in row or "'" in row:
                value = unquote(quoted)
        if value.open:
            lines, value = 1, unquote(rest.partition("=")[2])
        suspect = "a quote that is never closed" if value.open else self._describe_suspicion(name, value.text)
        if self.of_set:
            suspect = suspect or "`set` printed it, which does not state what was exported"
        self._keep(name, value.text, lines, suspect)
        if value.comment:
            self._remark(start + 1, value.comment, "a comment behind the value")

    def _read_variable(self, name: str, value: str) -> None:
        if self.sorted:
            self._keep(name, value, 1, self._describe_suspicion(name, value))
            return
        # JSON closes its own brackets: its lines that look like variables are not variables.
        end = self.at + count_value_rows(self.rows, self.at, value)
        for i in range(end, len(self.rows)):
            row = self.rows[i]
            if _starts_record(row, self.pem) or text.noise_remark(self.file, 1, row):
                break
            if row.strip():  # an empty line belongs to the value only if the value goes on after it
                end = i + 1
        lines = end - self.at
        full = "\n".join([value, *self.rows[self.at + 1 : end]])
        torn = (
            ""
            if lines == 1 or suggests_continuation(value)
            else "it goes on over lines that may not belong to it"
        )
        self._keep(name, full, lines, torn or describe_suspicion(name, full, torn=False, debris=False))

    def _read_other_row(self, row: str) -> None:
        line = self.at + 1
        self.at += 1
        if note := text.noise_remark(self.file, line, row):
            self.remarks.append(note)
        elif _COMMENTED.fullmatch(row.strip()):
            self._remark(line, row, "a variable that is commented out")
        elif row.startswith("#"):
            self._remark(line, row, "a comment")
        elif _EXPORT.fullmatch(row):
            self._remark(line, row, "exported without a value")
        elif self.variables or self.sorted or self.pem:
            piece = _piece_remark(self.file, line, row, PIECE)
            of_function = self.sorted and self.functions and not self.pem and _OF_FUNCTION.fullmatch(row)
            if of_function and not piece.understood:
                piece = replace(piece, reason=OF_FUNCTION, understood=True)
            self.remarks.append(piece)
        else:
            self._remark(line, row, "output of another command", understood=False)

    def _describe_suspicion(self, name: str, value: str) -> str:
        return describe_suspicion(name, value, torn=self.sorted, debris=self.debris)

    def _keep(self, name: str, value: str, lines: int, suspect: str) -> None:
        variable = _make_variable(self.file, self.at + 1, name, value, lines=lines, suspect=suspect)
        if suspect and self.torn_secret and not variable.secret:
            # A line of the secret that was torn apart may look like a variable.
            variable = replace(variable, value=None, secret="piece")
        self.variables.append(variable)
        self.at += lines

    def _remark(self, line: int, row: str, reason: str, *, understood: bool = True) -> None:
        self.remarks.append(text.remark(self.file, line, row, reason, understood=understood))


def _find_next_place(places: list[int], start: int, otherwise: int) -> int:
    """Return the first place after `start`, or `otherwise`.

    The places rise. The result is `otherwise` if the first place is not before it.
    """
    at = bisect_right(places, start)
    return min(places[at], otherwise) if at < len(places) else otherwise


def find_secret_rule(name: str, value: str) -> str | None:
    """Return the rule that makes a variable a secret, or None.

    A value that is too large for a process is redacted unread.
    """
    is_larger = len(value) > _LARGEST or len(value.encode("utf-8", "surrogatepass")) > _LARGEST
    return "size" if is_larger else secrets.secret_variable(name, value)


def _make_variable(
    file: str, line: int, name: str, value: str, *, lines: int = 1, suspect: str = ""
) -> Variable:
    rule = find_secret_rule(name, value)
    return Variable(
        place=SourceLocation(file, line),
        name=name,
        value=None if rule else value,
        secret=rule or "",
        suspect=suspect,
        lines=lines,
    )


def _function_remark(file: str, line: int, row: str, lines: int) -> ParseNote:
    name = re.split(r"[=\s]", row, maxsplit=1)[0]
    return text.remark(file, line, f"{name}=() {{", "a shell function", lines=lines)


def _piece_remark(file: str, line: int, row: str, reason: str, *, lines: int = 1) -> ParseNote:
    shape = row.strip()
    harmless = re.fullmatch(r"[{}();&|]*|fi;?|done;?|esac;?|else|then|;;", shape)
    shown = shape if harmless else _NOT_KEPT.format(len(shape))
    return text.remark(file, line, shown, reason, understood=bool(harmless), lines=lines)


def _starts_record(row: str, pem: bool) -> bool:
    match = _VARIABLE.fullmatch(row)
    return bool(match and not is_fragment(match["name"], match["value"], pem)) or bool(
        _FUNCTION.match(row) or _EXPORT.fullmatch(row) or row.startswith("#")
    )


def _is_open_secret(name: str, value: str) -> bool:
    return suggests_continuation(value) and find_secret_rule(name, value) is not None


def _mark_repeated_names(variables: list[Variable]) -> tuple[Variable, ...]:
    times = Counter(variable.name for variable in variables)
    return tuple(
        replace(v, suspect=v.suspect or "its name stands there more than once") if times[v.name] > 1 else v
        for v in variables
    )
