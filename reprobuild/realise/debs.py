"""What is in `.deb` files, and the one order in which they are installed."""

from __future__ import annotations

import contextlib
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import zstandard
from debian.arfile import ArError, ArFile
from debian.deb822 import Deb822
from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.resolve.deb_index import Group, Relation, relations

_DAMAGED = "remove the file from the store and run `reprobuild fetch LOCK` again"


class Control(Struct, frozen=True, kw_only=True):
    """The relations of one package, from its control file."""

    name: str
    before: tuple[Group, ...]
    needs: tuple[Group, ...]
    provides: tuple[str, ...]


@contextlib.contextmanager
def open_part(deb: Path, part: str, name: str) -> Iterator[tarfile.TarFile]:
    """Open `control.tar` or `data.tar` of a package as a tar stream, whatever compresses it (deb(5)).

    Args:
        deb: the package's file.
        part: `control.tar` or `data.tar`.
        name: the file's name for an error.

    Raises:
        BuildError: the file is not a package.
    """
    try:
        with deb.open("rb") as stream:
            members = ArFile(fileobj=stream).getmembers()
            member = next(m for m in members if m.name == part or m.name.startswith(part + "."))
            if member.name.endswith(".zst"):
                with (
                    zstandard.ZstdDecompressor().stream_reader(member) as plain,  # type: ignore[arg-type]  # only read() is called
                    tarfile.open(fileobj=plain, mode="r|") as tar,
                ):
                    yield tar
            else:
                with tarfile.open(fileobj=member, mode="r|*") as tar:  # type: ignore[call-overload]  # likewise
                    yield tar
    except (ArError, StopIteration, tarfile.TarError, zstandard.ZstdError, EOFError) as err:
        raise BuildError(f"{name} is not a Debian package: {str(err) or part}", hint=_DAMAGED) from None


def read_control(deb: Path, name: str) -> Control:
    """Read the relations of a package.

    Raises:
        BuildError: the file is not a package, or has no control file.
    """
    with open_part(deb, "control.tar", name) as tar:
        for info in tar:
            if info.name.removeprefix("./") == "control" and info.isreg():
                stream = tar.extractfile(info)
                fields = Deb822(stream.read() if stream else b"")
                return Control(
                    name=fields.get("Package", ""),
                    before=relations(fields.get("Pre-Depends", "")),
                    needs=relations(fields.get("Depends", "")),
                    provides=tuple(r.name for g in relations(fields.get("Provides", "")) for r in g),
                )
    raise BuildError(f"{name} is not a Debian package: it has no control file", hint=_DAMAGED)


def batches(controls: Sequence[Control], essential: Iterable[str]) -> list[list[str]]:
    """Return the names in the order of installation, in batches that are unpacked and then configured.

    The first batch are the essential packages. The others come after what they need; those that need each
    other stay together; a batch ends where a package must find others configured (Pre-Depends).
    """
    first = sorted(essential)
    controls = sorted(controls, key=lambda control: control.name)
    providers: dict[str, list[str]] = {}
    for control in controls:
        for name in (control.name, *control.provides):
            providers.setdefault(name, []).append(control.name)
    before = {c.name: _targets(c.before, providers) for c in controls}
    needs = {c.name: before[c.name] | _targets(c.needs, providers) for c in controls}
    reach = {name: _reach(name, needs) for name in needs}
    together = {name: min(other for other in reach[name] if name in reach[other]) for name in needs}
    order = sorted(set(needs) - set(first), key=lambda n: (len(reach[n]), together[n], n))
    result: list[list[str]] = [first]
    current: list[str] = []
    for name in order:
        if any(other in current and together[other] != together[name] for other in before[name]):
            result.append(current)
            current = []
        current.append(name)
    return [batch for batch in (*result, current) if batch]


def _targets(groups: Iterable[Group], providers: Mapping[str, Sequence[str]]) -> set[str]:
    found: set[str] = set()
    for group in groups:
        found.update(_first(group, providers))
    return found


def _first(group: Sequence[Relation], providers: Mapping[str, Sequence[str]]) -> Sequence[str]:
    return next((providers[r.name] for r in group if r.name in providers), ())


def _reach(name: str, needs: Mapping[str, set[str]]) -> frozenset[str]:
    """Return the name and all that it leads to."""
    found = {name}
    left = [name]
    while left:
        for other in needs[left.pop()]:
            if other not in found:
                found.add(other)
                left.append(other)
    return frozenset(found)
