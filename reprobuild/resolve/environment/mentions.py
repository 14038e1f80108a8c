"""Variables that the job's own code names and that the image lacks.

A variable of an unknown name is not baked: most of a job's variables say nothing about the computation. One that a
script of the job names in quotes, as `os.environ["ALPHA"]`, or in a shell's way, as `$ALPHA`, may be a parameter.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from reprobuild.infra.display import display_text
from reprobuild.infra.tar.reading import read_tar
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Source
from reprobuild.store.store import Store

UNKNOWN = "unknown"  # the class of variables in `environment.toml`
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,100}")
_MENTION = re.compile(rb"['\"]([A-Za-z_][A-Za-z0-9_]{2,100})['\"]|\$\{?([A-Za-z_][A-Za-z0-9_]{2,100})")
_SUFFIXES = frozenset((".py", ".sh", ".bash", ".yaml", ".yml", ".toml", ".ipynb"))
_LONGEST = 1 << 20  # bytes of a file
_MOST = 256 << 20  # bytes of all
_SHOWN = 8  # names in one message


def describe_mentions(
    rulings: Iterable[Resolution], sources: Iterable[Source], store: Store
) -> Iterator[str]:
    """Yield a message if code of the job names variables that the image lacks.

    Args:
        rulings: the resolutions of the captured variables.
        sources: the job's repositories; a tree that the store lacks is not read.
        store: has their trees.

    Raises:
        BuildError: a tree is damaged.
    """
    names = {
        ruling.subject
        for ruling in rulings
        if ruling.kind == UNKNOWN and ruling.outcome == "excluded" and _NAME.fullmatch(ruling.subject)
    }
    places = _find_mentions(names, sources, store) if names else {}
    if not places:
        return
    shown = sorted(places)[:_SHOWN]
    more = f" and {len(places) - len(shown)} more" if len(places) > len(shown) else ""
    where = display_text(places[shown[0]])
    options = shlex.join([word for name in shown for word in ("--bake", name)])
    yield (
        f"the job's code names variables that the image lacks: {', '.join(shown)}{more} (the first in {where}); to put "
        f"their captured values in: {options}"
    )


def _find_mentions(names: set[str], sources: Iterable[Source], store: Store) -> dict[str, str]:
    """Return the first file that names each variable."""
    places: dict[str, str] = {}
    left = _MOST
    for source in sources:
        if not store.has(source.file.sha256, source.file.size):
            continue
        with store.verified(source.file.sha256, source.file.filename).open("rb") as stream:
            for entry, content in read_tar(stream, source.file.filename):
                is_code = PurePosixPath(entry.path).suffix in _SUFFIXES
                if entry.type != "file" or not is_code or entry.size > min(_LONGEST, left):
                    continue
                left -= entry.size
                for quoted, expanded in _MENTION.findall(content()):
                    name = (quoted or expanded).decode()
                    if name in names:
                        places.setdefault(name, f"{source.name}/{entry.path}")
    return places
