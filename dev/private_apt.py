"""apt for the scripts of this directory, with the machine's Debian mirror.

Nothing is installed.

Lists, cache and an (empty) package state lie in one directory; maintainer scripts do not run.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SUPPORTED = {"bookworm": "Debian 12", "trixie": "Debian 13"}
OWN_ENGINE = "start Docker yourself (or name one with DOCKER_HOST) and run the command again"


class EngineError(Exception):
    """A failure, with a hint for the reader."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}\n  hint: {hint}")


def say(text: str) -> None:
    """Write one line for the person at the terminal."""
    print(f"private_engine: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Mirror:
    """The machine's Debian mirror, and the trust in it."""

    uri: str
    trust: str  # Signed-By and Trusted fields, as they stand in the machine's sources

    def source(self, suite: str, types: str = "deb") -> str:
        return f"Types: {types}\nURIs: {self.uri}\nSuites: {suite}\nComponents: main\n{self.trust}\n"


def captured(argv: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """Run a program, and return its standard output."""
    environment = {**(os.environ if env is None else env), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
        raise EngineError(
            f"{' '.join(argv[:2])} failed: {reason}",
            "check the machine's apt sources with `apt-get update`",
        )
    return done.stdout


def codename() -> str:
    """Return the code name of this machine's Debian.

    Another system is refused with an explanation.
    """
    release: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition("=")
            release[key] = value.strip("\"'")
    name = release.get("VERSION_CODENAME", "")
    if release.get("ID") != "debian" or name not in SUPPORTED:
        raise EngineError(
            f"no private engine for {release.get('PRETTY_NAME', 'this system')}: "
            f"it is made of the packages of {' or '.join(SUPPORTED.values())}",
            OWN_ENGINE,
        )
    for tool in ("apt-get", "apt-config", "dpkg-deb"):
        if not shutil.which(tool):
            raise EngineError(f"{tool} is missing", OWN_ENGINE)
    return name


def fields(stanza: str) -> dict[str, str]:
    """Split one deb822 stanza.

    A value keeps its continuation lines (embedded keys have them).
    """
    found: dict[str, str] = {}
    key = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace() and key:
            found[key] += "\n" + line
        elif ":" in line:
            key, _, value = line.partition(":")
            found[key] = value.strip()
    return found


def one_line_source(line: str) -> dict[str, str]:
    """Read a line of a .list file as a stanza."""
    match = re.match(r"\s*(deb(?:-src)?)\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s*([^#]*)", line)
    if not match:
        return {}
    kind, options, uri, suite, components = match.groups()
    pairs = (word.partition("=") for word in (options or "").split())
    found = {key.title(): value for key, _, value in pairs}
    return {**found, "Types": kind, "URIs": uri, "Suites": suite, "Components": components}


def machine_sources() -> Iterator[dict[str, str]]:
    """Read the machine's apt sources.

    apt itself lists only those it has downloaded from before.
    """
    shell = captured(
        ["apt-config", "shell", "list", "Dir::Etc::SourceList/f", "parts", "Dir::Etc::SourceParts/d"]
    )
    where = dict(re.findall(r"(?m)^(\w+)='(.*)'$", shell))
    parts = Path(where["parts"])
    for path in [Path(where["list"]), *(sorted(parts.iterdir()) if parts.is_dir() else [])]:
        if path.is_file() and path.suffix == ".sources":
            yield from map(fields, re.split(r"\n\s*\n", path.read_text(encoding="utf-8")))
        elif path.is_file() and path.suffix == ".list":
            yield from map(one_line_source, path.read_text(encoding="utf-8").splitlines())


def machine_mirror(suite: str) -> Mirror:
    """Find the mirror of Debian among the machine's sources."""
    candidates: list[tuple[int, int, Mirror]] = []
    for source in machine_sources():
        named = {key: source.get(key, "").split() for key in ("Types", "Suites", "Components", "URIs")}
        wanted = "deb" in named["Types"] and suite in named["Suites"] and "main" in named["Components"]
        uris = [uri for uri in named["URIs"] if not uri.startswith("cdrom:")]
        if not wanted or not uris or source.get("Enabled", "yes").lower() in {"no", "false"}:
            continue
        trust = "".join(f"{key}: {source[key]}\n" for key in ("Signed-By", "Trusted") if source.get(key))
        # Others have a suite and component of the same names; Debian's own goes first.
        strange = 0 if "debian-archive" in trust else 2 if "Signed-By" in trust else 1
        candidates.append((strange, len(candidates), Mirror(uris[0], trust)))
    if not candidates:
        raise EngineError(
            f"the machine's apt sources name no mirror with the suite {suite} and component main",
            "add one to /etc/apt/sources.list (see `man sources.list`)",
        )
    return min(candidates, key=lambda candidate: candidate[:2])[2]


def acquire_settings() -> str:
    """Return this machine's download settings (proxy, certificates).

    Its hooks are left out.
    """
    dump = captured(["apt-config", "dump"]).splitlines()
    # The index targets are apt's built-in ones, or requests of unrelated tools for more files.
    kept = [
        line for line in dump if line.startswith("Acquire") and not line.startswith("Acquire::IndexTargets")
    ]
    return "\n".join(kept) + "\n"


class PrivateApt:
    """apt-get with a directory of its own.

    It holds sources, lists, cache and an empty package state.
    """

    def __init__(self, folder: Path, suites: Sequence[str], types: str = "deb") -> None:
        self.folder = folder.resolve()
        self.suites = suites
        self.types = types
        self.env = {**os.environ, "APT_CONFIG": str(self.folder / "apt.conf")}

    def update(self) -> None:
        """Write the configuration, and fetch the package lists."""
        for name in ("lists/partial", "cache/archives/partial"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        mirror = machine_mirror(codename())
        stanzas = (mirror.source(suite, self.types) for suite in self.suites)
        (self.folder / "debian.sources").write_text("\n".join(stanzas), encoding="utf-8")
        # The machine's own suite wins wherever a package is not asked for from another one.
        pins = (f"Package: *\nPin: release n={s}\nPin-Priority: 60\n" for s in self.suites[1:])
        (self.folder / "preferences").write_text("\n".join(pins), encoding="utf-8")
        (self.folder / "status").write_text("", encoding="utf-8")
        # A proxy's password can stand in these settings.
        conf = self.folder / "apt.conf"
        conf.touch(mode=0o600)
        conf.write_text(self._configuration(), encoding="utf-8")
        captured(["apt-get", "-q", "update", "-oAPT::Update::Error-Mode=any"], self.env)

    def _configuration(self) -> str:
        at = str(self.folder).replace("%", "%25").replace('"', "%22")
        return acquire_settings() + "\n".join(
            [
                'Dir::Etc::Parts "/dev/null";',
                'Dir::Etc::Main "/dev/null";',
                f'Dir::Etc::SourceList "{at}/debian.sources";',
                'Dir::Etc::SourceParts "/dev/null";',
                f'Dir::Etc::Preferences "{at}/preferences";',
                'Dir::Etc::PreferencesParts "/dev/null";',
                f'Dir::State "{at}";',
                f'Dir::State::Lists "{at}/lists/";',
                f'Dir::State::Status "{at}/status";',
                f'Dir::Cache "{at}/cache";',
                f'Dir::Log "{at}/log";',
                'Dir::Log::Planner "";',
                'Acquire::Languages "none";',
                # The unprivileged user of apt may be unable to enter the directory.
                'APT::Sandbox::User "root";\n',
            ]
        )

    def closure(self, packages: Sequence[str]) -> dict[str, str]:
        """Return name and version of the packages and their dependencies.

        They are those of an empty system.
        """
        argv = ["apt-get", "-s", "-q", "--no-install-recommends", "install", *packages]
        lines = captured(argv, self.env).splitlines()
        found = (re.match(r"Inst (\S+) \((\S+) ", line) for line in lines)
        return {one.group(1): one.group(2) for one in found if one}

    def download(self, packages: Iterable[str], debs: Path) -> list[Path]:
        """Download exactly these packages.

        A complete file is not downloaded again.
        """
        debs.mkdir(parents=True, exist_ok=True)
        argv = ["env", "-C", str(debs), "apt-get", "-q", "download", *packages]
        captured(argv, self.env)
        return sorted(debs.glob("*.deb"))


def unpack(debs: Iterable[Path], into: Path) -> None:
    """Extract packages without installing them."""
    into.mkdir(parents=True, exist_ok=True)
    for deb in debs:
        captured(["dpkg-deb", "-x", str(deb), str(into)])


def unpack_packages(into: Path, packages: Sequence[str]) -> int:
    """Download the named packages, and unpack them.

    They come, without others, from the machine's own suite.
    """
    with tempfile.TemporaryDirectory(prefix="reprobuild-apt-") as scratch:
        apt = PrivateApt(Path(scratch), [codename()])
        apt.update()
        unpack(apt.download(packages, apt.folder / "debs"), into)
    return 0


def download_source(into: Path, package: str, suite: str) -> int:
    """Download a source package's files into a directory.

    apt checks them.
    """
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="reprobuild-apt-") as scratch:
        apt = PrivateApt(Path(scratch), [suite], "deb-src")
        apt.update()
        captured(["env", "-C", str(into), "apt-get", "-q", "source", "--download-only", package], apt.env)
    return 0


def write_sources(folder: Path) -> int:
    """Write the machine's Debian mirror and download settings as files.

    Other tools read them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    suite = codename()
    (folder / "debian.sources").write_text(machine_mirror(suite).source(suite), encoding="utf-8")
    settings = folder / "acquire.conf"
    settings.touch(mode=0o600)
    settings.write_text(acquire_settings(), encoding="utf-8")
    (folder / "suite").write_text(suite + "\n", encoding="utf-8")
    return 0
