"""The contents of an image: distribution and dpkg packages.

They are read from its layers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from debian.debian_support import Version
from msgspec import Struct, structs
from packaging.utils import canonicalize_name

from reprobuild.ecosystems.apt.relations import NAME, VERSION, Group, Relation, parse_relations
from reprobuild.errors import BuildError, LockError
from reprobuild.image.layering.base_layers import base_allowance
from reprobuild.image.layering.merge import Located, Tree, merge
from reprobuild.image.layering.packed import open_packed
from reprobuild.infra.display import display_text
from reprobuild.infra.tar.entries import TarEntry, entry_of
from reprobuild.infra.untrusted import tars
from reprobuild.infra.untrusted.budget import Allowance
from reprobuild.infra.untrusted.layers import layer_members
from reprobuild.infra.untrusted.names import HOSTILE, check_name, check_total
from reprobuild.lock.system import BaseImage, ImageLayer, dpkg_name
from reprobuild.resolve.system.status_file import LARGEST_STATUS, read_stanzas
from reprobuild.store.store import Store

_STATUS = "var/lib/dpkg/status"
# https://www.freedesktop.org/software/systemd/man/latest/os-release.html: the first is a link to the second.
_RELEASES = ("etc/os-release", "usr/lib/os-release")
_ENDS = ("dpkg/status", "os-release")  # of these, also below a link
_LARGEST = 512 << 20  # of all such files, in all layers
# The path of pip's packages for the system's own Python, on Debian and Ubuntu: https://wiki.debian.org/Python
_METADATA = re.compile(
    r"usr/local/lib/python(3\.\d{1,2})/dist-packages/"
    r"([A-Za-z0-9][A-Za-z0-9._]{0,99})-(\d[A-Za-z0-9.+!_]{0,99})(?:-py3\.\d{1,2})?\.(?:dist|egg)-info"
)
_ARCHITECTURE = re.compile(r"[a-z0-9-]+")
_MULTI_ARCH = ("same", "foreign", "allowed")
# Paths of other systems' package databases, and their names.
_OTHERS = (
    ("var/lib/dpkg/status.d", "a distroless image"),
    ("lib/apk/db/installed", "Alpine Linux"),
    ("usr/lib/apk/db/installed", "Alpine Linux"),
    ("var/lib/rpm", "a system of rpm packages"),
    ("usr/lib/sysimage/rpm", "a system of rpm packages"),
    ("var/lib/pacman", "Arch Linux"),
)
_ONLY = "choose an image of Debian or Ubuntu, or made from one, that still has its dpkg"
_AGAIN = "run the command again, or take the image from another registry"


class PresentPackage(Struct, frozen=True, kw_only=True):
    """A package of the image, with its relations.

    They are its needs (Pre-Depends, Depends), its names (Provides), and its conflicts (Conflicts, Breaks).
    """

    name: str
    version: str
    architecture: str
    needs: tuple[Group, ...]
    provides: tuple[Relation, ...]
    excludes: tuple[Relation, ...] = ()
    multi_arch: str = ""


class ImageSystem(Struct, frozen=True, kw_only=True):
    """An image's release, and its packages by dpkg's names.

    A name is for example `zlib1g:i386` for another architecture.

    `distributions` are those that pip installed for the system's own Python: by its `X.Y`, and by canonical name.
    """

    distribution: str
    release: str
    packages: dict[str, PresentPackage]
    distributions: dict[str, dict[str, str]] = {}


def read_system(image: BaseImage, store: Store, architecture: str) -> ImageSystem:
    """Read the contents of an image with layers in the store.

    Args:
        image: the image.
        store: has its layers.
        architecture: of the system, in Debian's spelling.

    Raises:
        LockError: it has no dpkg, or does not state its release.
        BuildError: a layer does not match the image, or is malicious.
        FetchError: a layer is not in the store.
    """
    texts: dict[tuple[int, int], bytes] = {}
    allowance = base_allowance(image, store)
    listings = [
        _list_layer(layer, number, store, texts, allowance) for number, layer in enumerate(image.layers)
    ]
    try:
        tree = merge(listings)
    except BuildError as err:
        raise BuildError(f"{image.reference}: {err}", hint=err.hint) from None
    status = _file_content(_STATUS, tree, texts)
    if not status or "usr/bin/dpkg" not in tree:
        system = next((name for path, name in _OTHERS if path in tree), "a system without packages")
        raise LockError(f"{image.reference} is {system}: nothing can be installed over it", hint=_ONLY)
    release = _read_release(
        image, next((t for path in _RELEASES if (t := _file_content(path, tree, texts))), b"")
    )
    return ImageSystem(
        distribution=release["ID"], release=release["VERSION_CODENAME"],
        packages=_read_packages(image, status, architecture), distributions=_find_distributions(tree),
    )  # fmt: skip


def _list_layer(
    layer: ImageLayer, number: int, store: Store, texts: dict[tuple[int, int], bytes], allowance: Allowance
) -> list[TarEntry]:
    """Return a layer's entries, and add wanted texts to `texts`."""
    name, entries = layer.file.filename, list[TarEntry]()
    path = store.verified(layer.file.sha256, name)
    read = sum(map(len, texts.values()))
    size = path.stat().st_size
    with open_packed(
        path.open, layer.media_type, layer.diff_id, name, allowance=allowance, again=_AGAIN
    ) as stream:
        try:
            total = 0
            for info, content in layer_members(stream, name, allowance):
                total += info.size
                check_total(total, size, name)
                entry = entry_of(info)
                if entry.path:
                    check_name(entry.path, name)
                entries.append(Located(layer=number, offset=info.offset_data, **structs.asdict(entry)))
                if content is not None and entry.path.endswith(_ENDS):
                    read += entry.size
                    if entry.size > LARGEST_STATUS or read > _LARGEST:
                        raise BuildError(
                            f"/{display_text(entry.path)} of {name} has {entry.size} bytes, and all files of its kind "
                            f"have {read}",
                            hint=HOSTILE,
                        )  # fmt: skip
                    texts[number, info.offset_data] = content.read()
        except tars.UNREADABLE as err:
            raise BuildError(f"{name} cannot be read: {err}", hint=HOSTILE) from None
    return entries


