"""A run among decoys: PATH begins with relative entries, and the programs of the others write down how they start."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from reprobuild.infra.sandbox import namespaces
from tests.starts.decoys import PROGRAMS, RELATIVE, Decoys

REAL = ("git", "ssh-keygen", "tar", "unshare", "rm", "prlimit", "sh", "bash", "true", "apt-get", "apt-config", "env",
        "cp", "timeout")  # fmt: skip
# What programs that are not on every machine answer, so that the code goes on to its next start.
ANSWERS = {
    "apptainer version": "1.3.0", "mksquashfs -version": "mksquashfs version 4.6 (2023/01/01)",
    "salloc": "salloc: Granted job allocation 7", "docker --version": "Docker version 20.10.1",
}  # fmt: skip


class Scene:
    """What a start is given: an environment, and a directory away from the decoys."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.decoys = Decoys(folder / "decoys")
        self.log = folder / "log"
        self.programs = folder / "programs"
        self.programs.mkdir()
        for name in PROGRAMS:
            if name != "docker-credential-decoy":
                self.stand_in(name, shutil.which(name) or "" if name in REAL else "")
        self.stand_in("python3", sys.executable)
        python = self.stand_in("own-python", sys.executable)
        monkeypatch.setattr(sys, "executable", str(python))
        self.path = os.pathsep.join((RELATIVE, str(self.programs), os.defpath))
        monkeypatch.setattr(namespaces, "PATH", self.path)
        monkeypatch.setenv("PATH", self.path)
        monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}{self.decoys.place}")
        monkeypatch.setenv("PYTHONSTARTUP", str(self.decoys.place / "json.py"))
        home = folder / "home"
        home.mkdir()
        self.env = {
            "PATH": self.path, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "DOCKER_HOST": "tcp://127.0.0.1:1",
            "PYTHONPATH": f"{os.pathsep}{self.decoys.place}", "PYTHONSTARTUP": str(self.decoys.place / "json.py"),
        }  # fmt: skip
        monkeypatch.chdir(self.decoys.place)

    def stand_in(self, name: str, real: str) -> Path:
        """Make a program that writes down its name, directory, PATH and words, and becomes the real one, if any."""
        answers = "".join(
            f"case '{name} '\"$*\" in '{said}'*) echo '{text}'; exit 0;; esac\n"
            for said, text in ANSWERS.items()
        )
        end = f'exec {real} "$@"' if real else f"{answers}exit 1"
        path = self.programs / name
        words = '/usr/bin/printf "%s\\n" "$PWD" "$PATH" "$@" "---"'
        path.write_text(f"#!/bin/sh\n{{ echo {name}; {words}; }} >> {self.log}\n{end}\n")
        path.chmod(0o755)
        return path

    @property
    def starts(self) -> list[list[str]]:
        """Return name, directory, PATH and words of each program that was started."""
        text = self.log.read_text() if self.log.exists() else ""
        return [start.strip("\n").split("\n") for start in text.split("\n---\n") if start.strip()]
