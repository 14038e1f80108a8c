"""A made-up year of package archives: versions appear and vanish; every state is signed and can be asked for by date.

Debian's shape: a release that changes at point releases, updates, and security in an archive of its own. Ubuntu's
shape: a release that never changes, updates and security, and a PPA. The packages are real `.deb` files.
"""

from __future__ import annotations

import hashlib
import lzma
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate

from pysequoia import SignatureMode, Tsk, sign

from tests.system.samples import ar_bytes, member, tar_bytes

START = 1_700_000_000
DAY = 86400
END = START + 365 * DAY
TICK = DAY // 4


@dataclass(frozen=True)
class Version:
    """One version of one package: when it came into which pocket, and when it was taken out (0: never)."""

    name: str
    version: str
    pocket: str
    since: int
    until: int = 0


@dataclass(frozen=True)
class Shape:
    """The pockets of one archive, by its name in the server's paths; `codename` as its Release files say it."""

    distribution: str
    codename: str
    archives: Mapping[str, tuple[str, ...]]


DEBIAN = Shape(
    "debian", "bookworm",
    {"debian": ("bookworm", "bookworm-updates"), "debian-security": ("bookworm-security",)},
)  # fmt: skip
UBUNTU = Shape(
    "ubuntu", "jammy",
    {"ubuntu": ("jammy", "jammy-updates", "jammy-security"), "ppa/tools/fresh/ubuntu": ("jammy",)},
)  # fmt: skip


@dataclass
class World:
    """All archives of one shape. `key` signs the distribution's, `ppa_key` the PPA's."""

    shape: Shape
    versions: list[tuple[str, Version]]  # archive and version
    needs: dict[str, str]
    key: Tsk = field(default_factory=lambda: Tsk.generate("archive <archive@archive.test>"))
    ppa_key: Tsk = field(default_factory=lambda: Tsk.generate("ppa <ppa@archive.test>"))
    debs: dict[tuple[str, str], bytes] = field(default_factory=dict)
    _signed: dict[tuple[str, str, int], bytes] = field(default_factory=dict)

    def state(self, archive: str, pocket: str, time: int) -> dict[str, str]:
        """Return the version of each package in a pocket at a moment."""
        found: dict[str, tuple[int, str]] = {}
        for of, one in self.versions:
            alive = one.since <= time and not (one.until and one.until <= time)
            if of == archive and one.pocket == pocket and alive:
                found[one.name] = max(found.get(one.name, (0, "")), (one.since, one.version))
        return {name: version for name, (_, version) in found.items()}

    def offered(self, time: int) -> dict[str, dict[str, list[str]]]:
        """Return the pockets that have each version of each package at a moment."""
        found: dict[str, dict[str, list[str]]] = {}
        for archive, pockets in self.shape.archives.items():
            for pocket in pockets:
                for name, version in self.state(archive, pocket, time).items():
                    found.setdefault(name, {}).setdefault(version, []).append(pocket)
        return found

    def deb(self, name: str, version: str) -> bytes:
        """Return the file of a version."""
        if (name, version) not in self.debs:
            control = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\n{self.needs.get(name, '')}"
            parts = [(member("./control"), control.encode())]
            data = [(member(f"./usr/share/{name}"), f"{name} {version}".encode())]
            self.debs[(name, version)] = ar_bytes(
                [
                    ("debian-binary", b"2.0\n"),
                    ("control.tar", tar_bytes(parts)),
                    ("data.tar", tar_bytes(data)),
                ]
            )
        return self.debs[(name, version)]

    def packages(self, archive: str, pocket: str, time: int) -> bytes:
        """Return the `Packages` file of a pocket at a moment."""
        stanzas = []
        for name, version in sorted(self.state(archive, pocket, time).items()):
            deb = self.deb(name, version)
            stanzas.append(
                f"Package: {name}\nVersion: {version}\nArchitecture: amd64\n{self.needs.get(name, '')}"
                f"Filename: pool/{name}_{version.partition(':')[2] or version}_amd64.deb\nSize: {len(deb)}\n"
                f"SHA256: {hashlib.sha256(deb).hexdigest()}\n"
            )
        return "\n".join(stanzas).encode()

    def signed(self, archive: str, pocket: str, tick: int) -> bytes:
        """Return the `InRelease` of a pocket at a tick; it expired a week after."""
        key = (archive, pocket, tick)
        if key not in self._signed:
            plain = self.packages(archive, pocket, tick)
            packed = lzma.compress(plain, preset=0)
            rows = "".join(
                f" {hashlib.sha256(content).hexdigest()} {len(content)} main/binary-amd64/Packages{suffix}\n"
                for content, suffix in ((plain, ""), (packed, ".xz"))
            )
            text = (
                f"Origin: Made\nSuite: {pocket}\nCodename: {pocket}\nDate: {formatdate(tick, usegmt=True)}\n"
                f"Valid-Until: {formatdate(tick + 7 * DAY, usegmt=True)}\nComponents: main\nArchitectures: amd64\n"
                f"SHA256:\n{rows}"
            )
            signer = self.ppa_key if archive.startswith("ppa") else self.key
            self._signed[key] = sign(signer.signer(), text.encode(), mode=SignatureMode.CLEAR)
        return self._signed[key]


