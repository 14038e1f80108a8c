"""A distribution's `Packages` files: versions, needs and locations."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote

from debian.deb822 import Packages
from debian.debian_support import Version
from msgspec import Struct, structs

from reprobuild.ecosystems.apt.architectures import serves
from reprobuild.ecosystems.apt.relations import NAME, VERSION, Group, Relation, parse_relations
from reprobuild.errors import LockError
from reprobuild.lock.system import Artefact, dpkg_name

_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9.+~%:_-]*(/[A-Za-z0-9_][A-Za-z0-9.+~%:_-]*)*")
_PRIORITIES = ("required", "important", "standard", "optional")
_MULTI_ARCH = ("same", "foreign", "allowed")
_BREAKS = re.compile(rb"\n*")
_FIRST = re.compile(rb"^Package: *(\S+)", re.MULTILINE)
_ARCHITECTURE = re.compile(rb"\nArchitecture: *(\S+)")
_PROVIDES = re.compile(rb"^Provides: *(.+)", re.MULTILINE)
_WORD = re.compile(rb"(?:^|, *)([a-z0-9][a-z0-9+.-]+)")


class Candidate(Struct, frozen=True, kw_only=True):
    """A version of a package in an index.

    `key` is its name, or `NAME:ARCHITECTURE` for a foreign architecture. `needs` are its Pre-Depends and
    Depends, `excludes` its Conflicts and Breaks. `rank` orders by Priority: 0 for `required`. `automatic` is
    False for suites from which apt takes packages only on request (backports, proposed).
    """

    key: str
    name: str
    version: str
    architecture: str
    essential: bool
    needs: tuple[Group, ...]
    provides: tuple[Relation, ...]
    file: Artefact
    excludes: tuple[Relation, ...] = ()
    multi_arch: str = ""
    rank: int = 4
    automatic: bool = True

    def meets(self, relation: Relation) -> bool:
        """Return whether the package fulfils a relation.

        Its own name or its Provides count, on any architecture. An unversioned Provides fulfils only a
        relation without a version (Debian Policy 7.5).
        """
        if relation.name == self.name:
            return relation.allows(self.version)
        return any(
            provision.name == relation.name
            and (not relation.operator or (provision.operator == "=" and relation.allows(provision.version)))
            for provision in self.provides
        )


class PackagesFile(Struct, frozen=True, kw_only=True):
    """The text of a `Packages` file, and its base address.

    `Filename` fields are relative to that address.
    """

    uri: str
    content: bytes
    automatic: bool = True


def without_credentials(uri: str) -> str:
    """Return an address without user name and password."""
    plain = re.sub(r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@", r"\1", uri)
    return re.sub(r"^file:/(?!/)", "file:///", plain)  # both spellings occur


class SystemIndex:
    """The packages of one release for one machine.

    Stanzas are parsed on demand. Packages of foreign architectures have another name here: `zlib1g:i386`.

    Args:
        distribution: `debian`, `ubuntu`.
        release: its codename.
        files: the archives' files; if two list the same version, the first automatic one counts.
        architecture: the machine's own, in Debian's words; packages for all architectures count as it.
    """

    def __init__(
        self, distribution: str, release: str, files: Iterable[PackagesFile], architecture: str = "amd64"
    ) -> None:
        self.distribution = distribution
        self.release = release
        self.architecture = architecture
        self._stanzas: dict[str, list[tuple[PackagesFile, bytes]]] = {}
        self._essential: set[str] = set()
        self._provided: dict[str, set[str]] = {}
        self._foreign: set[str] = set()
        for file in files:
            self._read(file)
        self.versions = functools.lru_cache(maxsize=None)(self._versions)

    def with_files(self, files: Iterable[PackagesFile], *, over: bool = False) -> SystemIndex:
        """Return an index extended by the packages of more files.

        The former files are not read again. `over`: by default apt would take packages only from the new
        files.
        """
        former = {id(file): file for stanzas in self._stanzas.values() for file, _ in stanzas}
        by_id = {
            number: structs.replace(file, automatic=False) if over else file
            for number, file in former.items()
        }
        more = SystemIndex(self.distribution, self.release, (), self.architecture)
        more._stanzas = {
            key: [(by_id[id(file)], stanza) for file, stanza in stanzas]
            for key, stanzas in self._stanzas.items()
        }
        more._essential = set(self._essential)
        more._provided = {name: set(by) for name, by in self._provided.items()}
        more._foreign = set(self._foreign)
        for file in files:
            more._read(file)
        return more

    def find_stanza(self, candidate: Candidate) -> tuple[tuple[str, bytes], ...]:
        """Return address and paragraph of a package in an index.

        They are those of the first file that has it.
        """
        for file, stanza in self._stanzas.get(candidate.key, ()):
            entry = _parse_candidate(file, stanza, self.architecture)
            if (entry.version, entry.architecture) == (candidate.version, candidate.architecture):
                return ((without_credentials(file.uri), stanza),)
        return ()

    def _read(self, file: PackagesFile) -> None:
        for stanza in _split_stanzas(file.content):
            match = _FIRST.search(stanza)
            if not match:
                continue
            key = name = match[1].decode(errors="replace")
            of = _ARCHITECTURE.search(stanza)
            architecture = of[1].decode(errors="replace") if of else self.architecture
            if architecture not in (self.architecture, "all"):
                key = dpkg_name(name, architecture, self.architecture)
                self._foreign.add(architecture)
            elif b"\nEssential: yes" in stanza:
                self._essential.add(name)
            self._stanzas.setdefault(key, []).append((file, stanza))
            if line := _PROVIDES.search(stanza):
                for word in _WORD.findall(line[1]):
                    self._provided.setdefault(word.decode(), set()).add(key)

    @property
    def label(self) -> str:
        """The release as in an override, `debian/bookworm`."""
        return f"{self.distribution}/{self.release}"

    @property
    def essential(self) -> tuple[str, ...]:
        """The names of the packages marked `Essential: yes`, sorted."""
        return tuple(sorted(self._essential))

    @property
    def foreign(self) -> tuple[str, ...]:
        """The foreign architectures with packages, sorted."""
        return tuple(sorted(self._foreign))

    def _versions(self, key: str) -> tuple[Candidate, ...]:
        """Return all versions of a package, newest first.

        Raises:
            LockError: a stanza is damaged.
        """
        by_version: dict[str, Candidate] = {}
        for file, stanza in self._stanzas.get(key, ()):
            candidate = _parse_candidate(file, stanza, self.architecture)
            known = by_version.get(candidate.version)
            if known is None:
                by_version[candidate.version] = candidate
            elif candidate.automatic and not known.automatic:
                by_version[candidate.version] = structs.replace(known, automatic=True)
        return tuple(sorted(by_version.values(), key=lambda c: Version(c.version), reverse=True))

    def providers(self, name: str) -> tuple[str, ...]:
        """Return the providers of a name, by priority and name."""
        ranking = [(c.rank, c.key) for by in self._provided.get(name, ()) for c in self.versions(by)[:1]]
        return tuple(provider for _, provider in sorted(ranking))

    def serves(self, relation: Relation, wanting: str, offered: Candidate) -> bool:
        """Return whether a package fulfils a dependency on this system.

        Name, version and architecture must match.
        """
        return offered.meets(relation) and serves(
            relation.architecture, wanting, offered.architecture, offered.multi_arch, self.architecture
        )


def newest_candidate(candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the version that apt would install.

    It is the newest of an automatic suite, else the newest.
    """
    return next((c for c in candidates if c.automatic), candidates[0] if candidates else None)


