"""An Apptainer for `make test` on a Debian machine without one.

    python dev/private_apptainer.py run [--own] [--folder .engine/apptainer] -- CMD...
    python dev/private_apptainer.py clean [--folder .engine/apptainer]

`run` leaves the Apptainer that is on PATH as it is.  Without one, and with `--own`, the packages of Debian's
unstable, which alone has Apptainer, are downloaded from the mirror that the machine's own apt sources name, and
unpacked into a root of their own (they need a newer C library).  `bin/apptainer` in the directory starts the program
there, see `private_root.py`; it is first on PATH for CMD, and the file `version` has the version.  `user/apptainer`
does the same as an unprivileged user with subordinate user numbers, `plain/apptainer` as one without.  Each has the
root's `mksquashfs` beside it.

No package is installed, no maintainer script runs, /etc/subuid is that of the root directory.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from private_apt import EngineError, PrivateApt, codename, unpack
from private_command import exec_unchanged
from private_engine import clean, lock
from private_packages import write_atomically
from private_root import FUSE

SUITE = "sid"
PACKAGES = ("apptainer", "ca-certificates", "squashfuse", "fuse2fs", "fuse-overlayfs", "uidmap")
PROGRAMS = ("apptainer", "mksquashfs")
OWN_APPTAINER = "put an Apptainer of your own on PATH and run the command again"
# Directories of PATH, and the number of the program's user in each.
USERS = {"bin": 0, "user": 1000, "plain": 1001}
ACCOUNTS = {"user": 1000, "plain": 1001}
HOMES = "/var/homes"
SUBORDINATE = "user:100000:65536\n"
FILES = {
    "etc/subuid": SUBORDINATE,
    "etc/subgid": SUBORDINATE,
    "etc/localtime": "",
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/resolv.conf": "",
}


def say(text: str) -> None:
    print(f"private_apptainer: {text}", file=sys.stderr, flush=True)


class UnstableApt(PrivateApt):
    """apt with lists of any age.

    The packages of one moment will do: a mirror may be a copy that stands still.
    """

    def _configuration(self) -> str:
        return super()._configuration() + 'Acquire::Check-Valid-Until "false";\n'


def answering_apptainer() -> str | None:
    """Return the version of an Apptainer on PATH, or None."""
    try:
        done = subprocess.run(["apptainer", "version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def prepared(folder: Path) -> bool:
    """Return whether this script's packages are unpacked in full."""
    try:
        stamp = json.loads((folder / "stamp.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(stamp.get("wanted") == list(PACKAGES)) and (folder / "root").is_dir()


def write_accounts(root: Path) -> None:
    """Write the accounts of Debian's maintainer scripts and of USERS."""
    masters = root / "usr/share/base-passwd"
    users = "".join(
        f"{name}:x:{number}:{number}::{HOMES}/{name}:/bin/sh\n" for name, number in ACCOUNTS.items()
    )
    groups = "".join(f"{name}:x:{number}:\n" for name, number in ACCOUNTS.items())
    written = {
        "etc/passwd": (masters / "passwd.master").read_text(encoding="utf-8").replace(":*:", ":x:") + users,
        "etc/group": (masters / "group.master").read_text(encoding="utf-8").replace(":*:", ":x:") + groups,
        **FILES,
    }
    for name, content in written.items():
        (root / name).write_text(content, encoding="utf-8")
    for name, number in ACCOUNTS.items():
        home = root / HOMES[1:] / name
        home.mkdir(parents=True)
        os.chown(home, number, number)


def prepare(folder: Path) -> None:
    """Download and unpack the packages.

    The stamp is written last, so a broken try is redone.
    """
    codename()
    say(f"fetching {' '.join(PACKAGES)} of Debian {SUITE}, from the machine's own apt sources")
    apt = UnstableApt(folder / "apt", [SUITE])
    try:
        apt.update()
    except EngineError as error:
        raise EngineError(
            f"the packages of Debian {SUITE} cannot be had from the machine's mirror: {error}", OWN_APPTAINER
        ) from error
    needed = apt.closure(["?essential", *PACKAGES])
    debs = apt.download([f"{name}={version}" for name, version in needed.items()], apt.folder / "debs")
    partial = folder / "root.partial"
    for leftover in (partial, folder / "root"):
        shutil.rmtree(leftover, ignore_errors=True)
    unpack((deb for deb in debs if deb.name.partition("_")[0] in needed), partial)
    write_accounts(partial)
    with contextlib.suppress(OSError):  # if no device may be made, the machine's is used
        fuse = Path("/dev/fuse").stat().st_rdev
        os.mknod(partial / FUSE, stat.S_IFCHR | 0o600, fuse)
        (partial / FUSE).chmod(0o666)
    partial.rename(folder / "root")
    write_atomically(
        folder / "stamp.json", json.dumps({"wanted": list(PACKAGES), "packages": needed}, indent=1)
    )
    shutil.rmtree(apt.folder)


def write_programs(folder: Path) -> None:
    """Write the programs for PATH.

    They are written at each call, because this checkout may have been moved.
    """
    start = [
        os.path.realpath(sys.executable),
        "-I",
        "-S",
        str(Path(__file__).resolve().parent / "private_root.py"),
    ]
    for name, user in USERS.items():
        (folder / name).mkdir(exist_ok=True)
        for program in PROGRAMS:
            argv = [*start, "--user", str(user), str(folder / "root"), f"/usr/bin/{program}"]
            path = folder / name / program
            write_atomically(path, f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
            path.chmod(0o755)


def run(folder: Path, argv: Sequence[str], *, own: bool) -> None:
    found = None if own else answering_apptainer()
    if found is not None:
        say(f"using apptainer {found}")
        exec_unchanged(argv)
    if os.geteuid() != 0:
        raise EngineError(
            "there is no apptainer on PATH, and a private one needs root", f"be root, or {OWN_APPTAINER}"
        )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    descriptor = lock(folder, wait=True)
    try:
        if not prepared(folder):
            prepare(folder)
        write_programs(folder)
        done = subprocess.run(
            [folder / "bin" / "apptainer", "version"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise EngineError(f"the private Apptainer does not start: {done.stderr.strip()}", OWN_APPTAINER)
        write_atomically(folder / "version", done.stdout)
    finally:
        os.close(descriptor)
    say(f"apptainer {done.stdout.strip()} in {folder}; nothing is installed, `make clean` removes it")
    os.environ["PATH"] = f"{folder / 'bin'}:{os.environ.get('PATH', os.defpath)}"
    exec_unchanged(argv)


def main(argv: Sequence[str]) -> int:
    top = argparse.ArgumentParser(description="An Apptainer for one command, without installing one.")
    verbs = top.add_subparsers(dest="verb", required=True)
    for verb, text in (("run", "run CMD with an Apptainer"), ("clean", "remove the private Apptainer")):
        one = verbs.add_parser(verb, help=text)
        one.add_argument(
            "--folder", type=Path, default=Path(".engine/apptainer"), help="default: .engine/apptainer"
        )
        if verb == "run":
            one.add_argument("--own", action="store_true", help="also where one is on PATH")
            one.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD...")
    options = top.parse_args(argv)
    folder = options.folder.resolve()
    if options.verb == "clean":
        code = clean(folder)
        with contextlib.suppress(OSError):
            folder.parent.rmdir()  # only an empty one
        return code
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        top.error("run: no command; write it after --")
    run(folder, command, own=options.own)
    raise AssertionError("the command has taken this process over")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except EngineError as failure:
        say(str(failure))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
