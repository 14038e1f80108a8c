"""Names of wheel files, with a bound on their tags.

A name of 200 letters can stand for 40,000 tags, so tags are counted before they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import prod

from msgspec import Struct
from packaging.utils import BuildTag, InvalidWheelFilename, NormalizedName
from packaging.utils import parse_wheel_filename as _parse
from packaging.version import Version

from reprobuild.infra.untrusted.names import LONGEST_NAME

# Names of real wheels stand for one tag, or some dozen: some interpreters times some versions of a platform.
MOST_TAGS = 512
# The longest pages have some ten thousand names of a few tags each.
MOST_PAGE_TAGS = 1_000_000
_PLAIN = "py3-none-any"


# Interpreter, ABI and platform. packaging's `Tag` needs ten times as long, and a page may have a million.
TagParts = tuple[str, str, str]


class WheelTagParts(Struct, frozen=True, kw_only=True):
    """The parts of a wheel's tags; each combination of them is a tag."""

    interpreters: frozenset[str]
    abis: frozenset[str]
    platforms: frozenset[str]


def read_wheel_filename(filename: str) -> tuple[NormalizedName, Version, BuildTag]:
    """Return project, version and build of a wheel's name.

    Its tags are not made.

    Raises:
        InvalidWheelFilename: it is not a wheel's name, or stands for more than `MOST_TAGS` tags.
    """
    if len(filename) > LONGEST_NAME:
        raise InvalidWheelFilename(f"Invalid wheel filename (too long): {filename[:60]!r}...")
    head, *tags = filename.removesuffix(".whl").rsplit("-", 3)
    if not filename.endswith(".whl") or len(tags) < 3:
        return _parse(filename)[:3]  # it raises
    try:
        read = _parse(f"{head}-{_PLAIN}.whl")[:3]
    except InvalidWheelFilename as err:
        raise InvalidWheelFilename(str(err).replace(f"{head}-{_PLAIN}", filename[:-4])) from None
    _check_tags([part.split(".") for part in tags], filename[:-4])
    return read


def read_wheel_tag_parts(filename: str) -> WheelTagParts:
    """Return the parts of a wheel's tags, in lower case.

    They are fewer than the tags, which a lock of many wheels would take minutes to make.

    Raises:
        InvalidWheelFilename: see `read_wheel_filename`.
    """
    read_wheel_filename(filename)
    tags = filename.removesuffix(".whl").lower().rsplit("-", 3)[1:]
    interpreters, abis, platforms = (frozenset(part.split(".")) for part in tags)
    return WheelTagParts(interpreters=interpreters, abis=abis, platforms=platforms)


def list_wheel_tags(filename: str) -> Iterator[TagParts]:
    """Return the tags of a wheel's name, each when it is asked for.

    Raises:
        InvalidWheelFilename: see `read_wheel_filename`.
    """
    parts = read_wheel_tag_parts(filename)
    return product(parts.interpreters, parts.abis, parts.platforms)


def check_page_tags(filenames: Iterable[str]) -> None:
    """Refuse a page whose names of wheels stand for too many tags.

    Raises:
        ValueError: they stand for more than `MOST_PAGE_TAGS`. Names of more than `MOST_TAGS` do not count, as they
            are left out.
    """
    names = (name.removesuffix(".whl").rsplit("-", 3)[1:] for name in filenames if name.endswith(".whl"))
    counts = (prod(part.count(".") + 1 for part in tags) for tags in names)
    if sum(count for count in counts if count <= MOST_TAGS) > MOST_PAGE_TAGS:
        raise ValueError(f"its names of wheels stand for more than {MOST_PAGE_TAGS} tags")


def _check_tags(tags: list[list[str]], filename: str) -> None:
    """Refuse invalid tag parts, and too many of them.

    The rules for parts of a compressed tag set are packaging's.
    """
    empty = any("" in parts for parts in tags)
    if empty or not all(interpreter.isidentifier() for interpreter in tags[0]):
        raise InvalidWheelFilename(f"Invalid wheel filename (invalid tag component): {filename!r}")
    if (count := prod(map(len, tags))) > MOST_TAGS:
        raise InvalidWheelFilename(
            f"Invalid wheel filename ({count} tags, and at most {MOST_TAGS} are read): {filename!r}"
        )
