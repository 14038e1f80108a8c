#!/usr/bin/env python3
"""Check a bundle of reprobuild and unpack it; needs Python 3.8 and nothing else.

    python3 unbundle.py FILE -o OUT [--allowed-signers FILE] [--load docker|podman|apptainer]
    python3 unbundle.py FILE --check

FILE is the bundle, or the name that its parts FILE.001, FILE.002, ... have in common.

A bundle is a plain tar. Its first member, `bundle.json`, names every other one with its size and sha256; the one after
it may be a signature of the first (`ssh-keygen -Y sign`). So every byte of the file is known from the first member,
and each is compared: names, links, sizes and order are never taken from anywhere else. What is unpacked becomes a
plain file, below OUT alone. The format is in docs/bundles.md of reprobuild.
"""

import argparse
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

MANIFEST, SIGNATURE = "bundle.json", "bundle.json.sig"
NAMESPACE = "reprobuild-bundle"  # of signatures: one made for another purpose is none for this
FORM = 1
BLOCK, RECORD, CHUNK = 512, 10240, 1 << 20
LARGEST_MANIFEST, LARGEST_SIGNATURE, LARGEST_FILE = 8 << 20, 1 << 16, 1 << 50  # of 40,000 members
LARGEST_INDEX = 4 << 20  # bytes of a JSON file of an image
LARGEST_FOLDERS = 16 << 20  # characters in the names of all folders
MOST_DEEP = 32  # parts of a path
KEYGEN_TIME = 60.0  # seconds that a look at a signature may take
# `ssh-keygen -Y` came with OpenSSH 8.1 (that of RHEL 8 is 8.0), and `find-principals` with 8.2.
NEW_KEYGEN = "install OpenSSH 8.2 or newer"
TOO_OLD = "the bundle is signed, and this ssh-keygen is too old to look at signatures"
MOST_NAMED = 20  # damaged members that one message names
PAGE = "report.html"
CHANGED = ("verdict.json", PAGE)  # a check of the image writes them anew
# Every file that a bundle can have, and the folders of all others. What a check of the receiver's own would write into
# a folder of results (fleet.json) is not among them: it would be believed as the receiver's.
FILES = (
    *CHANGED, "Apptainer.def", "Dockerfile", "README.md", "image.json", "image.sif", "provenance.intoto.json",
    "pylock.toml", "reprobuild.lock", "sbom.cdx.json", "unbundle.py",
)  # fmt: skip
FOLDERS = ("context/", "image/", "sources/", "store/blobs/")
# Of reprobuild itself only wheels: a Python that starts among the files of a bundle would run a package of this name.
_OWN = re.compile(r"reprobuild/[A-Za-z0-9][A-Za-z0-9._+!-]*\.whl")
AGAIN = "copy it again, or make it again with `reprobuild bundle`; what is whole already is kept"
NO_BUNDLE = "is it a file that `reprobuild bundle` wrote?"
_SHA256 = re.compile("[0-9a-f]{64}")
_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_LINE = re.compile("[^\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]{0,200}")
_BLOB = re.compile("blobs/sha256/[0-9a-f]{64}")
# An OCI layout, and what a Docker with the classic image store reads of it.
_FOLDERS = ("blobs", "blobs/sha256")
_LAYOUT = re.compile("index\\.json|manifest\\.json|oci-layout|blobs/sha256/[0-9a-f]{64}")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,500}")
_TOO_OLD = re.compile(r"(?:unknown|illegal|invalid|unrecognized) option\W+Y\b|Unsupported operation for -Y")
_PART = re.compile(r"(.+)\.(\d{3,6})")
_KEYS = {"digest", "form", "image", "lock", "made_by", "members", "parts"}
_IMAGE_KEYS = {"config", "manifest", "reference", "tree"}
_MEMBER_KEYS = {"path", "sha256", "size"}
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# The kernel's words for a name that is absent, a link, or below a file; or a pipe or socket.
_NOT_PLAIN = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)


