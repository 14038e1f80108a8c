"""A made-up machine, a Debian root of its own.

Tools run there as on a computer of somebody else.
"""

from __future__ import annotations

import ast
import configparser
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from proof import archive
from proof.evidence import ROOT
from reprobuild.ecosystems.pypi.indexes import read_indexes

# The way of this machine to its indexes; every other variable stays outside.
_NETWORK = re.compile(
    r"(?i)PIP_.*|(https?|ftp|no|all)_proxy|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE|GIT_SSL_CAINFO"
)
_PYTHON = ("python3", "python3-venv", "python3-dev", "git", "ca-certificates")
_SERVER = (
    *_PYTHON, "build-essential", "curl", "wget", "vim", "tmux", "htop", "less", "man-db", "openssh-server", "rsync",
    "sudo", "locales", "zip", "unzip", "procps", "iproute2",
)  # fmt: skip
_DEVELOPER = (
    *_SERVER, "cmake", "gfortran", "ffmpeg", "imagemagick", "default-jdk-headless", "nodejs", "npm", "golang-go",
    "postgresql-client", "graphviz", "texlive-latex-base", "docker.io", "python3-numpy", "python3-pip", "pipx",
    "libopenmpi-dev", "openmpi-bin", "redis-tools", "sqlite3", "jq", "shellcheck", "emacs-nox",
)  # fmt: skip
# The wishes of pyenv's own documentation on Debian, by the names of the libraries.
_PYENV = (
    *_SERVER, "libssl-dev", "zlib1g-dev", "libbz2-dev", "libreadline-dev", "libsqlite3-dev", "libncursesw5-dev",
    "xz-utils", "tk-dev", "libxml2-dev", "libxmlsec1-dev", "libffi-dev", "liblzma-dev",
)  # fmt: skip
KINDS: Mapping[str, tuple[str, ...]] = {
    "container": _PYTHON, "server": _SERVER, "developer": _DEVELOPER, "pyenv": _PYENV
}  # fmt: skip
# Of the developer's machine, from an archive that no list of Debian's has.
_FOREIGN = ("made-service", "made-lib")


class Machine:
    """A Debian root with the packages of one kind of machine.

    Args:
        kind: a key of `KINDS`.
        folder: gets the roots of all kinds, and the tools that make them.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder, self.root = kind, folder, folder / kind
        if not (folder / f"{kind}.made").exists():
            shutil.rmtree(self.root, ignore_errors=True)
            self._make()
            (folder / f"{kind}.made").touch()

    def run(self, script: str, *, home: Path, timeout: int = 1200) -> subprocess.CompletedProcess[str]:
        """Run a script of Bash in `home`, as after a login."""
        argv = [sys.executable, "-I", "-S", str(ROOT / "dev" / "private_root.py"), str(self.root)]
        return subprocess.run(
            [*argv, "/bin/bash", "-euo", "pipefail", "-c", script], cwd=home, env=_login(home),
            capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    def _make(self) -> None:
        tools, sources = self.folder / "tools", self.folder / "apt"
        engine = [sys.executable, str(ROOT / "dev" / "private_engine.py")]
        if not sources.exists():
            subprocess.run([*engine, "unpack", str(tools), "mmdebstrap"], check=True)
            subprocess.run([*engine, "sources", str(sources)], check=True)
        # Without its lists, `apt list` calls each package local.
        argv = [
            "perl", str(tools / "usr/bin/mmdebstrap"), "--quiet", "--variant=minbase", "--skip=cleanup/apt/lists",
            f"--include={','.join(KINDS[self.kind])}", f"--aptopt={sources / 'acquire.conf'}",
            (sources / "suite").read_text().strip(), str(self.root), str(sources / "debian.sources"),
        ]  # fmt: skip
        env = {**os.environ, "PATH": f"{tools / 'usr/bin'}:{os.environ['PATH']}"}
        subprocess.run(argv, check=True, env=env)
        self._connect()
        if self.kind == "developer":
            self._add_archive()

    def _add_archive(self) -> None:
        """Install packages of an archive outside Debian's lists.

        Those of vendors are alike.
        """
        folder = self.root / "var" / "cache" / "made"
        entry = archive.make_archive(folder).replace(str(self.root), "")
        (self.root / "etc/apt/sources.list.d/made.sources").write_text(entry)
        done = self.run(
            "apt-get -qq update && apt-get -qq install --yes " + " ".join(_FOREIGN), home=self.folder
        )
        if done.returncode != 0:
            raise RuntimeError(f"apt-get install: {done.stderr[-2000:]}")

    def _connect(self) -> None:
        """Give the root this machine's way to its indexes."""
        for name in ("resolv.conf", "hosts"):
            shutil.copyfile(Path("/etc", name), self.root / "etc" / name)
        certificates = Path("/etc/ssl/certs/ca-certificates.crt")
        shutil.copyfile(certificates, self.root / certificates.relative_to("/"))
        settings = _pip_settings()
        (self.root / "etc" / "pip.conf").write_text(settings)
        for file in _named_files(settings):
            copy = self.root / file.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def _named_files(settings: str) -> list[Path]:
    """Return the files that pip's settings name, such as constraints."""
    paths = [Path(word) for word in settings.split() if word.startswith("/")]
    return [path for path in paths if path.is_file()]


def _login(home: Path) -> dict[str, str]:
    network = {name: value for name, value in os.environ.items() if _NETWORK.fullmatch(name)}
    indexes = read_indexes(os.environ)
    # uv does not read pip's settings.
    uv = {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": ",".join(indexes.find_links),
        "UV_EXTRA_INDEX_URL": " ".join(indexes.simple[1:]),
    }
    return {
        **network, **uv, "HOME": str(home), "USER": "ada", "LOGNAME": "ada", "LANG": "C.UTF-8", "SHELL": "/bin/bash",
        "TERM": "xterm-256color", "XDG_SESSION_ID": "7", "SSH_CONNECTION": "192.0.2.7 50022 192.0.2.1 22",
    }  # fmt: skip


def _pip_settings() -> str:
    """Return this machine's settings of pip as one file.

    Those of variables are passed as variables.
    """
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    settings = configparser.RawConfigParser()
    for line in done.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.partition(".")
        if section.startswith(":") or not key:
            continue
        if not settings.has_section(section):
            settings.add_section(section)
        settings.set(section, key, "\n".join(ast.literal_eval(value).split()))
    lines = []
    for section in settings.sections():
        lines.append(f"[{section}]")
        lines += [f"{key} =\n  " + value.replace("\n", "\n  ") for key, value in settings.items(section)]
    return "\n".join([*lines, ""])
