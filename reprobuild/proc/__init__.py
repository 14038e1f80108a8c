"""The only door to other programs."""

from __future__ import annotations

from collections.abc import Iterable

from reprobuild.proc.collect import MOST_OUTPUT as MOST_OUTPUT
from reprobuild.proc.failures import TAIL_LINES as TAIL_LINES
from reprobuild.proc.failures import Failed as Failed
from reprobuild.proc.failures import TimedOut as TimedOut
from reprobuild.proc.flowing import feed as feed
from reprobuild.proc.flowing import stream as stream
from reprobuild.proc.handing import Handing as Handing
from reprobuild.proc.handing import hand_on as hand_on
from reprobuild.proc.handing import handed_on as handed_on
from reprobuild.proc.own_python import SAFE as SAFE
from reprobuild.proc.own_python import check_installed as check_installed
from reprobuild.proc.own_python import own_code as own_code
from reprobuild.proc.own_python import own_module as own_module
from reprobuild.proc.programs import absolute_path as absolute_path
from reprobuild.proc.programs import which as which
from reprobuild.proc.programs import with_absolute as with_absolute
from reprobuild.proc.session import end_all as end_all
from reprobuild.proc.whole import Begun as Begun
from reprobuild.proc.whole import run as run


def comma_separated(fields: Iterable[str]) -> str:
    """Return an argument that a program reads as one line of comma-separated values (RFC 4180).

    Any path can be written in it: `--mount`, and `--output` of buildx.
    """
    return ",".join('"' + field.replace('"', '""') + '"' for field in fields)
