"""The sources of this machine's apt, and their present contents.

Only this module runs apt. It changes no part of the system: apt runs with a configuration, lists and cache of
its own in a directory of the caller, as any user.
"""

from __future__ import annotations

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
from reprobuild_portable.host import fcntl

# Suites from which apt takes packages only on request (`NotAutomatic: yes` in their Release files).
_NOT_AUTOMATIC = ("-backports", "-backports-sloppy", "-proposed", "-proposed-updates")
# Names that point to another release every few years; the Release file has the present one.
_LOCAL = ("file:", "copy:", "cdrom:")  # https://manpages.debian.org/sources.list
_MOVING = re.compile(r"(old){0,3}stable(-.*)?|testing(-.*)?")
# Options of a source entry that decide its trust; sources.list(5) gives both spellings.
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
# Settings copied from the machine's apt: how to reach and to trust its sources.
_KEEP = re.compile(
    r"(Acquire::[^ ]*|Dir|Dir::Etc|Dir::Etc::(netrc|netrcparts|trusted|trustedparts)|Dir::Bin::[^ ]*)"
    r' "[^"\n]*";'
)
_ANSWER_SECONDS = 60  # apt reads its configuration from the local disk
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
# Of an unpacked index; the largest of Debian has some 60 million bytes. A file of sources is written by
# people.
_LARGEST_LIST, _LARGEST_SOURCES = 1 << 30, 4 << 20


class AptTarget(Struct, frozen=True, kw_only=True):
    """A `Packages` file that apt knows.

    `entry` is the file and the number of its source entry.
    """

    uri: str
    release: str
    codename: str
    component: str
    path: str
    entry: str

    def belongs(self, codename: str) -> bool:
        """Return whether it belongs to a release or its pockets.

        Pockets are `-updates`, `-security`, and so on.
        """
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
    offline: bool = False,
) -> SystemIndex:
    """Return one release's package lists from this machine's apt sources.

    Args:
        distribution: `debian`, `ubuntu`: only for the text of an error and the index's label.
        codename: the release, `bookworm`.
        env: the environment for apt; `APT_CONFIG` in it is honoured.
        folder: a directory for apt's own files; if it is kept, the next call fetches only changes.
        architecture: Debian's name of it.
        foreign: other required architectures. They are requested from the same sources, even if this
            machine's apt is not set up for them; a source that lacks one is skipped.
        offline: refuse sources that are not on this machine.

    Raises:
        LockError: apt is missing, or has no source for the release.
        FetchError: the lists are not available.
    """
    architectures = (architecture, *foreign)
    if not re.fullmatch(r"[a-z]+", codename) or not all(map(_ARCHITECTURE.fullmatch, architectures)):
        raise LockError(
            f"`{codename}` for `{' '.join(architectures)}` is not a release that apt could know", hint=_HINT
        )
    if not re.fullmatch(r"[^\"\n;{}]+", str(folder)):
        raise LockError(f"apt cannot use the directory {folder}", hint="choose a store with a plainer path")
    env = {**env, "LC_ALL": "C"}
    directory = folder.absolute() / "-".join((codename, *architectures))
    directory.mkdir(parents=True, exist_ok=True)
    configured = configured_targets(env, (architecture,))
    targets = [target for target in configured if target.belongs(codename)]
    # The release of a moving name is known only once its Release file is there.
    targets = targets or [target for target in configured if _MOVING.fullmatch(target.release)]
    remote = [target.uri for target in targets if not target.uri.startswith(_LOCAL)]
    if offline and remote:
        raise FetchError(
            f"the package lists of {without_credentials(remote[0])} are needed, and --offline forbids the network",
            hint="run without --offline once",
        )
    files = _fetch_lists(targets, codename, env, directory, architectures) if targets else []
    if not files:
        raise LockError(f"apt of this machine has no source for {distribution}/{codename}", hint=_HINT)
    return SystemIndex(distribution, codename, files, architecture)


