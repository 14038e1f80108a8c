r"""String types of untrusted documents, each with its grammar.

A document model has no plain `str`: each field names one of these types, and msgspec checks the grammar while
it reads. `tests/untrusted/test_strings.py` walks the models. The patterns end in `\Z`, because `$` also matches
before a line break.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from reprobuild.infra.untrusted.decode import decode_value

# Linux: NAME_MAX, and PATH_MAX without its final NUL (limits.h).
_NAME, _PATH = 255, 4095
# A line of a log, an explanation, a command. A document has its own bound on bytes.
_LINE, _TEXT = 1 << 16, 1 << 20
# One component of a path: neither `.` nor `..`, no backslash, no control character, no line separator.
_COMPONENT = r"(?!\.{1,2}(?:/|\Z))[^/\\\x00-\x1f\x7f-\x9f\u2028\u2029]+"
# Inside an image a backslash is an ordinary character: systemd has units with it.
_LINUX_COMPONENT = _COMPONENT.replace(r"\\", "")
_LINE_OF = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]"

Sha256: TypeAlias = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
"""A sha256 in lower-case hexadecimal digits."""

Digest: TypeAlias = Annotated[str, Meta(pattern=r"\Asha256:[0-9a-f]{64}\Z")]
"""A digest of the OCI image specification; this project writes sha256 only."""

OptionalSha256: TypeAlias = Annotated[str, Meta(pattern=r"\A(?:[0-9a-f]{64})?\Z")]
"""A sha256, or empty where there is no such file."""

OptionalDigest: TypeAlias = Annotated[str, Meta(pattern=r"\A(?:sha256:[0-9a-f]{64})?\Z")]
"""A digest, or empty where there is no such file."""

GitObject: TypeAlias = Annotated[str, Meta(pattern=r"\A(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")]
"""The id of a git object, SHA-1 or SHA-256."""

FileName: TypeAlias = Annotated[str, Meta(pattern=rf"\A(?!-|\.wh\.){_COMPONENT}\Z", max_length=_NAME)]
"""The name of a file: one component of a path."""

ArtefactName: TypeAlias = Annotated[str, Meta(pattern=rf"\A(?!\.wh\.){_COMPONENT}\Z", max_length=_NAME)]
"""The name of a file of a lock. The tar of a source can begin with a hyphen: the repository `_work` is `-work`."""

BlobName: TypeAlias = Annotated[
    str, Meta(pattern=rf"\A(?!-){_COMPONENT}(?:/{_COMPONENT})*\Z", max_length=2 * _NAME)
]
"""The name that messages give to a part of an image: `library/python, layer 0123456789ab`; never that of a file."""

ProjectName: TypeAlias = Annotated[
    str, Meta(pattern=r"\A[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z", max_length=_NAME)
]
"""The name of a Python project (https://packaging.python.org/specifications/name-normalization/)."""

SourceName: TypeAlias = Annotated[str, Meta(pattern=r"\A[a-z0-9-]+\Z", max_length=_NAME)]
"""The name of a source: that of a project, normalized, or that of a repository in the same letters (`-work`)."""

Version: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9.+!~_:-]*\Z", max_length=_NAME)]
"""A version of Python, conda or Debian: the characters that the three grammars share, epochs among them."""

OptionalVersion: TypeAlias = Annotated[
    str, Meta(pattern=r"\A(?:[A-Za-z0-9][A-Za-z0-9.+!~_:-]*)?\Z", max_length=_NAME)
]
"""A version, or empty where it is not known before the build."""

Architecture: TypeAlias = Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9_-]*\Z", max_length=64)]
"""The name of a machine architecture: `amd64`, `x86_64`, `all`; or a directory of a channel: `linux-64`."""

Platform: TypeAlias = Annotated[str, Meta(pattern=r"\A[a-z0-9]+/[a-z0-9_]+(?:/[a-z0-9]+)?\Z", max_length=64)]
"""A platform of the OCI image specification: `linux/amd64`."""

Profile: TypeAlias = Annotated[str, Meta(pattern=r"\A[a-z0-9_-]+(?:,[a-z0-9_-]+)*\Z", max_length=_NAME)]
"""Names of profiles, with commas between."""

Kind: TypeAlias = Annotated[str, Meta(pattern=r"\A(?:[a-z0-9]+(?:-[a-z0-9]+)*)?\Z", max_length=64)]
"""A class of rulings, as `accept` names it; empty where there is none."""

PackageName: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9+._-]*\Z", max_length=_NAME)]
"""The name of a package of Debian or conda."""

CondaBuild: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.+-]+\Z", max_length=_NAME)]
"""The build of a package of conda: `py311h06a4308_0`, `py3.9_cuda11.8_cudnn8.7.0_0`."""

