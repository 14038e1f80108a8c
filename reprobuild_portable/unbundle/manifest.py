"""The manifest of a bundle."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Dict, List, Set

from reprobuild_portable.host import is_portable
from reprobuild_portable.unbundle.format import (
    CHANGED,
    FORM,
    LARGEST_FILE,
    LARGEST_MANIFEST,
    MANIFEST,
    NO_BUNDLE,
    SIGNATURE,
    Member,
    RefusedError,
)

LARGEST_FOLDERS = 16 << 20  # characters in the names of all directories
MOST_DEEP = 32  # parts of a path


# Every file that a bundle can have, and the directories of all others. cluster.json is not among them: a check of the
# receiver writes it into an output directory, so it would be believed as the receiver's.
FILES = (
    *CHANGED, "Apptainer.def", "Dockerfile", "README.md", "image.json", "image.sif", "provenance.intoto.json",
    "pylock.toml", "reprobuild.lock", "sbom.cdx.json", "unbundle.py",
)  # fmt: skip
FOLDERS = ("context/", "image/", "sources/", "store/blobs/")
# Of reprobuild itself only wheels: a Python that starts among the files of a bundle would run a package of this name.
_OWN = re.compile(r"reprobuild/[A-Za-z0-9][A-Za-z0-9._+!-]*\.whl")
# Saved choices of compilers: records and archives by their hashes.
_CHOICES = re.compile(r"choices/[0-9a-f]{64}\.(?:json|tar\.zst)")
_SHA256 = re.compile("[0-9a-f]{64}")
_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_LINE = re.compile("[^\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]{0,200}")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,500}")
_KEYS = {"digest", "form", "image", "lock", "made_by", "members", "parts"}
_IMAGE_KEYS = {"config", "manifest", "reference", "tree"}
_MEMBER_KEYS = {"path", "sha256", "size"}


def encode(document: Dict[str, Any]) -> bytes:
    """Encode a manifest in its only form, with its digest."""
    digest = hashlib.sha256(_dump({**document, "digest": ""})).hexdigest()
    return _dump({**document, "digest": digest})


def _dump(document: Dict[str, Any]) -> bytes:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def members_of(raw: bytes) -> List[Member]:
    """Return the members that a manifest names.

    Raises:
        RefusedError: it is not a manifest, has another form, or names a file that is forbidden or that no bundle
            has.
    """
    try:
        if len(raw) > LARGEST_MANIFEST:
            raise ValueError("it has more than %d bytes" % LARGEST_MANIFEST)
        document = json.loads(raw.decode())
        if document["form"] != FORM:
            raise RefusedError(
                "it is a bundle of the form %.20r, and this program reads form %d" % (document["form"], FORM),
                "use the unbundle.py that came with it",
            )
        _check_keys(document)  # first: encoding takes a hundred times the memory of a list of numbers
        if encode(document) != raw:  # a key that stands twice, a number in another form
            raise ValueError("its bytes are not those of its digest")
        members = _members(document["members"])
        _check_rest(document)
    except (ValueError, KeyError, TypeError, RecursionError) as err:
        raise RefusedError(
            "its %s is damaged or hostile: %s" % (MANIFEST, escape_text(str(err))), NO_BUNDLE
        ) from None
    for member in members:
        if (
            member.path not in FILES
            and not member.path.startswith(FOLDERS)
            and not _OWN.fullmatch(member.path)
            and not _CHOICES.fullmatch(member.path)
        ):
            raise RefusedError(
                "it holds %s, and no bundle of the form %d does" % (escape_text(member.path), FORM),
                "ask for one that `reprobuild bundle` wrote; one of a newer reprobuild, unpack with that",
            )
    return members


def _check_keys(document: Dict[str, Any]) -> None:
    """Refuse a manifest with unknown keys, lists or objects."""
    image, parts, members = document["image"], document["parts"], document["members"]
    if not (isinstance(parts, list) and len(parts) <= 100 and isinstance(members, list)):
        raise ValueError("it has no list of parts, or none of members")
    if not isinstance(image, dict) or not all(isinstance(item, dict) for item in members):
        raise ValueError("its image or a member is no object")
    keys_match = set(document) == _KEYS and set(image) == _IMAGE_KEYS
    leaves = [document[name] for name in ("digest", "form", "lock", "made_by")] + parts + list(image.values())
    if not keys_match or any(isinstance(leaf, (dict, list)) for leaf in leaves):
        raise ValueError("it has another key than a bundle has")
    for item in members:
        if set(item) != _MEMBER_KEYS or any(isinstance(leaf, (dict, list)) for leaf in item.values()):
            raise ValueError("%.80r is no member" % (item,))


def _members(items: Any) -> List[Member]:
    members: List[Member] = []
    first: Dict[str, Member] = {}
    files: Set[str] = {MANIFEST, SIGNATURE}
    folders: Set[str] = set()
    named = 0
    for item in items:
        path, sha256, size = item["path"], item["sha256"], item["size"]
        _check_path(path)
        if type(size) is not int or not 0 <= size < LARGEST_FILE:
            raise ValueError("%r has the size %.40r" % (path, size))
        if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
            raise ValueError("%r has the sha256 %.80r" % (path, sha256))
        if "/blobs/" in path and path.rpartition("/")[2] != sha256:
            raise ValueError("%r is named by another sha256" % path)
        above = ["/".join(path.split("/")[:count]) for count in range(1, path.count("/") + 1)]
        if path in files or path in folders or not files.isdisjoint(above):
            raise ValueError("%r stands there twice, or is a file and a directory" % path)
        files.add(path)
        named += sum(len(folder) for folder in above if folder not in folders)
        if named > LARGEST_FOLDERS:  # each is held in memory, and a path names all those above it
            raise ValueError("it names too many directories")
        folders.update(above)
        same = first.setdefault(sha256, Member(path, sha256, size))
        if same.size != size:
            raise ValueError("%r and %r have one sha256 and two sizes" % (same.path, path))
        members.append(same if same.path == path else Member(path, sha256, size, same.path))
    return members


def _check_rest(document: Dict[str, Any]) -> None:
    """Refuse invalid names, digests and lines of a manifest.

    The members are checked elsewhere.
    """
    image, parts = document["image"], document["parts"]
    fields = [(document["lock"], _SHA256), (document["made_by"], _LINE), (image["reference"], _REFERENCE)]
    fields += [(image[name], _DIGEST) for name in ("tree", "config", "manifest")]
    if not isinstance(parts, list) or len(parts) > 100:
        raise ValueError("it has no list of parts")
    for value, grammar in fields + [(part, _WORD) for part in parts]:
        if not isinstance(value, str) or not grammar.fullmatch(value):
            raise ValueError("%.80r is not what a bundle says there" % (value,))


def _check_path(path: Any) -> None:
    if not isinstance(path, str) or not 0 < len(path.encode()) <= 1000:
        raise ValueError("%.80r is no path" % (path,))
    parts = path.split("/")
    if len(parts) > MOST_DEEP:
        raise ValueError("%.80r has more than %d parts" % (path, MOST_DEEP))
    if not path.isprintable() or path[0] == "-" or "\\" in path or {"", ".", ".."} & set(parts):
        raise ValueError("%r is no path below a directory" % path)
    if not all(map(is_portable, parts)):
        raise ValueError("%r has another meaning on Windows" % path)
    if max(len(part.encode()) for part in parts) > 255:
        raise ValueError("a name in %.80r is too long" % path)


def escape_text(text: str) -> str:
    """Escape untrusted text for a terminal, and shorten it."""
    return text.encode("unicode_escape").decode()[:300]


# Of CI servers; `reprobuild.infra.escape` has the same and its sources.
_COMMAND = re.compile(r"(?i)#(?=#(?:vso|teamcity)?\[)|(?<![^\n])(?P<blank>[^\S\n]*):(?=:[a-z])")


def escape_lines(text: str) -> str:
    """Escape what a terminal or a CI server would act on, and keep line breaks."""
    shown = "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return _COMMAND.sub(
        lambda match: "\\x23" if match.group("blank") is None else match.group("blank") + "\\x3a", shown
    )


def escape_name(path: str) -> str:
    """Escape the path of a file, as one line."""
    return escape_lines(path).replace("\n", "\\n")
