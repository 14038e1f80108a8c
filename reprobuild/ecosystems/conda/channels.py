"""What the name of a channel means on this machine: addresses, in the order in which they are asked."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from reprobuild.ecosystems.conda.conda_config import Channels

# Of an address that may lead out of the one above it.
_WINDING = re.compile(r"%|(^|/)\.\.?(/|$)")


class Channel(Struct, frozen=True):
    """One channel: `name` as conda shows it, and the address where this machine gets it."""

    name: str
    url: str


class ChannelResolver:
    """The meaning of names of channels.

    Args:
        channels: of this machine.
        public: the address of a channel of anaconda.org, with `{name}`.
        defaults: the same of Anaconda's own channels.
        known: both as the world knows them, so that captured addresses are recognised.
    """

    def __init__(self, channels: Channels, public: str, defaults: str, known: tuple[str, ...]) -> None:
        self._channels, self._public, self._defaults, self._known = channels, public, defaults, known

    def of(self, captured: str | None, among: tuple[str, ...] = ()) -> list[Channel]:
        """Return where a package may come from, whose list tells its channel or none; see `withheld`.

        Args:
            captured: a name (`conda-forge`, `pkgs/main`) or an address; None where the list tells none.
            among: what the captured file says of the channels of its environment.
        """
        return [place for place in self._all(captured, among) if not self._is_foreign(place.url)]

    def withheld(self, captured: str | None, among: tuple[str, ...] = ()) -> list[str]:
        """Return the folders of this machine that only the captured file names: those may be anybody's."""
        return [place.url for place in self._all(captured, among) if self._is_foreign(place.url)]

    def otherwise(self, captured: str | None, among: tuple[str, ...] = ()) -> list[Channel]:
        """Return where else to look for what is in none of these: `conda list` leaves the name of defaults out."""
        if captured is not None or among:
            return []
        known = {place.url for place in self.of(None)}
        return [place for place in self._places("defaults") if place.url not in known]

    def name(self, url: str) -> str:
        """Return the name of a channel at an address that everybody knows by one, else the address."""
        for template in (*self._known, self._public, self._defaults):
            above = template.partition("{name}")[0]
            if url.startswith(above) and url != above:
                return url.removeprefix(above)
        alias = self._channels.alias
        return url.removeprefix(f"{alias}/") if alias and url.startswith(f"{alias}/") else url

    def _all(self, captured: str | None, among: tuple[str, ...]) -> list[Channel]:
        if captured is not None and not captured.startswith("<"):  # conda writes `<unknown>`
            return self._places(captured)
        names = (*self._channels.order, *among) or ("defaults",)
        return list({place.url: place for name in names for place in self._places(name)}.values())

    def _is_foreign(self, url: str) -> bool:
        """Tell whether an address is of this machine's disk, and the configuration names neither it nor one above."""
        if not url.lower().startswith("file:"):
            return False
        own = (
            *self._channels.addresses,
            self._public.partition("{name}")[0],
            self._defaults.partition("{name}")[0],
        )
        return not any(
            url == one or (url.startswith(f"{one}/") and not _WINDING.search(url[len(one) + 1 :]))
            for one in (address.rstrip("/") for address in own if address)
        )

    def _places(self, captured: str) -> list[Channel]:
        name = self.name(captured.rstrip("/"))
        several = self._channels.multi.get(name)
        if several is None and name == "defaults":
            several = ("pkgs/main", "pkgs/r")
        if several is not None:
            return [place for one in several if one != name for place in self._places(one)]
        urls = dict.fromkeys(url for main in self._addresses(name) for url in self._mirrored(main, name))
        return [Channel(name, url) for url in urls]

    def _addresses(self, name: str) -> Iterator[str]:
        if "://" in name:
            yield name
            return
        # A channel that the user or the machine names by its address stands for the public one of this name.
        known = (*self._channels.order, *self._channels.multi.get("defaults", ()))
        if mirrors := [url for url in known if "://" in url and url.endswith(f"/{name}")]:
            yield from mirrors
        elif name in self._channels.custom:
            yield f"{self._channels.custom[name]}/{name}"
        elif name.startswith("pkgs/"):
            yield self._defaults.format(name=name)
        else:
            alias = self._channels.alias
            yield f"{alias}/{name}" if alias else self._public.format(name=name)

    def _mirrored(self, url: str, name: str) -> Iterator[str]:
        """Yield the mirrors of an address, which stand in its place; else itself."""
        found = False
        for key, several in self._channels.mirrors.items():
            if key == name or url == key or url.startswith(f"{key}/"):
                rest = "" if key == name else url.removeprefix(key)
                yield from (mirror + rest for mirror in several)
                found = found or bool(several)
        if not found:
            yield url
