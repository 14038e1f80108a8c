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

from reprobuild.infra.display import display_text, escape_text
from reprobuild.infra.untrusted.yaml_documents import StrictLoader
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
from reprobuild.snapshot.parsers.environment_yml_channels import (
    HINT,
    add_channels,
    bound_channels,
    channel_name,
)
from reprobuild.snapshot.parsers.environment_yml_lines import CONDITIONAL, OF_PIP, PipLine, parse_pip_line
from reprobuild_portable import secrets

_LIMIT = 1 << 18  # an export has some kilobytes, and YAML is slow to read
_DEPTH = 8
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
OF_CONDA = "asked for: it does not say what was installed"  # of a line for conda without a version

Read = tuple[tuple[CapturedCondaPackage, ...], tuple[ParseNote, ...]]


class EnvironmentRequests(NamedTuple):
    """What a file asks conda and pip for, and does not say to be installed."""

    conda: tuple[CondaRequest, ...]
    pip: tuple[PipLine, ...]


class _Loader(StrictLoader):
    """A composer of shallow trees of nodes without cycles."""

    deepest = _DEPTH
    tags = True  # nodes are read, and no objects are constructed


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


def compose(data: bytes, file: str) -> yaml.Node | None:
    """Return the tree of an environment; None if the file is empty.

    Raises:
        SnapshotError: as `parse`, but for the versions.
    """
    if len(data) > _LIMIT:
        raise text.parse_error(file, f"{len(data)} bytes are too many for an environment", HINT)
    whole = text.decode(data, file)
    try:
        root: yaml.Node | None = yaml.compose(whole, Loader=_Loader) if whole.strip() else None
    except yaml.MarkedYAMLError as err:
        line = err.problem_mark.line + 1 if err.problem_mark else 1
        raise text.parse_error(
            SourceLocation(file, line), f"not an environment: {display_text(err.problem or '')}", HINT
        ) from None
    except (yaml.YAMLError, ValueError) as err:  # ValueError: an invalid date or number
        raise text.parse_error(file, f"not YAML: {display_text(str(err))}", HINT) from None
    return root


class _Reader:
    """A reader of the keys that conda writes.

    `known` are the lines with a result, and `hidden` those of variables, whose values are not kept. `unread` are the
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
        self.unread: list[tuple[yaml.Node, yaml.Node]] = []
        self.leaks: dict[int, ParseNote | None] = {}
        self.export = False
        self.channels: list[str] = []
        self.requests: list[CondaRequest] = []
        self.pip_lines: list[PipLine] = []

    def read(self, root: yaml.Node | None) -> None:
        """Read the keys of the document."""
        items = list(_mapping_items(root))
        self.hidden = {
            at
            for key, value in items
            if key.value == "variables"
            for at in range(self._line(key), self._end(value))
        }
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
        for key, value in _mapping_items(item):
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
        match = _FULL.fullmatch(item.value)
        if match and (match["build"] or self.export):
            channel = match["channel"] and escape_text(secrets.strip_credentials(match["channel"])[0])
            self._keep(item, match["name"], match["version"], build=match["build"], channel=channel)
        elif named := re.match(NAME, item.value.rpartition("::")[2]):
            request = _REQUEST.fullmatch(item.value)
            self._ask(item, named[0], request["version"] if request else None)
            self._remark(self._line(item), OF_CONDA)
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
        indent = _INDENT.match(self.whole, self.starts[line - 1])
        if indent and indent.end() == item.start_mark.index and line not in self.hidden:
            return self.rows[line - 1].strip()
        return self._source(item, item)

    def _source(self, first: yaml.Node, last: yaml.Node) -> str:
        return self.whole[first.start_mark.index : last.end_mark.index]

    def _ask(self, item: yaml.ScalarNode, name: str, version: str | None) -> None:
        line = self._line(item)
        spec = secrets.strip_credentials(item.value)[0] if "://" in item.value else item.value
        digest = text.hash_item(spec)
        if self._leak(line, item.value):
            spec, version, digest = name, None, ""
        shown, place = display_text(spec), SourceLocation(self.file, line)
        self.requests.append(CondaRequest(place=place, text=shown, name=name, version=version, digest=digest))

    def _read_pip_line(self, item: yaml.ScalarNode) -> None:
        line = self._line(item)
        pip_line, pin = parse_pip_line(line, item.value)
        self.pip_lines.append(pip_line)
        if pin:
            self._keep(item, pin.name, pin.version, channel=PYPI)
        elif re.match(r"-e |-r |--|[A-Za-z0-9]", item.value):
            self._remark(line, CONDITIONAL if pip_line.conditional else OF_PIP)
        else:
            self.unread.append((item, item))

    def _keep(
        self,
        item: yaml.ScalarNode,
        name: str,
        version: str,
        *,
        build: str | None = None,
        channel: str | None = None,
    ) -> None:
        line = self._line(item)
        if leak := self._leak(line, item.value):
            self.remarks.append(leak)
        else:
            self.found.append(
                make_package(self.file, line, self._shown(item), name, version, build=build, channel=channel)
            )
        self.known.add(line)

    def _remark(self, line: int, reason: str) -> None:
        if line not in self.known and self.rows[line - 1].strip():
            row = "" if line in self.hidden else self.rows[line - 1]
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
                yield text.remark(self.file, number, line, _STRANGE, understood=False)
        for first, last in self.unread:
            lines = range(self._line(first), self._end(last))
            if not self.known.isdisjoint(lines):
                yield self._part_remark(self._source(first, last), lines)

    def _part_remark(self, part: str, lines: range) -> ParseNote:
        """Return the remark on a part of lines; without the rest of a row, its secret may not be recognised."""
        shown = "…" if any(self._leak(line, part) for line in lines) else part
        return text.remark(self.file, lines.start, shown, _STRANGE, understood=False)


def _mapping_items(node: yaml.Node | None) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        yield from node.value


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
