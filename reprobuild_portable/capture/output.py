"""The directory of a snapshot, written as a whole."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import tempfile
import time
from typing import IO, Any, Dict, Iterator, Optional

from reprobuild_portable.capture.limits import SKEW, STALE
from reprobuild_portable.capture.model import FILE_MODE, FOLDER_MODE, UnwritableError
from reprobuild_portable.capture.processes import _WATCHER
from reprobuild_portable.host import host

ALREADY_TAKEN = "the directory has a snapshot already, of an earlier run or of another rank of this one"
BEING_TAKEN = "another process is capturing into this directory"


@contextlib.contextmanager
def _add_directory_to_errors(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        raise UnwritableError(f"{folder} cannot be written: {err.strerror or type(err).__name__}") from None


def _claim_target(folder: str, seconds: float) -> Optional[str]:
    """Claim the target, and return a new directory beside it.

    The name of the new directory is the same for all processes. mkdir(2) gives it to one of them, on NFS,
    too.

    Returns:
        None if another process has captured into the target, or does so now.
    """
    above, name = os.path.split(folder)
    claim = os.path.join(above, f".{name}.capturing")
    with _add_directory_to_errors(folder):
        os.makedirs(above, exist_ok=True)
        for _ in range(2):
            if _is_taken(folder):
                return None
            try:
                host.mkdir(claim, FOLDER_MODE)
            except FileExistsError:
                if not _remove_abandoned_claim(claim, seconds):
                    return None
                continue
            if _is_taken(folder):  # the other ended between our two checks
                host.rmdir(claim)
                return None
            return claim
    return None


def _is_taken(folder: str) -> bool:
    try:
        inside = host.listdir(folder)
    except FileNotFoundError:
        return False
    if "capture.json" in inside:
        return True
    if inside:
        raise UnwritableError(f"{folder} is not empty, and holds no snapshot of this program")
    with contextlib.suppress(OSError):
        if os.path.samefile(folder, os.curdir):  # a user there would be left in a removed directory
            raise UnwritableError(
                f"{folder} is the current directory, which would be replaced: name one inside of it"
            )
    return False


def _remove_abandoned_claim(claim: str, seconds: float) -> bool:
    """Remove the claim of a process killed long ago.

    One process removes it.

    Returns:
        Whether there was such a claim.
    """
    with contextlib.suppress(OSError):
        age = time.time() - host.stat(claim).st_mtime
        if age > STALE + seconds or age < -SKEW:  # nobody can date it in the future to keep the name
            aside = tempfile.mkdtemp(prefix=os.path.basename(claim) + ".", dir=os.path.dirname(claim))
            try:
                host.rename(claim, aside)
            finally:
                shutil.rmtree(aside, ignore_errors=True)
            return True
    return False


def _scratch(claim: str) -> str:
    with contextlib.suppress(OSError):
        return tempfile.mkdtemp(prefix="reprobuild-capture-")
    return tempfile.mkdtemp(prefix=".scratch.", dir=os.path.dirname(claim))


@contextlib.contextmanager
def _blocked_signals(program: bool) -> Iterator[None]:
    """Deliver signals to the program after the block; a library leaves them to its caller."""
    mask = getattr(signal, "pthread_sigmask", None) if program else None
    if mask is None:  # Windows has none
        yield
        return
    former = mask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        mask(signal.SIG_SETMASK, former)


def _finish_undisturbed() -> None:
    """Ignore further signals, and end all programs.

    So the removal of temporary files is not interrupted, and no program writes into them.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _WATCHER.end_all()


def _remove(folder: str, tries: int) -> None:
    """Remove a directory, with several tries.

    Interrupted parts may still write into it for a moment.
    """
    shutil.rmtree(folder, ignore_errors=True)
    while tries > 1 and os.path.lexists(folder):
        time.sleep(0.02)
        shutil.rmtree(folder, ignore_errors=True)
        tries -= 1


def _write(claim: str, document: Dict[str, Any], texts: Dict[str, bytes], files: Dict[str, str]) -> None:
    for name, source in files.items():
        with open(source, "rb") as content, _new_file(os.path.join(claim, name)) as stream:
            shutil.copyfileobj(content, stream)
    texts["capture.json"] = json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"
    for name, content_of in texts.items():
        with _new_file(os.path.join(claim, name)) as stream:
            stream.write(content_of)
            stream.flush()
            os.fsync(stream.fileno())
    number = host.open(claim, host.O_RDONLY | host.O_DIRECTORY | host.O_NOFOLLOW)
    try:
        _restrict_mode(number, FOLDER_MODE)
    finally:
        host.close(number)


def _new_file(path: str) -> IO[bytes]:
    """Open a new private file for writing.

    Another user with write access to the directory could have put a link in its place.
    """
    number = host.open(path, host.O_WRONLY | host.O_CREAT | host.O_EXCL | host.O_NOFOLLOW, FILE_MODE)
    _restrict_mode(number, FILE_MODE)
    return open(number, "wb")


def _restrict_mode(number: int, mode: int) -> None:
    with contextlib.suppress(OSError):  # some file systems have no modes
        host.fchmod(number, mode)


def _publish_directory(claim: str, folder: str) -> bool:
    """Give the complete directory its name.

    rename(2) replaces an empty directory only; on Windows it replaces none.

    Returns:
        Whether the name was still free.
    """
    if os.name == "nt":
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    try:
        host.rename(claim, folder)
    except OSError as err:
        if err.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True
