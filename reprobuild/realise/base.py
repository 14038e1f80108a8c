"""The base's tree, configured once by its own dpkg without network.

Maintainer scripts run as they would on a machine, in a sandbox. Ownership comes from `fakeroot`: the sandbox has only
the caller's user, so a file cannot have another owner; fakeroot remembers the intended owner, and `tar` inside the same
session records it. So root and other users get the same bytes.

If the base begins with an image, its tree is unpacked first, and the session is given the owners that it states.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reprobuild.ecosystems.apt.deb import DebControl, open_part, read_control
from reprobuild.errors import BuildError
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.infra.sandbox.command import run_in_root
from reprobuild.infra.sandbox.model import Bind, Root, check_output_file
from reprobuild.infra.sandbox.namespaces import check_namespaces
from reprobuild.infra.untrusted.write_below import make_below, touch_below
from reprobuild.lock.system import Base, Deb, dpkg_name
from reprobuild.realise.from_image import flatten, write_owners
from reprobuild.realise.normalise import EMPTY, rewrite
from reprobuild.realise.order import plan_batches
from reprobuild.realise.unpack import extract, make_directory
from reprobuild.realise.unpack import unpack_root as unpack_root
from reprobuild.store.store import Store
from reprobuild.store.tar_listing import keep_listing
from reprobuild_portable.hashing import hash_file

_PLACE = "/run/reprobuild"
_MERGED = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")

# `faked` remembers ownership for all programs with libfakeroot. chown(2) is not even tried: for owners that the user
# namespace does not have it fails with EINVAL, which libfakeroot does not ignore.
_START = r"""
set -eu
tools=/run/reprobuild/tools
library=$(find "$tools/" -name libfakeroot-sysv.so)
test -n "$library" || { echo "the tools of the base hold no fakeroot" >&2; exit 1; }
session=$("$tools/usr/bin/faked-sysv")
export FAKEROOTKEY="${session%%:*}" FAKEROOTDONTTRYCHOWN=1 LD_PRELOAD="$library"
exec sh -c "$1"
"""

# All messages go to standard error, so that the message of a failure has the last of them.
_INSTALL = r"""
set -eu
exec >&2
for list in /run/reprobuild/owners/owner-*; do
    [ ! -e "$list" ] || xargs --null --arg-file="$list" chown --no-dereference "${list##*-}" --
done
for list in /run/reprobuild/owners/mode-*; do
    [ ! -e "$list" ] || xargs --null --arg-file="$list" chmod "${list##*-}" --
done
[ ! -e /run/reprobuild/owners/capabilities.tar ] || tar --extract --file=/run/reprobuild/owners/capabilities.tar \
    --directory=/ --overwrite --same-owner --same-permissions --xattrs --xattrs-include=security.capability
[ ! -e /usr/sbin/policy-rc.d ] || mv /usr/sbin/policy-rc.d /usr/sbin/policy-rc.d.base
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
chmod 0755 /usr/sbin/policy-rc.d
xargs --no-run-if-empty --max-args=1 --arg-file=/run/reprobuild/plan/foreign dpkg --add-architecture
for batch in /run/reprobuild/plan/[0-9]*; do
    xargs --no-run-if-empty --arg-file="$batch" \
        dpkg --abort-after=1 --force-unsafe-io --force-depends --unpack
    dpkg --abort-after=1 --force-unsafe-io --configure --pending
done
test -z "$(dpkg --audit)" || { dpkg --audit; exit 1; }
rm -f /usr/sbin/policy-rc.d
[ ! -e /usr/sbin/policy-rc.d.base ] || mv /usr/sbin/policy-rc.d.base /usr/sbin/policy-rc.d
tar --create --file=/run/reprobuild/out/tree.tar --directory=/ --format=posix \
    --one-file-system --sort=name --xattrs --xattrs-include=security.capability .
"""
_NO_PLACE = "a base cannot hold it; choose another image with `--base`"
_RECIPE = "3"  # to be raised if other code than the two scripts changes the tree


def recall_base(base: Base, store: Store, epoch: int) -> str | None:
    """Return the sha256 of a base's tree, if the store has it."""
    known = store.recall(_key(base, epoch))
    return str(known["tree"]) if isinstance(known, dict) and store.has(known.get("tree", "")) else None


