"""Both programs take the same manifests: one by types, the other, for old Pythons, by tests of its own."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from reprobuild.distribute.manifest import read_manifest
from reprobuild.distribute.standalone import unbundle as form
from reprobuild.errors import DistributionError
from reprobuild.infra.untrusted.strings import (
    BundlePath,
    Digest,
    ImageName,
    Sha256,
    ShortLine,
    Word,
    is_valid,
)
from reprobuild_portable.host import is_portable
from tests.distribute.test_damage import STATED, X
from tests.untrusted.test_exploits import HOSTILE

ALPHABET = (
    "a",
    "Z",
    "0",
    "_",
    "-",
    ".",
    "/",
    ":",
    "@",
    " ",
    "\\",
    "\n",
    "\x00",
    "\x7f",
    "\u2028",
    "~",
    "+",
    "\u00e9",
)
TEXTS = [
    "", X, f"sha256:{X}", X.upper(), X[:-1], f"{X}\n", f"sha512:{X}", "reprobuild 0.1.0", "reprobuild:0123456789ab",
    "localhost/team/x:1", "a" * 200, "a" * 201, "a" * 501, "a" * 502, *HOSTILE.values(),
    *("".join(letters) for count in (1, 2, 3) for letters in itertools.product(ALPHABET, repeat=count)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        (form._SHA256, Sha256), (form._DIGEST, Digest), (form._REFERENCE, ImageName), (form._LINE, ShortLine),
        (form._WORD, Word),
    ],
    ids=["sha256", "digest", "reference", "line", "word"],
)  # fmt: skip
def test_a_string_is_taken_by_both_or_by_neither(pattern: Any, kind: Any) -> None:
    assert len(TEXTS) > 6000
    taken = [bool(pattern.fullmatch(text)) for text in TEXTS]
    assert taken == [is_valid(text, kind) for text in TEXTS]
    assert True in taken


def test_a_path_is_taken_by_both_or_by_neither() -> None:
    """The other program refuses what no terminal shows and what Windows reads otherwise, too: no pattern says it."""
    texts = [*TEXTS, "/".join("a" * 32), "/".join("a" * 33), "a" * 255, "b/" + "a" * 255]
    for text in texts:
        parts = text.split("/")
        plain = text.isprintable() and max(map(len, map(str.encode, parts))) <= 255
        plain = plain and all(map(is_portable, parts))
        assert _takes(text) == (is_valid(text, BundlePath) and plain), text


def _takes(path: str) -> bool:
    try:
        form._check_path(path)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize(
    "field", ["made_by", "lock", "parts", "reference", "tree", "config", "manifest", "path", "sha256"]
)
def test_a_manifest_is_taken_by_both_or_by_neither(field: str, kind: str) -> None:
    member = {"path": "README.md", "sha256": X, "size": 1}
    document: dict[str, Any] = {"form": 1, "members": [member], **STATED, "image": dict(STATED["image"])}
    assert _both(document) == (True, True)
    place = next(part for part in (document, document["image"], member) if field in part)
    place[field] = [HOSTILE[kind]] if field == "parts" else HOSTILE[kind]
    ours, theirs = _both(document)
    known = field == "path" and kind == "bidi"  # see above; the other program is asked first by both
    assert ours == theirs or known
    shown = field == "made_by" and kind not in ("line", "escape", "nul", "long")
    assert not theirs or shown


def _both(document: dict[str, Any]) -> tuple[bool, bool]:
    """Return whether the types take a manifest, and whether the other program does."""
    raw = form.encode(document)
    taken = []
    for read in (read_manifest, form.members_of):
        try:
            read(raw)
            taken.append(True)
        except (DistributionError, form.RefusedError):
            taken.append(False)
    return taken[0], taken[1]


def test_an_error_names_the_field() -> None:
    with pytest.raises(DistributionError, match=r"at `\$\.image\.tree`") as caught:
        read_manifest(
            form.encode({"form": 1, "members": [], **STATED, "image": {**STATED["image"], "tree": "x"}})
        )
    assert caught.value.hint == "is it a file that `reprobuild bundle` wrote?"
