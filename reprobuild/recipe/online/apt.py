"""System packages for apt: archives and pinned versions, from the addresses in a lock.

A lock has the address of each package file. The part before `/pool/` is the archive. The suites of Debian's and
Ubuntu's archives follow from the release; packages of other archives are downloaded one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from reprobuild.errors import BuildError
from reprobuild.lock.system import Base, BaseImage, Deb, dpkg_name
from reprobuild.recipe.online.model import BuildArgument, Gap, PackageArchive, RemoteFile, SystemPackages

OFFLINE = "the offline recipe has every file: `reprobuild render LOCK -o DIR`"
_POOL = re.compile(r"(?P<address>https?://[^\s?#]+?/)pool/(?:updates/)?(?P<component>[a-z-]+)/")
_COMPONENTS = {
    "debian": ("main", "contrib", "non-free", "non-free-firmware"),
    "ubuntu": ("main", "restricted", "universe", "multiverse"),
}
_MOMENT = re.compile(r"/\d{8}T\d{6}Z/\Z")
# The last directories of an address, before any moment: (distribution, directory) gives the archive.
_ARCHIVES = {
    ("debian", "debian"): "debian",
    ("debian", "debian-security"): "debian-security",
    ("ubuntu", "ubuntu"): "ubuntu",
    ("ubuntu", "ubuntu-ports"): "ubuntu",
}
# The start of a PPA's address ends like Ubuntu's own, and its key is not in an image.
_PPA = re.compile(r"https?://[^/]*(?:\bppa\b|launchpad)", re.IGNORECASE)


def plan_packages(
    base: Base, moments: Mapping[str, str], *, argument: str
) -> tuple[SystemPackages, tuple[Gap, ...]]:
    """Return the packages of a base, and what a build may not find.

    Args:
        base: the system of the image, or the one to compile in.
        moments: addresses of the dated archives by name, each with `{time}`.
        argument: the name of the build argument for the image.

    Raises:
        BuildError: the distribution has no apt.
    """
    if base.distribution not in _COMPONENTS:
        raise BuildError(
            f"an online recipe installs packages with apt, which {base.distribution} does not have",
            hint=OFFLINE,
        )
    image, gaps = _start_image(base, argument)
    archives: dict[str, set[str]] = {}
    files: list[RemoteFile] = []
    pins: list[str] = []
    for deb in base.packages:
        pin = f"{dpkg_name(deb.name, deb.architecture, base.native)}={deb.version}"
        place = _POOL.match(deb.file.url)
        if place and _archive_name(place["address"], place["component"], base.distribution):
            archives.setdefault(place["address"], set()).add(place["component"])
            pins.append(pin)
        elif deb.file.url.startswith(("http://", "https://")):
            files.append(_remote_file(deb))
        else:
            gaps += (
                Gap(pin, "its file is only in the store; the build fails unless an archive has the version"),
            )
            pins.append(pin)
    packages = SystemPackages(
        image=image, inherited=base.image is not None, pins=tuple(sorted(pins)), files=tuple(files),
        archives=tuple(_describe_archives(archives, base, moments)),
        foreign=tuple(sorted({deb.architecture for deb in base.packages} - {base.native, "all"})),
    )  # fmt: skip
    return packages, gaps


def _start_image(base: Base, argument: str) -> tuple[BuildArgument, tuple[Gap, ...]]:
    if base.image:
        return BuildArgument(name=argument, value=image_address(base.image), note="the image of the lock"), ()
    value = f"{base.distribution}:{base.release}"
    note = "the lock has no image: any image of this release with apt serves"
    reason = (
        f"the lock installs its {len(base.packages)} packages into an empty directory and names no image: the recipe "
        f"starts from a tag, whose further packages stay; the argument {argument} can name a digest"
    )
    return BuildArgument(name=argument, value=value, note=note), (Gap(value, reason),)


def image_address(image: BaseImage) -> str:
    """Return `name@digest` of an image, without its tag.

    Apptainer refuses an address with both.
    """
    name = image.reference.partition("@")[0]
    above, slash, last = name.rpartition("/")
    return f"{above}{slash}{last.partition(':')[0]}@{image.digest}"


def _archive_name(address: str, component: str, distribution: str) -> str:
    """Return the name of an archive, or "" if its suites are not known."""
    directory = _MOMENT.sub("/", address).rstrip("/").rpartition("/")[2]
    known = component in _COMPONENTS[distribution] and not _PPA.match(address)
    return _ARCHIVES.get((distribution, directory), "") if known else ""


def _describe_archives(
    archives: Mapping[str, Iterable[str]], base: Base, moments: Mapping[str, str]
) -> Iterable[PackageArchive]:
    backports = any("~bpo" in deb.version for deb in base.packages)
    counts: dict[str, int] = {}
    for address in sorted(archives):
        (component, *_), dated = archives[address], _MOMENT.search(address)
        name = _archive_name(address, component, base.distribution)
        counts[name] = counts.get(name, 0) + 1
        number = f"_{counts[name]}" if counts[name] > 1 else ""
        note = (
            "the dated archive in which the lock found its versions" if dated else
            "a live archive, as the lock names it: it drops versions when their successors appear"
        )  # fmt: skip
        variable = f"APT_{name.upper().replace('-', '_')}{number}"
        yield PackageArchive(
            argument=BuildArgument(name=variable, value=address, note=note),
            suites=_suites(name, base.release, backports=backports),
            components=tuple(word for word in _COMPONENTS[base.distribution] if word in archives[address]),
            dated=() if dated or name not in moments else tuple(moments[name].split("{time}", 1)),
        )  # fmt: skip


def _suites(name: str, release: str, *, backports: bool) -> tuple[str, ...]:
    if name == "debian-security":
        # https://www.debian.org/releases/bullseye/amd64/release-notes/ch-information.html#security-archive
        return (f"{release}/updates" if release in ("buster", "stretch") else f"{release}-security",)
    pockets = [
        "",
        "-updates",
        *(["-security"] if name == "ubuntu" else []),
        *(["-backports"] if backports else []),
    ]
    return tuple(release + pocket for pocket in pockets)


def _remote_file(deb: Deb) -> RemoteFile:
    name = (
        f"{deb.name}_{deb.architecture}.deb"  # a version may have a colon, which apt reads as another thing
    )
    return RemoteFile(name=name, url=quote_address(deb.file.url), sha256=deb.file.sha256)


def quote_address(url: str) -> str:
    """Return an address without blanks, quotes and other characters with a meaning for pip, apt or a shell."""
    return quote(url, safe=":/?#@&=+,;%~!*()[]")
