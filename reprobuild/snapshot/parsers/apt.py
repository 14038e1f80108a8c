"""Parser of `apt-packages.txt`.

It reads the output of `apt list --installed`, in any language, or of `dpkg -l`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from debian.debian_support import Version

from reprobuild.infra.display import display_text
from reprobuild.snapshot import text
from reprobuild.snapshot.model import Mark, ParseNote, SourceLocation, SystemPackage

_ROW = re.compile(
    r"(?P<name>[^/\s]+)/(?P<suites>\S(?:.*\S)?)\s+(?P<version>\S+)\s+(?P<arch>[a-z0-9][a-z0-9-]+)"
    r"(?:\s+\[(?P<status>[^\]]*)\])?"
)
_DPKG = re.compile(
    r"(?P<state>[uihrp][ncHUFWti][R ]?)\s+(?P<name>\S+)\s+(?P<version>\S+)\s*(?P<arch>[a-z0-9][a-z0-9-]+)?(?:\s.*)?"
)
# The first line is translated: Desired=Unknown/Install/..., Gewünscht=Unbekannt/Installieren/...
_DPKG_HEAD = re.compile(r"[^\s=/]{1,40}\s?=[^=/]{1,60}/.*|\|[ /|].*|\+\+\+-[=-]*.*")
_RULER = re.compile(r"\+\+\+-(=+)-(=+)-(=+)-=+")
_COLUMNS = re.compile(r"\|\|/ Name\s+Version\s+(?P<third>\S+).*")
_LISTING = re.compile(r"\S+\s?(\.\.\.|…)(\s*\S+)?")
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_VERSION = re.compile(r"(?:\d+:)?[0-9A-Za-z][0-9A-Za-z.+~:-]*")

# apt translates the status. These are the stems of words that distinguish one status from another in its catalogues.
_STATUS: tuple[tuple[Mark, re.Pattern[str]], ...] = (
    ("residual", re.compile(r"config|konfig|конфиг|配置|設定|설정")),
    (
        "auto-removable",
        re.compile(
            r"auto-remov|autodesinst|(auto|авто).*(remov|supprim|удал|rimo)|entfern|卸载|移除|削除|удал"
        ),
    ),
    ("automatic", re.compile(r"auto|авто|自动|自動|자동|αυτ")),
    ("local", re.compile(r"lokal|local|locale|локал|本地|本機|ローカル|로컬")),
)
_ENGLISH = re.compile(
    r"installed(,(automatic|auto-removable|local|upgradable to: \S+))?|upgradable from: \S+|residual-config"
)

_Widths = tuple[int, int, int]  # of the columns of name, version and architecture
Read = tuple[tuple[SystemPackage, ...], tuple[ParseNote, ...]]


class _Status(NamedTuple):
    mark: Mark
    upgrade: str | None = None
    installed: bool = True
    sure: bool = True


def parse(data: bytes, file: str = "apt-packages.txt") -> Read:
    """Return the installed packages and remarks of a package list.

    Raises:
        SnapshotError: it is not text, or lists one package in two versions.
    """
    rows = text.decode_lines(data, file)
    packages: list[SystemPackage] = []
    remarks: list[ParseNote] = list(text.empty_file_remarks(file, rows))
    ruler = next((match for row in rows if (match := _RULER.fullmatch(row.strip()))), None)
    widths = (len(ruler[1]), len(ruler[2]), len(ruler[3])) if ruler else None
    old_layout = any((m := _COLUMNS.fullmatch(row.strip())) and m["third"] == "Description" for row in rows)
    for number, row in enumerate(rows, 1):
        line = row.strip()
        if not line:
            continue
        if len(line) > text.LONGEST_ROW:
            remarks.append(
                text.remark(file, number, line, "too long for a row of a package list", understood=False)
            )
            continue
        note = text.noise_remark(file, number, line) or text.secret_remark(file, number, line)
        items: list[SystemPackage | ParseNote] = (
            [note] if note else _parse_row(file, number, line, old_layout, widths)
        )
        for item in items:
            if isinstance(item, SystemPackage):
                packages.append(item)
            else:
                remarks.append(item)
    if any(_DPKG.match(package.text) for package in packages):
        first = next(package for package in packages if _DPKG.match(package.text))
        reason = "`dpkg -l` does not state which packages were only dependencies: all count as asked for"
        remarks.append(text.remark(file, first.place.line, first.text, reason))
    unique, repeated = _merge_duplicates(packages)
    return unique, (*remarks, *repeated)


def _parse_row(
    file: str, number: int, line: str, old_layout: bool, widths: _Widths | None
) -> list[SystemPackage | ParseNote]:
    return (
        _parse_dpkg_row(file, number, line, old_layout, widths)
        or _parse_apt_row(file, number, line)
        or [_other_row_remark(file, number, line)]
    )


def _parse_apt_row(file: str, number: int, line: str) -> list[SystemPackage | ParseNote]:
    match = _ROW.fullmatch(line)
    if not match:
        return []
    if match["status"] is None:
        return [text.remark(file, number, line, "a version that is on offer, not installed")]
    suites = tuple(dict.fromkeys(s.strip() for s in match["suites"].split(",") if s.strip() != "now"))
    status = read_status(match["status"])
    if not status.installed:
        reason = (
            "not installed: only its configuration is left"
            if status.mark == "residual"
            else "the version on offer"
        )
        return [text.remark(file, number, line, reason)]
    if not _is_valid_package(match["name"], match["version"]):
        return [
            text.remark(file, number, line, "not a name and version that Debian allows", understood=False)
        ]
    package = SystemPackage(
        place=SourceLocation(file, number),
        text=display_text(line),
        name=match["name"],
        version=match["version"],
        architecture=match["arch"],
        mark=status.mark,
        suites=suites,
        upgrade=status.upgrade,
    )
    if status.sure:
        return [package]
    return [
        package,
        text.remark(file, number, line, "a status in words that are not known: counted as asked for"),
    ]


def read_status(status: str) -> _Status:
    """Return the status in the brackets.

    It is read in English, or by the stems of other languages.
    """
    parts = [part.strip().lower() for part in re.split(r"[,，、]", status, maxsplit=1)]
    offered = re.search(r"[:：]\s*(\S+)$", status)
    if offered and len(parts) == 2:
        upgrade = offered[1] if _VERSION.fullmatch(offered[1]) else None
        return _Status("upgradable", upgrade, sure=upgrade is not None)
    if offered:
        return _Status("upgradable", installed=False)
    for mark, stem in _STATUS:
        if stem.search(parts[-1] if mark != "residual" else " ".join(parts)):
            return _Status(mark, installed=mark != "residual")
    # One word alone is "installed" in every language; an unknown second word is not guessed.
    return _Status("manual", sure=len(parts) == 1 or bool(_ENGLISH.fullmatch(status)))


def _parse_dpkg_row(
    file: str, number: int, line: str, old_layout: bool, widths: _Widths | None
) -> list[SystemPackage | ParseNote]:
    match = _DPKG.fullmatch(line)
    if not match or "/" in match["name"]:
        return []
    want, state = match["state"][0], match["state"][1]
    name, _, qualifier = match["name"].partition(":")
    if state == "n":
        return [text.remark(file, number, line, "known to dpkg, not installed")]
    if state == "c":
        return [text.remark(file, number, line, "not installed: only its configuration is left")]
    if state != "i" or match["state"][2:].strip():
        return [
            text.remark(file, number, line, "half installed: repair it before capturing", understood=False)
        ]
    if old_layout or match["arch"] is None:
        return [
            text.remark(file, number, line, "an old `dpkg -l` that cuts names and versions", understood=False)
        ]
    if _may_be_truncated(match, widths):
        reason = "its name or version fills the column, and this `dpkg -l` cuts what does not fit: not read"
        return [text.remark(file, number, line, reason, understood=False)]
    if not _is_valid_package(name, match["version"]):
        return [
            text.remark(file, number, line, "not a name and version that Debian allows", understood=False)
        ]
    return [
        SystemPackage(
            place=SourceLocation(file, number),
            text=display_text(line),
            name=name,
            version=match["version"],
            architecture=qualifier or match["arch"],
            mark="manual",
        )
    ] + ([text.remark(file, number, line, "marked for removal, still installed")] if want in "rp" else [])


def _may_be_truncated(match: re.Match[str], widths: _Widths | None) -> bool:
    """Return whether a row may hold a cut name or version.

    dpkg 1.16 and 1.17 cut at widths that follow from the terminal's: 14, 12 and 12 for 80 columns, and of each further
    column a quarter, an eighth and an eighth (`list_format_init` in dpkg's src/querycmd.c). Later versions make the
    columns as wide as the longest name and version. Without a header, the row's own columns show the widths.
    """
    name, version, arch = (match.start(group) for group in ("name", "version", "arch"))
    if widths is None:
        widths = (version - name - 1, arch - version - 1, 12)
        if widths[:2] != (14, 12):
            return False
    proportional = widths[1] == widths[2] and abs((widths[0] - 14) - 2 * (widths[1] - 12)) <= 1
    full = len(match["name"]) >= widths[0] or len(match["version"]) >= widths[1]
    return proportional and full


def _other_row_remark(file: str, number: int, line: str) -> ParseNote:
    if line.startswith("#"):
        return text.remark(file, number, line, "a comment")
    if _LISTING.fullmatch(line) or _DPKG_HEAD.fullmatch(line):
        return text.remark(file, number, line, "a header")
    if line.startswith(("WARNING:", "N: ", "W: ", "Warning:", "Notice:")):
        return text.remark(file, number, line, "a notice of apt")
    return text.remark(file, number, line, "not a row of `apt list` or `dpkg -l`", understood=False)


def _is_valid_package(name: str, version: str) -> bool:
    if not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):
        return False
    try:
        Version(version)
    except ValueError:
        return False
    return True


def _merge_duplicates(
    packages: list[SystemPackage],
) -> tuple[tuple[SystemPackage, ...], tuple[ParseNote, ...]]:
    by_name: dict[tuple[str, str], SystemPackage] = {}
    repeated: list[ParseNote] = []
    for package in packages:
        first = by_name.setdefault((package.name, package.architecture), package)
        if first is package:
            continue
        if first.version != package.version:
            raise text.parse_error(
                package.place,
                f"`{package.name}:{package.architecture}` is {package.version} here and {first.version} at "
                f"{first.place}",
                "a machine has one version of it: keep the list of the machine that ran",
            )
        repeated.append(
            text.remark(package.place.file, package.place.line, package.text, f"repeats {first.place}")
        )
    return tuple(by_name.values()), tuple(repeated)
