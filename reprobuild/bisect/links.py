"""Requirements between the differences of two locks, of all kinds of packages."""

from __future__ import annotations

from collections.abc import Sequence

from reprobuild.bisect.conda_depends import link_conda, open_index
from reprobuild.bisect.debs import link_debs, open_control
from reprobuild.bisect.requirements import FindLinks, link_wheels
from reprobuild.bisect.slots import Slot, Slots
from reprobuild.context import RunContext


def make_link_finder(context: RunContext) -> FindLinks:
    """Return the function that reads the requirements of packages in the store.

    It raises `FetchError` for a file that is not there, or damaged.
    """

    def find_links(slots: tuple[Slots, Slots], differing: Sequence[Slot]) -> list[tuple[Slot, Slot]]:
        return [
            *link_wheels(slots, differing),
            *link_debs(slots, differing, lambda deb: open_control(deb, context)),
            *link_conda(slots, differing, lambda package: open_index(package, context)),
        ]

    return find_links