def realise_base(base: Base, store: Store, epoch: int, say: Callable[[str], None] = lambda _: None) -> str:
    """Install a base's packages; return the sha256 of its tree.

    The tree is an uncompressed tar in the store: entries in the order of a sorted walk, all times the epoch. It is the
    same for every user and machine of the architecture; if the store has it, it is not made again.

    Args:
        base: packages and tools, all in the store.
        store: has the packages, and receives the tree.
        epoch: SOURCE_DATE_EPOCH for the maintainer scripts, and the time of every entry.
        say: logs the start.

    Raises:
        FetchError: a package is not in the store, or damaged.
        BuildError: a package is malicious, or the installation failed.
        EngineError: a sandbox is not possible here.
    """
    known = recall_base(base, store, epoch)
    if known is not None:
        return known
    with store.workspace() as folder:
        tree = folder / "tree.tar"
        if base.image and not base.packages:
            say(f"putting the layers of {base.image.reference} together")
            flat = folder / "flat.tar"
            flatten(base.image, store, folder, flat, epoch, EMPTY)
            listing = rewrite(flat, tree, epoch, _NO_PLACE)
        else:
            check_namespaces()  # before any file is unpacked
            over = f" over {base.image.reference}" if base.image else ""
            say(f"installing {len(base.packages)} system packages with dpkg{over}, once for this set")
            listing = rewrite(_install_packages(base, store, folder, epoch), tree, epoch)
        digest = store.adopt(tree, hash_file(tree))
    keep_listing(digest, listing, store)
    store.remember(_key(base, epoch), {"tree": digest})
    return digest


def _install_packages(base: Base, store: Store, folder: Path, epoch: int) -> Path:
    """Install the packages, over an image if any; return the tar."""
    names = ("root", "tools", "plan", "out", "owners", "debs")
    root, tools, plan, out, owners, debs = (folder / name for name in names)
    for directory in (root, tools, plan, out, owners, debs):
        make_directory(directory)
    if base.image:
        flat = folder / "flat.tar"
        write_owners(flatten(base.image, store, folder, flat, epoch, EMPTY), flat, owners, EMPTY)
        unpack_root(flat, root)
        flat.unlink()
    else:
        _bootstrap(base, store, root)
    for deb in sorted(base.tools, key=_deb_sort_key):
        _unpack(deb, store, tools)
    _write_plan(base, store, plan, debs)
    _run_installer(store, folder, epoch)
    return check_output_file(out / "tree.tar", "the installation of the base")


def _key(base: Base, epoch: int) -> str:
    """Return one hash of all inputs of the tree."""
    parts = {"recipe": [_RECIPE, _START, _INSTALL], "epoch": epoch, **ingredients(base)}
    return hashlib.sha256(b"base\0" + json.dumps(parts, sort_keys=True).encode()).hexdigest()


def ingredients(base: Base) -> dict[str, list[Any] | None]:
    """Return all of a base that its tree follows from, as JSON.

    Each package and tool counts: a script of any of them can change what runs in the base. The packages of the image
    decide the native architecture, and so the order of the installation.
    """
    image = base.image
    return {
        "packages": [_deb_facts(deb) for deb in sorted(base.packages, key=_deb_sort_key)],
        "tools": [_deb_facts(deb) for deb in sorted(base.tools, key=_deb_sort_key)],
        "layers": [layer.diff_id for layer in image.layers] if image else None,
        "below": sorted([p.name, p.architecture] for p in image.packages) if image else [],
    }


def _deb_facts(deb: Deb) -> list[Any]:
    return [deb.name, deb.architecture, deb.file.sha256, deb.essential]


def _deb_sort_key(deb: Deb) -> tuple[str, str]:
    return deb.name, deb.architecture


