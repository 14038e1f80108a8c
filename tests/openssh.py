"""OpenSSH's client for the tests: the machine's, or that of Debian's package, unpacked into a directory."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.unpacked import unpack_packages

PROGRAMS = ("ssh", "ssh-keygen")
PACKAGES = (
    "openssh-client", "libssl3", "zlib1g", "libselinux1", "libpcre2-8-0", "libgssapi-krb5-2", "libkrb5-3",
    "libk5crypto3", "libkrb5support0", "libcom-err2", "libkeyutils1",
)  # fmt: skip


def openssh_client(folder: Path) -> str:
    """Return the directories that have `ssh` and `ssh-keygen`, for a PATH."""
    there = [shutil.which(program) for program in PROGRAMS]
    if all(there):
        return ":".join(dict.fromkeys(str(Path(path).parent) for path in there if path))
    return unpack_client(folder)


def unpack_client(folder: Path) -> str:
    """Unpack the client into a directory, and return the directory of its programs."""
    libraries = unpack_packages(PACKAGES, folder)
    programs = folder / "bin"
    programs.mkdir()
    for program in PROGRAMS:
        script = programs / program
        script.write_text(
            f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {folder}/root/usr/bin/{program} "$@"\n'
        )
        script.chmod(0o755)
    return str(programs)
