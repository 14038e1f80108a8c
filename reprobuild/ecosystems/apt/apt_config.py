"""The only module that talks to apt: which sources this machine has, and what they hold now.

Nothing of the system is changed: apt runs with a configuration, lists and cache of its own in a folder
that the caller gives, as any user.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from debian.deb822 import Deb822
from msgspec import Struct

from reprobuild.ecosystems.apt.index import PackagesFile, SystemIndex, without_credentials
from reprobuild.errors import FetchError, LockError
from reprobuild.infra.proc import run
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.infra.proc.programs import which
from reprobuild.infra.untrusted.regular_files import read_plain

# Suites that apt takes nothing from unasked (`NotAutomatic: yes` in their Release files).
_NOT_AUTOMATIC = ("-backports", "-backports-sloppy", "-proposed", "-proposed-updates")
# Names that point to another release every few years; the Release file tells which.
_MOVING = re.compile(r"(old){0,3}stable(-.*)?|testing(-.*)?")
# Options of a source entry that decide what is trusted; sources.list(5) gives both spellings.
_OPTIONS = {
    "signed-by": "Signed-By",
    "trusted": "Trusted",
    "check-valid-until": "Check-Valid-Until",
    "check-date": "Check-Date",
    "date-max-future": "Date-Max-Future",
    "allow-insecure": "Allow-Insecure",
    "allow-weak": "Allow-Weak",
    "allow-downgrade-to-insecure": "Allow-Downgrade-To-Insecure",
    "by-hash": "By-Hash",
    "inrelease-path": "InRelease-Path",
}
# What is taken over from the machine's apt: how to reach and to trust its sources.
_KEEP = re.compile(
    r"(Acquire::[^ ]*|Dir|Dir::Etc|Dir::Etc::(netrc|netrcparts|trusted|trustedparts)|Dir::Bin::[^ ]*)"
    r' "[^"\n]*";'
)
_ANSWER_SECONDS = 60  # what apt says of its configuration is on this disk
_CONFIG = "apt.conf"
_SOURCES = "reprobuild.sources"
_ARCHITECTURE = re.compile(r"[a-z0-9-]+")
_CREDENTIALS = re.compile(r"//[^/@\s]+@")
_SETTINGS = """
Dir::Etc::Parts "/dev/null";
Dir::Etc::Main "/dev/null";
Dir::Etc::SourceList "{folder}/{sources}";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State "{folder}/state";
Dir::State::Lists "{folder}/state/lists";
Dir::State::status "{folder}/state/status";
Dir::Cache "{folder}/cache";
Dir::Log "{folder}/log";
APT::Architecture "{architecture}";
APT::Architectures {{ {architectures} }};
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::GzipIndexes "false";
Acquire::Languages {{ "none"; }};
Acquire::Retries "3";
"""
# apt as root would write its parsed cache into the system.
_NO_CACHE = ("-oDir::Cache::pkgcache=", "-oDir::Cache::srcpkgcache=")
_HINT = (
    "give this machine's apt a source for that release, say `base: DISTRIBUTION/RELEASE` for one that it "
    "has, or lock on a machine or in a container of that release"
)
# Of an unpacked index; the largest of Debian has some 60 million bytes. Of a file of sources people write lines.
_LARGEST_LIST, _LARGEST_SOURCES = 1 << 30, 4 << 20


class AptTarget(Struct, frozen=True, kw_only=True):
    """One `Packages` file that apt knows of; `entry` is the file and the number of its source entry."""

    uri: str
    release: str
    codename: str
    component: str
    path: str
    entry: str

    def belongs(self, codename: str) -> bool:
        """Tell whether it is of the release or of one of its pockets (`-updates`, `-security`, ...)."""
        return any(
            name == codename or name.startswith((f"{codename}-", f"{codename}/"))
            for name in (self.release, self.codename)
        )


def configured_index(
    distribution: str,
    codename: str,
    *,
    env: Mapping[str, str],
    folder: Path,
    architecture: str = "amd64",
    foreign: Sequence[str] = (),
) -> SystemIndex:
    """Fetch and read the package lists of one release from the sources that this machine's apt names.

    Args:
        distribution: `debian`, `ubuntu`: only for the words of an error and the index's label.
        codename: the release, `bookworm`.
        env: the environment for apt; `APT_CONFIG` in it is honoured.
        folder: a folder for apt's own files; with it kept, the next call fetches only what changed.
        architecture: in Debian's words.
        foreign: other architectures of which packages are needed. They are asked of the same sources, whether this
            machine's apt is set up for them or not; a source that does not have one is passed over.

    Raises:
        LockError: no apt here, or no source for the release.
        FetchError: the lists cannot be had.
    """
    architectures = (architecture, *foreign)
    if not re.fullmatch(r"[a-z]+", codename) or not all(map(_ARCHITECTURE.fullmatch, architectures)):
        raise LockError(
            f"`{codename}` for `{' '.join(architectures)}` is not a release that apt could know", hint=_HINT
        )
    if not re.fullmatch(r"[^\"\n;{}]+", str(folder)):
        raise LockError(f"apt cannot use the folder {folder}", hint="choose a store with a plainer path")
    env = {**env, "LC_ALL": "C"}
    own = folder.absolute() / "-".join((codename, *architectures))
    own.mkdir(parents=True, exist_ok=True)
    configured = configured_targets(env, (architecture,))
    wanted = [target for target in configured if target.belongs(codename)]
    # Which release a moving name means is only known once its Release file is there.
    wanted = wanted or [target for target in configured if _MOVING.fullmatch(target.release)]
    found = _fetched(wanted, codename, env, own, architectures) if wanted else []
    if not found:
        raise LockError(f"apt of this machine has no source for {distribution}/{codename}", hint=_HINT)
    return SystemIndex(distribution, codename, found, architecture)


def configured_releases(env: Mapping[str, str], architecture: str = "amd64") -> tuple[str, ...]:
    """Return the code names that this machine's apt has sources for, in their order; none where there is no apt.

    What a moving name (`stable`) means is known only where apt's lists were fetched.

    Args:
        env: the environment for apt; `APT_CONFIG` in it is honoured.
        architecture: in Debian's words.
    """
    if not which("apt-get", env):
        return ()
    env = {**env, "LC_ALL": "C"}
    own = (architecture,)
    targets = [*configured_targets(env, own), *configured_targets(env, own, fetched=True)]
    names = (
        name.partition("/")[0].partition("-")[0] for one in targets for name in (one.release, one.codename)
    )
    return tuple(dict.fromkeys(name for name in names if name and not _MOVING.fullmatch(name)))


def _fetched(
    wanted: list[AptTarget], codename: str, env: Mapping[str, str], folder: Path, architectures: Sequence[str]
) -> list[PackagesFile]:
    """Fetch the lists of the wanted sources and return those of the release; one process at a time."""
    number = os.open(folder / "busy", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(number, "w") as busy:
        fcntl.flock(busy, fcntl.LOCK_EX)
        try:
            private = _update(wanted, env, folder, architectures)
            return [
                PackagesFile(
                    uri=without_credentials(target.uri),
                    content=read_plain(Path(target.path), _LARGEST_LIST),
                    automatic=not target.release.endswith(_NOT_AUTOMATIC),
                )
                for target in configured_targets(private, architectures, fetched=True)
                if target.belongs(codename)
            ]
        finally:  # addresses of sources and proxies in them may hold credentials
            for name in (_CONFIG, _SOURCES):
                (folder / name).unlink(missing_ok=True)


def configured_targets(
    env: Mapping[str, str], architectures: Sequence[str], *, fetched: bool = False
) -> list[AptTarget]:
    """List the `Packages` files of apt's sources: of all that are configured, or what was fetched of them.

    With the Release files' words apt lists only what was fetched; many a container image has no lists.
    """
    known = "true" if fetched else "false"
    options = [*_NO_CACHE, f"-oAPT::Get::IndexTargets::ReleaseInfo={known}"]
    raw = run(
        ["apt-get", *options, "indextargets", "Created-By: Packages"], env=env,
        purpose="list the apt sources of this machine", missing=LockError, timeout=_ANSWER_SECONDS,
        hint="lock on a Debian or Ubuntu machine, or in a container of one",
    )  # fmt: skip
    return [
        AptTarget(
            uri=fields["Repo-URI"],
            release=fields["Release"],
            codename=fields.get("Codename", ""),
            component=fields.get("Component", ""),
            path=fields["Filename"],
            entry=fields.get("Sourcesentry", ""),
        )
        for fields in Deb822.iter_paragraphs(raw.decode(errors="replace").splitlines())
        if fields.get("Architecture") in architectures
    ]


def _update(
    wanted: list[AptTarget], env: Mapping[str, str], folder: Path, architectures: Sequence[str]
) -> dict[str, str]:
    """Run `apt-get update` for the targets alone, and return the environment that shows its result."""
    for below in ("state/lists/partial", "cache/archives/partial", "log"):
        (folder / below).mkdir(parents=True, exist_ok=True)
    (folder / "state/status").touch()
    settings = run(
        ["apt-config", "dump"],
        env=env,
        purpose="read apt's configuration",
        missing=LockError,
        timeout=_ANSWER_SECONDS,
    )
    kept = [line for line in settings.decode(errors="replace").splitlines() if _KEEP.fullmatch(line)]
    config, sources = folder / _CONFIG, folder / _SOURCES
    own = _SETTINGS.format(
        folder=folder, sources=_SOURCES, architecture=architectures[0],
        architectures=" ".join(f'"{name}";' for name in architectures),
    )  # fmt: skip
    _write_private(config, "\n".join(kept) + own)
    _write_private(sources, source_list(wanted, architectures))
    private = {**env, "APT_CONFIG": str(config)}
    try:
        run(
            ["apt-get", "update", "-q", "-opkgCacheFile::Generate=false"],
            env=private,
            purpose="fetch the package lists",
        )
    except ProcessFailedError as err:
        raise FetchError(
            _CREDENTIALS.sub("//", str(err)),
            hint="`apt-get update` must work on this machine for the sources of that release",
        ) from None
    return private


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)


def source_list(wanted: list[AptTarget], architectures: Sequence[str]) -> str:
    """Return a deb822 source list of exactly the wanted suites and components."""
    components: dict[tuple[str, str, str], list[str]] = {}
    for target in wanted:
        components.setdefault((target.uri, target.release, target.entry), []).append(target.component)
    stanzas = []
    for (uri, release, entry), names in components.items():
        lines = [f"Types: deb\nURIs: {uri}\nSuites: {release}\nArchitectures: {' '.join(architectures)}"]
        if any(names):
            lines.append("Components: " + " ".join(dict.fromkeys(names)))
        lines += [f"{key}: {value}" for key, value in _options(entry).items()]
        stanzas.append("\n".join(lines) + "\n")
    return "\n".join(stanzas)


def _options(entry: str) -> dict[str, str]:
    """Return the trust options of a source entry, `FILE:NUMBER` as `apt-get indextargets` names it.

    The number counts lines in a `.list` file and paragraphs in a `.sources` file.
    """
    name, _, number = entry.rpartition(":")
    if not name or not number.isdigit():
        return {}
    text = read_plain(Path(name), _LARGEST_SOURCES).decode(errors="replace")
    if name.endswith(".sources"):
        paragraphs = list(Deb822.iter_paragraphs(text.splitlines()))
        fields = paragraphs[int(number) - 1] if int(number) <= len(paragraphs) else {}
        return {known: fields[known] for known in _OPTIONS.values() if known in fields}
    line = (text.splitlines()[int(number) - 1 : int(number)] or [""])[0]
    found = re.match(r"\s*deb\s+\[([^\]]*)\]", line)
    pairs = re.findall(r"([a-zA-Z-]+)=(\S+)", found[1]) if found else []
    return {_OPTIONS[key.lower()]: value.replace(",", " ") for key, value in pairs if key.lower() in _OPTIONS}
