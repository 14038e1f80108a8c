"""A private archive like a PPA, with two packages.

It has a signed index, and scripts that do the same as those of others.

`made-service` asks by debconf, makes a user, a diversion, an override of rights, an alternative, a file in the care of
ucf, a service, and waits for a trigger; `made-lib` is there for two architectures, and sets off that trigger.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Sequence
from pathlib import Path

from pysequoia import SignatureMode, Tsk, sign

from tests.system.samples import ar_bytes, member, tar_bytes

ASKED = ("made-service", "made-lib", "made-lib:i386")
SUITE = "bookworm"
_Members = list[tuple[tarfile.TarInfo, bytes]]

_CONFIG = """#!/bin/sh
set -e
. /usr/share/debconf/confmodule
db_input medium made-service/greeting || true
db_go || true
"""
_TEMPLATES = """Template: made-service/greeting
Type: string
Default: good day
Description: What shall it say?
 It says so when it is asked.
"""
_PREINST = """#!/bin/sh
set -e
if [ "$1" = install ]; then
    dpkg-divert --package made-service --add --rename --divert /usr/bin/made.plain /usr/bin/made
fi
"""
_POSTINST = """#!/bin/sh
set -e
. /usr/share/debconf/confmodule
if [ "$1" = triggered ]; then
    find /usr/lib -name 'libmade.*' | sort > /var/lib/made/libraries
    exit 0
fi
db_get made-service/greeting
printf 'greeting = %s\\n' "$RET" > /usr/share/made/made.conf.now
adduser --system --group --quiet --no-create-home --home /var/lib/made --gecos 'Made' made-service
adduser --quiet made-service audio
mkdir -p /var/lib/made
chown made-service:made-service /var/lib/made
chmod 2750 /var/lib/made
find /usr/lib -name 'libmade.*' | sort > /var/lib/made/libraries
dpkg-statoverride --update --add made-service root 4750 /usr/bin/made-service
update-alternatives --install /usr/bin/made-tool made-tool /usr/bin/made-service 50 \\
    --slave /usr/bin/made-helper made-helper /usr/bin/made
ucf --three-way --debconf-ok /usr/share/made/made.conf.now /etc/made.conf
ucfr made-service /etc/made.conf
update-rc.d made-service defaults
invoke-rc.d made-service start || true
db_stop
"""
_PRERM = """#!/bin/sh
set -e
update-alternatives --remove made-tool /usr/bin/made-service
"""
_SERVICE = """#!/bin/sh
### BEGIN INIT INFO
# Provides:          made-service
# Required-Start:    $remote_fs
# Required-Stop:     $remote_fs
# Default-Start:     2 3 4 5
# Default-Stop:      0 1 6
# Short-Description: a made service
### END INIT INFO
touch /var/lib/made/was-started
"""


def make_archive(folder: Path) -> str:
    """Write the archive below a directory, with a new key.

    Returns the entry of apt's sources that names it.
    """
    pool = folder / "pool"
    pool.mkdir(parents=True)
    stanzas: dict[str, list[str]] = {"amd64": [], "i386": []}
    for name, architecture, fields, control, data in _packages():
        full = f"Package: {name}\nVersion: 1.0-1~ppa1\nArchitecture: {architecture}\n{fields}"
        content = _deb([(_file("./control"), full.encode()), *control], data)
        path = pool / f"{name}_1.0-1~ppa1_{architecture}.deb"
        path.write_bytes(content)
        stanzas[architecture].append(
            f"{full}Filename: pool/{path.name}\nSize: {len(content)}\n"
            f"SHA256: {hashlib.sha256(content).hexdigest()}\n"
        )
    release = f"Origin: LP-PPA-made\nSuite: {SUITE}\nCodename: {SUITE}\nComponents: main\n"
    release += "Architectures: amd64 i386\nDate: Sat, 01 Jan 2022 00:00:00 UTC\nSHA256:\n"
    for architecture, listed in stanzas.items():
        name, text = f"main/binary-{architecture}/Packages", "\n".join(listed).encode()
        (folder / "dists" / SUITE / name).parent.mkdir(parents=True)
        (folder / "dists" / SUITE / name).write_bytes(text)
        release += f" {hashlib.sha256(text).hexdigest()} {len(text)} {name}\n"
    key = Tsk.generate("PPA <made@archive.test>")
    signed = sign(key.signer(), release.encode(), mode=SignatureMode.CLEAR)
    (folder / "dists" / SUITE / "InRelease").write_bytes(signed)
    (folder / "key.asc").write_text(str(key.extract_certificate()))
    return (
        f"Types: deb\nURIs: file:{folder}\nSuites: {SUITE}\nComponents: main\n"
        f"Architectures: amd64 i386\nSigned-By: {folder / 'key.asc'}\n"
    )


def _packages() -> list[tuple[str, str, str, _Members, _Members]]:
    """Return name, architecture, fields and files of each package.

    The files are its control files and its data.
    """
    about = "Maintainer: Made <made@archive.test>\nSection: misc\nPriority: optional\nDescription: made\n"
    scripts = {"config": _CONFIG, "preinst": _PREINST, "postinst": _POSTINST, "prerm": _PRERM}
    control = [(_file(f"./{name}", 0o755), text.encode()) for name, text in scripts.items()]
    control += [
        (_file("./templates"), _TEMPLATES.encode()),
        (_file("./triggers"), b"interest-noawait made-libraries\n"),
        (_file("./conffiles"), b"/etc/default/made-service\n/etc/init.d/made-service\n"),
    ]
    data = [
        *_folders("etc", "etc/default", "etc/init.d", "usr", "usr/bin", "usr/share", "usr/share/made"),
        (_file("./etc/default/made-service"), b"GREET=yes\n"),
        (_file("./etc/init.d/made-service", 0o755), _SERVICE.encode()),
        (_file("./usr/bin/made-service", 0o755), b"#!/bin/sh\nexec cat /etc/made.conf\n"),
        (_file("./usr/bin/made", 0o755), b"#!/bin/sh\nexec made-service\n"),
    ]
    needs = "Pre-Depends: dpkg (>= 1.17)\nDepends: adduser, debconf, ucf, made-lib (= 1.0-1~ppa1)\n"
    found = [("made-service", "amd64", needs + about, control, data)]
    for architecture, triplet in (("amd64", "x86_64-linux-gnu"), ("i386", "i386-linux-gnu")):
        place = f"usr/lib/{triplet}"
        library: _Members = [
            *_folders("usr", "usr/lib", place),
            (_file(f"./{place}/libmade.so.1"), f"for {architecture}\n".encode()),
        ]
        triggers = [(_file("./triggers"), b"activate-noawait made-libraries\nactivate-noawait ldconfig\n")]
        found.append(
            ("made-lib", architecture, f"Multi-Arch: same\nDepends: libc6\n{about}", triggers, library)
        )
    return found


def _file(name: str, mode: int = 0o644) -> tarfile.TarInfo:
    return member(name, mode=mode)


def _folders(*names: str) -> _Members:
    return [
        (member(name, tarfile.DIRTYPE, mode=0o755), b"") for name in ("./", *(f"./{name}/" for name in names))
    ]


def _deb(
    control: Sequence[tuple[tarfile.TarInfo, bytes]], data: Sequence[tuple[tarfile.TarInfo, bytes]]
) -> bytes:
    parts = [("debian-binary", b"2.0\n"), ("control.tar", tar_bytes(control)), ("data.tar", tar_bytes(data))]
    return ar_bytes(parts)