def _bootstrap(base: Base, store: Store, root: Path) -> None:
    """Unpack the essential packages.

    Their dpkg can then run and install them over themselves.
    """
    for name in _MERGED:
        make_directory(root / "usr" / name)
        (root / name).symlink_to(f"usr/{name}")
    for deb in sorted(base.packages, key=_deb_sort_key):
        if deb.essential:
            _unpack(deb, store, root)
    for path in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "etc", "usr/sbin"):
        make_below(root, path, mode=0o755)  # a package may hold links of these names
    for path in ("var/lib/dpkg/status", "var/lib/dpkg/available"):
        touch_below(root, path, mode=0o644)
    awk = root / "usr/bin/awk"
    if not awk.is_symlink():  # an alternative, made at configuration; preinst scripts use it
        awk.symlink_to("mawk" if (root / "usr/bin/mawk").exists() else "gawk")


def _unpack(deb: Deb, store: Store, folder: Path) -> None:
    path = store.verified(deb.file.sha256, deb.file.filename)
    with open_part(path, "data.tar", deb.file.filename) as tar:
        extract(tar, folder, deb.file.filename, packed=path.stat().st_size)


def _write_plan(base: Base, store: Store, plan: Path, debs: Path) -> None:
    """Write the foreign architectures and the installation batches.

    The architectures are one a line; each batch is a file of paths in the sandbox.

    The packages themselves go to `debs`: the sandbox sees only these files of the store.
    """
    native = base.native
    controls: list[DebControl] = []
    files: dict[str, str] = {}
    for deb in sorted(base.packages, key=_deb_sort_key):  # a lock may list them in any order
        path = store.verified(deb.file.sha256, deb.file.filename)
        control = read_control(path, deb.file.filename)
        if (control.name, control.architecture) != (deb.name, deb.architecture):
            raise BuildError(
                f"{deb.file.filename} holds the package {control.name} for {control.architecture}, locked as "
                f"{deb.name} for {deb.architecture}",
                hint="make the lock again with `reprobuild lock DIR`",
            )
        controls.append(control)
        _link(path, debs / f"{deb.file.sha256}.deb")
        files[_dpkg_key(deb, native)] = f"{_PLACE}/debs/{deb.file.sha256}.deb"
    foreign = sorted({deb.architecture for deb in base.packages} - {native, "all"})
    (plan / "foreign").write_text("".join(f"{name}\n" for name in foreign))
    ordered = plan_batches(
        controls, [_dpkg_key(deb, native) for deb in base.packages if deb.essential], native
    )
    for number, keys in enumerate(ordered):
        (plan / f"{number:04}").write_text("".join(f"{files[key]}\n" for key in keys))


def _link(path: Path, target: Path) -> None:
    """Link a file to a second name, or copy it.

    It is copied if its disk or its owner does not allow the link.
    """
    try:
        target.hardlink_to(path)
    except FileExistsError:  # one file under two names of packages
        return
    except OSError:
        shutil.copyfile(path, target)


def _dpkg_key(deb: Deb, native: str) -> str:
    return dpkg_name(deb.name, deb.architecture, native)


def _run_installer(store: Store, folder: Path, epoch: int) -> None:
    binds = [
        *(
            Bind(source=folder / name, target=f"{_PLACE}/{name}")
            for name in ("debs", "tools", "plan", "owners")
        ),
        Bind(source=folder / "out", target=f"{_PLACE}/out", writable=True),
    ]
    settings = {"DEBIAN_FRONTEND": "noninteractive", "DEBCONF_NONINTERACTIVE_SEEN": "true"}
    try:
        run_in_root(
            Root(folder=folder / "root"), ["/bin/sh", "-c", _START, "base", _INSTALL], epoch=epoch,
            purpose="install the base", binds=binds, env=settings,
        )  # fmt: skip
    except ProcessFailedError as err:
        raise BuildError(str(err), hint=_remedy(err, store)) from None


# tar reports only that its last block was cut short.
_FULL = re.compile(r"No space left on device|Disk quota exceeded|Wrote only \d+ of \d+ bytes")


def _remedy(err: ProcessFailedError, store: Store) -> str:
    """Return a hint for a failed installation.

    Programs report a full disk in different ways.
    """
    if _FULL.search(err.stderr):
        return f"the disk of {store.root} is full: make room there, or name another directory with `--store`"
    return "the last lines name the package; `--drop NAME` leaves one out that nothing else needs"
