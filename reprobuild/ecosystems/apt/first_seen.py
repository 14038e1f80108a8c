"""Times of files on snapshot.debian.org.

They help to find a version that existed only for hours. The machine-usable interface is
https://salsa.debian.org/snapshot-team/snapshot/raw/master/API. It names files by SHA-1, without a signature;
so only the times are used, and the signed indexes of these times are read.
"""

from __future__ import annotations

from datetime import datetime, timezone
from urllib.parse import quote

import msgspec
from msgspec import Struct

from reprobuild.errors import FetchError
from reprobuild.infra.display import display_error
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import NotFoundError
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.strings import Key, Line

_LONGEST = 8 << 20  # bytes of an answer
_MOST = 100  # files, and places of a file, that are read
_MOST_TIMES = 12  # a version has a file for each architecture, and few of them are built much later


class _File(Struct):
    first_seen: Line = ""


class _Answer(Struct):
    fileinfo: dict[Key, list[_File]] = {}


class FirstSeen:
    """The service of snapshot.debian.org.

    `{name}` and `{version}` in its address are those of a binary package.
    """

    def __init__(self, url: str, net: Net) -> None:
        self._url, self._net = url, net

    def list_times(self, name: str, version: str) -> tuple[int, ...]:
        """Return the times when a version's files were first seen.

        They are in seconds since 1970, the earliest first, and not more than are worth a search.

        Raises:
            FetchError: the service cannot be reached, or its answer is not as documented.
        """
        url = self._url.replace("{name}", quote(name, safe="")).replace("{version}", quote(version, safe=""))
        try:
            answer = decode_json(
                self._net.page(url, accept="application/json", most=_LONGEST).content, _Answer
            )
        except NotFoundError:
            return ()
        except (msgspec.DecodeError, RecursionError) as err:
            raise FetchError(
                f"{url} answered something else: {display_error(err)}",
                hint="try again later, or give the files with `--deb`",
            ) from None
        times = {
            time
            for files in list(answer.fileinfo.values())[:_MOST]
            for file in files[:_MOST]
            if (time := _parse_time(file.first_seen)) is not None
        }
        return tuple(sorted(times)[:_MOST_TIMES])


def _parse_time(text: str) -> int | None:
    try:
        moment = datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return int(moment.timestamp())
