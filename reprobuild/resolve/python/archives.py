"""Freeze lines that name one file.

Examples are `name @ https://.../x.whl#sha256=...` and `name @ file:///.../x.tar.gz`.

With a sha256, that exact file is locked, wherever it is. With another hash, the file is fetched and compared when the
lock is made. Without one, the content at the address may have changed: it is
fetched when the lock is made, and its hash is locked from then on. A file of the captured machine without a hash cannot
be identified elsewhere, so an index's file of its name is a replacement.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from urllib.parse import unquote

from packaging.utils import canonicalize_name

from reprobuild.ecosystems.pypi.choose import choose_wheel
from reprobuild.ecosystems.pypi.files import Bring as Bring
from reprobuild.ecosystems.pypi.files import FileLists, IndexDistribution, archive_distribution
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Sdist, Wheel
from reprobuild.lock.system import Artefact
from reprobuild.resolve.line_resolutions import make_resolution
from reprobuild.resolve.python.rulings import BUILT, describe_yank, rule_missing_hash
from reprobuild.snapshot.model import Requirement
from reprobuild.store.store import CHUNK, Store

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!~-]*")
_SUFFIX = re.compile(r"\.(?:tar\.gz|tgz|tar\.bz2|tar\.xz|tar|zip)$")
_MOST_PLACES = 4  # that are asked for one file
_UNHASHED = "the freeze tells no hash of it, so it is what stood there when the lock was made"
_NO_HASH_HERE = "the freeze tells no hash of it, so nobody can tell whether it is the same"

Answer = tuple["Wheel | Sdist | None", Resolution]
HashFile = Callable[[str, str], str]
"""Returns another hash of a file that was fetched, by its sha256 and the algorithm."""


def download_file(url: str, filename: str, store: Store, net: Net, link: str = "") -> Artefact:
    """Fetch a file of unknown hash into the store; return it with its hash.

    Args:
        url: its address, for the lock.
        filename: its name.
        store: keeps it.
        net: the network.
        link: the address with its secrets, if an index lists one.

    Raises:
        FetchError: it is unavailable.
    """
    with store.scratch() as folder:
        part = folder / "file"
        sha256 = net.download(url, part, link=link)
        size = part.stat().st_size
        store.adopt(part, sha256)
    return Artefact(filename=filename, sha256=sha256, size=size, url=url)


def hash_blob(store: Store, sha256: str, algorithm: str) -> str:
    """Return another hash of a file in the store."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with store.verified(sha256, sha256).open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def resolve_archive(
    line: Requirement, files: FileLists, target: WheelTarget, bring: Bring, hash_file: HashFile
) -> Answer:
    """Lock the file that a line names.

    Args:
        line: of kind `archive`.
        files: the files of the indexes, which may include it.
        target: the target that a wheel must fit.
        bring: fetches a file of unknown hash.
        hash_file: returns another hash of such a file.
    """
    address = line.url or line.path or ""
    filename = unquote(address.partition("?")[0].replace("\\", "/").rpartition("/")[2])
    known = files.named(line.name, filename)
    if line.hashes:
        known = [item for item in known if (files.hash_of(item) or "").lower() in line.hashes]
        if line.sha256 and line.sha256 not in line.hashes:
            reason = f"its address names the sha256 {line.sha256[:12]}, which is none of its hashes"
            return None, make_resolution(line, "unresolved", reason, "other-hash")
    if line.digests:
        return _lock_by_digests(line, filename, (files, known), target, bring, hash_file)
    if line.sha256:
        return _lock_by_hash(line, filename, line.sha256, (files, known), target)
    if line.url is None:
        return _resolve_local_file(line, files, known, target)
    # The address of a link without its token or query may have another file.
    same = [item for item in known if item.url == line.url and item.sha256 and not files.link_of(item)]
    if same:
        reason = f"{filename} from its own address, with the hash that {same[0].index} publishes for it"
        return _lock_distribution(line, files.artefact(same[0]), same[0], reason, target)
    try:
        file = bring(line.url, filename, "")
    except FetchError as err:
        if known:
            reason = f"{filename} is not at its own address any more ({err})"
            return _replace_file(line, files, known, reason, target)
        reason = f"it was installed from one address, which does not answer ({err}), and is on no index"
        return None, make_resolution(line, "unresolved", reason, "archive-line")
    item = archive_distribution(line.name, filename, line.url, file.sha256)
    if line.hashes and file.sha256 not in line.hashes:
        reason = (
            f"{filename} at its own address has the sha256 {file.sha256[:12]}, which is none of its hashes"
        )
        return None, make_resolution(line, "unresolved", reason, "other-hash")
    return _lock_distribution(line, file, item, f"{filename} from its own address; {_UNHASHED}", target)