VariableName: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z", max_length=_NAME)]
"""The name of an environment variable that a shell can set."""

NamePattern: TypeAlias = Annotated[
    str, Meta(pattern=r"\A[^\s=\x00-\x1f\x7f-\x9f\u2028\u2029]+\Z", max_length=_NAME)
]
"""The name of an environment variable, or a pattern as a shell has it for several."""

AbsolutePath: TypeAlias = Annotated[
    str, Meta(pattern=rf"\A(?:/|(?:/{_LINUX_COMPONENT})+)\Z", max_length=_PATH)
]
"""An absolute path in an image without `.`, `..`, empty components and control characters."""

PlainPath: TypeAlias = Annotated[
    str, Meta(pattern=r"\A(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._+@-]+)+\Z", max_length=_PATH)
]
"""An absolute path of letters, digits and `._+@-`: it means the same in a shell, a Dockerfile and JSON."""

SourcePath: TypeAlias = Annotated[str, Meta(pattern=r"\A/src/[a-z0-9-]+\Z", max_length=5 + _NAME)]
"""Where a source stands in an image: below /src, by its name. The sandbox mounts the source there."""

WorkingFolder: TypeAlias = Annotated[
    str,
    Meta(pattern=rf"\A(?:/|(?!/(?:dev|proc|sys)(?:/|\Z))(?:/{_LINUX_COMPONENT})+)\Z", max_length=_PATH),
]
"""As `AbsolutePath`, but none among the kernel's own files."""

PlainWord: TypeAlias = Annotated[
    str, Meta(pattern=r"\A(?!-|\.\.?(?:/|\Z)|.*/\.\.?(?:/|\Z))[A-Za-z0-9._+@:/-]+\Z", max_length=_PATH)
]
"""A word that means the same in a shell, a Dockerfile and JSON: a path without `..`, or the name of a label."""

LibraryPath: TypeAlias = Annotated[str, Meta(pattern=rf"\A/{_LINE_OF}*\Z", max_length=_PATH)]
"""An absolute path as LD_PRELOAD has it, where `..` and double slashes are common. It is only looked up."""

RelativePath: TypeAlias = Annotated[
    str, Meta(pattern=rf"\A(?!-){_COMPONENT}(?:/{_COMPONENT})*\Z", max_length=_PATH)
]
"""A path below a directory, without `.`, `..`, empty components and control characters."""

OptionalRelativePath: TypeAlias = Annotated[
    str, Meta(pattern=rf"\A(?:(?!-){_COMPONENT}(?:/{_COMPONENT})*)?\Z", max_length=_PATH)
]
"""A path below a directory, or empty for the directory itself."""

MemberPath: TypeAlias = Annotated[
    str, Meta(pattern=rf"\A{_LINUX_COMPONENT}(?:/{_LINUX_COMPONENT})*\Z", max_length=_PATH)
]
"""The path of a file in a tar of this project."""

Reference: TypeAlias = Annotated[
    str, Meta(pattern=r"\A[A-Za-z0-9\[][A-Za-z0-9._:/@+\[\]-]*\Z", max_length=_LINE)
]
"""A reference to an image: registry, repository, tag and digest."""

Url: TypeAlias = Annotated[
    str,
    Meta(pattern=r"\A(?:https?|git\+https?|git\+ssh|git\+file|ssh|git|file)://[!-~]+\Z", max_length=_LINE),
]
"""An address of a scheme that this program fetches or repeats, without spaces."""

FileUrl: TypeAlias = Annotated[
    str, Meta(pattern=rf"\A(?:(?:(?i:https?|ftp)://|(?i:file):/){_LINE_OF}+)?\Z", max_length=_LINE)
]
"""The address of a file, or empty where only the store has it. Links on pages may hold spaces and other letters."""

RepositoryUrl: TypeAlias = Annotated[
    str, Meta(pattern=rf"\A(?:(?!-|[A-Za-z0-9+.-]*::){_LINE_OF}+)?\Z", max_length=_LINE)
]
"""The address of a repository as its user wrote it, or empty: an URL, `git@host:path`, a path. It is only repeated.

No option (`-`) and no transport helper (`ext::`, `fd::`) is one.
"""

Channel: TypeAlias = Annotated[str, Meta(pattern=rf"\A(?!-){_LINE_OF}+\Z", max_length=_LINE)]
"""The name or the address of a channel of conda. It is only repeated."""

Label: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._/+-]*\Z", max_length=_NAME)]
"""A word from a fixed vocabulary of another tool: a distribution, a release, a media type, a platform."""

Line: TypeAlias = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z", max_length=_LINE)]
"""One line of text without control characters, only displayed or quoted."""

