"""The only package that starts other programs."""

from __future__ import annotations

from collections.abc import Iterable

from reprobuild.infra.proc.errors import TAIL_LINES as TAIL_LINES
from reprobuild.infra.proc.errors import ProcessFailedError as ProcessFailedError
from reprobuild.infra.proc.errors import ProcessTimeoutError as ProcessTimeoutError
from reprobuild.infra.proc.interact import interact as interact
from reprobuild.infra.proc.output import MOST_OUTPUT as MOST_OUTPUT
from reprobuild.infra.proc.own_python import SAFE as SAFE
from reprobuild.infra.proc.own_python import check_installed as check_installed
from reprobuild.infra.proc.own_python import own_code as own_code
from reprobuild.infra.proc.own_python import own_module as own_module
from reprobuild.infra.proc.programs import absolute_path as absolute_path
from reprobuild.infra.proc.programs import which as which
from reprobuild.infra.proc.run import Process as Process
from reprobuild.infra.proc.run import run as run
from reprobuild.infra.proc.session import end_all as end_all
from reprobuild.infra.proc.signals import SignalForwarding as SignalForwarding
from reprobuild.infra.proc.stream import feed as feed
from reprobuild.infra.proc.stream import stream as stream


def comma_separated(fields: Iterable[str]) -> str:
    """Return an argument of comma-separated values (RFC 4180).

    Programs read it as one line, and it can hold any path: `--mount`, and `--output` of buildx.
    """
    return ",".join('"' + field.replace('"', '""') + '"' for field in fields)
