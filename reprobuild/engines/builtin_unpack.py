"""A layer unpacked into a directory, as overlayfs takes it.

GNU tar unpacks it into an empty directory. It makes symbolic links that could lead out of the directory only at the
end, so no file is written outside (https://www.gnu.org/software/tar/manual/html_section/Security.html). Attributes of
files are left out: capabilities have no effect in a container of this engine, and those of overlays would be obeyed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from reprobuild.engines.image_records import PART
from reprobuild.errors import EngineError
from reprobuild.image.oci.read import Layout, open_layer
from reprobuild.infra.directory_fd import remove
from reprobuild.infra.proc import ProcessFailedError, feed
from reprobuild.infra.sandbox import namespaces
from reprobuild.infra.shell_words import quote_path
from reprobuild.infra.tar.entries import CHUNK, normalise_name
from reprobuild.infra.untrusted.budget import MOST_PATHS, Allowance
from reprobuild.infra.untrusted.layers import layer_members
from reprobuild.infra.untrusted.names import check_name
from reprobuild.infra.walk import walk

WHITEOUT, OPAQUE, OF_AUFS = ".wh.", ".wh..wh..opq", ".wh..wh."
ATTRIBUTE = "user.overlay.opaque"
MOST_ENTRIES = 2 * MOST_PATHS  # of an unpacked layer: its members, and directories above them
# Errors of tar for a full disk, in the C locale. If a block fits in part, tar tells the bytes and not the cause.
_FULL = {
    os.strerror(errno.ENOSPC): os.strerror(errno.ENOSPC),
    os.strerror(errno.EDQUOT): os.strerror(errno.EDQUOT),
    ": Wrote only ": os.strerror(errno.ENOSPC),
}
_HINT = "choose another engine with --engine, or build the image again from its lock"


def unpack_layer(layout: Layout, number: int, target: Path, members: Allowance, allowance: Allowance) -> None:
    """Unpack a layer of a layout into a new directory.

    The hash of its tar is checked before the directory has its name. A layer that the checks of an image refuse is
    refused here, too, and one with a name twice: of two entries tar may take another one than the checks.

    Args:
        layout: has the layer.
        number: its place, the lowest is 0.
        target: the directory, which is made.
        members, allowance: the bounds of the two readings.

    Raises:
        BuildError: the layer is damaged, or too large.
        EngineError: it cannot be unpacked.
    """
    part = target.with_name(target.name + PART)
    remove(part)  # left by a process that was killed
    part.mkdir()
    part.chmod(0o755)
    owners = "--same-owner" if os.geteuid() == 0 else "--no-same-owner"
    argv = [
        "sh", "-c", 'umask 022; exec tar "$@"', "tar", "--extract", "--file=-", f"--directory={part}",
        "--numeric-owner", "--preserve-permissions", owners, "--delay-directory-restore", "--no-xattrs", "--no-acls",
        "--no-selinux", "--warning=no-timestamp",
    ]  # fmt: skip
    try:
        _refuse_repeats(layout, number, members)
        feed(
            argv, _read_pieces(layout, number, allowance), env={"PATH": namespaces.PATH, "LC_ALL": "C"},
            purpose="unpack a layer of the image", hint="install GNU tar, or choose another engine with --engine",
        )  # fmt: skip
        _convert_whiteouts(part)
        part.rename(target)
    except ProcessFailedError as err:
        full = next((reason for text, reason in _FULL.items() if text in err.stderr), "")
        if not full:
            raise
        raise EngineError(
            f"a layer cannot be unpacked in {target.parent}: {full}", hint=_advise_room(target.parent)
        ) from None
    except OSError as err:
        hint = _advise_room(target.parent) if err.errno in (errno.ENOSPC, errno.EDQUOT) else _HINT
        raise EngineError(
            f"a layer cannot be unpacked in {target.parent}: {err.strerror}", hint=hint
        ) from None
    finally:
        with contextlib.suppress(OSError):
            remove(part)


def _advise_room(layers: Path) -> str:
    return (
        f"make room or free inodes there (`df -h {quote_path(layers)}`, and with -i), or let XDG_CACHE_HOME "
        "name a directory with more; the layers that are complete stay"
    )


def _refuse_repeats(layout: Layout, number: int, allowance: Allowance) -> None:
    """Refuse a layer that the checks of an image refuse, and one with a name twice.

    A name has one form: tar takes `a//x` and `a/./x` for `a/x`, too.
    """
    names: set[str] = set()
    origin = f"layer {number + 1} of {layout.folder}"
    with open_layer(layout, number, allowance=allowance) as stream:
        for info, _ in layer_members(stream, origin, allowance):
            name = normalise_name(info.name)
            if name:
                check_name(name, origin)
            if name == OPAQUE and number:
                raise EngineError(
                    f"{origin} hides all files of the layers below it, which overlays ignore", hint=_HINT
                )
            if name in names:
                raise EngineError(
                    f"{origin} has {ascii(name)[:200]} twice, of which engines may take either", hint=_HINT
                )
            names.add(name)


def has_whiteouts(layer: Path) -> bool:
    """Return whether an unpacked layer deletes files of a lower one."""
    for folder, _, files in walk(layer, MOST_ENTRIES):
        if any(stat.S_ISCHR(os.lstat(f"{folder}/{name}").st_mode) for name in files):
            return True
        with contextlib.suppress(OSError):  # most have no attribute
            os.getxattr(folder, ATTRIBUTE)
            return True
    return False


def _read_pieces(layout: Layout, number: int, allowance: Allowance) -> Iterator[bytes]:
    with open_layer(layout, number, allowance=allowance) as stream:
        while piece := stream.read(CHUNK):
            yield piece


def _convert_whiteouts(top: Path) -> None:
    """Convert the whiteouts of a layer, and remove device nodes.

    https://docs.kernel.org/filesystems/overlayfs.html#whiteouts-and-opaque-directories
    """
    for folder, folders, files in walk(top, MOST_ENTRIES):
        for name in (*folders, *files):
            path = f"{folder}/{name}"
            if name.startswith(WHITEOUT):
                _convert(folder, name, path)
            elif name in files:
                kind = os.lstat(path).st_mode
                if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
                    Path(path).unlink()
        folders[:] = [name for name in folders if not name.startswith(WHITEOUT)]


def _convert(folder: str, name: str, path: str) -> None:
    remove(Path(path))
    if name == OPAQUE:
        os.setxattr(folder, ATTRIBUTE, b"y")
    elif not name.startswith(OF_AUFS):
        deleted = f"{folder}/{name.removeprefix(WHITEOUT)}"
        if os.path.lexists(deleted):
            raise EngineError(
                f"a layer of the image holds and deletes {ascii(name.removeprefix(WHITEOUT))[:200]}: engines disagree "
                "about it",
                hint=_HINT,
            )
        os.mknod(deleted, stat.S_IFCHR, os.makedev(0, 0))