Text: TypeAlias = Annotated[str, Meta(max_length=_TEXT)]
"""Free text that is only displayed, through the functions that make text safe to display."""

Value: TypeAlias = Annotated[str, Meta(pattern=r"\A[^\x00]*\Z", max_length=_TEXT)]
"""The value of an environment variable or an argument of a program: any text without NUL."""

Hex: TypeAlias = Annotated[str, Meta(pattern=r"\A[0-9A-Fa-f]*\Z", max_length=_LINE)]
"""Hexadecimal digits of any number: a fingerprint, an attribute of a file, a hash of another algorithm."""

Word: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9._-]*\Z", max_length=_NAME)]
"""A word of another program's own vocabulary: a setting, a key, the name of a part."""

NodeName: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z", max_length=253)]
"""The name of a node of a cluster; it begins the name of a file."""

Instant: TypeAlias = Annotated[str, Meta(pattern=r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")]
"""A time in UTC: `2026-07-11T10:16:37Z`."""

QuotedPath: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r'\A(?:[^"\\\x00-\x1f\x7f]*|"(?:[^"\\\x00-\x1f\x7f]|\\[abtnvfr"\\]|\\[0-3][0-7]{2})+")\Z',
        max_length=4 * _PATH + 2,
    ),
]
"""A path as git writes it: plain, or in C-style quotes. Empty for a directory itself."""

QuotedRelativePath: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r'\A(?!"?/)(?!"?(?:[^/]+/)*\.\.(?:["/]|\Z))'
        r'(?:[^"\\\x00-\x1f\x7f]*|"(?:[^"\\\x00-\x1f\x7f]|\\[abtnvfr"\\]|\\[0-3][0-7]{2})+")\Z',
        max_length=4 * _PATH + 2,
    ),
]
"""A path below a repository as git writes it. Escapes can spell `..`: the bytes are checked once more before use."""

RemoteAddress: TypeAlias = Annotated[
    str, Meta(pattern=r"\A(?!-)[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z", max_length=_LINE)
]
"""The address of a repository in any form that git has; never an option of git."""

Href: TypeAlias = Annotated[
    str, Meta(pattern=r"\A(?!-)[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z", max_length=_LINE)
]
"""An address in a page of an index, absolute or relative to the page."""

TreePath: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"\A(?:(?!\.{1,2}(?:/|\Z))[^/\x00]+(?:/(?!\.{1,2}(?:/|\Z))[^/\x00]+)*)?\Z", max_length=_PATH
    ),
]
"""A path of a Linux file system below its root, of any bytes but NUL. Empty for the root."""

LinkTarget: TypeAlias = Annotated[str, Meta(pattern=r"\A[^\x00]*\Z", max_length=_PATH)]
"""The text of a symbolic link, which may lead anywhere."""

MediaType: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9!#$&^_.+/;= -]*\Z", max_length=_NAME)]
"""A media type, or an empty text where a document states none."""

EncodedPath: TypeAlias = Annotated[str, Meta(pattern=r"\A/[!-~]*\Z", max_length=3 * _PATH)]
"""An absolute path, percent-encoded as in an address."""

OptionalAbsolutePath: TypeAlias = Annotated[
    str, Meta(pattern=rf"\A(?:/|(?:/{_LINUX_COMPONENT})*)\Z", max_length=_PATH)
]
"""As `AbsolutePath`, or empty where a document states none."""

CondaName: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.+!-]+\Z", max_length=_NAME)]
"""The name, the version or the build of a package of conda: a part of the name of its file."""

Key: TypeAlias = Annotated[str, Meta(max_length=4096)]
"""A key of a table that another program fills, only displayed or looked up."""

ShortLine: TypeAlias = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z", max_length=200)]
"""As `Line`, of at most 200 characters."""

BundlePath: TypeAlias = Annotated[
    str, Meta(pattern=rf"\A(?!-){_COMPONENT}(?:/{_COMPONENT}){{0,31}}\Z", max_length=1000)
]
"""As `RelativePath`, of a file in a bundle."""

ImageName: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._/:@-]{0,500}\Z")]
"""The name of an image as an engine takes it."""

Seed: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]
"""A seed: the generators of NumPy take 32 bits."""

Size: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 62)]
"""A number of bytes, lines or layers."""

Epoch: TypeAlias = Annotated[int, Meta(ge=0, le=253402300799)]
"""Seconds since 1970, to the end of the year 9999: the last that a date with four digits can tell."""


def is_valid(value: object, kind: Any) -> bool:
    """Return whether a value is valid for a type here.

    Args:
        value: any value.
        kind: the type.
    """
    try:
        decode_value(value, kind)
    except msgspec.ValidationError:
        return False
    return True
