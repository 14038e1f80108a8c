"""The age of one release from the strongest evidence that decides it.

In this order: an upload time on another index, the newest member of a wheel, the times of the source archive, the
version's entry in its list of changes, the release of the build back end. What was read from a file is kept by its hash
and address.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from reprobuild.ecosystems.pypi.core_metadata import PublishedMetadata, read_published_metadata
from reprobuild.ecosystems.pypi.page_cache import ListedFile
from reprobuild.ecosystems.pypi.wheel_tail import WheelFacts, read_wheel_facts
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.untrusted.decode import decode_value
from reprobuild.resolve.ages.age import DAY, Age, day, is_constant, parse_time
from reprobuild.resolve.ages.back_ends import built_age
from reprobuild.resolve.ages.sdist_facts import SdistFacts, read_sdist_facts
from reprobuild.store.store import Store

VERSION = 2  # of the remembered facts
MOST_FILES = 20_000  # read in one run
MOST_SECONDS = 1200  # in which files are read in one run; 45 environments took at most 215
MOST_MISSING = 5  # metadata files of a host that it publishes and does not have; no more are requested
_ARCHIVES = 4  # source archives in memory at once
# A zip archive has local times without their zone, which is at most 14 hours from UTC.
_ZONES = 14 * 3600
# Days from the date in a list of changes to the upload: 53 of 54 entries that were compared.
_ENTRY = 3 * DAY

Facts = TypeVar("Facts", WheelFacts, PublishedMetadata, SdistFacts)


class AgeReader:
    """Reads ages of releases by a moment. Thread-safe.

    Args:
        store: remembers the facts of files.
        net: the network client, which knows the logins.
        moment: in seconds since 1970.
        now: the same, or 0.
        target: the version of Python and the machine, `("3.11.2", "x86_64")`: the wheel for them is read.
    """

    def __init__(self, store: Store, net: Net, moment: int, now: int, target: tuple[str, str]) -> None:
        self._store, self._net, self._moment, self._now = store, net, moment, now
        self._guard = threading.Lock()
        self._archives = threading.Semaphore(_ARCHIVES)
        self._left = MOST_FILES
        self._watch = _Watch()
        self._missing: Counter[str] = Counter()
        self._python = f"cp{''.join(target[0].split('.')[:2])}"
        self._platform = re.compile(rf"linux.*_{re.escape(target[1])}")

    def date(self, files: Sequence[ListedFile], version: str, elsewhere: Sequence[ListedFile] = ()) -> Age:
        """Return the age of one version.

        Args:
            files: all of the version on the index.
            version: its number.
            elsewhere: those of the same version on other indexes.
        """
        uploads = [moment for file in (*files, *elsewhere) if (moment := parse_time(file.uploaded or ""))]
        if uploads:
            return Age(since=min(uploads), until=min(uploads), words=f"uploaded on {day(min(uploads))}")
        wheel = min(
            (file for file in files if file.filename.endswith(".whl")), key=self._distance, default=None
        )
        facts = self.wheel_facts(wheel) if wheel else None
        age = self._wheel_age(wheel, facts) if wheel and facts else Age()
        if age.side(self._moment):
            return age
        sdist = min((file for file in files if not file.filename.endswith(".whl")), key=_size, default=None)
        if sdist:
            age = self._sdist_age(sdist, version, facts.generator if facts else "", age)
        return age

    def _distance(self, file: ListedFile) -> tuple[bool, bool, bool, int, str]:
        """Return the order of wheels: the first one for the target comes first, then small ones.

        Wheels for other targets, and those with the number of a build, may be added later.
        """
        *_, head, interpreter, _, platform = file.filename.removesuffix(".whl").rsplit("-", 3)
        here = platform == "any" or self._platform.search(platform) is not None
        fits = "py3" in interpreter or "abi3" in file.filename or self._python in interpreter.split(".")
        return not here, not fits, head.count("-") > 1, *_size(file)

    def wheel_facts(self, file: ListedFile) -> WheelFacts | None:
        """Return the facts of a wheel, or None if it cannot be read."""
        return self._remembered("wheel", file, WheelFacts, lambda: read_wheel_facts(file.url, self._net))

    def wheel_header(self, file: ListedFile) -> str:
        """Return the header of a wheel's METADATA, or "" if it cannot be read.

        The wheel is not read if the index publishes this file of it, unless its facts are known.
        """
        facts = self._recall("wheel", file, WheelFacts)
        if facts is None and (published := self._published_metadata(file)):
            return published.header
        facts = facts or self.wheel_facts(file)
        return facts.metadata if facts else ""

    def _published_metadata(self, file: ListedFile) -> PublishedMetadata | None:
        host = urlsplit(file.url).netloc
        if file.core_metadata is None or self._missing[host] >= MOST_MISSING:
            return None
        published = self._remembered(
            f"metadata {file.core_metadata}", file, PublishedMetadata,
            lambda: read_published_metadata(file, self._net),
        )  # fmt: skip
        if published is None:
            with self._guard:
                self._missing[host] += 1
        return published

    def _wheel_age(self, file: ListedFile, facts: WheelFacts) -> Age:
        built = built_age(facts.generator, free=False)
        if is_constant(facts.newest, same=facts.same, now=self._now):
            return built
        age = Age(since=facts.newest - _ZONES, until=facts.newest + _ZONES,
                  words=f"the newest file in {file.filename} is of {day(facts.newest)}")  # fmt: skip
        return age.meet(built, self._moment)

    def _sdist_age(self, file: ListedFile, version: str, generator: str, age: Age) -> Age:
        with self._archives:
            facts = self._remembered(
                f"sdist {version}", file, SdistFacts, lambda: read_sdist_facts(file, version, self._net)
            )
        if facts is None:
            return age
        for seconds, same, words in (
            (facts.written, False, f"{file.filename} was written on"),
            (facts.newest, facts.same, f"the newest file in {file.filename} is of"),
        ):
            if not is_constant(seconds, same=same, now=self._now):
                exact = Age(since=seconds, until=seconds, words=f"{words} {day(seconds)}")
                return exact.meet(age, self._moment)
        if facts.entry:
            words = f"the list of changes in {file.filename} dates it {day(facts.entry)}"
            age = Age(since=facts.entry, until=facts.entry + _ENTRY, words=words).meet(age, self._moment)
        if not age.side(self._moment):
            age = built_age(generator, free=generator.partition(" ")[0].lower() in facts.free).meet(
                age, self._moment
            )
        return age

    def _remembered(
        self, kind: str, file: ListedFile, form: type[Facts], read: Callable[[], Facts | None]
    ) -> Facts | None:
        if (known := self._recall(kind, file, form)) is not None:
            return known
        with self._guard:
            self._left -= 1
            if self._left < 0:
                return None
        with self._watch.measure():
            facts = read()
        if facts is not None and (key := _key(kind, file)):
            self._store.remember(key, msgspec.to_builtins(facts))
        return facts

    def _recall(self, kind: str, file: ListedFile, form: type[Facts]) -> Facts | None:
        """Return the facts of an earlier reading."""
        if key := _key(kind, file):
            with suppress(msgspec.ValidationError):  # not there yet, or damaged
                return decode_value(self._store.recall(key), form)
        return None


class _Watch:
    """Adds up the time in which any thread reads, and ends the search when it is up."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._active, self._began, self._spent = 0, 0.0, 0.0

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Count the time of the block.

        Raises:
            FetchError: the time is up.
        """
        with self._guard:
            now = monotonic()
            if self._spent + (now - self._began if self._active else 0) > MOST_SECONDS:
                raise FetchError(
                    f"the files of an index were read for more than {MOST_SECONDS} s to find the ages of releases",
                    hint="try again, because what was read is remembered; or write versions into requirements.txt",
                )
            if not self._active:
                self._began = now
            self._active += 1
        try:
            yield
        finally:
            with self._guard:
                self._active -= 1
                if not self._active:
                    self._spent += monotonic() - self._began


def _key(kind: str, file: ListedFile) -> str:
    """Return the key of remembered facts, or "" if the file has no hash."""
    sha256 = file.hashes.get("sha256", "").lower()
    # Another index may state the same hash for other bytes. A query may be a signature, which changes.
    place = file.url.partition("#")[0].partition("?")[0]
    return hashlib.sha256(f"age {VERSION} {kind} {sha256} {place}".encode()).hexdigest() if sha256 else ""


def _size(file: ListedFile) -> tuple[int, str]:
    return file.size or 1 << 40, file.filename