def configured_releases(env: Mapping[str, str], architecture: str = "amd64") -> tuple[str, ...]:
    """Return the code names in this machine's apt sources.

    They are in the order of the sources. The result is empty without apt. The meaning of a moving name
    (`stable`) is known only if apt's lists were fetched.

    Args:
        env: the environment for apt; `APT_CONFIG` in it is honoured.
        architecture: Debian's name of it.
    """
    if not which("apt-get", env):
        return ()
    env = {**env, "LC_ALL": "C"}
    architectures = (architecture,)
    targets = [*configured_targets(env, architectures), *configured_targets(env, architectures, fetched=True)]
    names = (
        name.partition("/")[0].partition("-")[0]
        for target in targets
        for name in (target.release, target.codename)
    )
    return tuple(dict.fromkeys(name for name in names if name and not _MOVING.fullmatch(name)))


def _fetch_lists(
    targets: list[AptTarget],
    codename: str,
    env: Mapping[str, str],
    folder: Path,
    architectures: Sequence[str],
) -> list[PackagesFile]:
    """Fetch the lists of sources, and return the release's.

    A file lock admits one process at a time.
    """
    number = os.open(folder / "busy", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(number, "w") as busy:
        fcntl.flock(busy, fcntl.LOCK_EX)
        try:
            private = _update_lists(targets, env, folder, architectures)
            return [
                PackagesFile(
                    uri=without_credentials(target.uri),
                    content=read_plain(Path(target.path), _LARGEST_LIST),
                    automatic=not target.release.endswith(_NOT_AUTOMATIC),
                )
                for target in configured_targets(private, architectures, fetched=True)
                if target.belongs(codename)
            ]
        finally:  # addresses of sources and proxies in these files may hold credentials
            for name in (_CONFIG, _SOURCES):
                (folder / name).unlink(missing_ok=True)


def configured_targets(
    env: Mapping[str, str], architectures: Sequence[str], *, fetched: bool = False
) -> list[AptTarget]:
    """Return the `Packages` files of apt's sources.

    They are all configured ones, or only the fetched ones. With fields of the Release files apt lists only
    fetched ones; many container images have no lists.
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


def _update_lists(
    targets: list[AptTarget], env: Mapping[str, str], folder: Path, architectures: Sequence[str]
) -> dict[str, str]:
    """Run `apt-get update` for some targets; return the environment.

    Queries with that environment show the result.
    """
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
    lines = [line for line in settings.decode(errors="replace").splitlines() if _KEEP.fullmatch(line)]
    config, sources = folder / _CONFIG, folder / _SOURCES
    additions = _SETTINGS.format(
        folder=folder, sources=_SOURCES, architecture=architectures[0],
        architectures=" ".join(f'"{name}";' for name in architectures),
    )  # fmt: skip
    _write_private(config, "\n".join(lines) + additions)
    _write_private(sources, source_list(targets, architectures))
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


def source_list(targets: list[AptTarget], architectures: Sequence[str]) -> str:
    """Return a deb822 source list of exactly the wanted suites.

    It has exactly the wanted components, too.
    """
    components: dict[tuple[str, str, str], list[str]] = {}
    for target in targets:
        components.setdefault((target.uri, target.release, target.entry), []).append(target.component)
    stanzas = []
    for (uri, release, entry), names in components.items():
        lines = [f"Types: deb\nURIs: {uri}\nSuites: {release}\nArchitectures: {' '.join(architectures)}"]
        if any(names):
            lines.append("Components: " + " ".join(dict.fromkeys(names)))
        lines += [f"{key}: {value}" for key, value in _trust_options(entry).items()]
        stanzas.append("\n".join(lines) + "\n")
    return "\n".join(stanzas)


def _trust_options(entry: str) -> dict[str, str]:
    """Return the trust options of a source entry, `FILE:NUMBER`.

    That is its name in `apt-get indextargets`. The number counts lines in a `.list` file and paragraphs in a
    `.sources` file.
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
    match = re.match(r"\s*deb\s+\[([^\]]*)\]", line)
    pairs = re.findall(r"([a-zA-Z-]+)=(\S+)", match[1]) if match else []
    return {_OPTIONS[key.lower()]: value.replace(",", " ") for key, value in pairs if key.lower() in _OPTIONS}