class Refused(Exception):
    """A bundle cannot be taken: what is wrong, and what to do about it."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.hint = hint


class Absent(Refused):
    """The program that looks at signatures cannot be run, or is too old."""


Keygen = Callable[[Sequence[str], bytes], Optional[str]]  # arguments after `ssh-keygen -Y`, and its input


class Member(NamedTuple):
    """A file of the bundle. `link` is the earlier path with the same bytes, which are not there twice."""

    path: str
    sha256: str
    size: int
    link: str = ""


def pad(size: int, block: int = BLOCK) -> int:
    """Return how many zero bytes follow `size` bytes."""
    return -size % block


def header(path: str, size: int, epoch: int, link: str = "") -> bytes:
    """Return the tar header of a file, or of a hard link: POSIX ustar, with pax records where ustar has no room.

    https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html#tag_20_92_13_06
    """
    name, target = path.encode(), link.encode()
    records = b""
    for key, value, fits in (
        (b"path", name, len(name) <= 100),
        (b"linkpath", target, len(target) <= 100),
        (b"size", b"%d" % size, size < 1 << 33),
    ):
        records += b"" if fits else _record(key, value)
    kind = b"1" if link else b"0"
    block = _ustar(name[:100], size if size < 1 << 33 else 0, epoch, kind, target[:100])
    if not records:
        return block
    return _ustar(b"./pax", len(records), epoch, b"x", b"") + records + bytes(pad(len(records))) + block


def _record(key: bytes, value: bytes) -> bytes:
    rest = b" %s=%s\n" % (key, value)
    size = len(rest) + len(str(len(rest)))
    return b"%d%s" % (len(rest) + len(str(size)), rest)


def _ustar(name: bytes, size: int, epoch: int, kind: bytes, link: bytes) -> bytes:
    start = name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + b"%011o\0%011o\0" % (size, epoch)
    end = kind + link.ljust(100, b"\0") + b"ustar\x0000" + bytes(64) + b"0000000\0" * 2 + bytes(167)
    return start + b"%06o\0 " % (sum(start) + sum(end) + 8 * 32) + end


def encode(document: Dict[str, Any]) -> bytes:
    """Return a manifest in the one form in which it is written, with its own digest in it."""
    digest = hashlib.sha256(_dump({**document, "digest": ""})).hexdigest()
    return _dump({**document, "digest": digest})


def _dump(document: Dict[str, Any]) -> bytes:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def members_of(raw: bytes) -> List[Member]:
    """Return what a manifest names.

    Raises:
        Refused: it is no manifest, of another form, or names what must not be, or what no bundle has.
    """
    try:
        if len(raw) > LARGEST_MANIFEST:
            raise ValueError("it has more than %d bytes" % LARGEST_MANIFEST)
        document = json.loads(raw.decode())
        if document["form"] != FORM:
            raise Refused(
                "it is a bundle of the form %.20r, and this program reads form %d" % (document["form"], FORM),
                "use the unbundle.py that came with it",
            )
        _check_keys(document)  # first: encoding takes a hundred times the memory of a list of numbers
        if encode(document) != raw:  # a key that stands twice, a number in another form
            raise ValueError("its bytes are not those of its digest")
        found = _members(document["members"])
        _check_rest(document)
    except (ValueError, KeyError, TypeError, RecursionError) as err:
        raise Refused("its %s is damaged or hostile: %s" % (MANIFEST, escaped(str(err))), NO_BUNDLE) from None
    for member in found:
        if (
            member.path not in FILES
            and not member.path.startswith(FOLDERS)
            and not _OWN.fullmatch(member.path)
        ):
            raise Refused(
                "it holds %s, and no bundle of the form %d does" % (escaped(member.path), FORM),
                "ask for one that `reprobuild bundle` wrote; one of a newer reprobuild, unpack with that",
            )
    return found


def _check_keys(document: Dict[str, Any]) -> None:
    """Refuse a manifest with another key than a bundle has, or with more lists and objects."""
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


def _members(listed: Any) -> List[Member]:
    found: List[Member] = []
    first: Dict[str, Member] = {}
    files: Set[str] = {MANIFEST, SIGNATURE}
    folders: Set[str] = set()
    named = 0
    for item in listed:
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
            raise ValueError("%r stands there twice, or is a file and a folder" % path)
        files.add(path)
        named += sum(len(folder) for folder in above if folder not in folders)
        if named > LARGEST_FOLDERS:  # each is held in memory, and a path names all those above it
            raise ValueError("it names too many folders")
        folders.update(above)
        same = first.setdefault(sha256, Member(path, sha256, size))
        if same.size != size:
            raise ValueError("%r and %r have one sha256 and two sizes" % (same.path, path))
        found.append(same if same.path == path else Member(path, sha256, size, same.path))
    return found


def _check_rest(document: Dict[str, Any]) -> None:
    """Refuse a manifest of which another part than its members is no name, digest or line."""
    image, parts = document["image"], document["parts"]
    told = [(document["lock"], _SHA256), (document["made_by"], _LINE), (image["reference"], _REFERENCE)]
    told += [(image[name], _DIGEST) for name in ("tree", "config", "manifest")]
    if not isinstance(parts, list) or len(parts) > 100:
        raise ValueError("it has no list of parts")
    for value, grammar in told + [(part, _WORD) for part in parts]:
        if not isinstance(value, str) or not grammar.fullmatch(value):
            raise ValueError("%.80r is not what a bundle says there" % (value,))


def _check_path(path: Any) -> None:
    if not isinstance(path, str) or not 0 < len(path.encode()) <= 1000:
        raise ValueError("%.80r is no path" % (path,))
    parts = path.split("/")
    if len(parts) > MOST_DEEP:
        raise ValueError("%.80r has more than %d parts" % (path, MOST_DEEP))
    if not path.isprintable() or path[0] == "-" or "\\" in path or {"", ".", ".."} & set(parts):
        raise ValueError("%r is no path below a folder" % path)
    if max(len(part.encode()) for part in parts) > 255:
        raise ValueError("a name in %.80r is too long" % path)


def escaped(text: str) -> str:
    """Return a text of others without what steers a terminal, and not too much of it."""
    return text.encode("unicode_escape").decode()[:300]


class Volume:
    """The bytes of a file, or of parts one after the other."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)
        self.sizes = [os.path.getsize(path) for path in self.paths]
        self.size = sum(self.sizes)
        self._opened = -1
        self._stream: Any = None

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes from a place on; fewer where the end comes first."""
        found = b""
        for index, length in enumerate(self.sizes):
            if size > len(found) and offset < length:
                if index != self._opened:
                    self.close()
                    self._stream, self._opened = open(self.paths[index], "rb"), index  # noqa: SIM115  # closed by `close`
                self._stream.seek(offset)
                found += self._stream.read(min(size - len(found), length - offset))
                offset = length
            offset -= length
        return found

    def place(self, start: int, end: int) -> str:
        """Say in which bytes of which files something stands."""
        told, before = [], 0
        for path, length in zip(self.paths, self.sizes):
            first, last = max(start - before, 0), min(end - before, length)
            if first < last:
                told.append("bytes %d to %d of %s" % (first + 1, last, path))
            before += length
        return " and ".join(told)

    def close(self) -> None:
        if self._stream:
            self._stream.close()
        self._stream, self._opened = None, -1


def is_part(name: str) -> bool:
    """Return whether a file of this name is taken for a part of a bundle."""
    return _PART.fullmatch(name) is not None


def begins_bundle(path: str) -> bool:
    """Return whether a file begins as a bundle does."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as stream:
        first = stream.read(BLOCK)
    return first == header(MANIFEST, _field(first, 124, 136), _field(first, 136, 148))


def find_parts(path: str) -> List[str]:
    """Return the files that a bundle consists of, in their order.

    Raises:
        Refused: there is none, or one is missing or cut.
    """
    if os.path.isfile(path) and not _PART.fullmatch(path):
        return [path]
    named = _PART.fullmatch(path)
    stem = named.group(1) if named else path
    folder, name = os.path.split(stem)
    matches = (
        [_PART.fullmatch(other) for other in os.listdir(folder or ".")]
        if os.path.isdir(folder or ".")
        else []
    )
    numbers = sorted(
        int(match.group(2))
        for match in matches
        if match
        and match.group(0) == "%s.%03d" % (name, int(match.group(2)))  # and not .0001 or other digits
        and os.path.isfile(os.path.join(folder, match.group(0)))  # a pipe would be waited for without end
    )
    if not numbers and os.path.isdir(path):
        raise Refused("%s is a folder" % escaped(path), "name the file that `reprobuild bundle` wrote")
    if not numbers:
        raise Refused("there is no file %s, and no %s.001" % (escaped(path), escaped(path)), NO_BUNDLE)
    missing = sorted(set(range(1, numbers[-1] + 1)) - set(numbers))
    if missing:
        raise Refused(
            "missing: %s" % _parts_named(stem, missing), "copy what is missing; the other parts can stay"
        )
    paths = ["%s.%03d" % (stem, number) for number in numbers]
    sizes = [os.path.getsize(one) for one in paths]
    whole = "%d" if len(paths) > 2 else "at least %d"  # the last one may be shorter than all others are
    for one, size in zip(paths[:-1], sizes):
        if size < max(sizes):
            told = "%s has %d bytes of " + whole + ": its copy was cut"
            raise Refused(told % (one, size, max(sizes)), _rest(one, size))
    return paths


