"""Parser of `environment.yml`.

It reads the output of `conda env export`, and files written by hand.

An export lists the installed packages. A file written by hand lists requested packages, so its versions cannot be
relied on, unless it names a build.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import yaml
from msgspec import UNSET
from msgspec.structs import replace

from reprobuild.infra.display import escape_text
from reprobuild.snapshot import text
from reprobuild.snapshot.model import CapturedCondaPackage, CondaRequest, ParseNote, SourceLocation
from reprobuild.snapshot.parsers.conda_list import (
    NAME,
    PYPI,
    VARIABLES,
    VERSION,
    make_package,
    merge_duplicates,
)
from reprobuild.snapshot.parsers.environment_yml_channels import add_channels, bound_channels, channel_name
from reprobuild.snapshot.parsers.environment_yml_lines import CONDITIONAL, OF_PIP, PipLine, parse_pip_line
from reprobuild.snapshot.parsers.environment_yml_nodes import (
    compose,
    mapping_items,
    merged_mappings,
    scalar_nodes,
)
from reprobuild_portable import secrets

_FULL = re.compile(
    rf"(?:(?P<channel>[^\s:]\S*)::)?(?P<name>{NAME})={{1,2}}(?P<version>{VERSION})(?:=(?P<build>[0-9A-Za-z_][\w.+]*))?"
)
# `python=3.11`, `conda-forge::python 3.11.*`
_REQUEST = re.compile(
    rf"(?:[^\s:]\S*::)?(?P<name>[A-Za-z0-9_][\w.-]*)(?:\s*={{1,2}}\s*|\s+)(?P<version>{VERSION}?)(?:\.?\*)?"
)
_INDENT = re.compile("[ -]*")
# People do not ask for these by name, but every export of an environment with Python has them.
_TELLING = frozenset({"ca-certificates", "openssl"})

_STRANGE = "not what conda writes"
_SECRET = "a secret in a list that should hold none: not read"
_SEVERAL = "several lines for pip in one item: write each as its own item"
_NOT_WHOLE = "a request that is too long, or has characters that cannot be shown: not read"
OF_CONDA = "asked for: it does not say what was installed"  # of a line for conda without a version

Read = tuple[tuple[CapturedCondaPackage, ...], tuple[ParseNote, ...]]


class EnvironmentRequests(NamedTuple):
    """What a file asks conda and pip for, and does not say to be installed."""

    conda: tuple[CondaRequest, ...]
    pip: tuple[PipLine, ...]


def parse(data: bytes, file: str = "environment.yml") -> Read:
    """Return the packages, also of the `pip:` section, and remarks.

    Raises:
        SnapshotError: it is not text or not YAML, is larger or deeper than conda writes, or lists one package in
            two versions.
    """
    reader = _read_document(data, file)
    channels = bound_channels(reader.channels, file) if reader.channels else UNSET
    packages, repeated = merge_duplicates(
        add_channels(conda_package, channels) for conda_package in reader.found
    )
    return packages, (*reader.remarks, *reader.others(), *repeated)


def read_requests(data: bytes, file: str) -> EnvironmentRequests:
    """Return the requests for conda, and all lines for pip.

    Raises:
        SnapshotError: as `parse`.
    """
    reader = _read_document(data, file)
    channels = bound_channels(reader.channels, file)
    closed = "nodefaults" in reader.channels
    requests = (replace(request, channels=channels, nodefaults=closed) for request in reader.requests)
    return EnvironmentRequests(tuple(requests), tuple(reader.pip_lines))


def _read_document(data: bytes, file: str) -> _Reader:
    root = compose(data, file)
    whole = text.decode(data, file)
    rows = text.split_lines(whole)
    reader = _Reader(file, rows, whole)
    reader.remarks += text.empty_file_remarks(file, rows)
    reader.read(root)
    return reader


class _Reader:
    """A reader of the keys that conda writes.

    `known` are the lines with a result, and `hidden` those of variables, whose values are not kept. `masked` are the
    lines of values that have a secret only when YAML has read them: escaped, or over several lines. `unread` are the
    first and the last node of each part without a result: in flow style, a known line may have such parts.
    """

    def __init__(self, file: str, rows: list[str], whole: str) -> None:
        self.file = file
        self.rows = rows
        self.whole = whole
        # YAML ends lines at other characters, too, so its own numbers are not those that editors show.
        self.starts = [0, *(match.end() for match in re.finditer("\n", whole))]
        self.found: list[CapturedCondaPackage] = []
        self.remarks: list[ParseNote] = []
        self.known: set[int] = set()
        self.hidden: set[int] = set()
        self.masked: set[int] = set()
        self.unread: list[tuple[yaml.Node, yaml.Node]] = []
        self.leaks: dict[int, ParseNote | None] = {}
        self.export = False
        self.channels: list[str] = []
        self.requests: list[CondaRequest] = []
        self.pip_lines: list[PipLine] = []

    def read(self, root: yaml.Node | None) -> None:
        """Read the keys of the document."""
        items = list(mapping_items(root))
        self._hide(root)
        for key, value in items:
            line = self._line(key)
            if key.value == "dependencies" and isinstance(value, yaml.SequenceNode):
                self._remark(line, "the packages of the environment")
                self.export = _is_export(value)
                for item in value.value:
                    self._read_dependency(item)
            elif key.value in ("name", "prefix", "channels", "platforms"):
                if key.value == "channels":
                    self._read_channels(value)
                for at in range(line, self._end(value)):
                    self._remark(at, f"conda's `{key.value}`")
            elif key.value == "variables":
                for at in range(line, self._end(value)):  # may hold a secret
                    if self.rows[at - 1].strip():
                        self.remarks.append(text.remark(self.file, at, "", VARIABLES))
                        self.known.add(at)
            else:
                self.unread.append((key, value))

    def _hide(self, root: yaml.Node | None) -> None:
        """Find the lines whose text is not kept."""
        self.hidden = {
            at
            for mapping in merged_mappings(root)
            for key, value in mapping.value
            if key.value == "variables"
            for at in range(self._line(key), self._end(value))
        }
        for node in scalar_nodes(root):
            source = self._source(node, node)
            if ("\n" in source or "\\" in source) and secrets.redact(node.value) != node.value:
                self.masked.update(range(self._line(node), self._end(node)))

    def _read_channels(self, value: yaml.Node) -> None:
        nodes = value.value if isinstance(value, yaml.SequenceNode) else [value] if value.value else []
        for node in nodes:
            if node is not value and isinstance(node, yaml.ScalarNode):
                self.channels.append(channel_name(node))
            else:
                self.unread.append((node, node))

    def _line(self, node: yaml.Node) -> int:
        return bisect_right(self.starts, node.start_mark.index)

    def _end(self, node: yaml.Node) -> int:
        """Return the number of the line after a node."""
        if isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
            last = node.value[-1]
            return self._end(last[1] if isinstance(last, tuple) else last)
        # The end mark is the start of the next node: at the start of a line, the node ends on the line before.
        return max(self._line(node), bisect_right(self.starts, node.end_mark.index - 1)) + 1

    def _read_dependency(self, item: yaml.Node) -> None:
        if isinstance(item, yaml.ScalarNode):
            self._read_conda_package(item)
            return
        if not isinstance(item, yaml.MappingNode) or not item.value:
            self.unread.append((item, item))
        for key, value in mapping_items(item):
            if key.value == "pip" and isinstance(value, yaml.SequenceNode):
                self._remark(self._line(key), "the packages of pip")
                for node in value.value:
                    if isinstance(node, yaml.ScalarNode):
                        self._read_pip_line(node)
                    else:
                        self.unread.append((node, node))
            else:
                self.unread.append((key, value))

    def _read_conda_package(self, item: yaml.ScalarNode) -> None:
        channel, mark, rest = item.value.rpartition("::")
        if "://" in channel:
            channel = secrets.strip_credentials(channel)[0]
        match = _FULL.fullmatch(item.value)
        named = re.match(NAME, rest)
        if _has_secret(channel + mark + rest, channel, named[0] if named else rest):
            self._refuse(item, _SECRET)
        elif match and (match["build"] or self.export):
            shown = escape_text(channel) if mark else None
            self._keep(item, match["name"], match["version"], build=match["build"], channel=shown)
        elif named:
            self._ask(item, channel + mark + rest, named[0])
        else:
            self.unread.append((item, item))

    def _leak(self, line: int, item: str) -> ParseNote | None:
        """Return the remark on a secret in a row, or in an item alone if variables are beside it.

        A row is searched once: a list in flow style has all items in it.
        """
        if line in self.hidden:
            return text.secret_remark(self.file, line, item)
        if line not in self.leaks:
            self.leaks[line] = text.secret_remark(self.file, line, self.rows[line - 1])
        return self.leaks[line]

    def _shown(self, item: yaml.Node) -> str:
        """Return the row of its first item, and the text of each further item alone."""
        line = self._line(item)
        if line in self.masked:
            return str(item.value)
        indent = _INDENT.match(self.whole, self.starts[line - 1])
        if indent and indent.end() == item.start_mark.index and line not in self.hidden:
            return self.rows[line - 1].strip()
        return self._source(item, item)

    def _source(self, first: yaml.Node, last: yaml.Node) -> str:
        return self.whole[first.start_mark.index : last.end_mark.index]

    def _ask(self, item: yaml.ScalarNode, spec: str, name: str) -> None:
        """Keep a request for conda, or refuse it: a part of it would ask for another package."""
        is_whole = len(spec) <= text.LONGEST_ROW and secrets.GONE not in spec and escape_text(spec) == spec
        if not is_whole or secrets.redact(spec) != spec:
            self._refuse(item, _SECRET if is_whole else _NOT_WHOLE)
            return
        request, line = _REQUEST.fullmatch(item.value), self._line(item)
        version = request["version"] if request else None
        self.requests.append(
            CondaRequest(
                place=SourceLocation(self.file, line), text=spec, name=name, version=version,
                digest=text.hash_item(spec),
            )
        )  # fmt: skip
        self._remark(line, OF_CONDA)

    def _read_pip_line(self, item: yaml.ScalarNode) -> None:
        line = self._line(item)
        bare = secrets.strip_credentials(item.value)[0] if "://" in item.value else item.value
        pip_line, pin = parse_pip_line(line, item.value)
        if len(item.value.strip().splitlines()) > 1:  # pip reads each one
            self._refuse(item, _SEVERAL)
        elif _has_secret(bare, *(pin or ())):
            self._refuse(item, _SECRET)
        else:
            self.pip_lines.append(pip_line)
            if pin:
                self._keep(item, pin.name, pin.version, channel=PYPI)
            elif re.match(r"-e |-r |--|[A-Za-z0-9]", item.value):
                self._remark(line, CONDITIONAL if pip_line.conditional else OF_PIP)
            else:
                self.unread.append((item, item))

    def _refuse(self, item: yaml.ScalarNode, reason: str) -> None:
        """Add the remark on an item that is not read. A secret in it may need the value that YAML makes of it."""
        lines = range(self._line(item), self._end(item))
        self.remarks.append(text.remark(self.file, lines.start, item.value, reason, understood=False))
        self.known.update(lines)

    def _keep(
        self,
        item: yaml.ScalarNode,
        name: str,
        version: str,
        *,
        build: str | None = None,
        channel: str | None = None,
    ) -> None:
        line, shown = self._line(item), self._shown(item)
        self.found.append(make_package(self.file, line, shown, name, version, build=build, channel=channel))
        self.known.add(line)

    def _remark(self, line: int, reason: str) -> None:
        if line not in self.known and self.rows[line - 1].strip():
            row = "" if line in self.hidden or line in self.masked else self.rows[line - 1]
            self.remarks.append(text.remark(self.file, line, row, reason))
            self.known.add(line)

    def others(self) -> Iterator[ParseNote]:
        """Yield the remarks on lines without a result, and on such parts of lines with one."""
        for number, row in enumerate(self.rows, 1):
            line = row.strip()
            if not line or number in self.known:
                continue
            if line.startswith("#"):
                yield text.remark(self.file, number, line, "a comment")
            elif line in ("---", "..."):
                yield text.remark(self.file, number, line, "a mark of YAML")
            else:
                shown = "" if number in self.hidden or number in self.masked else line
                yield text.remark(self.file, number, shown, _STRANGE, understood=False)
        for first, last in self.unread:
            lines = range(self._line(first), self._end(last))
            if not self.known.isdisjoint(lines):
                yield self._part_remark(self._source(first, last), lines)

    def _part_remark(self, part: str, lines: range) -> ParseNote:
        """Return the remark on a part of lines; without the rest of a row, its secret may not be recognised."""
        secret = not self.masked.isdisjoint(lines) or any(self._leak(line, part) for line in lines)
        shown = "…" if secret else part
        return text.remark(self.file, lines.start, shown, _STRANGE, understood=False)


def _has_secret(*values: str) -> bool:
    return any(map(secrets.secret_value, values))


def _is_export(dependencies: yaml.SequenceNode) -> bool:
    """Return whether the list is an export.

    It names packages that people do not ask for, and Python with all three parts of its version.
    """
    specs = [item.value for item in dependencies.value if isinstance(item, yaml.ScalarNode)]
    matches = [match for spec in specs if (match := _FULL.fullmatch(spec))]
    versions = {match["name"]: match["version"] for match in matches}
    return not _TELLING - versions.keys() and bool(
        re.fullmatch(r"\d+\.\d+\.\d+", versions.get("python", "3.0.0"))
    )
