"""An image as facts.

They are its configuration, the lists of dpkg, pip and conda in it, and the runtime files. Only statements of
the image itself are read; it is not run. The Python is chosen as a shell would: the first `python3` on the
image's PATH.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from reprobuild.compare.environments import conda
from reprobuild.compare.environments.addresses import hash_cut_address
from reprobuild.compare.environments.model import (
    CutPlace,
    Environment,
    EnvironmentBuilder,
    Kind,
    normalise_name,
    python_series,
)
from reprobuild.compare.environments.origin import archive_origin
from reprobuild.compare.environments.snapshot import release_aspects
from reprobuild.compare.images.dpkg_status import LARGEST_STATUS, read_status
from reprobuild.compare.images.scan import Known, Scanned, fetch_contents, scan_image
from reprobuild.image.oci.open import OciImage
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.lock.system import FILES
from reprobuild.recipe.image_config import DEFAULTS
from reprobuild.recipe.runtime_config import variables_of

# Maximum bytes of the metadata of a distribution, of a JSON object or a list of settings, and of all files.
LARGEST = 32 << 20
LARGEST_OBJECT = 1 << 20
MOST = 512 << 20
MOST_SITES = 16
HEAD = 1 << 16  # bytes of the metadata of a distribution, which begin with name and version
# Bytes that are parsed, counted for each path: an image can have thousands of hard links to a file of a megabyte.
MOST_PARSED = 256 << 20
TOO_LARGE = "{} has a file that is too large to be one of its lists"
TOO_MUCH = "{} has a file that was not read, since others of its lists are too large"
_STATUS = "var/lib/dpkg/status"
_RELEASES = ("etc/os-release", "usr/lib/os-release")
_ENVIRON = f"{FILES[1:]}/environ.json"
_KINDS: Mapping[str, Kind] = {
    _STATUS: "system", _ENVIRON: "environment", **dict.fromkeys(_RELEASES, "system")
}  # fmt: skip
_TOLD = ("/METADATA", "/PKG-INFO", "/direct_url.json")
_SOURCES = f"{FILES[1:]}/sources/"
_INFO = re.compile(r"(?P<project>[^/]+?)-(?P<version>[^/-]+)(-py[\d.]+)?\.(dist|egg)-info")
_RELEASE = re.compile(r'(?m)^([A-Z_]{1,40})="?([^"\n]{0,200})"?$')
_HEAD_END = re.compile(rb"(?m)^[ \t\r]*$")
_STATED = re.compile(r"(?im)^(name|version):(.*)$")
_FULL = re.compile(r"\d+\.\d+\.\d+\S*")


class _Read:
    """The small files of an image that describe its environment."""

    def __init__(self, scanned: Scanned, scratch: Path, variables: Mapping[str, str]) -> None:
        self.tree, self._scratch = scanned.tree, scratch
        self.prefix = _find_prefix(self.tree, variables)
        self.sites = _site_directories(self.tree, self.prefix) if self.prefix is not None else []
        budget, digests = MOST, set()
        self._left = MOST_PARSED
        self.unread: list[str] = []
        self.skipped: list[str] = []
        for path in sorted(self._paths()):
            entry = self._file(path)
            if entry and entry.size <= min(_largest_size(path), budget) and entry.sha256 not in digests:
                digests.add(entry.sha256)
                budget -= entry.size
            elif entry and entry.sha256 not in digests:
                self.unread.append(path)
        fetch_contents(scanned, digests, scratch)

    def _paths(self) -> Iterator[str]:
        fixed = {_STATUS, *_RELEASES, _ENVIRON, f"{self.prefix}/pyvenv.cfg"}
        for path in self.tree:
            is_source = path.startswith(_SOURCES) and path.endswith(".json")
            if path in fixed or is_source or (path.endswith(_TOLD) and path.startswith(tuple(self.sites))):
                yield path

    def _file(self, path: str) -> TarEntry | None:
        """Return the file at a path, resolving a hard link.

        uv makes such links.
        """
        entry = self.tree.get(path)
        if entry is not None and entry.type == "hardlink":
            entry = self.tree.get(entry.target)
        return entry if entry is not None and entry.type == "file" else None

    def __call__(self, path: str, most: int = LARGEST) -> bytes | None:
        """Return the content of a file up to a length, or None.

        None means that it is missing or too large.
        """
        entry = self._file(path)
        if entry is None:
            return None
        file, size = self._scratch / entry.sha256, min(entry.size, most)
        if size > self._left:
            self.skipped.append(path)
            return None
        if not file.is_file():
            return None
        self._left -= size
        with file.open("rb") as stream:
            return stream.read(size)

    def object(self, path: str) -> Mapping[str, Any]:
        """Return a JSON object of the image, {} if missing."""
        try:
            value = json.loads(self(path) or b"{}")
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}


def _largest_size(path: str) -> int:
    """Return the maximum bytes of the file at a path.

    The objects that a parser makes can need forty times the bytes of the file.
    """
    if path == _STATUS:
        return LARGEST_STATUS
    return LARGEST if path.endswith(("/METADATA", "/PKG-INFO")) else LARGEST_OBJECT


def from_image(opened: OciImage, scratch: Path) -> Environment:
    """Return the facts of an image.

    Args:
        opened: the image.
        scratch: an empty directory.

    Raises:
        BuildError: a layer is damaged, or differs from the image's statements.
    """
    variables = dict(variables_of(opened.runtime))
    read, gathered = _Read(scan_image(opened, Known()), scratch, variables), EnvironmentBuilder()
    if opened.config_digest or opened.config:  # else it states none
        special = {k: v for k, v in read.object(_ENVIRON).items() if isinstance(v, str)}
        gathered.variables({**variables, **special}.items())
    cut = _add_python(gathered, read, variables) if read.prefix is not None else {}
    for path in read.unread:
        gathered.doubt(_KINDS.get(path, "python"), TOO_LARGE, f"/{path}", "hidden")
    if (content := read(_STATUS)) is not None:
        _add_system(gathered, content)
    _add_sources(gathered, read)
    text = next((content for path in _RELEASES if (content := read(path))), b"").decode("utf-8", "replace")
    for path in read.skipped:
        gathered.doubt(_KINDS.get(path, "python"), TOO_MUCH, f"/{path}", "hidden")
    if text:
        gathered.add("release", "system", release_aspects(dict(_RELEASE.findall(text))))
    # A source that was not installed as editable left no trace of its repository.
    unlisted: dict[Kind, frozenset[str]] = {"source": frozenset(gathered.known.get("python", ()))}
    return Environment(
        name=opened.name, form=f"image, {opened.form}", known=gathered.known, unlisted=unlisted,
        doubled=gathered.doubled, repeats=frozenset(gathered.repeats), doubts=gathered.doubts, cut=cut,
    )  # fmt: skip


def _find_prefix(tree: Mapping[str, TarEntry], variables: Mapping[str, str]) -> str | None:
    """Return the prefix of the first Python on PATH.

    It is the parent of that bin/, without slashes around it.
    """
    # A squashfs states no PATH; in an image of ours, the environment has a fixed path.
    for folder in (variables.get("PATH") or DEFAULTS["PATH"]).split(":"):
        bare = folder.strip("/")
        if (bare == "bin" or bare.endswith("/bin")) and any(
            f"{bare}/{name}" in tree for name in ("python3", "python")
        ):
            return bare[: -len("/bin")]
    return None


def _site_directories(tree: Mapping[str, TarEntry], prefix: str) -> list[str]:
    """Return the directories of distributions below a prefix.

    Each ends in a slash; Debian has several.
    """
    above = re.escape(f"{prefix}/" if prefix else "")
    pattern = re.compile(rf"({above}(?:local/)?lib(?:64)?/python3(?:\.\d+)?/(?:site|dist)-packages/)[^/]")
    sites = {match[1] for path in tree if "-packages/" in path and (match := pattern.match(path))}
    # In the order of Debian's sys.path; a malicious image may have thousands.
    return sorted(sites, key=lambda site: ("/local/" not in site, site))[:MOST_SITES]


def _add_python(
    gathered: EnvironmentBuilder, read: _Read, variables: Mapping[str, str]
) -> dict[CutPlace, tuple[str, ...]]:
    """Add interpreter and distributions, and return the digests of the addresses that were cut."""
    gathered.begin("python")
    cut: dict[CutPlace, tuple[str, ...]] = {}
    for info in _list_metadata(read):
        folder, _, name = info.rpartition("/")
        match = _INFO.fullmatch(name)
        if match is None:
            continue
        metadata = _parse_metadata(read(f"{info}/METADATA", HEAD) or read(f"{info}/PKG-INFO", HEAD) or b"")
        named = normalise_name(metadata.get("name") or match["project"])
        record = read.object(f"{info}/direct_url.json")
        origin, sha256 = archive_origin(record)
        if origin and named not in gathered.known["python"]:
            digest = hash_cut_address(record["url"])
            if digest is not None:
                cut["python", named, "origin"] = (digest,)
        version = metadata.get("version") or match["version"]
        gathered.add("python", named, {"version": version, "origin": origin, "sha256": sha256})
        vcs = record.get("vcs_info")
        if isinstance(vcs, dict) and isinstance(vcs.get("commit_id"), str):
            gathered.add("source", named, {"commit": vcs["commit_id"]})
    folder = f"{read.prefix}/conda-meta/".lstrip("/")
    names = [path[len(folder) :] for path in read.tree if path.startswith(folder) and path.endswith(".json")]
    packages = [package for name in sorted(names) if (package := conda.parse_filename(name))]
    if packages:
        conda.add(gathered, packages)
    version = _interpreter_version(read, variables, packages)
    if version:
        full = version if _FULL.fullmatch(version) else None
        gathered.add("interpreter", "python", {"version": full, "series": python_series(version)})
    return cut


def _list_metadata(read: _Read) -> Iterator[str]:
    """Yield the .dist-info and .egg-info paths, in Python's path order."""
    infos: dict[str, dict[str, None]] = {site: {} for site in read.sites}
    for path in read.tree:
        if "-info" in path:
            for site in read.sites:
                if path.startswith(site):
                    infos[site][path[: len(site)] + path[len(site) :].partition("/")[0]] = None
    for paths in infos.values():
        yield from paths


