"""Parser of `requirements.txt`.

It reads the output of `pip freeze` and `uv pip freeze`, and text around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from msgspec import UNSET

from reprobuild.infra.display import display_text
from reprobuild.snapshot import text
from reprobuild.snapshot.model import ParseNote, Requirement, SourceLocation
from reprobuild.snapshot.parsers import pip_freeze_forms as forms
from reprobuild.snapshot.parsers import pip_freeze_warnings
from reprobuild.snapshot.parsers.pip_freeze_hashes import Hashes
from reprobuild.snapshot.parsers.pip_freeze_options import adds_all, describe_option
from reprobuild.snapshot.parsers.pip_freeze_unique import merge_duplicates, read_extras, read_marker
from reprobuild.snapshot.parsers.pip_freeze_unique import same_version as same_version
from reprobuild.snapshot.parsers.pip_freeze_url import UrlOrigin, read_origin
from reprobuild_portable import secrets

Read = tuple[tuple[Requirement, ...], tuple[ParseNote, ...]]


class _Pending(NamedTuple):
    """An editable announced by a comment, still without its path."""

    name: str
    version: str
    line: int
    text: str


def parse(data: bytes, file: str = "requirements.txt") -> Read:
    """Return the requirements and remarks of a freeze.

    Raises:
        SnapshotError: it is not text, or pins one distribution to two versions or places.
    """
    rows = text.decode_lines(data, file)
    reader = _Reader(file, whole=adds_all(rows))
    for number, row in enumerate(rows, 1):
        if row.strip():
            reader.read(number, row.strip())
    reader.end()
    requirements, repeated = merge_duplicates(reader.hashes.with_hashes(reader.requirements))
    return requirements, (*text.empty_file_remarks(file, rows), *reader.remarks, *repeated)


class _Reader:
    """Reads a freeze line by line.

    The state is an announced editable, and whether a table of `pip list` began. `whole` is `adds_all` of the rows.
    """

    def __init__(self, file: str, *, whole: bool) -> None:
        self.file, self.whole = file, whole
        self.requirements: list[Requirement] = []
        self.remarks: list[ParseNote] = []
        self.hashes = Hashes()
        self.pending: _Pending | None = None
        self.table = False
        self.ignored: list[tuple[int, str, str]] = []

    def read(self, number: int, line: str) -> None:
        """Parse one line by the first form that fits."""
        if len(line) > text.LONGEST_ROW:
            self._remark(number, line, "too long for a line of `pip freeze`", understood=False)
            return
        if line.startswith("#"):
            self._read_comment(number, line)
            return
        readers: tuple[Callable[[int, str], bool], ...] = (
            self._read_editable,
            self._read_noise,
            self._read_requirement,
        )
        bare, hashes = forms.split_comment(line)
        if not bare:
            self._read_hashes(number, line, hashes)
            return
        self.hashes.above = None
        if not forms.EDITABLE.fullmatch(bare):
            self.finish()
        if not any(reader(number, bare) for reader in readers):
            self._remark(number, line, forms.describe_rejection(bare), understood=False)
        elif hashes:
            self._read_hashes(number, line, hashes)

    def finish(self) -> None:
        """Keep an announced editable without a path: only its name and version are known."""
        if self.pending is not None:
            name, version, line, shown = self.pending
            self._keep(line, shown, kind="editable", name=name, version=version)
            self.pending = None

    def end(self) -> None:
        """End the freeze, and report the leftovers that pip ignored, and whether the freeze has their distributions."""
        self.finish()
        rests = pip_freeze_warnings.strip_first_letters(self.requirements)
        for number, line, name in self.ignored:
            known = pip_freeze_warnings.has_successor(name, rests)
            missing = (
                "" if known else ", and the freeze has nothing that it can be of: a package may be missing"
            )
            reason = f"pip ignored {name}, a leftover of an interrupted installation{missing}"
            self._remark(number, line, reason, understood=known)

    def _read_comment(self, number: int, line: str) -> None:
        if match := forms.EDITABLE_COMMENT.fullmatch(line):
            self.finish()
            self.pending = _Pending(match["name"], match["version"], number, line)
        elif re.match(r"##\s*(!!|FIXME)", line):
            self._remark(number, line, "pip could not tell where the next one came from", understood=False)
        elif forms.COMMENTED.fullmatch(line):
            self._remark(number, line, "a requirement that is commented out: not read", understood=False)
        elif line.startswith("##"):
            self._remark(number, line, "a divider of `pip freeze -r`")
        elif re.match(r"#\s+(via\b|\s{2})", line):
            self._remark(number, line, "pip-compile's note on who asked for it")
        else:
            self._remark(number, line, "a comment")

    def _read_editable(self, number: int, line: str) -> bool:
        match = forms.EDITABLE.fullmatch(line)
        if not match:
            return False
        origin = read_origin(match["target"], editable=True)
        if origin is None:
            return False
        name, version = origin.name, origin.version
        if self.pending is not None:
            name, version = self.pending.name, self.pending.version
            self._remark(self.pending.line, self.pending.text, "pip's name for the editable below")
            self.pending = None
        elif origin.guessed:
            self._remark(number, line, f"an editable without a name: called `{name}` after its directory")
        if name is None:
            return False
        self._keep_origin(number, line, name, origin, version)
        return True

    def _read_hashes(self, number: int, line: str, hashes: Sequence[str | None]) -> None:
        """Keep hashes for the last requirement, if it can have some."""
        above = self.requirements[self.hashes.above] if self.hashes.above is not None else None
        if None in hashes:
            self._remark(number, line, "a hash that is no sha256: it is not compared", understood=False)
        elif above is None:
            self._remark(number, line, "a hash of no requirement that was read")
        elif above.kind not in ("index", "archive"):
            self._remark(number, line, "a hash of what is no file: it is not compared", understood=False)
        elif above.place.line != number:
            self._remark(number, line, "a hash of the requirement above")
        self.hashes.take(hashes)

    def _read_noise(self, number: int, line: str) -> bool:
        if forms.TABLE_HEAD.fullmatch(line):
            self.table = True
            self._remark(number, line, "the header of `pip list`")
        elif self.table and re.fullmatch(r"[-\s]+", line):
            self._remark(number, line, "the rule of `pip list`")
        elif match := forms.UNWRITTEN.fullmatch(line):
            self._keep_unlisted(number, line, match["name"], match["version"])
        elif reason := pip_freeze_warnings.describe_skipped_distribution(line):
            self._remark(number, line, reason, understood=False)
        elif name := pip_freeze_warnings.parse_leftover_name(line):
            self.ignored.append((number, line, name))
        elif forms.LOUD.fullmatch(line):
            self._remark(number, line, "a warning of the tool, not a requirement")
        elif forms.FAILED.fullmatch(line) and not forms.PIN.fullmatch(line):
            self._remark(number, line, "an error of the tool: the list may be incomplete", understood=False)
        elif (option := self._describe_option(line)) is not None:
            self._remark(number, line, option[0], understood=option[1])
        elif not forms.ONLY_NAME.fullmatch(line) and (note := text.noise_remark(self.file, number, line)):
            self.remarks.append(note)
        else:
            return False
        return True

    def _describe_option(self, line: str) -> tuple[str, bool] | None:
        if forms.LEFTOVER.fullmatch(line) or forms.EDITABLE.fullmatch(line):
            return None
        return describe_option(line, whole=self.whole)

    def _keep_unlisted(self, number: int, line: str, name: str, version: str) -> None:
        """Keep a leftover that pip left out of the freeze, or report a package that may be missing."""
        if name[0] in "-~":
            self._keep(number, line, kind="leftover", name=name, version=version)
        else:
            reason = f"pip left {name} {version} out of the freeze: its metadata is damaged"
            self._remark(number, line, reason, understood=False)

    def _read_requirement(self, number: int, line: str) -> bool:
        if self.table and (match := forms.TABLE_ROW.fullmatch(line)):
            kind = "editable" if match["path"] else "index"
            self._keep(
                number, line, kind=kind, name=match["name"], version=match["version"], path=match["path"]
            )
            return True
        if match := forms.LEFTOVER.fullmatch(line):
            self._keep(number, line, kind="leftover", name=match["name"], version=match["version"])
            return True
        if match := forms.DIRECT.fullmatch(line):
            origin = read_origin(match["url"], editable=False)
            if origin is None:
                return False
            if self._check_marker(number, line, match["marker"]):
                self._keep_origin(number, line, match["name"], origin, origin.version, match)
            return True
        pin = forms.parse_pin(line)
        if pin is None:
            return False
        if self._check_marker(number, line, pin.marker):
            self._keep(
                number, line, kind="index", name=pin.name, version=pin.version, marker=read_marker(pin.marker),
                extras=pin.extras,
            )  # fmt: skip
        return True

    def _check_marker(self, number: int, line: str, marker: str | None) -> bool:
        """Return whether the marker of a line can be read, and add a remark if not."""
        if marker is None or read_marker(marker) is not UNSET:
            return True
        self._remark(number, line, "nobody can read for which environments it is: not read", understood=False)
        return False

    def _keep_origin(
        self,
        number: int,
        line: str,
        name: str,
        origin: UrlOrigin,
        version: str | None,
        match: re.Match[str] | None = None,
    ) -> None:
        self._keep(
            number,
            line,
            kind=origin.kind,
            name=name,
            version=version,
            url=origin.url,
            commit=origin.commit,
            subdirectory=origin.subdirectory,
            sha256=origin.sha256,
            path=origin.path,
            marker=read_marker(match["marker"] if match else None),
            digests=origin.digests,
            extras=match["extras"] if match else None,
        )
        if origin.unread:
            reason = (
                f"its address states no valid {' and no valid '.join(sorted(origin.unread))}: not compared"
            )
            self._remark(number, line, reason, understood=False)
        if origin.credential:
            self._remark(
                number, line, "the address held a credential: removed, and to be supplied when fetching"
            )

    def _keep(self, number: int, line: str, extras: str | None = None, **fields: object) -> None:
        values = [value for value in fields.values() if isinstance(value, str)]
        values += (extras or "").split(",")
        if any(map(secrets.secret_value, (*values, *map(unquote, values)))):
            self._remark(
                number, unquote(line), "a secret where a requirement should be: not read", understood=False
            )
            return
        place = SourceLocation(self.file, number)
        self.hashes.above = len(self.requirements)
        line = display_text(line)
        self.requirements.append(Requirement(place=place, text=line, extras=read_extras(extras), **fields))  # type: ignore[arg-type]  # names checked by Struct

    def _remark(self, number: int, line: str, reason: str, *, understood: bool = True) -> None:
        self.remarks.append(text.remark(self.file, number, line, reason, understood=understood))