def _parse_candidate(file: PackagesFile, stanza: bytes, native: str) -> Candidate:
    fields = Packages(stanza.decode(errors="replace").splitlines())
    where = without_credentials(file.uri)
    for field, pattern in (
        ("Package", NAME),
        ("Version", VERSION),
        ("Architecture", re.compile(r"[a-z0-9-]+")),
        ("Filename", _PATH),
        ("SHA256", re.compile(r"[0-9a-f]{64}")),
        ("Size", re.compile(r"[0-9]{1,15}")),
    ):
        if not pattern.fullmatch(fields.get(field, "").removeprefix("./")):
            raise LockError(
                f"the package index of {where} is damaged: {field} of {fields.get('Package')!r} is "
                f"{fields.get(field)!r}",
                hint="check that apt source of this machine, or remove it from apt's configuration",
            )
    path = fields["Filename"].removeprefix("./")
    priority = fields.get("Priority", "")
    excludes = parse_relations(fields.get("Conflicts", "")) + parse_relations(fields.get("Breaks", ""))
    multi_arch = fields.get("Multi-Arch", "")
    return Candidate(
        key=dpkg_name(fields["Package"], fields["Architecture"], native),
        name=fields["Package"],
        version=fields["Version"],
        architecture=fields["Architecture"],
        essential=fields.get("Essential", "") == "yes",
        needs=parse_relations(fields.get("Pre-Depends", "")) + parse_relations(fields.get("Depends", "")),
        provides=tuple(r for group in parse_relations(fields.get("Provides", "")) for r in group),
        excludes=tuple(relation for group in excludes for relation in group),
        multi_arch=multi_arch if multi_arch in _MULTI_ARCH else "",
        rank=_PRIORITIES.index(priority) if priority in _PRIORITIES else len(_PRIORITIES),
        automatic=file.automatic,
        file=Artefact(
            filename=path.rpartition("/")[2],
            sha256=fields["SHA256"],
            size=int(fields["Size"]),
            url=f"{where.rstrip('/')}/{quote(path, safe='/+~%:')}" if where else "",
        ),
    )


def _split_stanzas(content: bytes) -> Iterator[bytes]:
    """Yield the paragraphs of an index, however many empty lines are between them."""
    place = 0
    while place < len(content):
        if (end := content.find(b"\n\n", place)) < 0:
            end = len(content)
        yield content[place:end]
        breaks = _BREAKS.match(content, end)
        place = breaks.end() if breaks else len(content)