def _parts_named(stem: str, numbers: Sequence[int]) -> str:
    return ", ".join("%s.%03d" % (stem, number) for number in numbers[:MOST_NAMED]) + (
        " and %d more" % (len(numbers) - MOST_NAMED) if len(numbers) > MOST_NAMED else ""
    )


def _rest(path: str, size: int) -> str:
    name = os.path.basename(path)
    return "go on with the copy, as `rsync --append-verify` does: %s lacks `tail -c +%d` of the original" % (
        name,
        size + 1,
    )


class Bundle(NamedTuple):
    """An open bundle: its bytes, its first member, the signature of that and by whom, and where each member begins."""

    volume: Volume
    epoch: int
    manifest: bytes
    signature: bytes
    signer: str
    members: List[Member]
    start: int
    end: int

    @property
    def document(self) -> Dict[str, Any]:
        document: Dict[str, Any] = json.loads(self.manifest.decode())
        return document

    def placed(self) -> Iterator[Tuple[Member, int, bytes]]:
        """Yield each member with the place and the bytes of its header."""
        offset = self.start
        for member in self.members:
            head = _head(member, self.epoch)
            yield member, offset, head
            offset += len(head) + _stored(member)


def _head(member: Member, epoch: int) -> bytes:
    return header(member.path, 0 if member.link else member.size, epoch, member.link)


def _stored(member: Member) -> int:
    return 0 if member.link else member.size + pad(member.size)


def length(start: int, members: Sequence[Member], epoch: int) -> int:
    """Return how many bytes a bundle has whose members begin at `start`."""
    end = start + sum(len(_head(member, epoch)) + _stored(member) for member in members) + 2 * BLOCK
    return end + pad(end, RECORD)


@contextlib.contextmanager
def open_bundle(path: str, signers: str = "", keygen: Optional[Keygen] = None) -> Iterator[Bundle]:
    """Give a bundle whose manifest was read and whose length is right; no member was looked at.

    Who signed it is looked at before anything of the manifest is read.

    Args:
        path: the file, or what the names of its parts have in common.
        signers, keygen: see `check_signature`.

    Raises:
        Refused: a part is missing, the copy was cut, it is no bundle, or nobody of those asked for signed it.
    """
    volume = Volume(find_parts(path))
    try:
        first = volume.read(0, BLOCK)
        size, epoch = _field(first, 124, 136), _field(first, 136, 148)
        if first != header(MANIFEST, size, epoch) or size > LARGEST_MANIFEST:
            raise Refused("%s is no bundle, or damaged at its beginning" % volume.paths[0], NO_BUNDLE)
        manifest = volume.read(BLOCK, size)
        start = BLOCK + size + pad(size)
        if volume.size < start:
            raise _cut(volume, "at least %d" % start, _ends(volume))
        _check_padding(volume, MANIFEST, BLOCK + size)
        signature, start = _signature(volume, start, epoch)
        signer = check_signature(manifest, signature, signers, keygen or run_keygen)
        try:
            members = members_of(manifest)
        except Refused as err:
            raise Refused("%s: %s" % (volume.paths[0], err), err.hint) from None
        end = length(start, members, epoch)
        found = Bundle(volume, epoch, manifest, signature, signer, members, start, end)
        _check_length(found)
        yield found
    finally:
        volume.close()


def _field(block: bytes, start: int, end: int) -> int:
    text = block[start : end - 1]
    return int(text, 8) if re.fullmatch(b"[0-7]+", text) else 0


def _signature(volume: Volume, start: int, epoch: int) -> Tuple[bytes, int]:
    block = volume.read(start, BLOCK)
    size = _field(block, 124, 136)
    if block != header(SIGNATURE, size, epoch) or size > LARGEST_SIGNATURE:
        return b"", start
    end = start + BLOCK + size + pad(size)
    if volume.size < end:
        raise _cut(volume, "at least %d" % end, _ends(volume))
    _check_padding(volume, SIGNATURE, start + BLOCK + size)
    return volume.read(start + BLOCK, size), start + BLOCK + size + pad(size)


def _check_padding(volume: Volume, name: str, end: int) -> None:
    if volume.read(end, pad(end)).strip(b"\0"):
        raise Refused("what follows %s is not empty (%s)" % (name, volume.place(end, end + pad(end))), AGAIN)


def _cut(volume: Volume, end: str, which: Sequence[int]) -> Refused:
    """Return what is said of a copy that was cut, of which `end` bytes must be there: which parts may be short."""
    there = "%d bytes are there of %s" % (volume.size, end)
    if len(which) == 1:
        path, size = volume.paths[which[0]], volume.sizes[which[0]]
        return Refused("%s: %s: its copy was cut" % (path, there), _rest(path, size))
    either = " or ".join("%s (%d bytes)" % (volume.paths[index], volume.sizes[index]) for index in which)
    return Refused(
        "%s: %s: one copy was cut" % (either, there),
        "compare their sizes with those of the originals, and go on with the copy that is shorter, as"
        " `rsync --append-verify` does",
    )


def _ends(volume: Volume) -> Sequence[int]:
    """Return the parts that may be short: of two each, as none tells the size of the first; of more the last."""
    return (0, 1) if len(volume.paths) == 2 else (len(volume.paths) - 1,)


