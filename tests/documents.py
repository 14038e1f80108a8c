"""The fields of docs/json.md, and a comparison with the documents that commands print."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence, Set
from functools import cache
from pathlib import Path

from reprobuild.cli.documents import VERSION

PAGE = Path(__file__).parent.parent / "docs" / "json.md"
# Documents with a version of their own.
OWN = {"cluster worker": 3}
FOREIGN = "cluster job"


@cache
def read_page() -> dict[str, list[str]]:
    """Return the fields of each command on the page, without `version`."""
    found: dict[str, list[str]] = {}
    for section in PAGE.read_text(encoding="utf-8").split("\n### ")[1:]:
        title, _, text = section.partition("\n")
        fields = re.findall(r"^\| `(\w+)` \| \S", text, re.MULTILINE)
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", title), fields)
    return found


def name_document(words: Set[str], command: str) -> str:
    """Return the longest name on the page whose words a command line has."""
    names = [name for name in read_page() if name.split()[0] == command and words >= {*name.split()}]
    return max(names, key=lambda name: len(name.split()), default="")


def check_document(arguments: Sequence[str], text: str) -> None:
    """Compare the document of a command line with the page, if it printed a document."""
    words = {*arguments[: arguments.index("--") if "--" in arguments else None]}
    if "--json" not in words or not text.startswith("{") or not (name := name_document(words, arguments[0])):
        return
    document = json.loads(text)
    fields = ["error"] if "error" in document else read_page()[name]
    if fields != ["error"] and name == FOREIGN:
        assert sorted(document) == sorted(fields)
        return
    version = VERSION if fields == ["error"] else OWN.get(name, VERSION)
    assert next(iter(document.items())) == ("version", version)
    assert sorted(document) == sorted(["version", *fields]), f"write the fields of `{name}` into docs/json.md"
