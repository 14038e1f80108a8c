"""Parser of `conda list` in all its forms.

It also reads `conda list --explicit` and `conda list --export`.

The form of each line is recognised, so a file may hold several, with other text around them.
`environment_yml` reads YAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

from reprobuild.infra.display import display_text, escape_text
from reprobuild.snapshot import text
from reprobuild.snapshot.model import CapturedCondaPackage, ParseNote, SourceLocation
from reprobuild_portable import secrets

NAME = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
# conda's versions hold no dash: https://docs.conda.io/projects/conda-build/en/stable/resources/package-spec.html. Those
# of pip in the same lists may (0.1.1-2209072238).
VERSION = r"[0-9A-Za-z][0-9A-Za-z_.+!]*"
_WIDE = r"[0-9A-Za-z][0-9A-Za-z_.+!~-]*"
_BUILD = r"[0-9A-Za-z_][0-9A-Za-z_.+]*"
# The reason of a remark on a package that a file asks conda for, where no file says what conda installed.
ASKED = "it says what was asked for, and no file beside it what was installed"
# That of a remark on a variable in an environment.yml, and why an import leaves them out.
VARIABLES = "a variable of the environment: not read"
VARIABLES_CUT = "conda's own variables are not read, and may be secrets"
PYPI = "pypi"

_FILE = re.compile(rf"(?P<name>{NAME})-(?P<version>{VERSION})-(?P<build>{_BUILD})(\.tar\.bz2|\.conda|\.json)")
_ADDRESS = re.compile(r"(?P<url>[a-z][a-z0-9+.-]*://[^\s#]+)(#(?P<hash>\S*))?")
_ROW = re.compile(
    rf"(?P<name>{NAME})\s+(?P<version>(?=\S*\d){_WIDE})\s+(?P<build><pip>|{_BUILD})(\s+(?P<channel>\S+))?"
)
_EXPORT = re.compile(rf"(?P<name>{NAME})={{1,2}}(?P<version>{VERSION})(=(?P<build>{_BUILD}))?")
_EXPORT_PIP = re.compile(rf"(?P<name>{NAME})={{1,2}}(?P<version>{_WIDE})=(?P<build>pypi_0|<pip>)")
_SHORT = re.compile(rf"(?P<name>{NAME})-(?P<version>\d[0-9A-Za-z_.+!]*)")
_HEAD = re.compile(
    r"(# |List of )?packages in environment( at)?\b.*|#?\s*Name\s+Version\s+Build(\s+Channel)?|[─━-]{3}[─━ -]*"
)
_TYPED = re.compile(r"[^=]{0,200}\b(conda|mamba|micromamba) (list|env export)\b.*")
# The channel in a row, or its last word. A login may hold a blank.
_CHANNEL = re.compile(r"(?:\A|\s)(\S+://.*|\S+\Z)")
_HASH = re.compile(r"#(md5:|sha256:)?[0-9A-Fa-f]{32,64}\Z")
PLATFORM = r"(noarch|(linux|osx|win|emscripten|wasi|freebsd|zos)-\w+)"
_FILE_OF_CHANNEL = re.compile(rf"(/{PLATFORM})?/[\w.+!%-]+\.(tar\.bz2|conda|json)\Z")
_FAILED = re.compile(r"([A-Z]\w*(Error|NotFound|Exception)|Error|ERROR|error|critical)\b.*")

Read = tuple[tuple[CapturedCondaPackage, ...], tuple[ParseNote, ...]]


def parse(data: bytes, file: str = "conda-list.txt") -> Read:
    """Return the packages and remarks of a list of conda's.

    Raises:
        SnapshotError: it is not text, or lists one package in two versions.
    """
    rows = text.decode_lines(data, file)
    packages: list[CapturedCondaPackage] = []
    remarks: list[ParseNote] = list(text.empty_file_remarks(file, rows))
    commented = _is_commented_out(rows)
    for number, row in enumerate(rows, 1):
        line = row.strip()
        if commented:
            line = line.removeprefix("#").strip()
        if not line:
            if row.strip():
                remarks.append(text.remark(file, number, row, "a comment"))
            continue
        if len(line) > text.LONGEST_ROW:
            remarks.append(
                text.remark(file, number, line, "too long for a line of conda's", understood=False)
            )
            continue
        bare, cut = secrets.strip_credentials(line) if "://" in line else (line, False)
        if note := _extra_row_remark(file, number, bare):
            remarks.append(note)
        elif (package := _parse_row(file, number, bare)) and _has_secret(package):
            reason = "a secret in a list that should hold none: not read"
            remarks.append(text.remark(file, number, unquote(bare), reason, understood=False))
        elif package:
            packages.append(package)
            if cut:
                remarks.append(text.remark(file, number, bare, "the address held a credential, removed"))
        else:
            remarks.append(text.remark(file, number, line, "not a line that conda writes", understood=False))
    distinct, repeated = merge_duplicates(packages)
    return distinct, (*remarks, *repeated)


def find_channel(row: str) -> str:
    """Return the whole channel of the package in a row; an address has its other parts, too, such as a query.

    It may hold a login: it may be compared, and neither shown nor kept.
    """
    match = _CHANNEL.search(row.strip())
    return _FILE_OF_CHANNEL.sub("", _HASH.sub("", match[1])) if match else ""


def is_explicit(data: bytes) -> bool:
    """Return whether a file of an unknown name is an explicit list.

    Such a list begins with `@EXPLICIT`, after comments.
    """
    head = data[:20_000].lstrip(b"\xef\xbb\xbf").split(b"\n")
    first = next((line.strip() for line in head if line.strip() and not line.startswith(b"#")), b"")
    return first == b"@EXPLICIT"


def _is_commented_out(rows: list[str]) -> bool:
    """Return whether the whole list is commented out.

    Even conda's own comments have two marks then.
    """
    written = [row.strip() for row in rows if row.strip()]
    return all(row.startswith("#") for row in written) and any(
        re.match(r"#\s*#\s*(packages in environment|Name\s)", row) for row in written
    )


def _extra_row_remark(file: str, number: int, line: str) -> ParseNote | None:
    """Return the remark on a line without a package, or None."""
    if _HEAD.fullmatch(line):
        return text.remark(file, number, line, "a header")
    if line == "@EXPLICIT":
        return text.remark(file, number, line, "the mark of an explicit list")
    if line.startswith("#"):
        return text.remark(file, number, line, "a comment")
    if line.startswith(("WARNING", "Warning:", "warning")):
        return text.remark(file, number, line, "a warning of conda")
    if note := text.noise_remark(file, number, line):
        return note
    if _TYPED.fullmatch(line):
        return text.remark(file, number, line, "the command that was typed")
    if _FAILED.fullmatch(line) and not _ROW.fullmatch(line):
        return text.remark(file, number, line, "the capture command failed", understood=False)
    return text.secret_remark(file, number, line)


def _parse_row(file: str, number: int, line: str) -> CapturedCondaPackage | None:
    if match := _ADDRESS.fullmatch(line):
        return parse_package_url(file, number, line, match["url"], match["hash"] or "")
    if match := _FILE.fullmatch(line.partition("#")[0]):  # the capture knew no address
        return make_package(file, number, line, match["name"], match["version"], build=match["build"],
                       **_hash_fields(line.partition("#")[2]))  # fmt: skip
    if match := _ROW.fullmatch(line):
        build, channel = match["build"], match["channel"]
        by_pip = build in ("<pip>", "pypi_0")
        return make_package(
            file, number, line, match["name"], match["version"], build=None if by_pip else build,
            channel=PYPI if by_pip else channel and escape_text(channel),
        )  # fmt: skip
    if match := _EXPORT_PIP.fullmatch(line):
        return make_package(file, number, line, match["name"], match["version"], channel=PYPI)
    if match := _EXPORT.fullmatch(line):
        return make_package(file, number, line, match["name"], match["version"], build=match["build"])
    if match := _SHORT.fullmatch(line):
        return make_package(file, number, line, match["name"], match["version"])
    return None


def parse_package_url(
    file: str, number: int, line: str, url: str, digest: str
) -> CapturedCondaPackage | None:
    """Return the package of an address, or None if it is not one of a package.

    Args:
        file: the name of the captured file.
        number: of the line, from 1.
        line: the line, without credentials.
        url: the address, without credentials.
        digest: md5 or sha256 in hex, or "".
    """
    above, _, name = (unquote(part) for part in url.rpartition("/"))  # split first: `%2F` is no slash
    match = _FILE.fullmatch(name)
    if not match or not url.isprintable():
        return None
    channel, _, platform = above.rpartition("/")
    known = re.fullmatch(PLATFORM, platform)
    return make_package(
        file, number, line, match["name"], match["version"], build=match["build"],
        channel=channel if known else None, url=url, **_hash_fields(digest),
    )  # fmt: skip


def _has_secret(package: CapturedCondaPackage) -> bool:
    """Return whether a package has a secret, also a percent-encoded one."""
    values = (package.name, package.version, package.build or "", package.channel or "", package.url or "")
    return any(map(secrets.secret_value, (*values, *map(unquote, values))))


def _hash_fields(digest: str) -> dict[str, str]:
    bare = digest.lower().removeprefix("sha256:").removeprefix("md5:")
    if re.fullmatch(r"[0-9a-f]{32}", bare):
        return {"md5": bare}
    return {"sha256": bare} if re.fullmatch(r"[0-9a-f]{64}", bare) else {}


def make_package(
    file: str, number: int, line: str, name: str, version: str, *, build: str | None = None,
    channel: str | None = None, url: str | None = None, md5: str | None = None, sha256: str | None = None,
) -> CapturedCondaPackage:  # fmt: skip
    """Return the package of one line; its text may be printed."""
    return CapturedCondaPackage(
        place=SourceLocation(file, number), text=display_text(line), name=name, version=version, build=build,
        channel=channel, url=url, md5=md5, sha256=sha256,
    )  # fmt: skip


def merge_duplicates(packages: Iterable[CapturedCondaPackage]) -> Read:
    """Return each package once, and remarks on repetitions.

    Packages of pip and of conda are separate: both may have one name, and pip's then overrides conda's.

    Raises:
        SnapshotError: one package has two versions, builds or hashes.
    """
    by_name: dict[tuple[str, bool], CapturedCondaPackage] = {}
    repeated: list[ParseNote] = []
    for conda_package in packages:
        first = by_name.setdefault((conda_package.name.lower(), conda_package.channel == PYPI), conda_package)
        if first is conda_package:
            continue
        builds = {first.build, conda_package.build} - {None}
        for hash_name in ("md5", "sha256"):
            if len({getattr(first, hash_name), getattr(conda_package, hash_name)} - {None}) > 1:
                raise text.parse_error(
                    conda_package.place,
                    f"the {hash_name} of conda's `{conda_package.name}` is another one than at {first.place}",
                    "keep the line of the file that was installed",
                )
        if first.version != conda_package.version or len(builds) > 1:
            raise text.parse_error(
                conda_package.place,
                f"conda's `{conda_package.name}` is {version_and_build(conda_package)} here and "
                f"{version_and_build(first)} at {first.place}",
                "these are of two environments: keep the list of the one that ran",
            )
        repeated.append(
            text.remark(
                conda_package.place.file,
                conda_package.place.line,
                conda_package.text,
                f"repeats {first.place}",
            )
        )
    return tuple(by_name.values()), tuple(repeated)


def version_and_build(conda_package: CapturedCondaPackage) -> str:
    """Return version and build in the form of `conda list --export`."""
    return conda_package.version + (f"={conda_package.build}" if conda_package.build else "")
