"""Addresses of conda channels on this machine, in order."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from reprobuild.ecosystems.conda.conda_config import Channels

# Of an address that may lead out of its parent.
_WINDING = re.compile(r"%|(^|/)\.\.?(/|$)")


class Channel(Struct, frozen=True):
    """A channel: conda's name for it, and its address here."""

    name: str
    url: str


class ChannelResolver:
    """The resolution of channel names to addresses.

    Args:
        channels: of this machine.
        public: the address of a channel of anaconda.org, with `{name}`.
        defaults: the same of Anaconda's own channels.
        known: the public forms of both, so that captured addresses are recognised.
    """

    def __init__(self, channels: Channels, public: str, defaults: str, known: tuple[str, ...]) -> None:
        self._channels, self._public, self._defaults, self._known = channels, public, defaults, known

    def list_channels(self, captured: str | None, among: tuple[str, ...] = ()) -> list[Channel]:
        """Return the possible channels of a package; see `withheld`.

        Args:
            captured: a name (`conda-forge`, `pkgs/main`) or an address; None if the list has none.
            among: the channels of the environment according to the captured file.
        """
        return [place for place in self._all(captured, among) if not self._is_foreign(place.url)]

    def withheld(self, captured: str | None, among: tuple[str, ...] = ()) -> list[str]:
        """Return local directories that only the captured file names.

        They are not trusted: they may belong to anyone.
        """
        return [place.url for place in self._all(captured, among) if self._is_foreign(place.url)]

    def otherwise(self, captured: str | None, among: tuple[str, ...] = ()) -> list[Channel]:
        """Return further channels, for a package found in no other.

        `conda list` leaves the name of defaults out.
        """
        if captured is not None or among:
            return []
        known = {place.url for place in self.list_channels(None)}
        return [place for place in self._places("defaults") if place.url not in known]

    def name(self, url: str) -> str:
        """Return a channel's public name, else its address without a configured token."""
        for clean, full in self._channels.tokens.items():
            if url == full or url.startswith(f"{full}/"):
                url = clean + url.removeprefix(full)
                break
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
        """Return whether an address is local, but not configured.

        Neither it nor a parent is in the configuration.
        """
        if not url.lower().startswith("file:"):
            return False
        addresses = (
            *self._channels.addresses,
            self._public.partition("{name}")[0],
            self._defaults.partition("{name}")[0],
        )
        return not any(
            url == prefix or (url.startswith(f"{prefix}/") and not _WINDING.search(url[len(prefix) + 1 :]))
            for prefix in (address.rstrip("/") for address in addresses if address)
        )

    def _places(self, captured: str) -> list[Channel]:
        name = self.name(captured.rstrip("/"))
        several = self._channels.multi.get(name)
        if several is None and name == "defaults":
            several = ("pkgs/main", "pkgs/r")
        if several is not None:
            return [place for member in several if member != name for place in self._places(member)]
        urls = dict.fromkeys(url for main in self._addresses(name) for url in self._apply_mirrors(main, name))
        return [Channel(name, url) for url in urls]

    def _addresses(self, name: str) -> Iterator[str]:
        if "://" in name:
            yield name
            return
        # A channel that the user or the machine names by its address replaces the public one of this name.
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

    def _apply_mirrors(self, url: str, name: str) -> Iterator[str]:
        """Yield the mirrors that replace an address, else the address."""
        has_mirror = False
        for key, several in self._channels.mirrors.items():
            if key == name or url == key or url.startswith(f"{key}/"):
                rest = "" if key == name else url.removeprefix(key)
                yield from (mirror + rest for mirror in several)
                has_mirror = has_mirror or bool(several)
        if not has_mirror:
            yield url
