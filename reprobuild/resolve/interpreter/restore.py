"""The packed Python of a lock, which no server has: taken again from the snapshot, or from this machine."""

from __future__ import annotations

from reprobuild.errors import FetchError
from reprobuild.lock.model import Lock
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.interpreter.captured import adopt_captured_interpreter
from reprobuild.resolve.interpreter.choice import format_build_version
from reprobuild.resolve.interpreter.local import find_local
from reprobuild.resolve.interpreter.standalone import NoBuildError
from reprobuild.snapshot.model import Snapshot
from reprobuild.store.fetch import PACKED_WAYS, describe_artefact


def restore_interpreter(lock: Lock, snapshot: Snapshot, context: ResolveContext) -> None:
    """Store the archive of a lock's packed Python, which the store lacks.

    The snapshot has it, or this machine has the same build, which is packed again.

    Args:
        lock: with a packed Python.
        snapshot: of the lock.
        context: the snapshot's directory, this machine's environment, and the store.

    Raises:
        FetchError: neither gives an archive with the hash of the lock.
        SnapshotError: the snapshot's archive is not the one of its capture.json, or is damaged or malicious.
    """
    file = lock.interpreter.file
    assert file is not None
    packed = snapshot.captured.interpreter if snapshot.captured else None
    if packed and packed.sha256 == file.sha256:
        adopt_captured_interpreter(snapshot, lock.machine, context)
        return
    none = NoBuildError("this machine has no Python of that build")
    try:
        build = find_local(
            format_build_version(lock.interpreter), snapshot.reports, lock.machine, none, context
        )
        if build.file.sha256 == file.sha256:
            return
        reason = f"the Python of that build on this machine gives another file (sha256 {build.file.sha256})"
    except NoBuildError as err:
        reason = str(err)
    raise FetchError(
        f"{file.filename} ({describe_artefact(file)}) was packed when the lock was made; the store "
        f"{context.store.root} does not have it, the snapshot has no interpreter.tar.gz of that hash, and {reason}",
        hint=PACKED_WAYS,
    )