def _find_distributions(tree: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the distributions outside of dpkg.

    They are found by the names of their metadata directories.
    """
    distributions: dict[str, dict[str, str]] = {}
    for match in filter(None, map(_METADATA.fullmatch, tree)):
        distributions.setdefault(match[1], {})[str(canonicalize_name(match[2]))] = match[3]
    return distributions


def _file_content(path: str, tree: Tree, texts: Mapping[tuple[int, int], bytes]) -> bytes:
    """Return a file's content in the topmost layer with it."""
    entry = tree.get(path)
    return texts.get((entry.layer, entry.offset), b"") if isinstance(entry, Located) else b""


def _read_release(image: BaseImage, text: bytes) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.decode(errors="replace").splitlines())
    fields = {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}
    for key in ("ID", "VERSION_CODENAME"):
        if not re.fullmatch(r"[a-z]{1,40}", fields.get(key, "")):
            raise LockError(
                f"{image.reference} does not state its release: "
                f"{key} of /etc/os-release is {fields.get(key, '')[:40]!r}",
                hint=_ONLY,
            )
    return fields


def _read_packages(image: BaseImage, status: bytes, architecture: str) -> dict[str, PresentPackage]:
    """Read the package list of dpkg.

    https://manpages.debian.org/bookworm/dpkg/dpkg-query.1.en.html#status
    """
    packages = {}
    for fields in read_stanzas(status, image.reference):
        name, version = fields.get("Package", ""), fields.get("Version", "")
        if not fields.get("Status", "").endswith(" installed"):
            continue
        package_architecture, multi_arch = fields.get("Architecture", ""), fields.get("Multi-Arch", "")
        needs = parse_relations(fields.get("Pre-Depends", "")) + parse_relations(fields.get("Depends", ""))
        provides = tuple(r for group in parse_relations(fields.get("Provides", "")) for r in group)
        excludes = parse_relations(fields.get("Conflicts", "")) + parse_relations(fields.get("Breaks", ""))
        versions = (r.version for group in (*needs, provides, *excludes) for r in group)
        sound = (
            NAME.fullmatch(name) and _ARCHITECTURE.fullmatch(package_architecture) and _is_version(version)
        )
        if not (sound and all(not text or _is_version(text) for text in versions)):
            raise LockError(
                f"the list of packages of {image.reference} is damaged at {name[:60]!r}", hint=_ONLY
            )
        packages[dpkg_name(name, package_architecture, architecture)] = PresentPackage(
            name=name,
            version=version,
            architecture=package_architecture,
            needs=needs,
            provides=provides,
            excludes=tuple(r for group in excludes for r in group),
            multi_arch=multi_arch if multi_arch in _MULTI_ARCH else "",
        )
    return packages


def _is_version(text: str) -> bool:
    """Return whether dpkg could compare a version.

    `a:1` has the characters of a version, but is not valid.
    """
    if not VERSION.fullmatch(text):  # before `Version`, which takes 165 times the bytes of a long text
        return False
    try:
        Version(text)
    except ValueError:
        return False
    return True