def _parse_metadata(content: bytes) -> dict[str, str]:
    """Return name and version of the core metadata.

    Its head ends at the first empty line.
    """
    end = _HEAD_END.search(content)
    head = content[: end.start() if end else len(content)].decode("utf-8", "replace")
    fields: dict[str, str] = {}
    for stated in _STATED.finditer(head):
        fields.setdefault(stated[1].lower(), stated[2].strip())
    return fields


def _interpreter_version(read: _Read, variables: Mapping[str, str], packages: list[conda.CondaBuild]) -> str:
    """Return the interpreter's version, its X.Y, or ""."""
    settings = (read(f"{read.prefix}/pyvenv.cfg") or b"").decode("utf-8", "replace")
    for line in settings.splitlines():
        key, _, value = line.partition("=")
        if key.strip() in ("version", "version_info") and _FULL.fullmatch(value.strip()):
            return ".".join(value.strip().split(".")[:3])
    for package in packages:
        if package.name == "python":
            return package.version
    if read.prefix == "usr/local" and _FULL.fullmatch(variables.get("PYTHON_VERSION", "")):
        return variables["PYTHON_VERSION"]  # of Docker's official images
    versions = sorted({match[1] for site in read.sites if (match := re.search(r"python(3\.\d+)/", site))})
    return versions[0] if len(versions) == 1 else ""


def _add_system(gathered: EnvironmentBuilder, content: bytes) -> None:
    """Add the installed packages of dpkg's status file."""
    status = read_status(io.BytesIO(content))
    gathered.packages((p.name, p.version, p.architecture, "") for p in status.packages if p.is_installed)
    if not status.is_complete:
        gathered.doubt("system", TOO_LARGE, f"/{_STATUS}", "hidden")


def _add_sources(gathered: EnvironmentBuilder, read: _Read) -> None:
    """Add the sources that our own images declare."""
    gathered.begin("source")
    for path in sorted(path for path in read.tree if path.startswith(_SOURCES) and path.endswith(".json")):
        record = read.object(path)
        name, commit, tree = record.get("name"), record.get("commit"), record.get("tree")
        if name and isinstance(name, str) and isinstance(commit, str) and isinstance(tree, str):
            installed = normalise_name(name) in gathered.known.get("python", {})
            kind, shown = ("source", normalise_name(name)) if installed else ("job", name)
            gathered.add(cast(Kind, kind), shown, {"commit": commit, "tree": tree})
