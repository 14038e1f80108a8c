"""Lock files: reading and writing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.errors import LockError
from reprobuild.infra.atomic import write_file
from reprobuild.infra.display import display_error
from reprobuild.infra.suggest import suggest_path
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.json_documents import refuse_repeated_keys
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.lock.consistent import check_consistency
from reprobuild.lock.model import Lock, SealedLock, encode
from reprobuild_portable import secrets

VERSION = 2
NAME = "reprobuild.lock"  # in an output directory
LARGEST = 64 << 20  # some thousand packages take 2 MB
_AGAIN = "make it again with `reprobuild lock DIR`"
_CHANGED = "; if somebody handed it over, it was changed since, or made to harm"


class _Header(Struct):
    """The version of a lock of any version, and whether it is sealed."""

    version: int
    interpreter: msgspec.Raw = msgspec.Raw(b"null")  # every lock has one, and no other document
    realised: msgspec.Raw = msgspec.Raw(b"null")


def read_lock(path: Path) -> Lock:
    """Read a lock file and check every value.

    A file with realised outputs gives a `SealedLock`.

    Each string has a grammar, so that no value can act as something else later.

    Raises:
        LockError: it is absent, not a lock, of an unknown version, or holds a value that this program would not write;
            the message names the field.
    """
    try:
        raw = read_plain(path, LARGEST)
    except OSError as err:
        raise _unreadable_error(path, err) from None
    try:
        header = decode_json(raw, _Header)
        if bytes(header.interpreter) == b"null" and header.version != VERSION:
            raise LockError(f"{path} is not a lock: it names no interpreter", hint=_AGAIN)
        lock = _decode(raw, sealed=bytes(header.realised) != b"null") if header.version == VERSION else None
        if lock is not None:
            refuse_repeated_keys(raw)
            check_consistency(lock)
    except (msgspec.MsgspecError, ValueError, RecursionError) as err:
        wrong = isinstance(err, msgspec.ValidationError) or type(err) is ValueError
        raise LockError(
            f"{path} is not a lock: {display_error(err)}", hint=_AGAIN + _CHANGED * wrong
        ) from None
    if lock is None:
        raise LockError(
            f"{path} is a lock of version {header.version}; this program reads version {VERSION}",
            hint="use the reprobuild that wrote it, or make the lock again with `reprobuild lock DIR`",
        )
    return lock


def _decode(raw: bytes, *, sealed: bool) -> Lock:
    return decode_json(raw, SealedLock) if sealed else decode_json(raw, Lock)


def _unreadable_error(path: Path, err: OSError) -> LockError:
    """Return the error for a lock that cannot be read."""
    if isinstance(err, (FileNotFoundError, NotADirectoryError)):
        hint = suggest_path(path) or "make one with `reprobuild lock DIR`"
        return LockError(f"there is no lock at {path}", hint=hint)
    if isinstance(err, IsADirectoryError):
        inside = path / NAME
        hint = f"name the file in it: {inside}" if inside.is_file() else "make one with `reprobuild lock DIR`"
        return LockError(f"{path} is a directory, and no lock", hint=hint)
    hint = (
        "check its permissions"
        if isinstance(err, PermissionError)
        else "name the file that `reprobuild lock DIR` made"
    )
    return LockError(f"{path} cannot be read: {err.strerror}", hint=hint)


def write_lock(lock: Lock, path: Path) -> None:
    """Write the canonical form of a lock atomically."""
    write_file(path, encode(lock))


def write_new_lock(lock: Lock, path: Path) -> None:
    """Write a new lock, unless it holds a secret.

    This is the last of several checks for secrets.

    Raises:
        LockError: a secret was found. The message has the field and the rule, but not the value.
    """
    text = encode(lock)
    if matches := secrets.find(text, most=1):
        line, rule = matches[0]
        raise LockError(
            f"line {line} of the lock{_find_secret_field(lock)} looks like a secret ({rule}); the lock is not written",
            hint="take it out of the snapshot or the decisions, or leave its line or variable out with --drop NAME",
        )
    write_file(path, text)


def _find_secret_field(lock: Lock) -> str:
    """Return the first field that holds a secret of its own.

    It has the form that a reader's errors have.
    """
    for field, value in _list_strings("$", msgspec.to_builtins(lock)):
        if secrets.find(value.encode("utf-8", "surrogateescape"), most=1):
            return f", `{field}`,"
    return ""


def _list_strings(field: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _list_strings(f"{field}[{number}]", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield field, key
            yield from _list_strings(field if secrets.find(key.encode(), most=1) else f"{field}.{key}", item)
