"""The directory of the nodes' answers in an output directory."""

from __future__ import annotations

import datetime
import os
import uuid
from pathlib import Path

from reprobuild.context import RunContext
from reprobuild.errors import UsageError
from reprobuild.infra.shell_words import quote_path
from reprobuild.infra.untrusted.write_below import refuse_link
from reprobuild.infra.writers import find_writers


def name_folder(out: Path, context: RunContext) -> Path:
    """Return a new path below `out/cluster` for the nodes' answers.

    Raises:
        UsageError: its parent is a link, or another user may write there.
    """
    above = out.absolute() / "cluster"
    refuse_link(above, "the answers of nodes")  # a foreign output directory may have it
    try:
        above.mkdir(mode=0o755)
        is_new = True  # a server may show it as that of another user
    except FileExistsError:
        is_new = False
    facts = above.lstat()
    owner = "" if is_new or facts.st_uid in (0, os.geteuid()) else f"the user number {facts.st_uid}"
    if writers := owner or find_writers(above):
        raise UsageError(
            f"{above} can be written to by {writers}, who could change the answers of nodes",
            hint=f"close it: `chmod go-w {quote_path(above)}`; if it is not yours, copy the output directory",
        )
    start = datetime.datetime.fromtimestamp(context.now, datetime.timezone.utc)
    return above / f"{start:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"