ESSENTIAL = ("libc6", "dpkg", "fakeroot", "libfakeroot")


def make_world(shape: Shape, seed: int, names: int = 60, *, withdrawn: bool = True) -> World:
    """Return a year: some packages never change, some every few weeks; a few versions live for hours alone."""
    dice = random.Random(seed)
    all_names = [*ESSENTIAL, *(f"lib{number:02}" for number in range(names))]
    needs = {}
    for number, name in enumerate(all_names[4:]):
        others = dice.sample(all_names[4 : 4 + number], min(number, dice.randrange(3)))
        needs[name] = f"Depends: {', '.join(['libc6', *others])}\n"
    needs["dpkg"] = "Essential: yes\nDepends: libc6\n"
    archive = next(iter(shape.archives))
    pockets = shape.archives[archive]
    versions = [(archive, Version(name, "1.0-1", pockets[0], START - 30 * DAY)) for name in all_names]
    for name in all_names:
        versions += _updates(shape, name, dice, withdrawn)
    for pocket in shape.archives.get("ppa/tools/fresh/ubuntu", ()):
        for number in range(4):
            versions += _series("ppa/tools/fresh/ubuntu", pocket, f"fresh{number}", "5.{}-1~jammy1", dice)
            needs[f"fresh{number}"] = "Depends: libc6, lib00\n"
    return World(shape, versions, needs)


def _updates(shape: Shape, name: str, dice: random.Random, withdrawn: bool) -> Iterable[tuple[str, Version]]:
    """Yield the updates of a package; in Debian's shape point releases take them into the release."""
    (archive, pockets), *others = shape.archives.items()
    security = others[0] if shape is DEBIAN else (archive, pockets[2:])
    times = sorted(dice.sample(range(START, END, TICK), dice.choice([0, 0, 1, 2, 5])))
    for number, time in enumerate(times, 1):
        version = f"1.0-1+u{number}"
        of, pocket = dice.choice([(archive, pockets[1]), (security[0], security[1][0])])
        # Some are withdrawn within days, as their successor comes.
        until = time + withdrawn * dice.choice([0, 0, 0, TICK, 3 * DAY])
        yield of, Version(name, version, pocket, time, until if until > time else 0)
        if pocket != pockets[1] and shape is UBUNTU:
            yield archive, Version(name, version, pockets[1], time + TICK, 0)
        if shape is DEBIAN:
            point = START + (1 + (time - START) // (60 * DAY)) * 60 * DAY
            yield archive, Version(name, version, pockets[0], point)


def _series(
    archive: str, pocket: str, name: str, form: str, dice: random.Random
) -> Iterable[tuple[str, Version]]:
    times = [START - DAY, *sorted(dice.sample(range(START, END, TICK), 6))]
    for number, time in enumerate(times):
        yield archive, Version(name, form.format(number), pocket, time)
