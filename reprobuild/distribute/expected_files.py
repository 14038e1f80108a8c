"""The files of a bundle that follow from its lock.

All files below context/, sources/, image/ and store/ must follow from it. A person executes the context, the
sources and the programs of a bundle, and no digest of the image covers them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from reprobuild.distribute.bundle_contents import PROGRAM, read_unbundle_program
from reprobuild.distribute.readme import render_readme
from reprobuild.errors import BuildError, DistributionError
from reprobuild.image.formats.single_file import single_file_name
from reprobuild.image.model import LAYOUT, Image
from reprobuild.image.oci.read import Layout
from reprobuild.infra.untrusted.regular_files import has_content
from reprobuild.lock.distributions import environment_wheels
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.output.directory import VERDICT
from reprobuild.recipe.build_context import OWN, context_blobs, own_files
from reprobuild.recipe.render import own_directory, render_recipe
from reprobuild.store.roots import list_lock_files
from reprobuild.store.salvage import CONTEXT, take_runtime
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_file
from reprobuild_portable.unbundle.format import Member
from reprobuild_portable.unbundle.manifest import MOST_DEEP

README, SIF = "README.md", single_file_name("sif")
_WALKED = (CONTEXT, "sources")
HINT = "ask for a bundle of the lock alone, and build from that: `reprobuild build LOCK -o OUT`"

Members = Mapping[str, Member]


def refuse_foreign(out: Path, members: Members, lock: Lock, layout: Layout, image: Image) -> None:
    """Refuse files that the lock does not determine.

    The lock must determine each file that a person could execute, or an engine load. The files that
    reprobuild makes for the context are checked by `find_differing_files`: each version makes its own.

    Args:
        out: the output directory.
        members: the files in the bundle's manifest, by path; their bytes were compared.
        lock, layout, image: of the directory.

    Raises:
        DistributionError: there is such a file.
    """
    lock_files = _lock_files(lock) | _layout_files(layout)
    bundle_files = {
        path: member.sha256 for path, member in members.items() if path.startswith((f"{LAYOUT}/", "store/"))
    }
    for path, sha256 in itertools.chain(bundle_files.items(), _list_executable_files(out, members)):
        if path not in lock_files or lock_files[path] not in ("", sha256):
            raise DistributionError(f"{path[:300]!r} of the bundle does not follow from its lock", hint=HINT)
    if SIF in members and image.sif != f"sha256:{members[SIF].sha256}":
        raise DistributionError(
            f"the {SIF} of the bundle is not the one that its image.json names", hint=HINT
        )


def _lock_files(lock: Lock) -> dict[str, str]:
    """Return {path: sha256} of the files that the lock determines.

    The sha256 is empty for files that this program makes.
    """
    files = {f"store/blobs/{sha256[:2]}/{sha256}": sha256 for sha256 in list_lock_files(lock)}
    files |= {f"sources/{source.file.filename}": source.file.sha256 for source in lock.sources}
    if isinstance(lock, SealedLock):
        files |= {f"{CONTEXT}/{path}": sha256 for path, sha256 in context_blobs(lock).items()}
        files |= {f"{CONTEXT}/{own_directory(lock)}/{name}": "" for name in OWN}
    return files


def _layout_files(layout: Layout) -> dict[str, str]:
    digests = (layout.manifest, layout.config_digest, *(digest for _, digest, _ in layout.layers))
    blobs = [digest.removeprefix("sha256:") for digest in digests]
    files = {f"{LAYOUT}/{name}": "" for name in ("index.json", "oci-layout", "manifest.json")}
    return files | {f"{LAYOUT}/blobs/sha256/{digest}": digest for digest in blobs}


def _list_executable_files(out: Path, members: Members) -> Iterator[tuple[str, str]]:
    """Yield path and sha256 of each file for execution.

    They are below fixed directories; a link has no sha256.
    """
    for top in _WALKED:
        if (out / top).is_symlink():  # a link's target is not in the directory
            yield top, "a link"
            continue
        for folder, folders, names in os.walk(out / top):
            deep = Path(folder).relative_to(out).as_posix()
            if deep.count("/") > MOST_DEEP:  # no bundle has it, and it may be deeper than the stack
                yield deep, "a directory"
            for name in (*names, *folders):
                path = Path(folder, name)
                within = path.relative_to(out).as_posix()
                if within in members:
                    yield within, members[within].sha256
                elif path.is_symlink() or not path.is_dir():
                    yield within, hash_file(path) if path.is_file() and not path.is_symlink() else "a link"


def find_differing_files(out: Path, members: Members, lock: Lock, image: Image, store: Store) -> set[str]:
    """Return the programs and texts that differ from ours.

    They are the paths of existing files that differ from those of this reprobuild for the lock.
    """
    texts = [(PROGRAM, [read_unbundle_program()]), (README, list(_possible_readmes(members, lock, image)))]
    texts += [
        (f"{CONTEXT}/{path}", [content])
        for path, content in _make_context_files(out, members, lock, store).items()
    ]
    candidates = ((name, contents) for name, contents in texts if os.path.lexists(out / name))
    return {
        name
        for name, contents in candidates
        if not any(has_content(out / name, content) for content in contents)
    }


def _possible_readmes(members: Members, lock: Lock, image: Image) -> Iterator[bytes]:
    """Yield the possible READMEs of a bundle with these members.

    The members do not show which inputs were included.
    """
    parts = {path.partition("/")[0] for path in members} & {CONTEXT, "reprobuild"}
    parts |= {"sif"} if SIF in members else set()
    for inputs in (set[str](), {"wheels", "debs"}):
        yield render_readme(lock, image, parts | inputs, certified=VERDICT in members).encode()


def _make_context_files(out: Path, members: Members, lock: Lock, store: Store) -> dict[str, bytes]:
    """Return the files that this program makes for a context.

    Without the wheels or the runtime files, it returns contents that match no file.
    """
    sizes = {member.sha256: member.size for member in members.values()}
    if not isinstance(lock, SealedLock) or not (out / CONTEXT).is_dir():
        return {}
    wheels = {wheel.file.sha256 for wheel in environment_wheels(lock)}
    if sizes.keys() >= wheels and take_runtime(out, lock, store):
        with contextlib.suppress(BuildError):  # the lock's runtime package is not a valid one
            return own_files(lock, store, render_recipe(lock), sizes)
    return {f"{own_directory(lock)}/{name}": b"\0" for name in OWN}


def list_unchecked(members: Members) -> tuple[str, ...]:
    """Return the paths of a bundle without a check here.

    They are an image in one file, and the wheels of reprobuild itself.
    """
    wheels = {"reprobuild/"} if any(path.startswith("reprobuild/") for path in members) else set()
    return tuple(sorted(wheels | ({SIF} & members.keys())))
