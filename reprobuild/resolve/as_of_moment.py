"""The moment as of which versions are chosen."""

from __future__ import annotations

import datetime
import re
import shlex

from reprobuild.config.overrides import Decisions
from reprobuild.errors import UsageError
from reprobuild.infra.display import display_text
from reprobuild.snapshot.model import Snapshot

SOLVED = (
    "solved"  # the class by which `accept` names such lines, and their file if no captured line asks for them
)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def parse_moment(text: str) -> str:
    """Return a date, or a date and time, as RFC 3339 in UTC; a date is the end of that day.

    Raises:
        UsageError: it is neither.
    """
    try:
        if _DAY.fullmatch(text):
            start = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc)
            return _format(start + datetime.timedelta(days=1))
        stated = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
        return _format(stated if stated.tzinfo else stated.replace(tzinfo=datetime.timezone.utc))
    except (ValueError, OverflowError):
        raise UsageError(
            f"{display_text(text)!r} is not a date", hint="write it as 2023-05-01 or 2023-05-01T12:00:00Z"
        ) from None


def parse_past_moment(text: str) -> str:
    """Return `parse_moment` of a user's date, or of its result; the end of this day counts as past.

    Raises:
        UsageError: it is no date, or in the future.
    """
    moment, now = parse_moment(text), datetime.datetime.now(datetime.timezone.utc)
    if moment > parse_moment(f"{now:%Y-%m-%d}"):
        raise UsageError(
            f"--as-of {shlex.quote(text)} is in the future: today is {now:%Y-%m-%d} (UTC)",
            hint="name the day of the run, or an earlier one",
        )
    return moment


def _format(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def choose_moment(snapshot: Snapshot, decisions: Decisions) -> tuple[str, str]:
    """Return the moment and its evidence; both empty if the user asks for none."""
    if decisions.as_of:
        return parse_past_moment(decisions.as_of), "--as-of"
    facts = snapshot.imported
    if SOLVED in decisions.accept and facts and facts.started:
        return parse_moment(facts.started), f"the start of the run, {facts.started_from}"
    return "", ""


def describe_moment(moment: str) -> str:
    """Return a moment of `parse_moment` for people: midnight is the end of the day before."""
    day, _, time = moment.partition("T")
    if time != "00:00:00Z" or day == "0001-01-01":
        return moment
    return f"the end of {datetime.date.fromisoformat(day) - datetime.timedelta(days=1)}"