def _short(bundle: Bundle) -> Sequence[int]:
    """Return the parts that may be short; of two the one, if it can be told.

    Where each header begins is known from the first member; behind a first part that was cut, each comes earlier.
    """
    volume, ends = bundle.volume, _ends(bundle.volume)
    first, lost = volume.sizes[0], bundle.end - volume.size
    for _, offset, head in bundle.placed() if len(ends) > 1 else ():
        if offset >= first and volume.read(offset, len(head)) == head:
            return (1,)
        if offset - lost >= first and volume.read(offset - lost, len(head)) == head:
            return (0,)
    return ends


def _check_length(bundle: Bundle) -> None:
    volume, end = bundle.volume, bundle.end
    if volume.size > end:
        raise Refused("%s: %d bytes follow its end" % (volume.paths[-1], volume.size - end), AGAIN)
    if volume.size == end:
        return
    whole = max(volume.sizes)
    count = -(-end // whole)
    if _PART.fullmatch(volume.paths[0]) and volume.sizes[-1] == whole and count > len(volume.paths):
        numbers = range(len(volume.paths) + 1, count + 1)
        stem = _PART.fullmatch(volume.paths[0]).group(1)  # type: ignore[union-attr]  # it was matched when it was found
        raise Refused(
            "missing: %s" % _parts_named(stem, numbers), "copy what is missing; the other parts can stay"
        )
    raise _cut(volume, "%d" % end, _short(bundle))


def check_signature(manifest: bytes, signature: bytes, signers: str, keygen: Keygen) -> str:
    """Return by whom a bundle is signed, of those whom a file of allowed signers names (ssh-keygen(1)).

    Args:
        manifest: the first member, of which nothing was read yet.
        signature: of that; empty where there is none.
        signers: the file; empty to ask only whether the signature is of this bundle, where `ssh-keygen` is there.
        keygen: starts `ssh-keygen -Y`, as `run_keygen` does.

    Raises:
        Refused: it is not signed, by somebody else, the signature is damaged, or `ssh-keygen` is absent.
    """
    if not signature:
        if signers:
            raise Refused("the bundle is not signed", "leave --allowed-signers out to take it all the same")
        return ""
    if signers and not os.path.isfile(signers):
        raise Refused(
            "%s is no file of allowed signers" % escaped(signers), "see ALLOWED SIGNERS in ssh-keygen(1)"
        )
    try:
        with tempfile.TemporaryDirectory() as folder:
            place = os.path.join(folder, SIGNATURE)
            with open(place, "wb") as stream:
                stream.write(signature)
            return _signer(manifest, place, signers, keygen)
    except OSError as err:
        raise Refused(
            "the signature cannot be looked at: %s" % err.strerror,
            "make room for temporary files, or name another folder for them with TMPDIR",
        ) from None


def _signer(manifest: bytes, signature: str, signers: str, keygen: Keygen) -> str:
    asked = ["-n", NAMESPACE, "-s", signature]
    try:
        if keygen(["check-novalidate", *asked], manifest) is None:
            raise Refused("%s is damaged, or of another bundle" % SIGNATURE, AGAIN)
    except Absent:
        if signers:
            raise
        return ""
    if not signers:
        return ""
    asked += ["-f", os.path.abspath(signers)]
    for name in (keygen(["find-principals", *asked], b"") or "").splitlines():
        if keygen(["verify", *asked, "-I", name], manifest) is not None:
            return name
    raise Refused(
        "none of those whom %s names signed the bundle" % signers,
        "ask for the key of whoever signed it, by another way than the bundle came",
    )


def run_keygen(arguments: Sequence[str], content: bytes) -> Optional[str]:
    """Run `ssh-keygen -Y` with bytes as its input, and return what it says; None where it refuses.

    Raises:
        Absent: it cannot be run, or is too old. Refused: it does not end.
    """
    env = absolute_path(os.environ)  # noqa: TID251  a program of its own
    argv = [shutil.which("ssh-keygen", path=env["PATH"]) or "/ssh-keygen", "-Y", *arguments]
    try:
        done = subprocess.run(
            argv, input=content, capture_output=True, check=False, timeout=KEYGEN_TIME, env=env
        )
    except OSError as err:
        raise Absent(
            "the bundle is signed, and ssh-keygen cannot be run: %s" % err.strerror, NEW_KEYGEN
        ) from None
    except subprocess.TimeoutExpired:
        raise Refused("ssh-keygen did not end within %d seconds" % KEYGEN_TIME, "run it again") from None
    if done.returncode == 0:
        return done.stdout.decode(errors="replace")
    if is_too_old(done.stderr.decode(errors="replace")):
        raise Absent(TOO_OLD, NEW_KEYGEN)
    return None


def absolute_path(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return an environment without relative entries of PATH: a program of the current directory is never run."""
    kept = [place for place in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(place)]
    return {**environ, "PATH": os.pathsep.join(kept) or os.defpath}


def is_too_old(said: str) -> bool:
    """Tell whether `ssh-keygen -Y` did not refuse a signature or a key, but knows no such thing."""
    return _TOO_OLD.search(said) is not None


class Sink:
    """Takes the bytes of a member, and is told at the end whether they were right."""

    def write(self, piece: bytes) -> None:
        """Take a piece."""

    def close(self, right: bool) -> None:
        """Take note that there are no more, or that they are not wanted."""


def damaged(bundle: Bundle, take: Callable[[Member], Optional[Sink]]) -> Iterator[str]:
    """Read every member; yield what is wrong with which.

    Args:
        take: is told each member whose header is right, and returns what takes its bytes, or None where they are not
            to be read. A link has none.
    """
    volume, end = bundle.volume, bundle.start
    for member, offset, head in bundle.placed():
        begin, end = offset + len(head), offset + len(head) + _stored(member)
        if volume.read(offset, len(head)) != head:
            yield "the header of %s is not what it must be (%s)" % (member.path, volume.place(offset, begin))
            continue
        sink = take(member)
        if sink is not None:
            yield from _damage(bundle, member, begin, sink)
        if sink is not None and volume.read(begin + member.size, pad(member.size)) != bytes(pad(member.size)):
            yield "what follows %s is not empty (%s)" % (member.path, volume.place(begin + member.size, end))
    if volume.read(end, bundle.end - end) != bytes(bundle.end - end):
        yield "its end is not empty (%s)" % volume.place(end, bundle.end)


def _damage(bundle: Bundle, member: Member, begin: int, sink: Sink) -> Iterator[str]:
    digest, left = hashlib.sha256(), member.size
    right = False
    try:
        while left:
            piece = bundle.volume.read(begin + member.size - left, min(CHUNK, left))
            if not piece:
                raise Refused("%s became shorter meanwhile" % bundle.volume.paths[-1], AGAIN)
            digest.update(piece)
            sink.write(piece)
            left -= len(piece)
        right = digest.hexdigest() == member.sha256
    finally:
        sink.close(right)
    if not right:
        yield "%s is damaged: sha256 %s, and the manifest says %s (%s)" % (
            member.path, digest.hexdigest(), member.sha256, bundle.volume.place(begin, begin + member.size),
        )  # fmt: skip


def refuse_damaged(found: Sequence[str]) -> None:
    """Raise `Refused` where anything was found."""
    if found:
        more = ["and %d more" % (len(found) - MOST_NAMED)] if len(found) > MOST_NAMED else []
        raise Refused("\n".join([*found[:MOST_NAMED], *more]), AGAIN)


def check(bundle: Bundle) -> None:
    """Read all of a bundle and compare every byte.

    Raises:
        Refused: with the name of each member that is damaged.
    """
    refuse_damaged(list(damaged(bundle, lambda member: None if member.link else Sink())))


def hash_file(path: str) -> str:
    """Return the sha256 (hex) of a file."""
    with open(path, "rb") as stream:
        return _hash_stream(stream)


def _hash_stream(stream: Any) -> str:
    digest = hashlib.sha256()
    while True:
        piece = stream.read(CHUNK)
        if not piece:
            return digest.hexdigest()
        digest.update(piece)


def unpack(
    bundle: Bundle, out: str, *, progress: Callable[[int, int], None] = lambda done, total: None,
    settle: Callable[[str], None] = lambda tree: None,
) -> bool:  # fmt: skip
    """Unpack a bundle into a new folder, which appears whole; return False where it stands there already.

    What a run that was ended left behind is gone on with: what is whole of it is kept.

    Args:
        out: the folder; an empty one is replaced.
        progress: told (bytes so far, bytes in all).
        settle: called with the folder before it gets its name.

    Raises:
        Refused: a byte is not what it must be, `out` holds something else, or there is no room.
    """
    # The user may have made the empty folder, and a link to it.
    out = os.path.realpath(out) if os.path.isdir(out) else os.path.abspath(out)
    work = os.path.join(os.path.dirname(out), ".%s.unbundling" % os.path.basename(out))
    if os.path.isfile(os.path.join(out, MANIFEST)):
        _check_there(bundle, out)
        with contextlib.suppress(
            OSError
        ):  # left by one that was killed at its very end; else it is not empty
            os.rmdir(work)
        return False
    if os.path.lexists(out) and not (os.path.isdir(out) and not os.listdir(out)):
        raise Refused("%s is there, and holds something else" % out, "name another folder, or remove it")
    try:
        with _alone(work) as held, _tree(bundle, held) as (name, tree):
            _fill(bundle, work, held, tree, progress)
            settle(_path_of(work, name, tree))
            _path_of(work, name, tree)
            if os.path.isdir(out):
                os.rmdir(out)
            os.rename(name, out, src_dir_fd=held)
            os.rmdir(work)
    except OSError as err:
        place = "%s: " % err.filename if err.filename else ""
        raise Refused(
            "%s%s" % (place, err.strerror),
            "mend that, and run it again: it goes on with what stands in %s" % work,
        ) from None
    return True


def _check_there(bundle: Bundle, out: str) -> None:
    top = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        whole = Member(MANIFEST, hashlib.sha256(bundle.manifest).hexdigest(), len(bundle.manifest))
        if not _is_whole(top, whole):
            raise Refused("%s holds another bundle" % out, "name another folder, or remove it")
        for member in bundle.members:
            path = os.path.join(out, member.path)
            if member.path in CHANGED or (member.path.startswith("store/") and not os.path.lexists(path)):
                continue  # a check writes the first two, and `reprobuild unbundle` brings the others into its store
            if not _is_whole(top, member):
                raise Refused("%s is missing or changed" % path, "remove %s, and run it again" % out)
    finally:
        os.close(top)


def strangers(bundle: Bundle, out: str) -> List[str]:
    """Return the paths below a folder that are not of the bundle, or not as it brought them; at most `MOST_NAMED`.

    The user may have made them: a check writes a certificate. Whoever handed over the folder may have made them, too.

    Args:
        bundle: whose files are there.
        out: the folder. A directory that the bundle does not have is named, and not entered.
    """
    members = {member.path: member for member in bundle.members}
    for name, content in ((MANIFEST, bundle.manifest), (SIGNATURE, bundle.signature)):
        if content:
            members[name] = Member(name, hashlib.sha256(content).hexdigest(), len(content))
    folders = {
        "/".join(path.split("/")[:count]) for path in members for count in range(1, path.count("/") + 1)
    }
    changeable = (*CHANGED, SIGNATURE)  # all others were compared
    found: List[str] = []
    waiting = [""]
    top = os.open(out, _DIRECTORY)
    try:
        while waiting and len(found) < MOST_NAMED:
            above = waiting.pop()
            with _folder_of(top, above + ".") as (folder, _), os.scandir(folder) as entries:
                for entry in entries:
                    path = above + entry.name
                    if path in folders and entry.is_dir(follow_symlinks=False):
                        waiting.append(path + "/")
                    elif path not in members or (path in changeable and not _is_whole(top, members[path])):
                        found.append(path)
    finally:
        os.close(top)
    return sorted(found)[:MOST_NAMED]


@contextlib.contextmanager
def _alone(work: str) -> Iterator[int]:
    """Hold the folder of unfinished work, which nobody else may use meanwhile, and give its descriptor."""
    with contextlib.suppress(FileExistsError):
        os.makedirs(work, 0o700)
    number = os.open(work, _DIRECTORY)
    try:
        found = os.fstat(number)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise Refused(
                "%s was made by somebody else, or is open to others" % work,
                "remove it, or name a folder with -o where nobody else can write",
            )
        with contextlib.suppress(OSError):  # some network file systems have no locks
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(
                    "another process unpacks into %s" % work, "run it again when that has ended"
                ) from None
        yield number
    finally:
        os.close(number)


@contextlib.contextmanager
def _tree(bundle: Bundle, work: int) -> Iterator[Tuple[str, int]]:
    """Give the folder for what comes of this bundle, by name and as a descriptor; what is left of another one goes."""
    name = hashlib.sha256(bundle.manifest).hexdigest()
    for other in os.listdir(work):
        if other != name or not _is_own_folder(work, other):
            _remove(work, other)
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=work)
    tree = os.open(name, _DIRECTORY, dir_fd=work)
    try:
        _close(tree)
        yield name, tree
    finally:
        os.close(tree)


def _path_of(work: str, name: str, tree: int) -> str:
    """Return the path of the folder, which is still the one that was filled."""
    path = os.path.join(work, name)
    if not os.path.samestat(os.lstat(path), os.fstat(tree)):
        raise Refused("%s is another folder than before" % path, "name a folder where nobody else can write")
    return path


def _is_own_folder(above: int, name: str) -> bool:
    found = os.stat(name, dir_fd=above, follow_symlinks=False)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _close(folder: int) -> None:
    """Give a folder that was there before a mode with which its owner alone can write."""
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    if mode & 0o7022 or mode & 0o700 != 0o700:
        os.fchmod(folder, mode & 0o755 | 0o700)


def _remove(above: int, name: str) -> None:
    """Remove what stands at a name, and all below it; no link is followed.

    What is in a folder first moves up: so no depth takes more descriptors, or more of the stack.
    """
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if not stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=above)
            continue
        folder = os.open(name, _DIRECTORY, dir_fd=above)
        try:
            _close(folder)
            for other in os.listdir(folder):
                waiting.append("removed.%s" % os.urandom(8).hex())
                os.rename(other, waiting[-1], src_dir_fd=folder, dst_dir_fd=above)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=above)


def _fill(bundle: Bundle, work: str, held: int, tree: int, progress: Callable[[int, int], None]) -> None:
    there = {member.path for member in bundle.members if _is_whole(tree, member, own=True)}
    parts = {tuple(member.path.split("/")[:-1]) for member in bundle.members}
    folders = {"/".join(names[:count]) for names in parts for count in range(1, len(names) + 1)}
    _prune(tree, "", there, folders)
    total = sum(member.size for member in bundle.members if not member.link)
    need = total - sum(member.size for member in bundle.members if not member.link and member.path in there)
    free = shutil.disk_usage(work).free
    if need > free:
        raise Refused(
            "%d bytes are to be unpacked, and %d are free in %s" % (need, free, os.path.dirname(work)),
            "make room, or name another folder with -o; what is unpacked already is kept",
        )
    done = 0

    def take(member: Member) -> Optional[Sink]:
        if member.path in there:
            nonlocal done
            done += member.size
            return None
        if member.link:
            _link(held, tree, member)
            return None
        return _Part(held, tree, member.path, step)

    def step(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)

    refuse_damaged(list(damaged(bundle, take)))
    names = {MANIFEST: bundle.manifest, **({SIGNATURE: bundle.signature} if bundle.signature else {})}
    for name, content in names.items():
        part = _Part(held, tree, name, lambda size: None)
        part.write(content)
        part.close(right=True)
    for _, _, files, folder in os.fwalk(".", dir_fd=tree):
        for name in files:
            os.utime(name, (bundle.epoch, bundle.epoch), dir_fd=folder, follow_symlinks=False)


def _prune(folder: int, above: str, kept: Set[str], folders: Set[str]) -> None:
    """Remove all that is no whole file of the bundle: whoever handed over the folder may have put it there."""
    for name in os.listdir(folder):
        path = above + name
        if path in folders and _is_own_folder(folder, name):
            lower = os.open(name, _DIRECTORY, dir_fd=folder)
            try:
                _close(lower)
                _prune(lower, path + "/", kept, folders)
            finally:
                os.close(lower)
        elif path not in kept:
            _remove(folder, name)


@contextlib.contextmanager
def _folder_of(top: int, path: str, make: bool = False) -> Iterator[Tuple[int, str]]:
    """Give the folder of a path below an open one, as a descriptor, and the last part; no link is followed."""
    *above, last = path.split("/")
    number = os.dup(top)
    try:
        for name in above:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=number)
            lower = os.open(name, _DIRECTORY, dir_fd=number)
            os.close(number)
            number = lower
        yield number, last
    finally:
        os.close(number)


def _is_whole(top: int, member: Member, own: bool = False) -> bool:
    """Tell whether a plain file below a folder has the bytes of a member; `own`: and is as `_Part` leaves it."""
    try:
        with _folder_of(top, member.path) as (folder, name):
            number = os.open(name, _PLAIN, dir_fd=folder)
    except OSError as err:
        if err.errno not in _NOT_PLAIN:
            raise
        return False
    with os.fdopen(number, "rb") as stream:
        found = os.fstat(number)
        if own and (found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) not in (0o444, 0o644)):
            return False
        plain = stat.S_ISREG(found.st_mode) and found.st_size == member.size
        return plain and _hash_stream(stream) == member.sha256


def _link(work: int, tree: int, member: Member) -> None:
    """Give a file its other name; where the file system has no hard links, a copy."""
    with contextlib.ExitStack() as stack:
        try:
            one, first = stack.enter_context(_folder_of(tree, member.link))
            source = stack.enter_context(os.fdopen(os.open(first, _PLAIN, dir_fd=one), "rb"))
        except FileNotFoundError:  # it is damaged, and that is told
            return
        two, second = stack.enter_context(_folder_of(tree, member.path, make=True))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(second, dir_fd=two)
        try:
            os.link(first, second, src_dir_fd=one, dst_dir_fd=two, follow_symlinks=False)
        except OSError:
            part = _Part(work, tree, member.path, lambda size: None)
            shutil.copyfileobj(source, part, CHUNK)
            part.close(right=True)


class _Part(Sink):
    """A file that gets its name when all its bytes came, and were right."""

    def __init__(self, work: int, tree: int, path: str, step: Callable[[int], None]) -> None:
        self._work, self._tree, self._path, self._step = work, tree, path, step
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW  # what stands there already is not ours
        self._stream = os.fdopen(os.open("part", flags, 0o600, dir_fd=work), "wb")

    def write(self, piece: bytes) -> None:
        self._stream.write(piece)
        self._step(len(piece))

    def close(self, right: bool) -> None:
        with self._stream as stream:
            os.fchmod(stream.fileno(), 0o444 if "/blobs/" in self._path else 0o644)
        if not right:
            os.unlink("part", dir_fd=self._work)
            return
        with _folder_of(self._tree, self._path, make=True) as (folder, name):
            os.replace("part", name, src_dir_fd=self._work, dst_dir_fd=folder)


def load(out: str, engine: str, reference: str, compared: bool) -> None:
    """Bring the image into an engine, as the README of the bundle says.

    Args:
        out: the folder.
        engine: docker, podman or apptainer.
        reference: the name of the image.
        compared: the bundle has an `image.sif`, whose bytes were compared; else Apptainer makes it of the layers.

    Raises:
        Refused: the engine is absent, or failed.
    """
    image = os.path.join(os.path.abspath(out), "image")
    if engine == "docker":
        _engine(["docker", "load", "--quiet"], out, image)
    elif engine == "podman":  # which takes the path of a layout for the name of the image
        name = "reprobuild-%d-%d" % (os.getpid(), time.time_ns())
        with tempfile.TemporaryDirectory(prefix="reprobuild-") as folder:
            os.symlink(image, os.path.join(folder, name))
            _engine(["podman", "load", "--quiet", "--input", name], folder)
        try:
            _engine(["podman", "tag", "localhost/%s" % name, reference], out)
        finally:
            _engine(["podman", "rmi", "localhost/%s" % name], out)
    elif not compared:  # one that is there may be anybody's
        name = ".image.%s.sif" % os.urandom(8).hex()
        try:
            _engine(["apptainer", "build", name, "oci:image"], out)
            os.replace(os.path.join(out, name), os.path.join(out, "image.sif"))
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(out, name))


def _engine(argv: Sequence[str], folder: str, layout: str = "") -> None:
    """Run a command in a folder; a layout goes into its standard input as a tar."""
    stdin = subprocess.PIPE if layout else subprocess.DEVNULL
    env = absolute_path(os.environ)  # noqa: TID251  a program of its own
    program = [shutil.which(argv[0], path=env["PATH"]) or "/" + argv[0], *argv[1:]]
    try:
        with subprocess.Popen(program, cwd=folder, stdin=stdin, stdout=sys.stderr, env=env) as process:
            if process.stdin:
                # Where it wants no more, it says itself why.
                quiet = contextlib.suppress(BrokenPipeError)
                with quiet, process.stdin as stream, tarfile.open(fileobj=stream, mode="w|") as tar:
                    tar.add(layout, arcname=".")
    except OSError as err:
        raise Refused(
            "%s cannot be run: %s" % (argv[0], err.strerror), "choose another with --load"
        ) from None
    if process.returncode:
        raise Refused("`%s` exited %d" % (" ".join(argv), process.returncode), "see what it says above")


def check_names(document: Dict[str, Any], tree: str) -> str:
    """Return the name of the image that a bundle brings, which can hide no other image.

    An engine takes each name that a layout gives its image. So index.json and manifest.json are compared whole with
    what `reprobuild bundle` writes: programs differ in what they read of a key that stands twice.

    Args:
        document: the manifest of the bundle.
        tree: the folder in which its files are.

    Raises:
        Refused: it names another image, or the files are not those of one image of this name.
    """
    name, lock = str(document["image"]["reference"]), os.path.join(tree, "reprobuild.lock")
    if not os.path.isfile(lock):
        raise Refused("the bundle holds no lock, so its image has no name", NO_BUNDLE)
    own = "reprobuild:%s" % hash_file(lock)[:12]
    if name != own:
        raise Refused(
            "the image of the bundle names itself %s, which could hide another image" % escaped(name),
            "ask for a bundle of this reprobuild: in it the image is %s" % own,
        )
    try:
        folder = os.path.join(tree, "image")
        there = _named(folder, "index.json", _index, document["image"], name)
        if os.path.lexists(os.path.join(folder, "manifest.json")):
            there = there and _named(folder, "manifest.json", _legacy, document["image"], name)
        with open(os.path.join(tree, "image.json"), "rb") as stream:
            there = there and json.loads(stream.read(LARGEST_INDEX))["reference"] == name
    except (FileNotFoundError, ValueError, KeyError, TypeError, IndexError, RecursionError) as err:
        raise Refused("the names of its image cannot be read: %s" % escaped(str(err)), NO_BUNDLE) from None
    if not there:
        raise Refused("its image has other names than %s" % name, "ask for another bundle")
    _check_layout(folder, document["image"]["manifest"])
    return name


def _check_layout(folder: str, manifest: str) -> None:
    """Refuse a layout that holds more than its form, or lacks its image: a Docker would look for the oldest form.

    That form has a file `repositories` with names, and a folder for each layer.
    """

    def fail(err: OSError) -> None:
        raise err

    for above, folders, names in os.walk(folder, onerror=fail):
        for path in (os.path.join(above, name) for name in names + folders):
            inner = os.path.relpath(path, folder)
            known = _LAYOUT.fullmatch(inner) if os.path.isfile(path) else inner in _FOLDERS
            if not known or os.path.islink(path):  # before a folder is entered that is deeper than the stack
                raise Refused("image/%s is no file of an image" % escaped(inner), NO_BUNDLE)
    for inner in ("oci-layout", "blobs/sha256/%s" % manifest.partition(":")[2]):
        if not os.path.isfile(os.path.join(folder, inner)):
            raise Refused("its image lacks %s" % inner, NO_BUNDLE)


def _named(
    folder: str, name: str, expected: Callable[..., bytes], image: Dict[str, Any], reference: str
) -> bool:
    """Tell whether a file of a layout has the bytes that follow from what it says and from the image's name."""
    with open(os.path.join(folder, name), "rb") as stream:
        raw = stream.read(LARGEST_INDEX)
    return expected(json.loads(raw.decode()), image, reference) == raw


def _index(found: Any, image: Dict[str, Any], reference: str) -> bytes:
    """Return the index.json of an image of one name; size and platform are taken as they are, if they can be."""
    stated = found["manifests"][0]
    platform = {
        key: stated["platform"][key] for key in ("os", "architecture", "variant") if key in stated["platform"]
    }
    if type(stated["size"]) is not int or not all(
        isinstance(value, str) and _WORD.fullmatch(value) for value in platform.values()
    ):
        raise ValueError("its size or its platform is none")
    path, _, tag = (
        reference.rpartition(":") if ":" in reference.rpartition("/")[2] else (reference, "", "latest")
    )
    full = "%s:%s" % (path if "/" in path else "docker.io/library/%s" % path, tag)
    kind = "application/vnd.oci.image.%s.v1+json"
    entry = {
        "mediaType": kind % "manifest", "digest": image["manifest"], "size": stated["size"], "platform": platform,
        "annotations": {"org.opencontainers.image.ref.name": reference, "io.containerd.image.name": full},
    }  # fmt: skip
    whole = {"schemaVersion": 2, "mediaType": kind % "index", "manifests": [entry]}
    return json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _legacy(found: Any, image: Dict[str, Any], reference: str) -> bytes:
    """Return the manifest.json of an image of one name, for a Docker with the classic image store."""
    layers = found[0]["Layers"]
    if not all(isinstance(layer, str) and _BLOB.fullmatch(layer) for layer in layers):
        raise ValueError("a layer of it is none")
    config = "blobs/sha256/%s" % image["config"].partition(":")[2]
    return json.dumps(
        [{"Config": config, "RepoTags": [reference], "Layers": layers}], sort_keys=True
    ).encode()


def main(argv: Sequence[str]) -> int:
    """Do what the command line says, and return the exit code: 11 where the bundle is refused."""
    top = argparse.ArgumentParser(description="Check a bundle of reprobuild, and unpack it.")
    top.add_argument("file", metavar="FILE", help="the bundle, or the name that its parts have in common")
    top.add_argument("-o", "--out", default="frozen", help="a new folder [default: frozen]")
    top.add_argument("--check", action="store_true", help="compare every byte, and unpack nothing")
    top.add_argument(
        "--allowed-signers",
        dest="signers",
        metavar="FILE",
        help="take only what one of these signed (ssh-keygen(1), ALLOWED SIGNERS)",
    )
    top.add_argument(
        "--load", choices=["docker", "podman", "apptainer"], help="bring the image into an engine"
    )
    options = top.parse_args(argv)
    try:
        with open_bundle(options.file, options.signers or "") as bundle:
            if bundle.signature:
                say(
                    "signed by %s"
                    % (
                        escaped(bundle.signer)
                        if bundle.signer
                        else "an unknown key: the signer was not checked (use --allowed-signers)"
                    )
                )
            if options.check:
                check(bundle)
                say("%s is whole: %d files" % (options.file, len(bundle.members)))
                return 0
            out = os.path.abspath(options.out)  # where it is the working directory, another takes its place
            new = unpack(
                bundle, out, progress=_moving() if sys.stderr.isatty() else lambda done, total: None,
                settle=lambda tree: _settle(bundle, tree),
            )  # fmt: skip
            name = check_names(
                bundle.document, out
            )  # which `reprobuild` of another version may have unpacked
            say(
                "%s in %s; its README.md says what can be done with it"
                % ("unpacked" if new else "its files are whole, and there already", options.out)
            )
            if not new:
                say_strangers(strangers(bundle, out), say)
            say(origin(options.file, bool(bundle.signature), bundle.signer))
            say(
                "the lock was not checked, as this program has no reader of it: `reprobuild unbundle` checks it"
            )
            say(
                "of the image's layers, recipe, context, sources, README.md and programs only the bytes were compared,"
                " with the sender's own list: `reprobuild unbundle` holds them against the lock; without that, run and"
                " follow them if you trust the sender"
            )
            gone = _moved(bundle, out)
            if gone:
                say(
                    "of the inputs %d are not there, as `reprobuild unbundle` moves them into its store: it brings"
                    " them again, and so does this program into a new folder" % gone
                )
            if _has_their_page(bundle, out):
                say(
                    "%s is the sender's page, and was not looked into: open it if you trust the sender" % PAGE
                )
            if options.load:
                load(out, options.load, name, any(member.path == "image.sif" for member in bundle.members))
    except Refused as err:
        say("error: %s\n\nhint: %s" % (err, err.hint))
        return 11
    except OSError as err:
        place = "%s: " % escaped(str(err.filename)) if err.filename else ""
        say("error: %s%s\n\nhint: check the path, its permissions and the space left" % (place, err.strerror))
        return 11
    except KeyboardInterrupt:
        say("interrupted; run it again to go on")
        return 130
    return 0


def _settle(bundle: Bundle, tree: str) -> None:
    check_names(bundle.document, tree)


def origin(source: str, signed: bool, signer: str) -> str:
    """Say who made the lock of a bundle, as far as is known, and what it means to follow it."""
    whom = (
        "signed by %s" % escaped(signer)
        if signer
        else "signed, but the signer was not checked"
        if signed
        else "not signed"
    )
    return "the lock is from %s, %s: to build from it, and to run its image, executes the packages that it names" % (
        escaped(source), whom,
    )  # fmt: skip


def say_strangers(paths: Sequence[str], say: Callable[[str], None]) -> None:
    """Say which files of a folder are not the bundle's."""
    if paths:
        say(
            "not of the bundle, and nobody compared them: %s%s; if you did not make them, unpack into a new folder (-o)"
            % (", ".join(escaped(path) for path in paths), ", ..." if len(paths) == MOST_NAMED else "")
        )


def _moved(bundle: Bundle, out: str) -> int:
    """Return how many inputs are not where they were unpacked."""
    inputs = (member.path for member in bundle.members if member.path.startswith("store/"))
    return sum(not os.path.exists(os.path.join(out, path)) for path in inputs)


def _has_their_page(bundle: Bundle, out: str) -> bool:
    """Tell whether the page there is the one that came along; a check of the image writes another."""
    path = os.path.join(out, PAGE)
    sent = [member.sha256 for member in bundle.members if member.path == PAGE]
    return os.path.isfile(path) and hash_file(path) in sent


def _moving() -> Callable[[int, int], None]:
    """Return what shows on a terminal, once a second, that it is going on."""
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > 1 or done == total:
            last = time.monotonic()
            print(
                "  %d of %d MB" % (done / 1e6, total / 1e6),
                end="\n" if done == total else "\r",
                file=sys.stderr,
            )

    return show


def say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
