"""A directory full of decoys: each leaves its name in a file where it is run, or breaks who reads it.

It is the current directory of somebody who looks into a snapshot or a bundle of others.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

PACKAGES = ("pip", "reprobuild", "uv", "click", "docker")
MODULES = ("msgspec", "json", "sitecustomize", "usercustomize", "site", "runpy", "encodings_decoy")
PROGRAMS = (
    "apptainer", "apt-config", "apt-get", "awk", "basename", "bash", "dirname", "grep", "mkdir", "mv", "sed", "tr",
    "cp", "diffoscope", "docker", "docker-credential-decoy", "dpkg-query",
    "env", "git", "git-remote-https", "mksquashfs", "newuidmap", "nvidia-smi", "pip", "podman", "prlimit", "python",
    "python3", "rm", "rpm", "salloc", "scancel", "scontrol", "sh", "sinfo", "singularity", "sqfs2tar", "squeue", "srun",
    "ssh", "ssh-keygen", "tar", "timeout", "true", "unshare", "uv",
)  # fmt: skip
FOLDERS = ("", "bin", "node_modules/.bin")
RELATIVE = os.pathsep.join(("", ".", "bin", "node_modules/.bin"))
SETTINGS = (
    "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.gitProxy", "core.alternateRefsCommand",
    "credential.helper", "diff.external", "uploadpack.packObjectsHook",
)  # fmt: skip
HOOKS = (
    "pre-auto-gc",
    "post-checkout",
    "reference-transaction",
    "post-index-change",
    "pre-receive",
    "update",
)


class Decoys:
    """The directory `place`, and what has been run of it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._marks = place.parent / f"{place.name}.marks"
        place.mkdir(parents=True)
        self._repository()
        for package in PACKAGES:
            for file in ("__init__.py", "__main__.py"):
                self.write(f"{package}/{file}", self._line(f"{package}/{file}"))
        for module in MODULES:
            self.write(f"{module}.py", self._line(f"{module}.py"))
        self.write("decoy.pth", f"import sys; {self._line('decoy.pth')}")
        for folder in FOLDERS:
            for program in sorted({*PROGRAMS} - {*(() if folder else PACKAGES)}):
                self._program(f"{folder}/{program}".lstrip("/"))
        for file in ("pyproject.toml", "uv.toml"):
            self.write(file, "[tool.uv\nthis breaks who reads it: DECOY\n")
        self.write("pip.conf", "[global]\nindex-url = https://decoy.invalid/simple\n")
        self.write(".netrc", "machine decoy.invalid login decoy password decoy\n")
        self.write("reprobuild.yaml", "accept: [DECOY]\n")
        self.write(".python-version", "2.7\n")

    @property
    def marks(self) -> list[str]:
        """The decoys that have been run, sorted."""
        return sorted(set(self._marks.read_text().split())) if self._marks.exists() else []

    def forget(self) -> None:
        """Forget which have been run."""
        self._marks.unlink(missing_ok=True)

    def write(self, name: str, text: str) -> Path:
        """Write one file of the directory."""
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def _line(self, name: str) -> str:
        return f"open({str(self._marks)!r}, 'a').write({name!r} + chr(10))\n"

    def _program(self, name: str) -> None:
        self.write(name, f"#!/bin/sh\necho {name} >> {self._marks}\nexit 97\n").chmod(0o755)

    def _repository(self) -> None:
        """Make it a repository whose settings and hooks run decoys."""
        self._program("hostile")
        subprocess.run(["git", "init", "--quiet", str(self.place)], check=True)
        with (self.place / ".git/config").open("a") as config:
            for setting in SETTINGS:
                section, name = setting.split(".")
                config.write(f"[{section}]\n\t{name} = {self.place}/hostile\n")
            for word in ("fetch", "status", "lstree"):
                config.write(f"[alias]\n\t{word} = !{self.place}/hostile\n")
        for hook in HOOKS:
            self._program(f".git/hooks/{hook}")
