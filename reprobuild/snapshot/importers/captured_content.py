"""Captured files that an import copies whole: without secrets, by the rules that hold for a capture.

A file without a secret keeps its bytes.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import yaml

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text
from reprobuild.snapshot import text
from reprobuild.snapshot.file_kinds import repeated_kind_error
from reprobuild.snapshot.importers.clean_lines import ROUNDS, clean_row
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.list_allowance import MOST_BYTES as LARGEST
from reprobuild.snapshot.importers.list_allowance import ListAllowance
from reprobuild.snapshot.parsers import env
from reprobuild.snapshot.parsers.conda_list import VARIABLES_CUT
from reprobuild.snapshot.parsers.env_sorted import PEM
from reprobuild.snapshot.parsers.environment_yml_nodes import compose, merged_mappings, scalar_nodes
from reprobuild_portable import secrets

ENVIRONMENT, _DIFF = "environment.yml", "*.diff"
_PREFIX, _VARIABLES = "prefix", "variables"
_HASH = re.compile(r"\s*--hash=sha256:[0-9a-f]{64}(?: \\)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_A_SECRET = "a secret"
GAP = "(a line that is not imported)"  # of no list, so a lock asks for it
_LONG_HASHES = re.compile(r"[^\s#]{1,300}(?: ;[^#]{1,500}?)?(?: --hash=sha256:[0-9a-f]{64}){1,5000}\s*")


class OmittedPlace(NamedTuple):
    """A place of a file whose content stays out, and the reason."""

    field: str
    reason: str


class CleanContent(NamedTuple):
    """The content of a file without secrets, and the places left out."""

    data: bytes
    left: list[OmittedPlace]


def put_captured(draft: Draft, file: str, kind: str, data: bytes, place: str = "") -> None:
    """Copy a captured file into a snapshot, and name what stays out.

    Args:
        draft: the snapshot; its source is the origin of the file.
        file: its name in the snapshot.
        kind: the name of its kind.
        data: its content.
        place: its name in messages, if the source of the snapshot is an archive or a directory.

    Raises:
        SnapshotError: it is too large, is not text, holds a secret that cannot be cut out, or is another file than
            the first of its kind.
    """
    origin = draft.source
    first, content = draft.captured.setdefault(kind, (file, data))
    if first != file and kind != _DIFF:  # before it is cleaned: an archive can have thousands
        if content != data:
            raise repeated_kind_error(display_text(first), display_text(file), kind)
        draft.source = place or origin
        draft.leave("the file", f"the same as {first}")
        draft.source = origin
        return
    clean = _CLEANERS.get(kind, _clean_list)(data, place or origin, draft.lists)
    draft.put(file, clean.data)
    draft.source = place or origin
    for field, reason in clean.left:
        draft.leave(field, reason)
    draft.source = origin


def _clean_list(data: bytes, file: str, allowance: ListAllowance, gap: str = GAP) -> CleanContent:
    """Return a list without the secrets of its rows; a whole cut row becomes `gap`.

    Raises:
        SnapshotError: it is not text, or is too large, alone or with the other lists of the import.
    """
    if len(data) > LARGEST:
        raise SnapshotError(
            f"{display_text(file)}: {len(data)} bytes are more than the {LARGEST >> 20} MiB that a list may have",
            hint="look at what wrote it; or take a snapshot where the job runs: `reprobuild capture -o DIR`",
        )
    allowance.count_bytes(len(data), file)
    rows, left = text.decode_lines(data, file), []
    for at, row in enumerate(rows):
        if _HASH.fullmatch(row):
            continue
        allowance.count_row(file)
        if len(row) > text.LONGEST_ROW and _LONG_HASHES.fullmatch(row):
            rows[at] = row.replace(" --hash=", " \\\n    --hash=")  # as pip-compile writes them
            left.append(OmittedPlace(f"line {at + 1}", "it is written as several lines, one for each hash"))
        elif len(row) > text.LONGEST_ROW:
            rows[at] = gap
            left.append(OmittedPlace(f"line {at + 1}", "it is longer than a line of a list"))
        elif (clean := clean_row(row)) != row:
            allowance.count_cut(file)
            rows[at] = clean
            left.append(OmittedPlace(f"line {at + 1}", "it held a secret, which was cut out"))
    left += _clean_found(rows, gap)
    return CleanContent("\n".join(rows).encode() if left else data, left)


def _clean_found(rows: list[str], gap: str = "") -> list[OmittedPlace]:
    """Replace each row with a secret that a search of the whole text finds."""
    left = []
    for _ in range(ROUNDS):
        hits = [number for number, _ in secrets.find("\n".join(rows).encode("utf-8", "replace"))]
        if not hits:
            break
        left += [OmittedPlace(f"line {number}", _A_SECRET) for number in hits]
        for number in hits:
            rows[number - 1] = gap
    return left


def _clean_environment(data: bytes, file: str, allowance: ListAllowance) -> CleanContent:
    """Return an `environment.yml` without `prefix`, `variables` and logins of addresses.

    Its text stays if it has only a `prefix` on a line of its own.
    """
    root = compose(data, file)
    left = list(_cut_nodes(root))
    for _ in left:
        allowance.count_cut(file)
    clean = _written(root)
    rows = data.splitlines(keepends=True)
    plain = b"".join(row for row in rows if not row.startswith(b"prefix:"))
    with contextlib.suppress(SnapshotError):
        if not left and (root is None or _written(compose(plain, file)) == clean):
            clean = plain
    rest = _clean_list(clean, file, allowance, gap="")
    return CleanContent(rest.data, left + rest.left)


def _written(root: yaml.Node | None) -> bytes:
    if root is None:
        return b""
    return yaml.serialize(root, Dumper=yaml.SafeDumper, allow_unicode=True, width=1 << 20).encode()


def _cut_nodes(root: yaml.Node | None) -> Iterator[OmittedPlace]:
    """Cut private keys and logins out of a tree of nodes, and yield each cut place."""
    mappings = list(merged_mappings(root))
    if any(key.value == _VARIABLES for mapping in mappings for key, _ in mapping.value):
        yield OmittedPlace(_VARIABLES, VARIABLES_CUT)
    for mapping in mappings:
        mapping.value = [pair for pair in mapping.value if pair[0].value not in (_PREFIX, _VARIABLES)]
    for node in scalar_nodes(root):
        clean = clean_row(node.value)
        if clean != node.value:
            node.value = clean
            yield OmittedPlace(f"line {node.start_mark.line + 1}", "it held a secret, which was cut out")


def _clean_variables(data: bytes, file: str, allowance: ListAllowance) -> CleanContent:
    """Return a dump of variables without the values of secrets, as a capture writes it.

    Raises:
        SnapshotError: a secret stays, because the dump is torn.
    """
    if b"\0" in data:
        return _clean_records(data, file)
    rows: list[str] = []
    left: list[OmittedPlace] = []
    clean = data
    for _ in range(ROUNDS):
        rows = text.decode_lines(clean, file)
        more = [*_clean_dump(rows, clean, file), *_clean_found(rows)]
        if not more:
            return CleanContent(clean, left)
        left += more
        clean = "\n".join(rows).encode()
    raise SnapshotError(
        f"{display_text(file)}: secrets cannot be told from what stands beside them",
        hint="write it again where the job runs: `env -0 > env.nul`",
    )


def _clean_dump(rows: list[str], data: bytes, file: str) -> Iterator[OmittedPlace]:
    """Cut secrets out of the rows of a dump; rows keep their numbers."""
    variables, remarks = env.parse(data, file)
    of_variables = set()
    is_torn = any(variable.secret == "piece" for variable in variables) or any(map(PEM.search, rows))
    for variable in variables:
        first = variable.place.line - 1
        of_variables |= set(range(first, first + variable.lines))
        is_cut = variable.lines == 1 and rows[first].rpartition("=")[2] == secrets.GONE
        if variable.secret and not is_cut:
            for at in range(first, first + variable.lines):
                rows[at] = ""
            known = variable.secret != "piece" and _VARIABLE.fullmatch(variable.name)
            if known and secrets.secret_name(variable.name):
                rows[first] = f"{variable.name}={secrets.GONE}"
            yield OmittedPlace(variable.name if known else f"line {first + 1}", _A_SECRET)
    pieces = {note.place.line - 1 for note in remarks if note.reason == env.PIECE} if is_torn else set()
    for at, row in enumerate(rows):
        if at not in of_variables and row and (at in pieces or _holds_assignment(row)):
            rows[at] = ""
            yield OmittedPlace(f"line {at + 1}", _A_SECRET)


def _holds_assignment(row: str) -> bool:
    """Return whether a row besides variables has a secret: a comment, or a line of a function."""
    if len(row) > text.LONGEST_ROW:
        return True
    name, has_value, value = row.lstrip("# ").removeprefix("export ").partition("=")
    return secrets.redact(row) != row or bool(has_value and secrets.holds_secret(name.strip(), value))


def _clean_records(data: bytes, file: str) -> CleanContent:
    """Return the output of `env -0` without the records of secrets."""
    env.parse_exact(data, file)  # refuses one that is too large
    records, left = [], []
    for number, record in enumerate(data.split(b"\0"), 1):
        name, has_value, value = record.decode("utf-8", "backslashreplace").partition("=")
        is_variable = bool(has_value and _VARIABLE.fullmatch(name))
        if is_variable and env.find_secret_rule(name, value):
            left.append(OmittedPlace(name, _A_SECRET))
        elif not is_variable and secrets.find(record, most=1):
            left.append(OmittedPlace(f"record {number}", _A_SECRET))
        else:
            records.append(record)
    return CleanContent(b"\0".join(records) if left else data, left)


def _refuse_secret(data: bytes, file: str, allowance: ListAllowance) -> CleanContent:
    """Return a document as it is, if it holds no secret.

    Raises:
        SnapshotError: it does: a part of it cannot be cut out.
    """
    if hits := secrets.find(data, most=1):
        number, rule = hits[0]
        raise SnapshotError(
            f"{display_text(file)}:{number}: a secret ({rule})",
            hint="take it out of the file, and import it again",
        )
    return CleanContent(data, [])


def _keep(data: bytes, file: str, allowance: ListAllowance) -> CleanContent:
    return CleanContent(data, [])


_CLEANERS: dict[str, Callable[[bytes, str, ListAllowance], CleanContent]] = {
    ENVIRONMENT: _clean_environment, "env.txt": _clean_variables, "env.nul": _clean_variables,
    "capture.json": _refuse_secret,
    _DIFF: _keep,  # `read_snapshot` refuses one with a secret
}  # fmt: skip