def _lock_by_hash(
    line: Requirement, filename: str, sha256: str, listing: tuple[FileLists, Sequence[IndexDistribution]],
    target: WheelTarget,
) -> Answer:  # fmt: skip
    files, known = listing
    for item in known:
        if files.hash_of(item) == sha256:
            return _lock_distribution(
                line, files.artefact(item), item, f"{filename} from {item.index}", target
            )
    if line.url is None:
        return None, make_resolution(line, "unresolved", _OTHER_FILE, "archive-line")
    file = Artefact(filename=filename, sha256=sha256, size=0, url=line.url)
    item_there = archive_distribution(line.name, filename, line.url, sha256)
    return _lock_distribution(line, file, item_there, f"{filename} from its own address", target)


def _lock_by_digests(
    line: Requirement, filename: str, listing: tuple[FileLists, Sequence[IndexDistribution]],
    target: WheelTarget, bring: Bring, hash_file: HashFile,
) -> Answer:  # fmt: skip
    """Lock the file whose bytes have all hashes of a line, at its address or on an index.

    The hashes that an index states prove nothing: only a sha256 is compared again when the file is used.
    """
    files, known = listing
    places: list[tuple[str, str, str, IndexDistribution | None]] = []
    if line.url:
        places.append((line.url, "", "its own address", None))
    index_links = ((item, files.link_of(item)) for item in known)
    places += [
        (item.url, link, item.index, item) for item, link in index_links if link or item.url != line.url
    ]
    failures, kind = [], "archive-line"
    for url, link, place, indexed in places[:_MOST_PLACES]:
        try:
            file = bring(url, filename, link)
        except FetchError as err:
            failures.append(f"{place} does not answer ({err})")
            continue
        if not (wrong := _other_hashes(line, file.sha256, hash_file)):
            item = indexed or archive_distribution(line.name, filename, url, file.sha256)
            return _lock_distribution(line, file, item, f"{filename} from {place}", target)
        kind = "other-hash"
        failures.append(f"{filename} from {place} has the {wrong}, which is none of its hashes")
    reason = "; ".join(failures) or _OTHER_FILE
    return None, make_resolution(line, "unresolved", reason, kind)


def _other_hashes(line: Requirement, sha256: str, hash_file: HashFile) -> str:
    """Describe the hashes of a file that are not those of its line; empty without any."""
    stated = [digest.partition(":") for digest in line.digests or ()]
    compared = [(algorithm, hash_file(sha256, algorithm), value) for algorithm, _, value in stated]
    wrong = [f"{algorithm} {actual[:12]}" for algorithm, actual, value in compared if actual != value]
    accepted = (line.sha256,) if line.sha256 else line.hashes or (sha256,)
    return " and ".join([*wrong, f"sha256 {sha256[:12]}"] if sha256 not in accepted else wrong)


_OTHER_FILE = "it was installed from one file, and no index of this machine has that very file"


def _resolve_local_file(
    line: Requirement, files: FileLists, known: Sequence[IndexDistribution], target: WheelTarget
) -> Answer:
    if not known:
        return None, make_resolution(line, "unresolved", _OTHER_FILE, "archive-line")
    reason = "it was installed from a file of the captured machine"
    return _replace_file(line, files, known, reason, target)


def _replace_file(
    line: Requirement, files: FileLists, known: Sequence[IndexDistribution], why: str, target: WheelTarget
) -> Answer:
    item = next((candidate for candidate in known if files.hash_of(candidate)), known[0])
    reason = f"{why}; {item.index} has one of that name; {_NO_HASH_HERE}"
    try:
        file = files.artefact(item)
    except FetchError as err:
        return None, rule_missing_hash(line, item, err)
    package, ruling = _lock_distribution(line, file, item, reason, target)
    return (package, make_resolution(line, "replaced", reason, "archive-line")) if package else (None, ruling)


def _lock_distribution(
    line: Requirement,
    file: Artefact,
    item: IndexDistribution | None,
    reason: str,
    target: WheelTarget,
) -> Answer:
    """Return the wheel or source of a file, if it fits."""
    name, yanked = canonicalize_name(line.name), describe_yank(item) if item else ""
    reason += f"; its publisher yanked it: {yanked}" if yanked else ""
    if file.filename.endswith(".whl"):
        if item is None or line.version is None:
            reason = f"{file.filename} is no name of a wheel of {line.name}"
            return None, make_resolution(line, "unresolved", reason, "archive-line")
        if choose_wheel([item], target) is None:
            return None, make_resolution(
                line, "unresolved", f"{file.filename} does not fit {target}", "no-wheel"
            )
        wheel = Wheel(name=name, version=line.version, role="environment", file=file, yanked=yanked)
        return wheel, make_resolution(line, "pinned", reason)
    if not _PLAIN.fullmatch(file.filename):
        suffix = _SUFFIX.search(file.filename)
        file = Artefact(
            filename=f"{name}{suffix[0] if suffix else '.tar.gz'}",
            sha256=file.sha256,
            size=file.size,
            url=file.url,
        )
    sdist = Sdist(
        name=name, version=line.version or "", file=file, subdirectory=line.subdirectory or "", yanked=yanked
    )
    return sdist, make_resolution(line, "pinned", f"{reason}{BUILT}")
