"""Take a snapshot of this environment: what a training job ran with, in files that a person can read.

    reprobuild capture [-o DIR]
    python3 capture.py [-o DIR] [--json] [--seconds N]      # this file alone, copied anywhere
    python3 capture.py --include interpreter                # and pack the Python that runs it
    from capture import capture; capture("snapshot")        # from a training script

One file, the standard library only, Python 3.8 or newer. It changes nothing but the folder that it writes, uses no
network, starts neither pip nor conda and never imports torch. The folder appears whole or not at all. Where many
ranks start it for one folder, one captures and the others return at once. Each part has a time budget; what failed,
was given up or was left out stands in `capture.json` under a reason from `REASONS`. The values of secrets are not
written (the section "Secrets" below says what counts as one), their names are.

Codes: 0, also where parts failed or another rank captures; 2 for a wrong command line; 3 where the folder cannot be
written; 130 and 143 where it was interrupted. The call in a script raises nothing.
"""

# One file by design, so that it can be copied onto a login node: longer than the house allows elsewhere.
# ruff: noqa: TID251, B905  the environment is its subject; `strict=` is not in Python 3.8

from __future__ import annotations

import sys

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]  # the folder of this file, which may hold a `random.py` of somebody

import binascii
import contextlib
import errno
import functools
import hashlib
import io
import json
import math
import os
import platform
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sysconfig
import tempfile
import threading
import time
import zlib
from collections import Counter
from importlib.machinery import PathFinder
from types import MappingProxyType
from typing import (
    IO,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Match,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)
from urllib.parse import unquote, urlsplit, urlunsplit

VERSION = 1  # of capture.json
PROGRAM = "reprobuild capture"

# Seconds. The whole ends after SECONDS, whatever its parts may still have.
SECONDS = 60.0
STALE = 600.0  # and its budget: then a capture that never ended, of a killed job, is taken over
TICK = 0.1  # between two looks at the programs that run
LISTING = 10.0  # of all untracked files of a repository, and of all ignored ones
BUDGETS = {
    "python": 5.0, "distributions": 20.0, "environment": 5.0, "dpkg": 10.0, "rpm": 15.0, "conda": 10.0,
    "modules": 2.0, "gpu": 10.0, "machine": 5.0, "scheduler": 2.0, "command": 2.0, "repository": 30.0,
    "interpreter": 40.0,
}  # fmt: skip

# Bytes and numbers. What is over them is listed by name and size.
UNTRACKED_FILE = 10 << 20
UNTRACKED_TOTAL = 32 << 20
UNTRACKED_COUNT = 5000
CHANGED_FILE = 64 << 20
DIFF = 48 << 20  # the reader takes 64 MiB of one file
BUNDLE = 256 << 20
SEARCHED = 64 << 20  # for secrets
LISTED = 500  # names in one list of capture.json
MOST_COMMITS = 1000  # of a branch that a remote may delete: more of them are not bundled
SAID = 10  # warnings on the terminal
NAMED = 3  # files that were left out, of a repository, on the terminal
REPOSITORIES = 64
AT_ONCE = 4
INTERPRETER_FILE = 128 << 20  # libpython with its debugging information has 25 MB
INTERPRETER_TOTAL = 512 << 20
INTERPRETER_COUNT = 20000  # a standard library has 900 without its tests
SPARE = 1.0  # seconds of a repository's budget that the search for secrets leaves
DEEPEST = 200  # folders in one another
LONGEST_WORD = 4096  # of a command line
HEAD = 1 << 13  # of the metadata of a distribution

REASONS = {
    "done": "complete",
    "not-there": "this machine or environment has none of it",
    "failed": "an error; `why` tells which",
    "timed-out": "its time budget, or that of the whole, was used up",
    "too-large": "over the size budget",
    "too-many": "over the budget of numbers",
    "unreadable": "it cannot be read by this user",
    "special-file": "a device, pipe, socket, or a folder where a file was named",
    "filtered": "a filter of git (not LFS) stands between the file and what git keeps; it was not run",
    "lfs": "a large file of git LFS, unchanged: its pointer is there, its content is with the LFS server",
    "not-initialised": "files in the folder of a submodule that was not initialised, of which git knows nothing",
    "changed-meanwhile": "it was changed while it was read",
    "secret": "it is a secret, or looks like one",
    "provided": "packages bring it; `why` tells which",
    "untrusted": "a repository of another user, or one that another directory claims as its own; `why` tells which",
}

# Files and folders of a private snapshot: others of the machine may not read it, whatever the umask.
FILE_MODE, FOLDER_MODE = 0o600, 0o700


class GaveUp(Exception):
    """A part cannot be had. `reason` is one of `REASONS`; `why` holds no value of the environment."""

    def __init__(self, reason: str, why: str = "") -> None:
        super().__init__(reason, why)
        self.reason = reason
        self.why = why


class Unwritable(Exception):
    """The output folder cannot be written."""


class Context(NamedTuple):
    """What a part is given: the environment, when it must end, and a private folder for its scratch files."""

    environ: Dict[str, str]
    deadline: float
    scratch: str
    program: bool  # whether this is a process of its own, not a call in a training script
    secrets: Sequence[bytes] = ()  # values of the environment's secrets
    accept: Sequence[str] = ()  # files that look like secrets and are to be captured
    include: Sequence[
        str
    ] = ()  # absolute paths of files to capture though git ignores them, or has no repository

    def left(self) -> float:
        """Return the seconds left; raise GaveUp where there are none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise GaveUp("timed-out")
        return left


class Taken(NamedTuple):
    """What a part gives: its entry in capture.json, text files by name, and finished files to be moved in."""

    facts: Any
    texts: Mapping[str, bytes] = MappingProxyType({})
    files: Mapping[str, str] = MappingProxyType({})
    withheld: Sequence[Dict[str, str]] = ()


# --- The capture as a whole ------------------------------------------------------------------


def capture(
    folder: str, seconds: float = SECONDS, accept: Sequence[str] = (), include: Sequence[str] = ()
) -> Dict[str, Any]:  # fmt: skip
    """Capture this process's environment into a folder that is not there yet, or is empty.

    For training scripts: it raises nothing, prints nothing and ends after about `seconds`.

    Args:
        folder: the path of the snapshot.
        seconds: the budget of the whole.
        accept: files that look like secrets and are to be captured, as REPOSITORY/PATH.
        include: files that are in no repository, or that git ignores, and are to be captured; `interpreter` packs the
            Python that runs this.

    Returns:
        {"folder", "captured": whether this call wrote it, "note": why not, "parts": {name: outcome}, "withheld",
        "warnings", "notes"}.
    """
    try:
        return _capture(os.fspath(folder), seconds, False, accept, include)
    except Unwritable as err:
        return _report(str(folder), note=str(err))
    except Exception as err:  # a snapshot is never worth the job
        return _report(str(folder), note=f"the capture failed: {_harmless(err)}")


def _report(folder: str, note: str = "", captured: bool = False, **more: Any) -> Dict[str, Any]:
    return {
        "folder": folder,
        "captured": captured,
        "note": note,
        "parts": {},
        "withheld": [],
        "warnings": [],
        "notes": [],
        **more,
    }


def _capture(
    folder: str, seconds: float, program: bool, accept: Sequence[str] = (), include: Sequence[str] = ()
) -> Dict[str, Any]:  # fmt: skip
    folder = os.path.realpath(folder) if os.path.islink(folder) else os.path.abspath(folder)
    packing = INTERPRETER in include
    include = _absolute([name for name in include if name != INTERPRETER])
    started = time.monotonic()
    claim = _claim(folder, seconds)
    if claim is None:
        return _report(folder, note="another process has captured, or is capturing, into this folder")
    scratch = _scratch(claim)
    captured = False
    try:
        document, texts, files, withheld = _take_all(
            started + seconds, scratch, program, accept, include, packing
        )
        with _naming(folder):
            _write(claim, document, texts, files)
            captured = _publish(claim, folder)
    finally:
        if program:
            _finish_undisturbed()
        _remove(scratch, tries=50 if program else 1)
        if not captured:  # else the name is free, and may be another's already
            shutil.rmtree(claim, ignore_errors=True)
    note = "" if captured else "another process was quicker"
    parts = {name: entry["outcome"] for name, entry in document["parts"].items()}
    notes = document["notes"] + _losses(document["repositories"])
    return _report(
        folder, note=note, captured=captured, parts=parts, withheld=withheld, warnings=document["warnings"],
        notes=notes,
    )  # fmt: skip


@contextlib.contextmanager
def _naming(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        raise Unwritable(f"{folder} cannot be written: {err.strerror or type(err).__name__}") from None


def _claim(folder: str, seconds: float) -> Optional[str]:
    """Return a folder of our own beside the target, or None where another process has captured or does so now.

    The name is the same for all; mkdir(2) lets one of them have it, on NFS, too.
    """
    above, name = os.path.split(folder)
    claim = os.path.join(above, f".{name}.capturing")
    with _naming(folder):
        os.makedirs(above, exist_ok=True)
        for _ in range(2):
            if _is_taken(folder):
                return None
            try:
                os.mkdir(claim, FOLDER_MODE)
            except FileExistsError:
                if not _abandoned(claim, seconds):
                    return None
                continue
            if _is_taken(folder):  # it ended between our two looks
                os.rmdir(claim)
                return None
            return claim
    return None


def _is_taken(folder: str) -> bool:
    try:
        inside = os.listdir(folder)
    except FileNotFoundError:
        return False
    if "capture.json" in inside:
        return True
    if inside:
        raise Unwritable(f"{folder} is not empty, and holds no snapshot of this program")
    with contextlib.suppress(OSError):
        if os.path.samefile(folder, os.curdir):  # who works there would be left in a folder that is gone
            raise Unwritable(
                f"{folder} is the current folder, which would be replaced: name one inside of it"
            )
    return False


def _abandoned(claim: str, seconds: float) -> bool:
    """Remove the claim of a process that was killed long ago; whether there was one. One process does so."""
    with contextlib.suppress(OSError):
        if time.time() - os.stat(claim).st_mtime > STALE + seconds:
            aside = tempfile.mkdtemp(prefix=os.path.basename(claim) + ".", dir=os.path.dirname(claim))
            try:
                os.rename(claim, aside)
            finally:
                shutil.rmtree(aside, ignore_errors=True)
            return True
    return False


def _scratch(claim: str) -> str:
    with contextlib.suppress(OSError):
        return tempfile.mkdtemp(prefix="reprobuild-capture-")
    return tempfile.mkdtemp(prefix=".scratch.", dir=os.path.dirname(claim))


def _finish_undisturbed() -> None:
    """Let nobody interrupt what takes the temporary files away, or write into them."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _WATCHER.end_all()


def _remove(folder: str, tries: int) -> None:
    """Remove a folder, into which parts that were interrupted may still write for a moment."""
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
    number = os.open(claim, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _restrict(number, FOLDER_MODE)
    finally:
        os.close(number)


def _new_file(path: str) -> IO[bytes]:
    """Open a new private file; who may write to the folder above could have put a link in the place of ours."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, FILE_MODE)
    _restrict(number, FILE_MODE)
    return open(number, "wb")


def _restrict(number: int, mode: int) -> None:
    with contextlib.suppress(OSError):  # some file systems have no rights
        os.fchmod(number, mode)


def _publish(claim: str, folder: str) -> bool:
    """Give the complete folder its name; whether it was still free. rename(2) replaces an empty folder only."""
    try:
        os.rename(claim, folder)
    except OSError as err:
        if err.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _take_all(
    deadline: float,
    scratch: str,
    program: bool,
    accept: Sequence[str],
    include: Sequence[str],
    packing: bool,
) -> Tuple[Dict[str, Any], Dict[str, bytes], Dict[str, str], List[Dict[str, str]]]:
    """Run every part. Return the document, text files, files to be moved, and what was withheld."""
    environ = _environment(program)
    secrets = _known_secrets(environ)
    parts: Dict[str, Dict[str, Any]] = {}
    document: Dict[str, Any] = {
        "capture": VERSION,
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "reasons": REASONS,
        "parts": parts,
        "warnings": [],
    }
    texts: Dict[str, bytes] = {}
    files: Dict[str, str] = {}
    withheld: List[Dict[str, str]] = []

    def take(name: str, part: Callable[[Context], Taken], budget: float) -> Any:
        context = Context(
            environ, min(deadline, time.monotonic() + budget), scratch, program, secrets, accept, include
        )
        outcome, taken = _run_part(part, context)
        parts[name] = outcome
        if taken is None:
            return None
        texts.update(taken.texts)
        files.update(taken.files)
        withheld.extend(taken.withheld)
        return taken.facts

    for name, part in PARTS:
        if name == "distributions":
            document[name] = take(name, part, BUDGETS[name])
    installed = (document.get("distributions") or {}).get("found", [])
    repositories: List[Tuple[List[Dict[str, Any]], Dict[str, str]]] = []
    others = threading.Thread(  # git works meanwhile
        target=lambda: repositories.append(_take_repositories(installed, take, include)),
        name=PROGRAM,
        daemon=True,
    )
    others.start()
    for name, part in PARTS:
        if name != "distributions":
            document[name] = take(name, part, BUDGETS[name])
    if packing:
        document[INTERPRETER] = take(INTERPRETER, take_interpreter, BUDGETS[INTERPRETER])
    others.join()
    found, lines = repositories[0]
    document["repositories"] = found
    if document.get("distributions") is not None:
        texts["requirements.txt"] = _freeze(installed, lines)
    document["warnings"] = [{"repository": one["name"], **place} for one in found for place in one["secrets"]]
    document["withheld"] = withheld
    document["notes"] = _notes(document)
    cleaned = {
        name: text if name.startswith("env.") else _scrub(text, secrets) for name, text in texts.items()
    }
    return _scrub_values(document, secrets), cleaned, files, withheld


def _notes(document: Dict[str, Any]) -> List[str]:
    """Return what people should know of a capture that is complete as far as it goes."""
    notes = [
        f"{one['name']}: the freeze says what {one['first']} holds, which is first on the path; "
        f"{one['installed']['location']} has it installed from another place "
        f"({_line(one['installed']).splitlines()[-1]})"
        for one in (document.get("distributions") or {}).get("unclear", [])
    ]
    folders = [one["location"] for one in (document.get("distributions") or {}).get("broken", [])]
    damaged = [one for one in folders if not os.path.basename(one).startswith("~")]
    notes += [
        f"{one} has no metadata that can be read: the freeze leaves it out, and the image will not have it"
        for one in damaged[:SAID]
    ]
    if len(damaged) > SAID:
        notes.append(f"{len(damaged) - SAID} more have none: `broken` in capture.json")
    notes += [
        f"{name} was left out: {part['why']}"
        for name, part in document["parts"].items()
        if part["outcome"] == "untrusted"
    ]
    packing = document["parts"].get(INTERPRETER)
    if packing and packing["outcome"] != "done":
        notes.append(f"the interpreter was not packed: {packing.get('why') or packing['outcome']}")
    lost = (document.get(INTERPRETER) or {}).get("left_out", ())
    if lost:
        named = ", ".join(f"{file['path']} ({file['reason']})" for file in lost[:NAMED])
        notes.append(f"the packed interpreter is without {len(lost)} of its files: {named}")
    for one in document["repositories"]:
        if one["elsewhere"]:
            notes.append(f"{one['name']} is a worktree: its commits are those of {one['elsewhere']}")
        if one["only_here"]:
            notes.append(
                f"{one['name']}: commit {one['base']} and those before it are with no remote but "
                f"{one['only_here']}, a folder of this machine: keep it"
            )
        secret = [file for file in one["left_out"] if file["reason"] == "secret"]
        notes += [
            f"{one['name']}: {file['path']} was left out, it looks like a secret ({file['rule']}): "
            f"`--accept {shlex.quote(os.path.basename(one['folder']) + '/' + file['path'])}` captures it"
            for file in secret[:SAID]
        ]
        if len(secret) > SAID:
            notes.append(
                f"{one['name']}: {len(secret) - SAID} more were left out: `left_out` in capture.json"
            )
        if one["unsearched"]:
            notes.append(f"{one['name']}: {one['unsearched']} files were not searched for secrets")
    return notes


def _losses(repositories: Sequence[Mapping[str, Any]]) -> List[str]:
    """Return a line for each repository of which files were left out, with the largest of them."""
    lines = []
    for one in repositories:
        if one["left_out"]:
            largest = sorted(one["left_out"], key=lambda file: -int(file.get("bytes", 0)))
            named = [f"{file['path']} ({file['reason']})" for file in largest[:NAMED]]
            more = ["..."] if one["left_out_count"] > NAMED else []
            files = "1 file is" if one["left_out_count"] == 1 else f"{one['left_out_count']} files are"
            lines.append(f"{one['name']}: {files} not in the snapshot: {', '.join([*named, *more])}")
    return lines


def _run_part(part: Callable[[Context], Taken], context: Context) -> Tuple[Dict[str, Any], Optional[Taken]]:
    """Run a part in a thread that may be left behind where it hangs (a dead file server)."""
    box: List[Any] = []

    def work() -> None:
        try:
            box.append(part(context))
        except GaveUp as err:
            box.append(err)
        except Exception as err:
            box.append(GaveUp("failed", _harmless(err)))

    started = time.monotonic()
    thread = threading.Thread(target=work, name=PROGRAM, daemon=True)
    thread.start()
    left = max(0.0, context.deadline - started) + 0.5  # its own look at the clock says more
    thread.join(min(left, threading.TIMEOUT_MAX))
    result = box[0] if box else GaveUp("timed-out")
    outcome: Dict[str, Any] = {"outcome": "done", "seconds": round(time.monotonic() - started, 3)}
    if isinstance(result, GaveUp):
        outcome["outcome"] = result.reason
        if result.why:
            outcome["why"] = result.why
        return outcome, None
    return outcome, result


def _harmless(err: BaseException) -> str:
    """Return what an exception is without its message, which may hold a value."""
    if isinstance(err, OSError) and err.strerror:
        return f"{type(err).__name__}: {err.strerror}"
    line = ""
    trace = err.__traceback__
    while trace is not None:
        line = f" in {trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return type(err).__name__ + line


def _known_secrets(environ: Mapping[str, str]) -> List[bytes]:
    """Return the values of the environment's secrets that can be told from ordinary words, the longest first."""
    values = {
        value for name, value in environ.items()
        if len(value) >= 8 and not value.isalpha() and not value.isdigit() and not value.startswith("/")
        and secret_variable(name, value)
    }  # fmt: skip
    return sorted(map(_bytes, values), key=len, reverse=True)


def _scrub(text: bytes, secrets: Sequence[bytes]) -> bytes:
    """Cut the values of the environment's secrets out of a text, wherever they came into it."""
    for value in secrets:
        text = text.replace(value, GONE.encode())
    return text


def _scrub_values(document: Any, secrets: Sequence[bytes]) -> Any:
    """Return a document of JSON whose strings are scrubbed, and can be written as UTF-8; keys are ours."""
    if isinstance(document, str):
        return _scrub(_bytes(document), secrets).decode("utf-8", "backslashreplace")
    if isinstance(document, dict):
        return {key: _scrub_values(value, secrets) for key, value in document.items()}
    if isinstance(document, (list, tuple)):
        return [_scrub_values(value, secrets) for value in document]
    return document


# --- Programs and files ----------------------------------------------------------------------


def _run(
    argv: Sequence[str], context: Context, *, env: Optional[Mapping[str, str]] = None, cwd: Optional[str] = None,
    stdin: bytes = b"", out: Optional[IO[bytes]] = None, most: int = 0, codes: Sequence[int] = (0,),
) -> bytes:  # fmt: skip
    """Run a program to its end and return its output; it and its children are killed at the deadline.

    Output goes to a file, so that a child that keeps it open cannot keep us. A program that says more than `most` is
    ended, where there is one.
    """
    with contextlib.ExitStack() as stack:
        said = out or stack.enter_context(tempfile.TemporaryFile(dir=context.scratch))
        given: Any = subprocess.DEVNULL
        if stdin:
            given = stack.enter_context(tempfile.TemporaryFile(dir=context.scratch))
            given.write(stdin)
            given.seek(0)
        left = context.left()
        with _WATCHER.lock:  # so that it is known before anybody can look for what has to be ended
            if _WATCHER.closed:
                raise GaveUp("failed")
            own = _absolute_path(context.environ if env is None else env)
            child = subprocess.Popen(
                list(argv), env=own, cwd=cwd, stdin=given, stdout=said, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
            program = Watched(child.pid, said.fileno(), time.monotonic() + left, most)
            _WATCHER.programs.append(program)
        code, reason = _wait(child, program)
        if reason:
            raise GaveUp(reason, f"`{os.path.basename(argv[0])}` was ended")
        if code not in codes:
            raise GaveUp("failed", f"`{os.path.basename(argv[0])}` exited {code}")
        if out:
            return b""
        if most and os.fstat(said.fileno()).st_size > most:
            raise GaveUp("too-large")
        said.seek(0)
        return said.read()


def _absolute_path(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment of a program: relative entries of PATH would lead into the job's own directory."""
    kept = [place for place in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(place)]
    return {**environ, "PATH": os.pathsep.join(kept) or os.defpath}


def _program(name: str, context: Context) -> Optional[str]:
    """Return the file of a program, by the absolute entries of PATH alone."""
    return shutil.which(name, path=_absolute_path(context.environ)["PATH"])


class Watched:
    """A program that runs: when it must end, and how much it may write into a file (0: as much as it likes)."""

    def __init__(self, group: int, number: int, deadline: float, most: int) -> None:
        self.group = group
        self.number = number
        self.deadline = deadline
        self.most = most
        self.reason = ""

    def look(self) -> None:
        """End it where it is over its budget."""
        if time.monotonic() > self.deadline:
            self.end("timed-out")
        elif self.most and os.fstat(self.number).st_size > self.most:
            self.end("too-large")

    def end(self, reason: str) -> None:
        """Kill it and its children."""
        self.reason = self.reason or reason
        with contextlib.suppress(OSError):
            os.killpg(self.group, signal.SIGKILL)


class Watcher:
    """One thread that looks at all programs, and ends soon after the last of them.

    A thread or a timer for each would take as long as git does.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin with nothing; a forked process has no thread of its parent's."""
        self.lock = threading.Lock()
        self.programs: List[Watched] = []
        self.alive = False
        self.closed = False

    @contextlib.contextmanager
    def watching(self, program: Watched) -> Iterator[None]:
        """Watch one of the programs while the body runs; what interrupts the body ends it."""
        with self.lock:
            if not self.alive:
                self.alive = True
                threading.Thread(target=self.watch, name=PROGRAM, daemon=True).start()
        try:
            yield
        except BaseException:
            program.end("failed")
            raise
        finally:
            with self.lock:
                self.programs.remove(program)

    def watch(self) -> None:
        """Look at the programs again and again."""
        idle = 0
        while True:
            time.sleep(TICK)
            with self.lock:
                for program in self.programs:
                    program.look()
                idle = 0 if self.programs else idle + 1
                if idle > 10:
                    self.alive = False
                    return

    def end_all(self) -> None:
        """End the programs of parts that were left behind, which can start no more of them."""
        self.closed = True
        if self.lock.acquire(timeout=1.0):  # one that is being started
            self.lock.release()
        for program in list(self.programs):
            program.end("failed")


_WATCHER = Watcher()
os.register_at_fork(after_in_child=_WATCHER.reset)


def _wait(child: subprocess.Popen[bytes], program: Watched) -> Tuple[int, str]:
    """Return the code of a program, and why it was killed. `wait` with a time limit sleeps longer than git runs."""
    with _WATCHER.watching(program), contextlib.suppress(ChildProcessError):
        # Not collected yet, so that no other process can have its number while it may be killed.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    return child.wait(), program.reason


def _read(path: str, most: int = 1 << 20) -> bytes:
    """Return the content of a small file of the system; nothing where it cannot be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read(most)
    except OSError:
        return b""


def _text(path: str, most: int = 1 << 20) -> str:
    return _read(path, most).decode("utf-8", "replace").strip()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def quote(name: bytes) -> str:
    """Return a path as text that can be undone: as it is where it is plain, else in git's C-style quotes."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = ""
    if text and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    named = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
    return '"' + "".join(named.get(c, chr(c) if 32 <= c < 127 else f"\\{c:03o}") for c in name) + '"'


def _path(path: str) -> str:
    return quote(os.fsencode(path))


# --- Interpreter and distributions -----------------------------------------------------------


def take_python(context: Context) -> Taken:
    """The interpreter that runs this."""
    libc = " ".join(part for part in platform.libc_ver() if part)
    return Taken(
        {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "build": list(platform.python_build()),
            "compiler": platform.python_compiler(),
            "executable": _path(sys.executable or ""),
            "real_executable": _path(os.path.realpath(sys.executable or "")),
            "prefix": _path(sys.prefix),
            "base_prefix": _path(sys.base_prefix),
            "soabi": sysconfig.get_config_var("SOABI"),
            "abiflags": getattr(sys, "abiflags", ""),
            "platform": sysconfig.get_platform(),
            "libc": libc,
            "path": [_path(place) for place in sys.path],
            "flags": {
                name: getattr(sys.flags, name)
                for name in ("optimize", "no_site", "isolated", "hash_randomization")
            },
            "externally_managed": os.path.exists(
                os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
            ),
        }
    )


def take_distributions(context: Context) -> Taken:
    """Every installed distribution and where it came from, the first of each name.

    A bare `NAME.egg-info` is what a build leaves in a source tree. Where that tree comes first on the path, and is the
    one that the name is installed from, the install is meant; pip, which leaves out the current folder, says the same.
    Where the install is of another place, what is imported cannot be told for sure: that is `unclear`.
    """
    found: Dict[str, Dict[str, Any]] = {}
    bare: Dict[str, str] = {}
    unclear: Dict[str, Dict[str, Any]] = {}
    broken, withheld = [], []
    for dist, link in _distributions():
        context.left()
        try:
            entry = _describe(dist, link)
        except Exception as err:
            broken.append({"location": _path(str(getattr(dist, "_path", ""))), "why": _harmless(err)})
            continue
        if entry.pop("cut"):
            withheld.append({"what": "an address", "name": entry["name"], "reason": "secret"})
        folder = os.path.basename(str(getattr(dist, "_path", "")))
        if folder.startswith("~"):  # what an interrupted pip renamed; its metadata still has the name
            entry["name"] = folder.partition("-")[0]
        name = re.sub(r"[-_.]+", "-", entry["name"]).lower()
        if name not in found:
            found[name] = entry
            if entry["origin"] is None and str(getattr(dist, "_path", "")).endswith(".egg-info"):
                bare[name] = str(dist.locate_file(""))
        elif name in bare and entry["origin"] is not None:
            if _is_inside(bare[name], entry["origin"].get("path")):
                found[name] = entry
                del bare[name]
                unclear.pop(name, None)
            else:
                first = found[name]["location"]
                unclear[name] = {"name": entry["name"], "first": first, "installed": entry}
    facts = {
        "found": [found[name] for name in sorted(found)],
        "broken": broken,
        "unclear": [unclear[name] for name in sorted(unclear)],
    }
    return Taken(facts, withheld=withheld)


def _is_inside(folder: str, outer: Optional[str]) -> bool:
    """Whether a folder is another one, or lies in it (`src`)."""
    if outer is None:
        return False
    inner, outer = os.path.realpath(folder), os.path.realpath(outer)
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


class Installed:
    """One distribution in a folder of the path: what `importlib.metadata` gives, which takes long to import."""

    def __init__(self, place: str, name: str) -> None:
        self._place = place
        self._path = os.path.join(place, name)

    def read_text(self, name: str) -> Optional[str]:
        """Return one of its files, or itself for "", where it is one; None where there is none.

        Long metadata end early, behind the first empty line: the description may be a megabyte.
        """
        try:
            with open(os.path.join(self._path, name) if name else self._path, "rb", buffering=0) as stream:
                data = stream.read(HEAD)
                if len(data) == HEAD and (name.endswith(".json") or b"\n\n" not in data):
                    data += stream.read()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError):
            return None
        return data.decode("utf-8", "replace")

    def locate_file(self, name: str) -> str:
        """Return the place of a file that it installed."""
        return os.path.join(self._place, name) if name else self._place


def _distributions() -> Iterator[Tuple[Any, Optional[str]]]:
    """Give each distribution on the path, with its folder where `setup.py develop` left an `.egg-link`."""
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            names = []
        yield from ((dist, None) for dist in _in_place(place, names))
        for name in sorted(names):
            if name.endswith(".egg-link"):
                target = _text(os.path.join(place, name)).split("\n")[0].strip()
                with contextlib.suppress(OSError):
                    yield from ((dist, target) for dist in _in_place(target, os.listdir(target)))


def _in_place(place: str, names: Sequence[str]) -> Iterator[Any]:
    """Give the distributions of one place, whose content is given where it is a folder.

    A zip file, and what else somebody's own finder may know, is left to `importlib.metadata`.
    """
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    if names and finders == [PathFinder]:
        is_egg = place.lower().endswith(".egg")
        for name in names:
            low = name.lower()
            if low.endswith((".dist-info", ".egg-info")) or (is_egg and low == "egg-info"):
                yield Installed(place.rstrip("/") or place or ".", name)
    elif finders != [PathFinder] or os.path.isfile(place):
        from importlib import metadata  # it takes as long as all other imports

        yield from metadata.distributions(path=[place])


def _describe(dist: Any, link: Optional[str]) -> Dict[str, Any]:
    named: Dict[str, str] = {}
    text = dist.read_text("METADATA") or dist.read_text("PKG-INFO") or dist.read_text("") or ""
    for line in text.split("\n"):
        if not line.rstrip("\r"):
            break  # what follows is the description
        key, _, value = line.partition(":")
        if value.strip():
            named.setdefault(key.lower(), value.strip())
    if not named.get("name") or not named.get("version"):
        raise ValueError
    origin, cut = _origin(dist.read_text("direct_url.json"))
    if link is not None:
        origin = {"kind": "folder", "path": os.path.abspath(link), "editable": True}
    return {
        "name": named["name"],
        "version": named["version"],
        "location": _path(str(dist.locate_file(""))),
        "installer": (dist.read_text("INSTALLER") or "").strip(),
        "origin": origin,
        "cut": cut,
    }


def _origin(text: Optional[str]) -> Tuple[Optional[Dict[str, Any]], bool]:
    """Return what `direct_url.json` (PEP 610) says, and whether a credential was cut out of it."""
    if not text:
        return None, False
    said = json.loads(text)
    url, cut = strip_credentials(str(said["url"]))
    found: Dict[str, Any] = {"url": url, "subdirectory": said.get("subdirectory")}
    if "vcs_info" in said:
        info = said["vcs_info"]
        found.update(kind=str(info["vcs"]), commit=str(info["commit_id"]))
    elif url.startswith("file:") and "archive_info" not in said:
        path = unquote(urlsplit(url).path)
        found.update(kind="folder", path=path, editable=bool((said.get("dir_info") or {}).get("editable")))
    else:
        info = said.get("archive_info") or {}
        hashes = info.get("hashes") or dict(
            [str(info["hash"]).split("=", 1)] if "=" in str(info.get("hash")) else []
        )
        found.update(kind="archive", sha256=hashes.get("sha256"))
    return found, cut


# What `pip freeze` leaves out unless it is asked for --all (pip, commands/freeze.py).
_HIDDEN = {"pip", "python", "wsgiref", "argparse"} | (
    {"setuptools", "distribute", "wheel"} if sys.version_info < (3, 12) else set()
)
_STANDARD_VERSION = re.compile(
    r"(\d+!)?\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?"
)


def _freeze(entries: List[Dict[str, Any]], lines: Mapping[str, str]) -> bytes:
    """Return requirements.txt as `pip freeze` writes it; `lines` has those of editable installs, by name."""
    out = []
    for entry in entries:
        name = entry.get("name", "")
        if name and re.sub(r"[-_.]+", "-", name).lower() not in _HIDDEN:
            line = lines.get(name) or _line(entry)
            out.append(line if line.isprintable() or line.startswith("#") else f"# {_path(line)}")
    return "".join(line + "\n" for line in out).encode("utf-8", "backslashreplace")


def _pin(entry: Dict[str, Any]) -> str:
    equals = "==" if _STANDARD_VERSION.fullmatch(entry["version"]) else "==="
    return f"{entry['name']}{equals}{entry['version']}"


def _line(entry: Dict[str, Any]) -> str:
    """Return the line of one distribution; see pip, operations/freeze.py and models/direct_url.py."""
    origin = entry["origin"]
    if origin is None:
        return _pin(entry)
    if origin.get("editable"):
        return f"# Editable install with no version control ({_pin(entry)})\n-e {_path(origin['path'])}"
    url, marks = origin["url"], []
    if "commit" in origin:
        url = f"{origin['kind']}+{url}@{origin['commit']}"
    elif origin.get("sha256"):
        marks.append(f"sha256={origin['sha256']}")
    if origin.get("subdirectory"):
        marks.append(f"subdirectory={origin['subdirectory']}")
    return f"{entry['name']} @ {url}" + ("#" + "&".join(marks) if marks else "")


# --- The interpreter itself -------------------------------------------------------------------

INTERPRETER = "interpreter"  # the word of --include
PACKED = "interpreter.tar.gz"
# What other captures have (distributions), what an image makes itself (bytecode), and tests, which hold keys.
_NOT_PACKED = frozenset({"__pycache__", "site-packages", "dist-packages", "test", "tests", "idle_test"})
_NOT_RUN = (".a", ".o", ".pyc", ".exe")  # for the linker, or of another system
_LIBRARY = re.compile(rb"\0(lib[A-Za-z0-9_.+-]{1,100}\.so[0-9.]{0,20})(?=\0)")


def take_interpreter(context: Context) -> Taken:
    """Pack the Python that runs this: the program, its standard library, its own shared libraries and headers.

    The archive has the layout of a standalone build: one folder `python` with `bin`, `lib` and `include`.
    """
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    base = os.path.realpath(sys.base_prefix)
    _check_packable(base, name)
    place = os.path.join(context.scratch, PACKED)
    with open(place, "xb") as stream:
        packing = Packing(context, base, stream)
        packing.program(os.path.realpath(sys.executable), name)
        packing.folder(f"lib/{name}")
        packing.folder(f"include/{name}")
        packing.libraries(name)
        packing.close()
    size = os.path.getsize(place)
    if size > BUNDLE:
        raise GaveUp("too-large", f"it is packed in {size} bytes")
    return Taken(
        {
            "file": PACKED,
            "sha256": _sha256(place, context),
            "bytes": size,
            "version": platform.python_version(),
            "build": sys.version.replace("\n", " "),
            "prefix": base,
            "left_out": packing.left_out[:LISTED],
        },
        files={PACKED: place},
    )


def _check_packable(base: str, name: str) -> None:
    """Raise GaveUp where packages bring this Python, or where it is not laid out as CPython installs itself."""
    version = platform.python_version()
    if platform.python_implementation() != "CPython" or sys.abiflags:
        raise GaveUp("failed", "it is no ordinary CPython")
    if os.path.isdir(os.path.join(base, "conda-meta")):
        raise GaveUp("provided", f"conda's package of Python {version}, which conda's list names")
    if base == "/usr":
        raise GaveUp("provided", f"the system's package of Python {version}")
    if not re.fullmatch(r"(/(?!\.\.?(/|$))[A-Za-z0-9._+@-]+)+", base):
        raise GaveUp("failed", "the path of its folder has characters that no image takes")
    if not os.path.isfile(os.path.join(base, "lib", name, "os.py")):
        raise GaveUp("failed", f"{base} has no lib/{name}/os.py")


class Packing:
    """The archive of an interpreter while it is written; the same files give the same bytes."""

    def __init__(self, context: Context, base: str, stream: IO[bytes]) -> None:
        import gzip  # most captures pack none
        import tarfile

        self._context, self._base = context, base
        self._packed = gzip.GzipFile("", "wb", 6, stream, 0)
        self._tar = tarfile.TarFile(fileobj=self._packed, mode="w", format=tarfile.USTAR_FORMAT)
        self._new = tarfile.TarInfo
        self._link = tarfile.SYMTYPE
        self._total = 0
        self._names: Set[str] = set()
        self._asked: Set[str] = set()
        self.left_out: List[Dict[str, Any]] = []

    def close(self) -> None:
        """Write the end."""
        self._tar.close()
        self._packed.close()

    def program(self, place: str, name: str) -> None:
        """Add the program under the name of its version, the other names as links, and the script for compilers."""
        self._file(place, f"bin/{name}", needed=True)
        for other in ("python3", "python"):
            self._add(f"bin/{other}", link=name)
        if os.path.isfile(os.path.join(self._base, "bin", f"{name}-config")):
            self._file(os.path.join(self._base, "bin", f"{name}-config"), f"bin/{name}-config")

    def folder(self, path: str) -> None:
        """Add a folder below the prefix, without what is not packed."""
        for above, folders, names in os.walk(os.path.join(self._base, path)):
            self._context.left()
            links = [one for one in folders if os.path.islink(os.path.join(above, one))]
            folders[:] = sorted(set(folders) - _NOT_PACKED - set(links))
            inside = os.path.relpath(above, self._base)
            for name in sorted(names + [one for one in links if one not in _NOT_PACKED]):
                if not name.endswith(_NOT_RUN):
                    self._any(f"{inside}/{name}")

    def libraries(self, name: str) -> None:
        """Add the shared libraries beside the standard one that packed files name, and what Tcl needs of its own."""
        there = set(os.listdir(os.path.join(self._base, "lib")))
        asked = {one for one in there if one.startswith(f"lib{name}.so")}
        while asked:
            for one in sorted(asked):
                self._context.left()
                self._any(f"lib/{one}", needed=True)
            asked = {one for one in there & self._asked if f"lib/{one}" not in self._names}
        tcl = any(one.startswith("lib/libtcl") for one in self._names)
        for one in sorted(there):
            if tcl and re.fullmatch(r"(tcl|tk)\d[\d.]*", one):
                self.folder(f"lib/{one}")
        for kind in ("", "-embed"):
            path = f"lib/pkgconfig/{name.replace('python', 'python-')}{kind}.pc"
            if os.path.isfile(os.path.join(self._base, path)):
                self._any(path)

    def _any(self, path: str, needed: bool = False) -> None:
        place = os.path.join(self._base, path)
        if not os.path.islink(place):
            self._file(place, path, needed)
            return
        link = os.readlink(place)
        inside = os.path.normpath(os.path.join(os.path.dirname(path), link))
        if os.path.isabs(link) or not inside.startswith(("lib/", "include/")):
            self._leave(path, "special-file", needed)
            return
        self._asked.add(os.path.basename(inside))
        self._add(path, link=link)

    def _file(self, place: str, path: str, needed: bool = False) -> None:
        """Add one file, unless it is a secret or cannot be had; without one that is `needed` no Python starts."""
        try:
            number = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(number, "rb") as stream:
                state = os.fstat(number)
                if not stat.S_ISREG(state.st_mode):
                    return self._leave(path, "special-file", needed)
                content = stream.read(INTERPRETER_FILE + 1)
        except OSError:
            return self._leave(path, "unreadable", needed)
        if len(content) > INTERPRETER_FILE:
            return self._leave(path, "too-large", needed)
        if secret_file(path, content) or _places(content, self._context, 1):
            return self._leave(path, "secret", needed)
        if content.startswith(b"\x7fELF"):
            self._asked.update(one.decode("ascii") for one in _LIBRARY.findall(content))
        self._add(path, content, bool(state.st_mode & stat.S_IXUSR))
        return None

    def _add(self, path: str, content: bytes = b"", program: bool = False, link: str = "") -> None:
        self._total += len(content)
        self._names.add(path)
        if self._total > INTERPRETER_TOTAL:
            raise GaveUp("too-large", f"it has more than {INTERPRETER_TOTAL} bytes")
        if len(self._names) > INTERPRETER_COUNT:
            raise GaveUp("too-many", f"it has more than {INTERPRETER_COUNT} files")
        info = self._new(f"python/{path}")
        info.mode = 0o755 if program else 0o644
        info.size = len(content)
        if link:
            info.type, info.linkname, info.mode = self._link, link, 0o777
        try:
            self._tar.addfile(info, io.BytesIO(content))
        except (ValueError, UnicodeError):  # a name that is too long, or no text
            raise GaveUp("failed", f"the name of {_path(path)} is none for an archive") from None

    def _leave(self, path: str, reason: str, needed: bool) -> None:
        self._names.add(path)  # not looked at again
        if needed:
            raise GaveUp(reason, f"{_path(path)} cannot be left out")
        self.left_out.append({"path": _path(path), "reason": reason})


# --- Environment -----------------------------------------------------------------------------


def _environment(program: bool) -> Dict[str, str]:
    """Return the environment; without the LC_CTYPE that Python itself sets in the C locale (PEP 538)."""
    environ = dict(os.environ)
    if program and environ.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):
        given = _read("/proc/self/environ", 1 << 24)
        if given and not any(entry.startswith(b"LC_CTYPE=") for entry in given.split(b"\0")):
            del environ["LC_CTYPE"]
    return environ


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def take_environment(context: Context) -> Taken:
    """The environment: `env.nul` exact, in the order of the process; `env.txt` for people and for the reader."""
    exact, rows, withheld = [], [], []
    for name, value in context.environ.items():
        rule = secret_variable(name, value)
        if rule is None and any(secret in _bytes(value) for secret in context.secrets):
            rule = "repeated"  # the value of another one, which is a secret
        if rule is None:
            exact.append(_bytes(name) + b"=" + _bytes(value) + b"\0")
        else:
            withheld.append({"what": "a variable", "name": _path(name), "reason": "secret", "rule": rule})
        rows.append((name, _row(name, value, rule)))
    # Falling, not rising: a rising dump reads like `printenv | sort`, whose values may be torn.
    text = "".join(row + "\n" for _, row in sorted(rows, reverse=True))
    facts = {"variables": len(rows), "only_in_env_nul": [_path(n) for n, _ in rows if not _NAME.fullmatch(n)]}
    return Taken(
        facts, {"env.nul": b"".join(exact), "env.txt": text.encode("utf-8", "replace")}, withheld=withheld
    )


def _row(name: str, value: str, rule: Optional[str]) -> str:
    """Return the line of env.txt: `NAME=value`; `export NAME=$'...'` as bash writes it where that is not one line.

    A value withheld for its name is `***`, by which a reader still knows it; one with an innocent name is a comment.
    """
    if not _NAME.fullmatch(name):
        return f"# withheld: {_path(name)} ({rule})" if rule else f"# only in env.nul: {_path(name)}"
    if rule:
        return f"{name}={GONE}" if secret_name(name) else f"# withheld: {name} ({rule})"
    plain = value.isprintable() and value == value.strip() and not re.match(r"[({\[]|-----", value)
    if plain and value and not re.fullmatch(r"=+", value):
        return f"{name}={value}"
    named = {10: "\\n", 9: "\\t", 13: "\\r", 39: "\\'", 92: "\\\\"}
    body = "".join(
        named.get(c, chr(c)) if 32 <= c < 127 or c in named else f"\\{c:03o}" for c in _bytes(value)
    )
    return f"export {name}=$'{body}'"


# --- The system ------------------------------------------------------------------------------


def take_dpkg(context: Context) -> Taken:
    """Debian's packages as `apt list --installed` shows them, from dpkg's and apt's own files."""
    status = _read("/var/lib/dpkg/status", 1 << 28)
    if not status:
        raise GaveUp("not-there")
    automatic = {
        (fields["Package"], fields["Architecture"])
        for fields in _paragraphs(_read("/var/lib/apt/extended_states", 1 << 26), "Auto-Installed")
        if fields["Auto-Installed"] == "1"
    }
    packages = list(_paragraphs(status, "Version", "Status"))
    native = next((fields["Architecture"] for fields in packages if fields["Package"] == "dpkg"), "")
    rows = []
    for fields in packages:
        if fields["Status"].split()[2:] != ["installed"]:
            continue
        name, architecture = fields["Package"], fields["Architecture"]
        is_automatic = (name, native if architecture == "all" else architecture) in automatic
        mark = "[installed,automatic]" if is_automatic else "[installed]"
        rows.append((name, architecture, f"{name}/now {fields['Version']} {architecture} {mark}"))
    lists = [_index_date(path.path) for path in _scan("/var/lib/apt/lists") if path.name.endswith("Release")]
    facts = {
        "packages": len(rows),
        "native": native,
        "lists": sorted(lists, key=lambda one: str(one["file"])),
    }
    return Taken(facts, {"apt-packages.txt": "".join(row + "\n" for _, _, row in sorted(rows)).encode()})


def _paragraphs(data: bytes, *names: str) -> Iterator[Dict[str, str]]:
    """Give name, architecture and some other fields of each paragraph, "" for what it does not have.

    The file may have megabytes: plain search is ten times as fast as a pattern.
    """
    for block in data.decode("utf-8", "replace").split("\n\n"):
        text = f"\n{block}\n"
        fields = {}
        for name in ("Package", "Architecture", *names):
            start = text.find(f"\n{name}:") + len(name) + 2
            fields[name] = text[start : text.find("\n", start)].strip(" ") if start > len(name) + 1 else ""
        yield fields


def _scan(folder: str) -> List[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def _index_date(path: str) -> Dict[str, Any]:
    head = _text(path, 4096)
    fields = dict(re.findall(r"(?m)^(Origin|Suite|Codename|Date): *(\S.*?) *$", head))
    fetched = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(os.stat(path).st_mtime))
    return {
        "file": redact(os.path.basename(path)),
        "dated": fetched,
        **{k.lower(): v for k, v in fields.items()},
    }


RPM_FOLDERS = ("/var/lib/rpm", "/usr/lib/sysimage/rpm")  # of its database, in older and newer systems


def take_rpm(context: Context) -> Taken:
    """Packages of rpm, from its own program: its database has a format for each release."""
    program = _program("rpm", context)
    if not program or not any(map(os.path.isdir, RPM_FOLDERS)):
        raise GaveUp("not-there")
    rows = (
        _run([program, "-qa", "--qf", "%{NAME} %{EVR} %{ARCH}\n"], context)
        .decode("utf-8", "replace")
        .split("\n")
    )
    if not any(rows):
        raise GaveUp("not-there")
    return Taken(
        {"packages": len(rows) - 1}, {"rpm-packages.txt": "\n".join(sorted(rows)).lstrip().encode() + b"\n"}
    )


def take_conda(context: Context) -> Taken:
    """The explicit list of the conda environment that this Python, or CONDA_PREFIX, belongs to."""
    places = [sys.prefix, context.environ.get("CONDA_PREFIX", "")]
    folder = next(
        (p for p in places if os.path.isabs(p) and os.path.isdir(os.path.join(p, "conda-meta"))), None
    )
    if folder is None:
        raise GaveUp("not-there")
    rows, broken, withheld = [], [], []
    for entry in sorted(_scan(os.path.join(folder, "conda-meta")), key=lambda entry: entry.name):
        context.left()
        if entry.name.endswith(".json"):
            try:
                said = dict(json.loads(_read(entry.path, 1 << 26)))
            except (ValueError, TypeError) as err:
                broken.append({"location": _path(entry.path), "why": type(err).__name__})
                continue
            url, cut = strip_credentials(str(said.get("url") or said.get("fn") or entry.name))
            if cut:
                withheld.append({"what": "an address", "name": str(said.get("name")), "reason": "secret"})
            digest = said.get("sha256") or said.get("md5")
            rows.append(url + (f"#{digest}" if digest else ""))
    text = "# environment: " + _path(folder) + "\n@EXPLICIT\n" + "".join(row + "\n" for row in rows)
    return Taken(
        {"prefix": _path(folder), "packages": len(rows), "broken": broken},
        {"conda-explicit.txt": text.encode()},
        withheld=withheld,
    )


def take_modules(context: Context) -> Taken:
    """Loaded environment modules: Lmod, Tcl and Cray's all keep LOADEDMODULES."""
    if not any(name in context.environ for name in ("LOADEDMODULES", "MODULESHOME", "LMOD_CMD")):
        raise GaveUp("not-there")
    names = [name for name in context.environ.get("LOADEDMODULES", "").split(":") if name]
    places = [place for place in context.environ.get("_LMFILES_", "").split(":") if place]
    rows = ["Currently Loaded Modules:", *(f"  {i}) {name}" for i, name in enumerate(names, 1))]
    text = "\n".join(rows) if names else "No modules loaded"
    facts = {"loaded": names, "files": places, "system": context.environ.get("LMOD_VERSION") and "lmod"}
    return Taken(facts, {"modules.txt": (text + "\n").encode("utf-8", "backslashreplace")})


# Fields of `nvidia-smi`; one that an older driver does not know fails the whole question, so there is a short one.
_GPU = (
    "index,name,uuid,driver_version,memory.total,pci.bus_id,vbios_version,compute_cap,ecc.mode.current,mig.mode.current",
    "index,name,uuid,driver_version,memory.total",
)
_LIBRARIES = re.compile(
    r"/lib(cuda|cudart|cudnn|nccl|cublas|cublasLt|mpi|ucp|fabric|hip\w*|rccl|gomp|iomp5|mkl_\w+)[.\w-]*\.so[.\d]*$"
)


def take_gpu(context: Context) -> Taken:
    """GPUs, driver, CUDA, cuDNN and NCCL, from files and `nvidia-smi`; torch is looked at only where it is loaded."""
    facts: Dict[str, Any] = {
        "driver": _text("/proc/driver/nvidia/version"),
        "headers": _headers(context.environ),
    }
    cards = [_text(os.path.join(card.path, "information")) for card in _scan("/proc/driver/nvidia/gpus")]
    facts["cards"] = [dict(re.findall(r"(?m)^([^:\n]+?):[ \t]*(.*?)[ \t]*$", card)) for card in sorted(cards)]
    facts["libraries"] = sorted(
        {
            line.split(" ")[-1]
            for line in _text("/proc/self/maps", 1 << 24).split("\n")
            if _LIBRARIES.search(line)
        }
    )
    torch = sys.modules.get("torch")
    if torch is not None:
        version = getattr(torch, "version", None)
        facts["torch"] = {
            name: str(getattr(version, name, None)) for name in ("__version__", "cuda", "hip", "git_version")
        }
    facts.update(_ask_nvidia_smi(context))
    if not any(facts.values()):
        raise GaveUp("not-there")
    return Taken(facts)


def _ask_nvidia_smi(context: Context) -> Dict[str, Any]:
    program = _program("nvidia-smi", context)
    if program is None:
        return {}
    short = context._replace(deadline=min(context.deadline, time.monotonic() + 5))
    reason = ""
    for fields in _GPU:
        try:
            said = _run([program, f"--query-gpu={fields}", "--format=csv,noheader"], short, most=1 << 20)
        except (GaveUp, OSError) as err:
            reason = err.reason if isinstance(err, GaveUp) else "failed"
            continue
        return {
            "nvidia_smi": said.decode("utf-8", "replace").strip().split("\n"),
            "nvidia_smi_fields": fields.split(","),
        }
    return {"nvidia_smi": None, "nvidia_smi_reason": reason}


def _headers(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the versions that header and version files of CUDA, cuDNN and NCCL state, by file."""
    homes = [
        environ[name] for name in ("CUDA_HOME", "CUDA_PATH", "CUDNN_HOME", "NCCL_HOME") if environ.get(name)
    ]
    homes += ["/usr/local/cuda", "/usr"]
    found = {}
    for home in dict.fromkeys(homes):
        for name in ("version.json", "version.txt"):
            match = re.search(
                r'(?s)"cuda"\s*:\s*{.*?"version"\s*:\s*"([^"]+)"|CUDA Version ([\d.]+)',
                _text(os.path.join(home, name)),
            )
            if match:
                found[_path(os.path.join(home, name))] = match.group(1) or match.group(2)
        for header in (
            "cudnn_version.h",
            "nccl.h",
            "x86_64-linux-gnu/cudnn_version.h",
            "aarch64-linux-gnu/cudnn_version.h",
        ):
            path = os.path.join(home, "include", header)
            parts = re.findall(
                r"#define\s+(?:CUDNN|NCCL)_(?:MAJOR|MINOR|PATCHLEVEL|PATCH)\s+(\d+)", _text(path)
            )
            if parts:
                found[_path(path)] = ".".join(parts[:3])
    return found


def take_machine(context: Context) -> Taken:
    """Processor, memory, kernel, limits, control group and release of the system."""
    import resource  # not on every system

    cpu = _text("/proc/cpuinfo", 1 << 16)
    names = (
        "vendor_id",
        "model name",
        "cpu family",
        "model",
        "stepping",
        "microcode",
        "flags",
        "CPU part",
        "Features",
    )
    fields = {name: match.group(1) for name in names if (match := re.search(rf"(?m)^{name}\s*: (.*)$", cpu))}
    memory = re.search(r"MemTotal:\s+(\d+) kB", _text("/proc/meminfo"))
    limits = {
        name[7:].lower(): list(resource.getrlimit(getattr(resource, name)))
        for name in sorted(dir(resource))
        if name.startswith("RLIMIT_")
    }
    group = _text("/proc/self/cgroup").rpartition("::")[2].split("\n")[0]
    held = {
        name: _text(f"/sys/fs/cgroup{group}/{name}")
        for name in ("cpu.max", "cpuset.cpus.effective", "memory.max")
    }
    return Taken(
        {
            "host": os.uname().nodename,
            "uname": list(os.uname()),
            "cpu": {"count": os.cpu_count(), "usable": sorted(os.sched_getaffinity(0)), **fields},
            "memory_bytes": int(memory.group(1)) * 1024 if memory else None,
            "limits": limits,
            "cgroup": {"group": group, **held},
            "huge_pages": _text("/sys/kernel/mm/transparent_hugepage/enabled"),
            "release": dict(re.findall(r'(?m)^([A-Z_]+)="?([^"\n]*)"?$', _text("/etc/os-release"))),
            "container": [
                p for p in ("/.dockerenv", "/run/.containerenv", "/.singularity.d") if os.path.exists(p)
            ],
        }
    )


_SCHEDULERS = {"slurm": "SLURM_", "pbs": "PBS_", "lsf": "LSB_", "sge": "SGE_", "kubernetes": "KUBERNETES_"}


def take_scheduler(context: Context) -> Taken:
    """What Slurm, PBS, LSF, Grid Engine or Kubernetes said about the job in the environment."""
    found = {}
    for kind, start in _SCHEDULERS.items():
        values = {
            name: value for name, value in sorted(context.environ.items())
            if name.startswith(start) and not secret_variable(name, value)
        }  # fmt: skip
        if values:
            found[kind] = {
                name: value.encode("utf-8", "backslashreplace").decode() for name, value in values.items()
            }
    if "kubernetes" in found:
        place = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"  # beside it stands a token, which is not read
        found["kubernetes"]["namespace"] = _text(place, 256)
    if not found:
        raise GaveUp("not-there")
    return Taken(found)


def take_command(context: Context) -> Taken:
    """The command line of the job: our own in a library call, and those of the processes above of the same user."""
    chain: List[Dict[str, Any]] = []
    pid = os.getppid() if context.program else os.getpid()
    while pid > 1 and len(chain) < 16:
        try:
            if os.stat(f"/proc/{pid}").st_uid != os.getuid():
                break
        except OSError:  # it ended meanwhile, or /proc hides it (hidepid)
            break
        words = _read(f"/proc/{pid}/cmdline").split(b"\0")[:-1]
        name = _text(f"/proc/{pid}/comm")
        chain.append(
            {
                "program": name,
                "arguments": arguments(
                    _scrub(word, context.secrets)[: 16 * LONGEST_WORD].decode("utf-8", "backslashreplace")
                    for word in words
                ),
            }
        )
        match = re.search(r"(?m)^PPid:\s*(\d+)", _text(f"/proc/{pid}/status"))
        pid = int(match.group(1)) if match else 0
    given = [] if context.program else [_scrub(_bytes(word), context.secrets) for word in sys.argv]
    own = arguments(word[: 16 * LONGEST_WORD].decode("utf-8", "backslashreplace") for word in given)
    return Taken({"argv": own, "folder": _path(os.getcwd()), "processes": chain})


# Programs that take a password behind `-p`, without a space.
_DATABASES = r"mysql(?:dump|admin|import|sh)?|mariadb(?:-[a-z]{1,9})?"


def arguments(words: Iterable[str]) -> List[str]:
    """Return the words of a command line, cut where they are long, with `***` for what is, or follows, a secret's name.

    What is secret is cut first: half of a secret looks like none.
    """
    out: List[str] = []
    after = program = ""
    database = False
    words = list(words)
    for word, judged_word in zip(words, _judged_together(words)):
        database = database or re.fullmatch(_DATABASES, os.path.basename(word)) is not None
        name = after.lstrip("-").replace("-", "_")
        login = after in ("-u", "--user", "--proxy-user") and ":" in word
        login = login or (after == "-p" and os.path.basename(program) == "sshpass")
        if after.startswith("-") and not word.startswith("-") and (login or secret_name(name, word)):
            out.append(GONE)
        else:
            cut = GONE if secret_value(word) and "://" not in word else redact(judged_word)
            glued = os.path.basename(after) == "sshpass" or database
            # Not the options of openssl, which may stand in one line with a database.
            glued = glued and re.match(r"-p(?!ass(?:in|out|word)?\Z).", word, re.DOTALL) is not None
            out.append(f"-p{GONE}" if glued else cut[:LONGEST_WORD])
        program = program if word.startswith("-") else word
        after = word
    return _judged_together(out)


def _judged_together(words: Sequence[str]) -> List[str]:
    """Cut the words that are secrets by the words before them: `docker login -p ...`, `wandb login ...`."""
    line = " ".join(words)
    lowered, masked = line.lower(), list(line)
    for rule in VALUES:
        for start, end in secrets_of(rule, line) if marked(rule, lowered) else ():
            masked[start:end] = "\0" * (end - start)
    text, out, at = "".join(masked), [], 0
    for word in words:
        out.append(re.sub("\0+", GONE, text[at : at + len(word)]))
        at += len(word) + 1
    return out


# --- Repositories ----------------------------------------------------------------------------
#
# What a work tree holds is written as git objects into a folder of our own, of which the user's repository knows
# nothing, and packed with the commits that no remote has into one bundle:
#
#     refs/reprobuild/head      the commit that was checked out
#     refs/reprobuild/index     a commit of the index: what was staged
#     refs/reprobuild/worktree  a commit of the files as they lie on the disk, byte for byte, untracked ones included
#     refs/reprobuild/unmerged  a commit of the blobs of conflicts
#
# git is only asked: its index is read from a copy, nothing that the repository's configuration names is run.

_NO_ID = "0" * 40
# git would run these, or ask somebody, because the configuration of the repository says so.
_CALM = (
    "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.untrackedCache=false", "core.pager=cat", "gc.auto=0",
    "maintenance.auto=0", "credential.helper=", "protocol.allow=never", "core.sshCommand=false", "core.askPass=false",
    "diff.external=", "core.alternateRefsCommand=", "uploadpack.packObjectsHook=", "core.quotePath=true",
    "core.checkRoundtripEncoding=", "pack.threads=1", "index.threads=1", "core.splitIndex=false", "gpg.program=false",
    "gpg.openpgp.program=false", "gpg.x509.program=false", "gpg.ssh.program=false", "gpg.ssh.defaultKeyCommand=false",
    "log.showSignature=false", "core.editor=false", "sequence.editor=false", "interactive.diffFilter=false",
    "fetch.recurseSubmodules=false", "submodule.recurse=false", "diff.ignoreSubmodules=all", "core.multiPackIndex=true",
)  # fmt: skip
# What decides how bytes on the disk and in the repository belong together.
_SETTINGS = (
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
    "core.precomposeunicode",
)
_LFS = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n.*?oid sha256:([0-9a-f]{64})\nsize (\d+)\n", re.DOTALL
)
_REMOTE = re.compile(r"remote\.(.+)\.url", re.DOTALL)
_AUTHOR = b"reprobuild capture <capture@reprobuild.invalid> 0 +0000"


class Entry(NamedTuple):
    """One path of an index: git's mode, object id, and the letter of `git ls-files -v`."""

    mode: bytes
    oid: bytes
    tag: bytes


class Files(NamedTuple):
    """What lies in a work tree and differs from its index: (mode, id) by path, None for what is gone."""

    changed: Dict[bytes, Optional[Tuple[bytes, bytes]]]
    untracked: Dict[bytes, Tuple[bytes, bytes]]
    left_out: List[Dict[str, Any]]
    large: List[Dict[str, Any]]
    inner: Dict[bytes, str]
    intended: List[bytes]
    touched: Set[bytes]


class Repository:
    """One work tree of the user's, which is only read, and a folder for new objects of our own."""

    def __init__(self, top: str, context: Context) -> None:
        self.top = top
        self.context = context
        program = _program("git", context)
        if program is None:
            raise GaveUp("failed", "git is not on PATH")
        self.program = program
        self.folder, self.common = _git_folders(top)
        _check_links(top, self.folder, self.common, program, context)
        _check_owner(top, self.folder, self.common, program, context)
        self.clean: Set[bytes] = set()  # ids of new files in which no secret was found
        self.searched = 0  # bytes
        self.above: Optional[Tuple[bytes, int]] = None  # the folder of the last file, and its descriptor
        self.scratch = tempfile.mkdtemp(dir=context.scratch)
        self.objects = os.path.join(self.scratch, "objects")
        os.mkdir(self.objects)
        self.index = os.path.join(self.scratch, "index")
        with contextlib.suppress(FileNotFoundError):  # an unborn repository may have none
            source = os.path.join(self.folder, "index")
            shutil.copyfile(source, self.index)
            times = os.stat(
                source
            )  # git compares them with the files': a younger copy would hide late changes
            os.utime(self.index, ns=(times.st_atime_ns, times.st_mtime_ns))
        theirs = quote(os.fsencode(os.path.join(self.common, "objects")))
        self.env = {name: value for name, value in context.environ.items() if not name.startswith("GIT_")}
        self.env.update(
            GIT_OPTIONAL_LOCKS="0", GIT_TERMINAL_PROMPT="0", GIT_NO_REPLACE_OBJECTS="1", GIT_NO_LAZY_FETCH="1",
            GIT_LITERAL_PATHSPECS="1", GIT_PAGER="cat", GIT_GRAFT_FILE="/dev/null", LC_ALL="C",
            GIT_INDEX_FILE=self.index, GIT_OBJECT_DIRECTORY=self.objects,
            GIT_ALLOW_PROTOCOL="none",  # which counts more than `protocol.file.allow` of the repository
            GIT_ALTERNATE_OBJECT_DIRECTORIES=theirs if theirs.startswith('"') else f'"{theirs}"',
        )  # fmt: skip
        self.options: List[str] = [f"--git-dir={self.folder}", f"--work-tree={top}", "--no-pager"]
        for setting in _CALM:
            self.options += ["-c", setting]
        self.config = self._config()
        self._silence_filters()
        self.hash = "sha256" if self.config.get("extensions.objectformat") == "sha256" else "sha1"

    def git(self, *words: str, stdin: bytes = b"", out: Optional[IO[bytes]] = None, most: int = 0,
            codes: Sequence[int] = (0,), seconds: float = SECONDS, **env: str) -> bytes:  # fmt: skip
        """Return what a git command says; `env` are variables of its own."""
        context = self.context._replace(deadline=min(self.context.deadline, time.monotonic() + seconds))
        try:
            return _run(
                [self.program, *self.options, *words], context, env={**self.env, **env}, cwd=self.top,
                stdin=stdin, out=out, most=most, codes=codes,
            )  # fmt: skip
        except GaveUp as err:
            raise GaveUp(err.reason, err.why.replace("`git`", f"`git {words[0]}`")) from None

    def _config(self) -> Dict[str, str]:
        """Return the last value of each setting; what git itself compares without case is in lower case."""
        found = {}
        for row in self.git("config", "--list", "-z", "--includes").split(b"\0"):
            name, _, value = row.decode("utf-8", "surrogateescape").partition("\n")
            found[name] = value
        return found

    def _silence_filters(self) -> None:
        for name in sorted({key.rpartition(".")[0] for key in self.config if key.startswith("filter.")}):
            if "=" in name or "\n" in name:
                raise GaveUp("failed", "the configuration names a filter that cannot be switched off")
            for key in ("clean", "smudge", "process"):
                self.options += ["-c", f"{name}.{key}="]
            self.options += ["-c", f"{name}.required=false"]

    def state(self, path: bytes) -> Optional[os.stat_result]:
        """Return the state of what lies at a path of the work tree; None for what is gone, as git tells it."""
        try:
            folder, name = self._enter(path)
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open(self, path: bytes) -> int:
        """Return the descriptor of a file of the work tree."""
        folder, name = self._enter(path)
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)

    def readlink(self, path: bytes) -> bytes:
        """Return the text of a link in the work tree."""
        folder, name = self._enter(path)
        return os.readlink(name, dir_fd=folder)

    def leave(self) -> None:
        """Close the folder of the last file."""
        if self.above:
            os.close(self.above[1])
        self.above = None

    def _enter(self, path: bytes) -> Tuple[int, bytes]:
        """Return the folder that a path lies in, and its last name; an index may hold any path.

        Raises:
            FileNotFoundError: the path is none that git writes. NotADirectoryError: it leads over a link.
        """
        above, _, name = path.rpartition(b"/")
        if self.above is None or self.above[0] != above:
            self.leave()
            folder = os.open(self.top, _FOLDER)
            for step in above.split(b"/") if above else ():
                outer = folder
                try:
                    folder = os.open(_checked(step), _FOLDER | os.O_NOFOLLOW, dir_fd=outer)
                finally:
                    os.close(outer)
            self.above = (above, folder)
        return self.above[1], _checked(name)

    def add(self, kind: bytes, content: bytes) -> bytes:
        """Write an object into our own folder, and return its id."""
        whole = kind + b" %d\0" % len(content) + content
        name = self.id(whole)
        folder = os.path.join(self.objects, name[:2])
        path = os.path.join(folder, name[2:])
        if not os.path.exists(path):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)  # not those above it, which are gone where the capture was stopped
            with open(path, "wb") as stream:
                stream.write(zlib.compress(whole, 1))
        return name.encode()

    def id(self, whole: bytes) -> str:
        """Return the id of an object, given with its header."""
        try:
            return str(hashlib.new(self.hash, whole, usedforsecurity=False).hexdigest())  # or FIPS refuses it
        except TypeError:  # Python 3.8
            return hashlib.new(self.hash, whole).hexdigest()

    def commit(self, tree: bytes, parents: Iterable[str]) -> bytes:
        """Write a commit that says nothing but its tree and parents; equal ones have equal ids."""
        rows = [b"tree " + tree, *(b"parent " + one.encode() for one in parents)]
        return self.add(
            b"commit",
            b"\n".join([*rows, b"author " + _AUTHOR, b"committer " + _AUTHOR, b"", b"captured", b""]),
        )

    def tree(
        self, changes: Mapping[bytes, Optional[Tuple[bytes, bytes]]], name: str, empty: bool = False
    ) -> bytes:
        """Return the tree of the index with changes: (mode, id) by path, None for what goes."""
        index = os.path.join(self.scratch, name)
        if not empty and os.path.exists(self.index):
            shutil.copy2(self.index, index)
        gone = [path for path, entry in changes.items() if entry is None]
        rows = [b"0 " + _NO_ID.encode() + b"\t" + path for path in gone]
        if self.hash == "sha256":
            rows = [b"0 " + b"0" * 64 + b"\t" + path for path in gone]
        rows += [
            entry[0] + b" " + entry[1] + b"\t" + path for path, entry in changes.items() if entry is not None
        ]
        if rows:
            stdin = b"\0".join(rows) + b"\0"
            self.git("update-index", "-z", "--index-info", stdin=stdin, GIT_INDEX_FILE=index)
        # Where git sees that the user's repository has a tree already, it sets the time of that file.
        words = ("write-tree", "--missing-ok")
        return self.git(*words, GIT_INDEX_FILE=index, GIT_ALTERNATE_OBJECT_DIRECTORIES="").strip()


_FOLDER = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


def _checked(name: bytes) -> bytes:
    if name.lower() in (b"", b".", b"..", b".git"):
        raise FileNotFoundError(errno.ENOENT, "git has no such name", name)
    return name


def find_top(folder: str) -> Optional[str]:
    """Return the work tree that a folder is in, or None."""
    folder = os.path.realpath(folder)
    while True:
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _git_folders(top: str) -> Tuple[str, str]:
    """Return the git folder of a work tree and the one that it shares with others (gitrepository-layout)."""
    folder = os.path.join(top, ".git")
    if os.path.isfile(folder):
        said = _read(folder, 1 << 14)
        if not said.startswith(b"gitdir: "):
            raise GaveUp("failed", "its `.git` is no git folder")
        folder = os.path.join(top, os.fsdecode(said[8:].rstrip(b"\r\n")))
    if not os.path.isfile(os.path.join(folder, "HEAD")):
        raise GaveUp("failed", "its `.git` is no git folder")
    shared = _read(os.path.join(folder, "commondir"), 1 << 14).rstrip(b"\r\n")
    common = os.path.join(folder, os.fsdecode(shared)) if shared else folder
    return os.path.realpath(folder), os.path.realpath(common)


# Files of a git folder whose content, or the commits that they name, goes into a capture.
_READ = (
    "HEAD", "commondir", "config", "config.worktree", "gitdir", "index", "info", "info/attributes", "packed-refs",
    "shallow",
)  # fmt: skip


def _check_links(top: str, folder: str, common: str, program: str, context: Context) -> None:
    """Refuse a `.git` that leads to the repository of another directory, which may be private.

    A repository says itself which directories are its own: a worktree in `worktrees/NAME/gitdir`, a submodule in
    `core.worktree` (gitrepository-layout, git-config).
    """
    here = os.path.join(os.path.realpath(top), ".git")
    for own in dict.fromkeys((folder, common)):
        outside = next(_links_out(own, common, context), None)
        if outside is not None:
            raise GaveUp("untrusted", f"{_path(outside)} is a link out of the git folder")
    if common != folder:
        named = os.fsdecode(_read(os.path.join(folder, "gitdir"), 1 << 14).rstrip(b"\r\n"))
        listed = os.path.dirname(folder) == os.path.join(common, "worktrees")
        if not listed or os.path.realpath(os.path.join(folder, named)) != here:
            raise GaveUp(
                "untrusted", f"{_path(common)} has no worktree here: `git worktree repair` there adds one"
            )
    elif folder != here and not _claims(folder, top, program, context):
        raise GaveUp(
            "untrusted",
            f"{_path(folder)} is the git folder of another directory: "
            f"`git config core.worktree {shlex.quote(_path(top))}` in that repository makes it that of this one",
        )


def _links_out(folder: str, common: str, context: Context) -> Iterator[str]:
    """Yield links of a git folder that lead out of it, and out of the one that it shares with others."""
    inside = (folder + os.sep, common + os.sep)
    places = [os.path.join(folder, name) for name in _READ]
    waiting = [os.path.join(folder, name) for name in ("refs", "reftable", "objects")]
    for place in (*places, *waiting):
        if os.path.islink(place) and not os.path.realpath(place).startswith(inside):
            yield place
    while waiting:
        context.left()
        for entry in _scan(waiting.pop()):
            if entry.is_symlink():
                if not os.path.realpath(entry.path).startswith(inside):
                    yield entry.path
            elif entry.is_dir():
                waiting.append(entry.path)


def _claims(folder: str, top: str, program: str, context: Context) -> bool:
    """Whether the configuration of a git folder names a directory as its work tree."""
    for name in ("config.worktree", "config"):
        place = os.path.join(folder, name)
        words = (program, "config", "--file", place, "-z", "--get", "core.worktree")
        said = _run(words, context, cwd="/", codes=(0, 1)) if os.path.isfile(place) else b""
        if said:
            named = os.path.join(folder, os.fsdecode(said.rstrip(b"\0")))
            return os.path.realpath(named) == os.path.realpath(top)
    return False


def _check_owner(top: str, folder: str, common: str, program: str, context: Context) -> None:
    """Refuse a repository of another user, as git does: an explicit `--git-dir` skips its own check.

    One of root's is taken: a site may have installed it for all.
    """
    own = {0, os.geteuid()}
    if os.geteuid() == 0 and context.environ.get("SUDO_UID", "").isdigit():
        own.add(int(context.environ["SUDO_UID"]))
    places = (top, os.path.join(top, ".git"), folder, common)
    if all(os.lstat(place).st_uid in own for place in places):
        return
    if not _is_safe(os.path.realpath(top), program, context):
        raise GaveUp(
            "untrusted",
            "it belongs to another user: "
            f"`git config --global --add safe.directory {shlex.quote(_path(top))}` trusts it",
        )


def _is_safe(top: str, program: str, context: Context) -> bool:
    """Whether `safe.directory` of the user's and the system's configuration has a directory (git-config)."""
    named: List[str] = []
    for scope in ("--system", "--global"):
        words = (program, "config", scope, "-z", "--type=path", "--get-all", "safe.directory")
        # Without a configuration file, git of some versions ends with 128.
        said = _run(words, context, cwd="/", codes=(0, 1, 128))
        for one in os.fsdecode(said).split("\0")[:-1]:
            named = [*named, one] if one else []
    within = any(one.endswith("/*") and top.startswith(os.path.realpath(one[:-2]) + os.sep) for one in named)
    return within or "*" in named or any(one and os.path.realpath(one) == top for one in named)


def take_repository(context: Context, top: str, name: str, installed: bool) -> Taken:
    """Everything that restores one work tree on a fresh clone.

    Args:
        context: of this part.
        top: the work tree.
        name: of its files.
        installed: whether a distribution is installed from it: its diff is then what the chapter's recipe calls one.
    """
    repository = Repository(top, context)
    head = _head(repository)
    base = _base(repository, head)
    entries, unmerged = _entries(repository)
    staged = _staged(repository, head, unmerged)
    hidden = _unstage(repository, staged or [], {} if head.commit or unmerged else entries)
    if hidden:
        entries, unmerged = _entries(repository)
        staged = _staged(repository, head, unmerged)
    try:
        files = _look(repository, entries, unmerged)
    finally:
        repository.leave()
    _name_unstaged(files, hidden)
    index, work = _trees(repository, head, staged, entries, files, [path for path, *_ in unmerged])
    facts: Dict[str, Any] = {
        "name": name, "folder": _path(top), "head": head.commit, "branch": head.branch,
        "object_format": repository.hash,
        "remotes": _remotes(repository), **base, "only_here": _only_here(repository, base["base"]),
        "index": index.decode(), "worktree": work.decode(),
        "changed": _names(path for path, entry in files.changed.items() if entry is not None),
        "deleted": _names(path for path, entry in files.changed.items() if entry is None),
        "untracked": _names(files.untracked), "left_out": files.left_out[:LISTED], "lfs": files.large[:LISTED],
        "left_out_count": len(files.left_out), "secrets": [], "unsearched": 0,
        "unmerged": [[mode.decode(), oid.decode(), stage.decode(), quote(path)] for path, mode, oid, stage in unmerged],
        "flags": _flags(entries, files),
        "settings": {key: repository.config[key] for key in _SETTINGS if key in repository.config},
        "attributes": _text(os.path.join(repository.common, "info", "attributes"), 1 << 16),
        "shallow": _text(os.path.join(repository.common, "shallow")).split(), "ignored": _ignored(repository),
        "inner": files.inner,
        # A worktree has the commits of a repository that lies elsewhere.
        "elsewhere": None if repository.common == repository.folder else _path(repository.common),
    }  # fmt: skip
    moved: Dict[str, str] = {}
    facts["bundle"] = None  # where a remote has all there is
    searched = _bundle_branch(repository, head, facts, unmerged, moved)
    differs = unmerged or not head.commit or {head.tree} != {facts["index"], facts["worktree"]}
    if not searched and (differs or facts["unpushed"]):
        facts["bundle"] = _bundle(repository, facts, unmerged, moved)
        searched = True
    if facts["base"] == head.commit and facts["worktree"] == head.tree:
        facts["diff"] = {"file": None, "from": head.commit, "bytes": 0, "reason": "done"}
    else:
        facts["diff"] = _diff(repository, facts, name + (".diff" if installed else ".patch"), moved)
    if searched:  # last of all: where there is no time for it, nothing else is lost
        new = _new_blobs(staged, files) if facts["prerequisites"] == [head.commit] else None
        facts.update(_search(repository, facts, new))
    return Taken(facts, files=moved)


class Staged(NamedTuple):
    """What the index changes in one path of the tree that is checked out; a mode of zeros is no entry there."""

    mode_before: bytes
    mode: bytes
    before: bytes
    oid: bytes
    path: bytes


def _staged(
    repository: Repository, head: Head, unmerged: Sequence[Tuple[bytes, bytes, bytes, bytes]]
) -> Optional[List[Staged]]:
    """Return what is staged; None before the first commit and amid conflicts, where git cannot tell."""
    if not (head.commit and head.tree) or unmerged:
        return None
    words = ("diff-index", "--cached", "--raw", "--no-abbrev", "-z", "--no-renames")
    said = repository.git(*words, "--ignore-submodules=none", head.commit).split(b"\0")
    rows = ((row[1:].split(b" "), path) for row, path in zip(said[::2], said[1::2]))
    return [Staged(words[0], words[1], words[2], words[3], path) for words, path in rows]


def _unstage(
    repository: Repository, staged: Sequence[Staged], unborn: Mapping[bytes, Entry]
) -> Dict[bytes, str]:
    """Take what is staged and holds a secret out of our own copy of the index; return the rule by path.

    The file on the disk is then compared with the last commit, and looked into like any other.

    Args:
        repository: whose index is read.
        staged: what differs from the last commit.
        unborn: the entries of the index before the first commit, each of which is staged.
    """
    rows = [row for row in staged if row.mode.startswith(b"100")]
    none = b"0" * len(repository.id(b""))
    rows += [
        Staged(b"0", entry.mode, none, entry.oid, path)
        for path, entry in unborn.items()
        if entry.mode.startswith(b"100")
    ]
    if not rows:
        return {}
    paths: Dict[bytes, List[Staged]] = {}
    for row in rows:
        paths.setdefault(row.oid, []).append(row)
    found: Dict[bytes, str] = {}
    undone = []
    with contextlib.suppress(GaveUp):  # what is not searched here is counted later
        for oid, content in _searchable(repository, dict.fromkeys(paths, b""))[0]:
            for row in paths[oid]:
                rule = _withheld(repository, row.path, oid, content)
                if rule:
                    found[row.path] = rule
                    undone.append(b"%s %s\t%s\0" % (row.mode_before, row.before, row.path))
    if undone:
        words = ("-c", "core.splitIndex=false", "update-index", "-z", "--index-info")
        repository.git(*words, stdin=b"".join(undone))
    return found


def _name_unstaged(files: Files, hidden: Mapping[bytes, str]) -> None:
    """Name what was staged and held a secret, where the file on the disk is not named for it already."""
    named = {file["path"] for file in files.left_out}
    for path, rule in sorted(hidden.items()):
        if quote(path) not in named:
            _leave(files, path, "secret", rule=f"{rule}, staged")


def _trees(
    repository: Repository,
    head: Head,
    staged: Optional[Sequence[Staged]],
    entries: Mapping[bytes, Entry],
    files: Files,
    unmerged: Sequence[bytes],
) -> Tuple[bytes, bytes]:
    """Return the trees of the index and of the work tree.

    A large repository with nothing staged has its tree already. The others are made here: git would write every tree
    of the repository, and wait for the disk after each.
    """
    kept = {**dict.fromkeys(unmerged), **files.changed, **files.untracked}
    index = (head.tree or "").encode() if staged == [] else b""
    if index and not kept:
        return index, index
    if _is_doubtful(repository, entries, files):
        index = index or repository.tree(dict.fromkeys(unmerged), "staged")
        return index, repository.tree(kept, "work") if kept else index
    root = _root(entries)
    there: Set[bytes] = set()
    if staged is not None:
        for row in staged:
            root.put(row.path, (row.mode_before, row.before) if row.mode_before.strip(b"0") else None)
        if root.write(repository, there, known=True).decode() == head.tree:
            for row in staged:
                root.put(row.path, (row.mode, row.oid) if row.mode.strip(b"0") else None)
        else:  # no index makes such a tree: one with an empty folder, say
            root = _root(entries)
            there.clear()
    index = index or root.write(repository, there)
    for path, found in kept.items():
        root.put(path, found)
    return index, root.write(repository, there) if kept else index


def _is_doubtful(repository: Repository, entries: Mapping[bytes, Entry], files: Files) -> bool:
    """Whether only git can tell the trees.

    It can where folders lie in one another without end, and where an entry may only be intended to be added: such a
    one is in no tree, and looks like an empty file that was staged.
    """
    empty = repository.id(b"blob 0\0").encode()
    return any(
        (entry.oid == empty and (path in files.touched or entry.tag != b"H")) or path.count(b"/") > DEEPEST
        for path, entry in entries.items()
    ) or any(path.count(b"/") > DEEPEST for path in files.untracked)


def _root(entries: Mapping[bytes, Entry]) -> Folder:
    root = Folder()
    for path, entry in entries.items():
        root.put(path, entry)
    return root


class Folder(Dict[bytes, Any]):
    """A tree of git: mode and id, or another folder, by name. It remembers its id until something in it changes."""

    oid = b""

    def put(self, path: bytes, entry: Optional[Tuple[bytes, ...]]) -> None:
        """Set one path, or take it out; as in an index, a file takes the place of a folder and the reverse."""
        folder, above = self, []
        *names, last = path.split(b"/")
        for name in names:
            folder.oid = b""
            inner = folder.get(name)
            if not isinstance(inner, Folder):
                if entry is None:
                    return
                inner = folder[name] = Folder()
            above.append((folder, name))
            folder = inner
        folder.oid = b""
        if entry is not None:
            folder[last] = entry
        elif not isinstance(folder.get(last), Folder):
            folder.pop(last, None)
            while above and not folder:  # git knows no empty folders
                folder, name = above.pop()
                del folder[name]

    def write(self, repository: Repository, there: Set[bytes], known: bool = False) -> bytes:
        """Return the id. What is not in `there` is written and added to it; where it is `known`, it is only added."""
        if self.oid:
            return self.oid
        rows = []
        for name, entry in self.items():
            if not isinstance(entry, Folder):
                rows.append((name, entry[0] + b" " + name + b"\0" + bytes.fromhex(entry[1].decode())))
            else:
                oid = entry.write(repository, there, known)
                rows.append((name + b"/", b"40000 " + name + b"\0" + bytes.fromhex(oid.decode())))
        content = b"".join(row for _, row in sorted(rows))
        self.oid = repository.id(b"tree %d\0" % len(content) + content).encode()
        if not known and self.oid not in there:
            repository.add(b"tree", content)
        there.add(self.oid)
        return self.oid


def _names(paths: Iterable[bytes]) -> Dict[str, Any]:
    ordered = sorted(paths)
    return {"count": len(ordered), "paths": [quote(path) for path in ordered[:LISTED]]}


class Head(NamedTuple):
    """What is checked out: the commit and its tree (None before the first), and the branch (None where detached).

    `pushed` says whether a branch of a remote ends at this very commit.
    """

    commit: Optional[str]
    tree: Optional[str]
    branch: Optional[str]
    pushed: bool = False


def _head(repository: Repository) -> Head:
    said = _read(os.path.join(repository.folder, "HEAD"), 1 << 14).rstrip(b"\n")
    if said == b"ref: refs/heads/.invalid":  # https://git-scm.com/docs/reftable
        said = b"ref: " + repository.git("symbolic-ref", "-q", "HEAD", codes=(0, 1)).rstrip(b"\n")
    branch = quote(said[5:]) if said[:5] == b"ref: " and len(said) > 5 else None
    words = ("rev-parse", "HEAD^{commit}", "HEAD^{tree}", "--remotes")
    rows = repository.git(*words, codes=(0, 128)).decode().split("\n")
    if len(rows) < 3:  # the first row repeats the words that name nothing
        return Head(None, None, branch)
    return Head(rows[0], rows[1], branch, pushed=rows[0] in rows[2:])


def _remotes(repository: Repository) -> List[Dict[str, str]]:
    found = []
    for key, url in repository.config.items():
        match = _REMOTE.fullmatch(key)
        if match:
            found.append({"name": _path(match.group(1)), "url": _path(_bare_url(url))})
    return found


def _bare_url(url: str) -> str:
    """Return a remote's address without credentials; `user:password@host:path` is one of ssh's short form."""
    short = re.match(r"[^/@]*:[^/@]*@(?=[^/:]+:)", url) if "://" not in url else None
    return strip_credentials(url[short.end() :] if short else url)[0]


def _base(repository: Repository, head: Head) -> Dict[str, Any]:
    """Return what a remote has, as far as this repository knows: `base`, `prerequisites` and the rest's number.

    Only refs/remotes count: a tag may never have been pushed.
    """
    none: Dict[str, Any] = {"base": None, "base_remote": None, "prerequisites": [], "unpushed": 0}
    if head.commit is None:
        return none
    rows = []
    if not head.pushed:
        rows = repository.git("rev-list", "--boundary", head.commit, "--not", "--remotes").decode().split()
    boundary = [row[1:] for row in rows if row.startswith("-")]
    unpushed = len(rows) - len(boundary)
    if unpushed == 0:
        boundary = [head.commit]
    if not boundary:
        return dict(none, unpushed=unpushed)
    remote = _holder(repository, boundary[0])
    return {
        "base": boundary[0],
        "base_remote": _path(remote),
        "prerequisites": sorted(boundary),
        "unpushed": unpushed,
    }


# Branches that others are merged into. A remote deletes those others after the merge.
_LASTING = ("HEAD", "main", "master", "trunk", "develop", "default")


def _lasting(repository: Repository, head: Head) -> Optional[List[str]]:
    """Return the commits of lasting branches of remotes that the commits since then rest on.

    None where no such branch is known, or too many commits came since.
    """
    names = (f"refs/remotes/*/{name}" for name in _LASTING)
    ends = set(repository.git("for-each-ref", "--format=%(objectname)", *names).decode().split())
    if head.commit is None or not ends:
        return None
    words = ("rev-list", "--boundary", f"--max-count={MOST_COMMITS + 1}", head.commit, "--not", *sorted(ends))
    rows = repository.git(*words).decode().split()
    boundary = sorted(row[1:] for row in rows if row.startswith("-"))
    commits = len(rows) - len(boundary)
    if commits > MOST_COMMITS:
        return None
    return boundary if commits else [head.commit]


def _bundle_branch(
    repository: Repository,
    head: Head,
    facts: Dict[str, Any],
    unmerged: List[Tuple[bytes, bytes, bytes, bytes]],
    moved: Dict[str, str],
) -> bool:
    """Bundle the commits of a pushed branch that is merged into no lasting one; return whether that was done.

    Half of the time that is left is for it: the bundle of what no remote has comes after, and matters more.
    """
    context = repository.context
    repository.context = context._replace(deadline=context.deadline - context.left() / 2)
    try:
        rest = _lasting(repository, head)
        if rest is None or rest == facts["prerequisites"]:
            return False
        bundle = _bundle(repository, dict(facts, prerequisites=rest), unmerged, moved)
        if bundle["file"]:
            facts.update(prerequisites=rest, bundle=bundle)
        return bool(bundle["file"])
    except GaveUp:
        return False
    finally:
        repository.context = context


def _holder(repository: Repository, commit: str) -> str:
    """Return the name of a remote that has the commit; `origin` where it is one of several."""
    holders = _holders(repository, commit)
    return "origin" if "origin" in holders or not holders else holders[0]


def _remote_names(repository: Repository) -> List[str]:
    return sorted(match.group(1) for match in map(_REMOTE.fullmatch, repository.config) if match)


def _holders(repository: Repository, commit: str) -> List[str]:
    """Return the names of the remotes that have the commit; the only one is taken for one that has."""
    remotes = _remote_names(repository)
    if len(remotes) < 2:
        return remotes
    refs = repository.git("for-each-ref", "--contains", commit, "--format=%(refname)", "refs/remotes")
    names = refs.decode("utf-8", "surrogateescape").split("\n")
    return [one for one in remotes if any(name.startswith(f"refs/remotes/{one}/") for name in names)]


def _only_here(repository: Repository, base: Optional[str]) -> Optional[str]:
    """Return the folder of this machine that alone has what is taken to be with a remote, or None."""
    urls = {name: repository.config.get(f"remote.{name}.url", "") for name in _remote_names(repository)}
    local = {name: url for name, url in urls.items() if re.match(r"file://|[./]", url)}
    if base is None or not local:
        return None
    holders = _holders(repository, base)
    return _path(_bare_url(local[holders[0]])) if holders and set(holders) <= set(local) else None


def _entries(
    repository: Repository,
) -> Tuple[Dict[bytes, Entry], List[Tuple[bytes, bytes, bytes, bytes]]]:
    """Return the index: entries by path, and (path, mode, id, stage) of conflicts."""
    entries: Dict[bytes, Entry] = {}
    unmerged = []
    for row in repository.git("ls-files", "-s", "-v", "-z").split(b"\0")[:-1]:
        head, _, path = row.partition(b"\t")
        tag, mode, oid, stage = head.split(b" ")
        if stage == b"0":
            entries[path] = Entry(mode, oid, tag)
        else:
            unmerged.append((path, mode, oid, stage))
    return entries, unmerged


def _look(
    repository: Repository, entries: Dict[bytes, Entry], unmerged: List[Tuple[bytes, bytes, bytes, bytes]]
) -> Files:
    """Find what lies in the work tree and differs from the index."""
    rows = repository.git("diff-files", "--raw", "-z", "--no-renames", "--ignore-submodules=all").split(b"\0")
    intended = [path for row, path in zip(rows[::2], rows[1::2]) if row.endswith(b" A")]
    touched = set(rows[1::2]) | {path for path, *_ in unmerged}
    files = Files({}, {}, [], [], {}, intended, touched)
    converted, filtered = _converted(repository, entries)
    large = {path for path, name in filtered.items() if name == b"lfs"}
    pointers = dict(_contents(repository, sorted({entries[path].oid for path in large})))
    ours = _ours(repository)
    strange = {path for path, name in filtered.items() if name.decode("utf-8", "replace") in ours} - large
    for path, entry in entries.items():
        if entry.mode == b"160000":
            _look_inside(repository, path, entry, files)
        elif path in large or path in strange:
            pointer = pointers.get(entry.oid, b"") if path in large else None
            _look_filtered(repository, path, entry, path in touched, pointer, files)
        elif path in touched or path in converted or entry.tag not in (b"H", b"M"):
            _look_at(repository, path, entry, files, CHANGED_FILE)
    torn = {path for path, *_ in unmerged} - set(entries)
    hidden = _hidden(repository, torn)
    for path in torn:
        if path in hidden:
            _look_filtered(repository, path, None, True, None, files)
        else:
            _look_at(repository, path, None, files, CHANGED_FILE)
    _look_untracked(repository, entries, files)
    return files


def _ours(repository: Repository) -> Set[str]:
    """Return the names of the filters that the configuration has."""
    return {key.split(".", 1)[1].rpartition(".")[0] for key in repository.config if key.startswith("filter.")}


def _hidden(repository: Repository, paths: Iterable[bytes]) -> Set[bytes]:
    """Return those of some paths, of which the index has no entry, that a filter other than LFS covers."""
    asked, ours = b"".join(path + b"\0" for path in paths), _ours(repository)
    if not asked or not ours - {"lfs"}:
        return set()
    said = repository.git("check-attr", "-z", "--stdin", "filter", stdin=asked).split(b"\0")
    names = zip(said[0::3], said[2::3])
    return {path for path, name in names if name != b"lfs" and name.decode("utf-8", "replace") in ours}


def _converted(repository: Repository, entries: Dict[bytes, Entry]) -> Tuple[Set[bytes], Dict[bytes, bytes]]:
    """Return paths whose bytes on the disk git may convert (line ends, encodings), and those with a filter."""
    auto = repository.config.get("core.autocrlf", "false").lower() not in ("false", "no", "off", "0")
    places = [os.path.join(repository.common, "info", "attributes")]
    places.append(os.path.expanduser(repository.config.get("core.attributesfile", "")))
    home = repository.env.get("XDG_CONFIG_HOME") or os.path.join(repository.env.get("HOME", ""), ".config")
    places += [os.path.join(home, "git", "attributes"), "/etc/gitattributes"]
    named = any(path.endswith(b".gitattributes") for path in entries) or any(
        map(os.path.exists, filter(None, places))
    )
    named = named or os.path.exists(os.path.join(repository.top, ".gitattributes"))
    if not (auto or named):
        return set(), {}
    paths = [path for path, entry in entries.items() if entry.mode not in (b"120000", b"160000")]
    kinds = ("text", "crlf", "eol", "filter", "ident", "working-tree-encoding")
    said = repository.git("check-attr", "-z", "--stdin", *kinds, stdin=b"\0".join(paths) + b"\0").split(b"\0")
    converted, filtered = set(), {}
    for path, kind, value in zip(said[0::3], said[1::3], said[2::3]):
        if value in (b"unset", b"unspecified") and not (auto and kind == b"text" and value == b"unspecified"):
            continue
        if kind == b"filter":
            filtered[path] = value
        else:
            converted.add(path)
    return converted - set(filtered), filtered


def _look_at(repository: Repository, path: bytes, entry: Optional[Entry], files: Files, most: int) -> None:
    """Compare one tracked path with its index entry, byte for byte."""
    found = _object(repository, path, entry, files, most)
    # Of a path that is only intended to be added the index has an empty file, and no tree has it.
    if entry is not None and found == (entry.mode, entry.oid) and path not in files.intended:
        return
    with contextlib.suppress(OSError):
        if found is not None or repository.state(path) is None:
            files.changed[path] = found


def _object(
    repository: Repository, path: bytes, entry: Optional[Entry], files: Files, most: int
) -> Optional[Tuple[bytes, bytes]]:
    """Return mode and id of what lies at a path, with its content in our folder; None, and why, where there is none."""
    repository.context.left()
    try:
        state = repository.state(path)
        if state is None:
            return None
        if stat.S_ISLNK(state.st_mode):
            return b"120000", _keep(repository, repository.readlink(path), entry)
        if not stat.S_ISREG(state.st_mode):
            if not stat.S_ISDIR(state.st_mode):
                _leave(files, path, "special-file")
            return None
        if state.st_size > most:
            _leave(files, path, "too-large", state.st_size)
            return None
        with open(repository.open(path), "rb") as stream:
            content = stream.read(most + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        _leave(files, path, "unreadable")
        return None
    if len(content) != state.st_size:
        _leave(files, path, "changed-meanwhile", state.st_size)
    oid = repository.id(b"blob %d\0" % len(content) + content).encode()
    if entry is None or oid != entry.oid:
        rule = _withheld(repository, path, oid, content)
        if rule:
            _leave(files, path, "secret", state.st_size, rule)
            return None
        repository.add(b"blob", content)
    return _mode(repository, state.st_mode, entry), oid


def _withheld(repository: Repository, path: bytes, oid: bytes, content: bytes) -> str:
    """Return the rule by which a file that git does not have is left out, empty where it is taken.

    Where there is no time to search it, it is taken, and counted as `unsearched` later.
    """
    name, context = quote(path), repository.context
    if {name, f"{os.path.basename(repository.top)}/{name}"} & set(context.accept):
        return ""
    if secret_file(name, content):
        return "a name of files with secrets"
    repository.searched += len(content)
    if repository.searched > SEARCHED:
        return ""
    try:
        places = _places(content, context._replace(deadline=context.deadline - SPARE), 1)
    except GaveUp:
        return ""
    if not places:
        repository.clean.add(oid)
    return f"{places[0][1]} in line {places[0][0]}" if places else ""


def _mode(repository: Repository, mode: int, entry: Optional[Entry]) -> bytes:
    if entry is not None and entry.mode == b"120000" and repository.config.get("core.symlinks") == "false":
        return entry.mode
    if repository.config.get("core.filemode") == "false" and entry is not None:
        return entry.mode if entry.mode.startswith(b"100") else b"100644"
    return b"100755" if mode & stat.S_IXUSR else b"100644"


def _keep(repository: Repository, content: bytes, entry: Optional[Entry]) -> bytes:
    """Return the id of a blob; it is written only where the index has another."""
    if entry is not None and repository.id(b"blob %d\0" % len(content) + content).encode() == entry.oid:
        return entry.oid
    return repository.add(b"blob", content)


def _leave(files: Files, path: bytes, reason: str, size: Optional[int] = None, rule: str = "") -> None:
    entry = {"path": quote(path), "reason": reason, **({} if size is None else {"bytes": size})}
    files.left_out.append({**entry, "rule": rule} if rule else entry)


def _look_inside(repository: Repository, path: bytes, entry: Entry, files: Files) -> None:
    """Look at a submodule: its commit goes into our tree, its work tree is a repository of its own."""
    full = os.path.join(repository.top, os.fsdecode(path))
    state = None
    with contextlib.suppress(OSError):
        state = repository.state(path)
    there = state is not None and stat.S_ISDIR(state.st_mode)
    if there and os.path.exists(os.path.join(full, ".git")):
        files.inner[path] = full
        with contextlib.suppress(GaveUp, OSError):
            head = _head(Repository(full, repository.context)).commit
            if head and head.encode() != entry.oid:
                files.changed[path] = (b"160000", head.encode())
    elif not there:
        _look_at(repository, path, entry, files, CHANGED_FILE)
    elif any(names for _, _, names in os.walk(full)):
        _leave(files, path + b"/", "not-initialised")


def _look_filtered(
    repository: Repository,
    path: bytes,
    entry: Optional[Entry],
    touched: bool,
    pointer: Optional[bytes],
    files: Files,
) -> None:
    """Look at a file behind a filter: what is on the disk is not what git keeps (LFS), or must not be (git-crypt).

    `pointer` is the blob of the index where the filter is LFS, None for other filters.
    """
    try:
        state = repository.state(path)
    except OSError:
        _leave(files, path, "unreadable")
        return
    if state is None:
        files.changed[path] = None
        return
    size = state.st_size
    large = _LFS.match(pointer or b"")
    if pointer is None:
        _leave(files, path, "filtered", size)
    elif (
        large is None or size != int(large.group(2)) or (touched and not _is_content(repository, path, large))
    ):
        _look_at(repository, path, entry, files, CHANGED_FILE)
    else:
        files.large.append({"path": quote(path), "sha256": large.group(1).decode(), "bytes": size})


def _is_content(repository: Repository, path: bytes, pointer: Match[bytes]) -> bool:
    """Whether a file is the content that a pointer of LFS names; git cannot tell without LFS's filter."""
    try:
        return _sha256(repository.open(path), repository.context) == pointer.group(1).decode()
    except OSError:
        return False


def _look_untracked(repository: Repository, entries: Mapping[bytes, Entry], files: Files) -> None:
    """Take untracked files that are not ignored or were named, the small ones first, up to the budgets."""
    waiting = []
    try:
        listed = repository.git("ls-files", "-o", "-z", "--exclude-standard", seconds=LISTING)
    except GaveUp as err:  # a home folder that is a repository
        files.left_out.append({"path": ".", "reason": err.reason})
        return
    paths = listed.split(b"\0")[:-1]
    for path in [*paths, *_look_named(repository, {*paths, *entries}, files)]:
        if path.endswith(b"/"):  # a repository inside this one, which it does not know as a submodule
            files.inner[path[:-1]] = os.path.join(repository.top, os.fsdecode(path[:-1]))
            continue
        with contextlib.suppress(OSError):
            state = repository.state(path)
            if state is not None:
                waiting.append((state.st_size, path, stat.S_ISLNK(state.st_mode)))
    hidden = _hidden(repository, [path for _, path, _ in waiting])
    total = count = 0
    for size, path, linked in sorted(waiting):
        if path in hidden and not linked:
            _leave(files, path, "filtered", size)
        elif count >= UNTRACKED_COUNT:
            _leave(files, path, "too-many", size)
        elif total + size > UNTRACKED_TOTAL or size > UNTRACKED_FILE:
            _leave(files, path, "too-large", size)
        else:
            found = _object(repository, path, None, files, UNTRACKED_FILE)
            if found is not None:
                files.untracked[path] = found
                total, count = total + size, count + 1


def _look_named(repository: Repository, known: Set[bytes], files: Files) -> List[bytes]:
    """Return the paths of named files of a repository that are not known; say what is no file."""
    found: List[bytes] = []
    top = os.path.realpath(repository.top)
    for place in repository.context.include:
        path = os.fsencode(os.path.relpath(place, top))
        if find_top(os.path.dirname(place)) != top or path in known:
            continue
        reason = _no_file(place)
        if reason:
            _leave(files, path, reason)
        else:
            found.append(path)
    return found


def _no_file(place: str) -> str:
    """Return why a path can be no file of a capture, empty where it is a file or a link."""
    try:
        mode = os.lstat(place).st_mode
    except OSError as err:
        return "not-there" if err.errno in (errno.ENOENT, errno.ENOTDIR) else "unreadable"
    return "" if stat.S_ISREG(mode) or stat.S_ISLNK(mode) else "special-file"


def _ignored(repository: Repository) -> Dict[str, Any]:
    """Return the names of what git ignores, folders as one; it is never taken."""
    try:
        words = ("ls-files", "-o", "-i", "-z", "--exclude-standard", "--directory")
        rows = repository.git(*words, seconds=LISTING)
    except GaveUp as err:
        return {"reason": err.reason}
    return _names(rows.split(b"\0")[:-1])


def _flags(entries: Dict[bytes, Entry], files: Files) -> Dict[str, List[str]]:
    """Return paths with a mark in the index that decides what `git status` says."""
    return {
        "intent-to-add": sorted(map(quote, files.intended)),
        "skip-worktree": sorted(quote(path) for path, entry in entries.items() if entry.tag.upper() == b"S"),
        "assume-unchanged": sorted(quote(path) for path, entry in entries.items() if entry.tag.islower()),
    }


def _bundle(
    repository: Repository,
    facts: Dict[str, Any],
    unmerged: List[Tuple[bytes, bytes, bytes, bytes]],
    moved: Dict[str, str],
) -> Dict[str, Any]:
    """Write the bundle. https://git-scm.com/docs/gitformat-bundle"""
    head = facts["head"]
    above = [head] if head else []
    refs = {name: repository.commit(facts[name].encode(), above).decode() for name in ("index", "worktree")}
    if head:
        refs["head"] = head
    if unmerged:
        blobs: Dict[bytes, Optional[Tuple[bytes, bytes]]] = {
            b"%d" % number: (mode, oid) for number, (_, mode, oid, _) in enumerate(unmerged)
        }
        refs["unmerged"] = repository.commit(repository.tree(blobs, "unmerged", empty=True), []).decode()
    path = os.path.join(repository.scratch, "bundle")
    prerequisites = facts["prerequisites"]
    with open(path, "w+b") as stream:
        stream.write(
            b"# v2 git bundle\n" if repository.hash == "sha1" else b"# v3 git bundle\n@object-format=sha256\n"
        )
        stream.writelines(f"-{one}\n".encode() for one in prerequisites)
        stream.writelines(f"{oid} refs/reprobuild/{name}\n".encode() for name, oid in sorted(refs.items()))
        stream.write(b"\n")
        stream.flush()
        wanted = "".join(f"{oid}\n" for oid in refs.values()) + "".join(f"^{one}\n" for one in prerequisites)
        words = ("pack-objects", "--revs", "--thin", "--delta-base-offset", "--stdout", "-q")
        try:
            repository.git(*words, stdin=wanted.encode(), out=stream, most=BUNDLE)
            if stream.seek(0, os.SEEK_END) > BUNDLE:
                raise GaveUp("too-large")
        except GaveUp as err:
            return {"file": None, "refs": refs, "reason": err.reason, "why": err.why}
    name = f"{facts['name']}.bundle"
    moved[name] = path
    return {
        "file": name,
        "sha256": _sha256(path, repository.context),
        "bytes": os.stat(path).st_size,
        "refs": refs,
    }


def _new_blobs(staged: Optional[Sequence[Staged]], files: Files) -> Optional[Dict[bytes, bytes]]:
    """Return path by id of what a bundle carries where all commits are with a remote; None where that is not known."""
    if staged is None:
        return None
    rows = [(row.path, (row.mode, row.oid)) for row in staged if row.mode.strip(b"0")]
    rows += [
        (path, found) for path, found in {**files.changed, **files.untracked}.items() if found is not None
    ]
    return {oid: path for path, (mode, oid) in sorted(rows, reverse=True) if mode != b"160000"}


def _search(
    repository: Repository, facts: Dict[str, Any], new: Optional[Dict[bytes, bytes]]
) -> Dict[str, Any]:
    """Search all that the bundle carries for secrets: file, line and rule, never the text.

    The content is kept: whoever builds from it is refused, and nothing is lost. `unsearched` counts the files that
    were too many to be searched, the largest ones, and those for which no time was left; it is at least 1 where not
    even their number is known. `new` has path by id, where it is known.
    """
    context = repository.context._replace(deadline=repository.context.deadline - SPARE)
    repository.context = context
    found: Dict[Tuple[str, int, str], bytes] = {}
    try:
        new = _carried(repository, facts) if new is None else new
        new = {oid: path for oid, path in new.items() if oid not in repository.clean}
        contents, unsearched = _searchable(repository, new)
    except GaveUp:
        return {"secrets": [], "unsearched": max(1, len(new or ()))}
    for oid, content in contents:
        try:
            places = _places(content, context)
        except GaveUp:
            unsearched += 1
            continue
        found.update(((quote(new[oid]), line, rule), oid) for line, rule in places)
    listed = sorted(found)[:LISTED]
    commits = _commits(repository, facts, {found[place] for place in listed})
    secrets = [
        {"file": place[0], "line": place[1], "rule": place[2], "commit": commits.get(found[place], "")}
        for place in listed
    ]
    return {"secrets": secrets, "unsearched": unsearched}


def _commits(repository: Repository, facts: Mapping[str, Any], oids: Set[bytes]) -> Dict[bytes, str]:
    """Return the first of the commits that no remote has with each of these blobs; as many as there is time for.

    `git log` would do it alone, and start a program of the repository's configuration for each signature.
    """
    found: Dict[bytes, str] = {}
    if not facts["head"] or not oids:
        return found
    above = [facts["head"], *(f"^{one}" for one in facts["prerequisites"])]
    with contextlib.suppress(GaveUp):
        commits = repository.git("rev-list", "--reverse", *above, "--", most=SEARCHED)
        words = (
            "diff-tree",
            "--stdin",
            "--root",
            "-r",
            "--raw",
            "--no-abbrev",
            "--no-renames",
            "--no-ext-diff",
        )
        asked = (f"--find-object={oid.decode()}" for oid in sorted(oids))
        commit = ""
        for row in repository.git(*words, *asked, stdin=commits, most=SEARCHED).split(b"\n"):
            if not row.startswith(b":"):
                commit = row.decode("ascii", "replace")
                continue
            for oid in row.split(b" ", 4)[2:4]:
                if oid in oids:
                    found.setdefault(oid, commit)
    return found


def _carried(repository: Repository, facts: Dict[str, Any]) -> Dict[bytes, bytes]:
    """Return path by id of all that a bundle carries."""
    excluded = [f"^{one}" for one in facts["prerequisites"]]
    listed = repository.git("rev-list", "--objects", *facts["bundle"]["refs"].values(), *excluded)
    return dict(row.split(b" ", 1) for row in listed.split(b"\n") if b" " in row)


def _searchable(repository: Repository, new: Mapping[bytes, bytes]) -> Tuple[List[Tuple[bytes, bytes]], int]:
    """Return id and content of the blobs that are searched, and the number of those that are too many."""
    try:
        return list(_contents(repository, list(new), SEARCHED)), 0
    except GaveUp as err:
        if err.reason != "too-large":
            raise
    chosen, unsearched = _smallest(repository, new)
    return list(_contents(repository, chosen)), unsearched


def _places(content: bytes, context: Context, most: int = LISTED) -> List[Tuple[int, str]]:
    """Return line and rule of the secrets in one file, no more than are listed; GaveUp where no time is left."""
    context.left()
    places = find(content, most, context.left)
    for value in context.secrets:
        at = content.find(value)
        if at >= 0:
            places.append((content.count(b"\n", 0, at) + 1, "variable"))
    return places


def _smallest(repository: Repository, oids: Iterable[bytes]) -> Tuple[List[bytes], int]:
    """Return the smallest blobs that are to be searched together, and the number of the others."""
    asked = b"".join(oid + b"\n" for oid in oids)
    said = repository.git("cat-file", "--batch-check=%(objecttype) %(objectsize) %(objectname)", stdin=asked)
    rows = [row.split(b" ") for row in said.split(b"\n") if row.startswith(b"blob ")]
    blobs = sorted((int(size), oid) for _, size, oid in rows)
    chosen, total = [], 0
    for size, oid in blobs:
        total += size
        if total <= SEARCHED:
            chosen.append(oid)
    return chosen, len(blobs) - len(chosen)


def _contents(repository: Repository, oids: Sequence[bytes], most: int = 0) -> Iterator[Tuple[bytes, bytes]]:
    """Return an iterator of id and content of the blobs that are there; GaveUp where all have more than `most`."""
    if not oids:
        return iter(())
    asked = b"".join(oid + b"\n" for oid in oids)
    return _objects(repository.git("cat-file", "--batch", stdin=asked, most=most), repository.context)


def _objects(said: bytes, context: Context) -> Iterator[Tuple[bytes, bytes]]:
    at = 0
    while at < len(said):
        context.left()
        end = said.index(b"\n", at)
        words = said[at:end].split(b" ")
        at = end + 1
        if words[-1] != b"missing":
            if words[1] == b"blob":
                yield words[0], said[at : at + int(words[2])]
            at += int(words[2]) + 1


def _sha256(path: Union[str, int], context: Context) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for piece in iter(lambda: stream.read(1 << 20), b""):
            context.left()
            digest.update(piece)
    return digest.hexdigest()


def _diff(repository: Repository, facts: Dict[str, Any], name: str, moved: Dict[str, str]) -> Dict[str, Any]:
    """Write the diff for people and for readers of the chapter's recipe: from what a remote has to the work tree."""
    start = facts["base"] or facts["head"]
    if start is None:
        start = repository.add(b"tree", b"").decode()
    path = os.path.join(repository.scratch, "diff")
    words = (
        "diff-tree", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
        "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=none", "-U3",
    )  # fmt: skip
    try:
        with open(path, "w+b") as stream:
            repository.git(
                *words,
                start + "^{tree}" if facts["head"] else start,
                facts["worktree"],
                out=stream,
                most=DIFF,
            )
    except GaveUp as err:
        return {"file": None, "from": start, "reason": err.reason}
    size = os.stat(path).st_size
    if size > DIFF:
        return {"file": None, "from": start, "reason": "too-large", "bytes": size}
    if size:
        moved[name] = path
    return {"file": name if size else None, "from": start, "bytes": size, "reason": "done"}


def _absolute(include: Sequence[str]) -> List[str]:
    """Return named files by paths whose folders are no links; the file itself may be one, and stays it."""
    found = []
    for name in include:
        above, last = os.path.split(os.path.abspath(os.fspath(name)))
        found.append(os.path.join(os.path.realpath(above), last))
    return sorted(set(found))


def take_included(context: Context, folder: str, places: Sequence[str], name: str) -> Taken:
    """Take files of no repository as the only files of a new one, by the same rules.

    Args:
        context: of this part.
        folder: of the captured machine; each file lies below it.
        places: of the files.
        name: of the record.
    """
    program = _program("git", context)
    if program is None:
        raise GaveUp("failed", "git is not on PATH")
    top = os.path.join(
        os.path.realpath(tempfile.mkdtemp(dir=context.scratch)), os.path.basename(folder) or name
    )
    os.mkdir(top)
    env = {key: value for key, value in context.environ.items() if not key.startswith("GIT_")}
    _run([program, "init", "-q", "--template=", top], context, env=env, cwd=top)
    files = Files({}, {}, [], [], {}, [], set())
    copies = []
    for place in places:
        path = os.path.relpath(place, folder)
        reason = _no_file(place)
        if not reason and ".git" in path.lower().split(os.sep):  # no tree of git can hold it
            reason = "special-file"
        copy = os.path.join(top, path)
        reason = reason or _copy(place, copy)
        if reason:
            _leave(files, os.fsencode(path), reason)
        else:
            copies.append(copy)
    taken = take_repository(context._replace(include=copies), top, name, False)
    left_out = files.left_out + taken.facts["left_out"]
    taken.facts.update(
        folder=_path(folder), left_out=left_out[:LISTED],
        left_out_count=len(files.left_out) + taken.facts["left_out_count"],
    )  # fmt: skip
    return taken


def _copy(place: str, copy: str) -> str:
    """Copy a file or link; return why it cannot be had. One that is over its budget is copied as its size alone."""
    try:
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        if os.path.islink(place):
            os.symlink(os.readlink(place), copy)
            return ""
        number = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(number, "rb") as stream, open(copy, "xb") as target:
            state = os.fstat(number)
            if not stat.S_ISREG(state.st_mode):
                return "special-file"
            content = stream.read(UNTRACKED_FILE + 1)
            target.write(content)
            if len(content) > UNTRACKED_FILE:
                target.truncate(max(state.st_size, len(content)))
            if state.st_mode & stat.S_IXUSR:
                os.fchmod(target.fileno(), 0o700)
    except OSError:
        return "unreadable"
    return ""


def _take_loose(
    include: Sequence[str], captured: Set[str], used: Dict[str, int],
    take: Callable[[str, Callable[[Context], Taken], float], Any],
) -> List[Dict[str, Any]]:  # fmt: skip
    """Take the named files that are in no captured repository: below the working directory, where all are there."""
    places = [place for place in include if find_top(os.path.dirname(place)) not in captured]
    if not places:
        return []
    folder = os.path.realpath(os.getcwd())
    if any(not place.startswith(folder.rstrip(os.sep) + os.sep) for place in places):
        folder = os.path.commonpath([os.path.dirname(place) for place in places])
    name = _unique(os.path.basename(folder) or "files", used)
    part = functools.partial(take_included, folder=folder, places=places, name=name)
    record = take(f"included {name}", part, BUDGETS["repository"])
    if record is None:
        return []
    record.pop("inner")
    record.update(distributions=[], parent=None, path="")
    return [record]


def _take_repositories(
    entries: List[Dict[str, Any]], take: Callable[[str, Callable[[Context], Taken], float], Any],
    include: Sequence[str] = (),
) -> Tuple[List[Dict[str, Any]], Dict[str, str]]:  # fmt: skip
    """Take the repository of each editable install, of the working directory, those inside of them, and named files.

    Returns:
        Their records, and the lines of the freeze by name of distribution.
    """
    editable = {entry["name"]: entry for entry in entries if (entry.get("origin") or {}).get("editable")}
    tops: Dict[str, List[str]] = {}
    places = {name: find_top(entry["origin"]["path"]) for name, entry in editable.items()}
    deep = {
        name: top for name, top in places.items()
        if top is not None and os.path.realpath(editable[name]["origin"]["path"]) != top
    }  # fmt: skip
    ignored: List[str] = []
    if deep:
        folders = {name: editable[name]["origin"]["path"] for name in deep}
        part = functools.partial(_take_ignored, tops=deep, folders=folders)
        ignored = take("editable folders", part, BUDGETS["repository"]) or []
    for name, top in places.items():
        if top is not None and name not in ignored:  # else it is as if there were no repository
            tops.setdefault(top, []).append(name)
    with contextlib.suppress(OSError):
        top = find_top(os.getcwd())
        if top is not None:
            tops.setdefault(top, [])
    waiting: List[Tuple[str, List[str], Optional[str], str]] = [
        (top, names, None, "") for top, names in tops.items()
    ]
    found: List[Dict[str, Any]] = []
    lines: Dict[str, str] = {}
    used: Dict[str, int] = {}
    captured: Set[str] = set()
    while waiting and len(found) < REPOSITORIES:
        room = REPOSITORIES - len(found)
        wave, waiting = waiting[:room], waiting[room:]
        named = [
            _unique(names[0] if len(names) == 1 else os.path.basename(top), used) for top, names, _, _ in wave
        ]
        records = _take_wave(
            [(name, top, bool(names)) for name, (top, names, _, _) in zip(named, wave)], take
        )
        for record, name, (top, names, parent, inside) in zip(records, named, wave):
            if record is None:
                lines.update({one: _bare_line(editable[one], "repository was not captured") for one in names})
                continue
            captured.add(os.path.realpath(top))
            record.update(distributions=names, parent=parent, path=inside)
            found.append(record)
            for path, folder in sorted(record.pop("inner").items()):
                waiting.append((folder, [], name, quote(path)))
            for one in names:
                lines[one] = _editable_line(editable[one], top, record)
    for top, names, _, _ in waiting:
        take(f"repository {_unique(os.path.basename(top), used)}", _too_many, 1.0)
        lines.update({one: _bare_line(editable[one], "repository was not captured") for one in names})
    with contextlib.suppress(OSError):  # of a working directory that is gone
        found += _take_loose(include, captured, used, take)
    return found, lines


def _take_ignored(context: Context, tops: Mapping[str, str], folders: Mapping[str, str]) -> Taken:
    """Give the names of editable installs whose folders git ignores: the repository around them has nothing of them."""
    found: List[str] = []
    for top in sorted(set(tops.values())):
        # `./` keeps a colon from being read as magic: the command takes no literal names.
        asked = {
            os.fsencode("./" + os.path.relpath(os.path.realpath(folders[name]), top)): name
            for name in tops if tops[name] == top
        }  # fmt: skip
        words, stdin = ("check-ignore", "--stdin", "-z"), b"".join(path + b"\0" for path in asked)
        with contextlib.suppress(GaveUp, OSError):  # it is then said where the repository is taken
            repository = Repository(top, context)
            said = repository.git(*words, stdin=stdin, codes=(0, 1), GIT_LITERAL_PATHSPECS="0").split(b"\0")
            found += [name for path, name in asked.items() if path in said]
    return Taken(found)


def _too_many(context: Context) -> Taken:
    raise GaveUp("too-many")


def _take_wave(
    wave: List[Tuple[str, str, bool]], take: Callable[[str, Callable[[Context], Taken], float], Any]
) -> List[Any]:
    """Take some repositories, a few at once: most of the time git reads from the disk. None where one cannot be had."""
    records: List[Any] = [None] * len(wave)
    waiting = list(enumerate(wave))[::-1]

    def work() -> None:
        while True:
            try:
                number, (name, top, installed) = waiting.pop()
            except IndexError:
                return
            part = functools.partial(take_repository, top=top, name=name, installed=installed)
            records[number] = take(f"repository {name}", part, BUDGETS["repository"])

    threads = [threading.Thread(target=work, name=PROGRAM, daemon=True) for _ in wave[:AT_ONCE]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return records


def _unique(wanted: str, used: Dict[str, int]) -> str:
    """Return a name for the files of a repository that no other has."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", wanted).strip(".")[:80] or "repository"
    used[name] = used.get(name, 0) + 1
    return name if used[name] == 1 else _unique(f"{name}-{used[name]}", used)


def _bare_line(entry: Dict[str, Any], what: str) -> str:
    """Return a line without a commit, so that nobody builds the install without its changes."""
    return f"# Editable install whose {what} ({_pin(entry)})\n-e {_path(entry['origin']['path'])}"


def _editable_line(entry: Dict[str, Any], top: str, record: Dict[str, Any]) -> str:
    """Return the line of an editable install: the commit that a remote has, on which NAME.diff was made.

    pip would name the commit that is checked out, also where no remote has it.
    """
    folder = entry["origin"]["path"]
    urls = {remote["name"]: remote["url"] for remote in record["remotes"]}
    url = urls.get(record["base_remote"]) or urls.get("origin") or next(iter(urls.values()), None)
    if record["diff"]["reason"] != "done":
        return _bare_line(entry, "changes are not in a diff")
    if url is None or record["head"] is None or not _freezable(url):
        return f"# Editable Git install with no remote ({_pin(entry)})\n-e {_path(folder)}"
    inside = os.path.relpath(os.path.realpath(folder), top)
    egg = re.sub(r"[^A-Za-z0-9.]+", "_", entry["name"])
    mark = "" if inside == "." else f"&subdirectory={inside}"
    return f"-e git+{_freezable(url)}@{record['diff']['from']}#egg={egg}{mark}"


def _freezable(url: str) -> str:
    """Return a remote's address as pip writes it: `git@host:path` becomes `ssh://git@host/path`; "" for an odd one."""
    if re.match(r"\w+://\S+$", url):
        return url
    short = re.match(r"(\w+@)?([^/:\s]+):([^:\s]*)$", url)
    if short:
        return f"ssh://{short.group(1) or ''}{short.group(2)}/{short.group(3).lstrip('/')}"
    return "file://" + url if re.match(r"/\S*$", url) else ""


PARTS: Tuple[Tuple[str, Callable[[Context], Taken]], ...] = (
    ("environment", take_environment),
    ("command", take_command),
    ("python", take_python),
    ("scheduler", take_scheduler),
    ("modules", take_modules),
    ("distributions", take_distributions),
    ("machine", take_machine),
    ("dpkg", take_dpkg),
    ("rpm", take_rpm),
    ("conda", take_conda),
    ("gpu", take_gpu),
)


# --- Secrets, written by dev/write_secrets.py: do not edit ---

# The name of a variable as people write it, `DB_PASSWORD2`: a part has one number at most, and a random text has more.
VARIABLE = (
    r"(?-i:_{0,2}(?:[A-Za-z]{1,30}(?:\d{1,4}(?:[A-Z]{1,20}|[a-z]{1,20})?)?|\d{1,4})"
    r"(?:_{1,2}(?:[A-Za-z]{1,30}(?:\d{1,4}(?:[A-Z]{1,20}|[a-z]{1,20})?)?|\d{1,4})){0,8}(?![A-Za-z0-9_]))"
)
# `${NAME:-x}`, `$(command)`, `$NAME`, `$1`, `{{name}}`, `{name}`, `%(name)s`, `%NAME%`, `%s`, `<name>`, `***`, `...`.
_FORM = re.compile(
    rf"\$\{{[^{{}}]{{1,100}}\}}?|\$\([^()]{{0,100}}\)?|\$(?:{VARIABLE}|\d(?!\w))"
    rf"|\{{{{2}}[^{{}}]{{1,100}}\}}{{0,2}}|\{{(?:{VARIABLE}[^{{}}]{{0,100}}|\d{{0,2}})\}}"
    r"|%\([A-Za-z_]\w{0,60}\)[a-z]|%[A-Z][A-Z0-9_]{1,40}%|%(?:\d\$)?[sdvqrx](?![A-Za-z0-9])|<[^<>]{1,100}>|\*{3,}|\.{3}"
)
# Parts of a regular expression: `[^:]+`, `.*`, `\w+`, `(?:`.
_EXPRESSION = re.compile(
    r"\[\^?[^\]]{1,60}\](?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})?|\[\^|\\[a-zA-Z](?:[*+?]|\{\d{1,3},?\d{0,3}\})?|\\."
    r"|[.)][*+]\??|\(\?(?:P<\w{1,30}>|:)|[{]\d{1,3},\d{0,3}[}]"
)
# A shell replaces it wherever it stands, unless single quotes are around it.
_REFERENCE = re.compile(
    rf"[\\\"']{{0,3}}\$(?:{VARIABLE}(?:\Z|[\"'/.:@,;)\]}}$\\-])|\d(?!\w)|[({{\[]|[@*#?!-]?\Z)"
)
# The same without single quotes: any name.
_REPLACED = re.compile(r"[\\\"']{0,3}\$")
# `{token}`, `%(token)s`, `%TOKEN%`, `<token>`, `os.environ[`.
_STAND_IN = re.compile(
    rf"[\\\"']{{0,3}}(?:[{{\[](?:{VARIABLE}|[^A-Za-z_]|\Z)|<|%[({{]|%[A-Z_]{{2,40}}%|\*\*\*)"
    r"|[A-Za-z_][A-Za-z0-9_.]{0,100}[(\[]|.{0,200}(?:\$\{|\{\{)",
    re.DOTALL,
)
# A part of a pattern: `*`, `??`, `[0-9]`, `(a|b)`, `{a,b}`, `\d`, `^` at the start and `$` at the end.
_WILD = re.compile(r"[*?\[\](){}|]|\\[A-Za-z.]|\A\^|\$\Z")
_ESCAPED = re.compile(r"\\[A-Za-z]|\[[^\]]{1,60}\]")


def is_template(password: str) -> bool:
    """Tell whether a password consists of templates and parts of regular expressions."""
    rest = _EXPRESSION.sub("", _FORM.sub("", password))
    return rest != password and not re.search("[A-Za-z0-9]", rest)


def stands_in(text: str, *, literal: bool = False) -> bool:
    """Tell whether a text stands for a value, or is a call in code.

    Args:
        text: the value of a name.
        literal: True if a shell leaves `$name` as it is; then only the name of a variable makes it a reference.
    """
    return bool((_REFERENCE if literal else _REPLACED).match(text) or _STAND_IN.match(text))


def is_single_quoted(before: str) -> bool:
    """Tell whether a value stands in single quotes, by the text before it."""
    return before.count("'") % 2 == 1


def pattern_words(text: str) -> list[str] | None:
    """Return the words of a glob or a regular expression, or None for another text."""
    return re.findall("[A-Za-z0-9]{4,}", _ESCAPED.sub(" ", text)) if _WILD.search(text) else None


GONE = "***"
# conda's token in a path, as in https://host/t/TOKEN/channel; servers of companies have a path before it.
CONDA_TOKEN = re.compile(r"(?<!:/)/t/[^/?#]+")

# What counts tokens sounds like a secret, and a secret may sound like a count (`NEW_RELIC_TOKEN`). So a name that says
# TOKENS, and nothing else that a secret is called, is none; every other one is none where it holds a number.
COUNT = "count"
_NO_OTHER = r"(?!.*(SECRET|KEY|PASS|AUTH|API|CRED|BEARER|JWT|COOKIE))"
_COUNTED = (
    r"(.*_)?(MAX|MIN|NUM|N|TOTAL|BATCH|NEW|CONTEXT|TRAIN|GLOBAL)_(.*_)?{0}(_.*)?"
    r"|(.*_)?{0}_(PER|LEN|LENGTH|COUNT|LIMIT|BUDGET|DISPATCHER|TYPE|RATE|SIZE|DIM|WEIGHT|PR"
    r"OB|RATIO|LOSS|POS|IDX|INDEX|DROP|DROPOUT)(_.*)?"
)

# A token of a vocabulary, or its number: `BOS_TOKEN=<s>`, `PAD_TOKEN_ID=0`. A secret is neither.
VOCABULARY = "vocabulary"

# A key of a table, a cache or a sort is a short identifier; a key of a store is called the same (`COSMOS_PRIMARY_KEY`).
FIELD = "field"

# A personal access token is called like a pattern (`GLOB_PAT=*.py`) and a count (`LR_PAT=5`).
PATTERN = "pattern"

# First match wins; an empty rule name means "not a secret". Matched against the whole name, any case.
NAMES: tuple[tuple[str, str], ...] = (
    ("", r"(OLD)?PWD|KEYBOARD|SSH_AUTH_SOCK(HOST)?|SSH_AGENT_PID|.*_PASSES|(N|NUM|MAX|MIN)_PASS"),
    ("", r"(.*_)?TOKEN_TYPE|(.*_)?CREDENTIALS?_HELPER"),
    ("", rf"{_NO_OTHER}(?!.*TOKEN(?!I[ZS])).*TOKENI[ZS](ER|ERS|ATION|E|ED)(_.*)?"),
    (
        "",
        rf"{_NO_OTHER}(?!.*TOKEN(?!S|I[ZS]))({_COUNTED.format('TOKENS')})|{_NO_OTHER}(.*_)?TOKEN"
        rf"S?_DISPATCHER",
    ),
    (
        VOCABULARY,
        rf"{_NO_OTHER}(.*_)?(PAD|BOS|EOS|EOT|EOD|UNK|SEP|CLS|MASK|START|END|STOP|SPECIAL|IMAGE|A"
        rf"UDIO|VIDEO|SPEECH|DECODER|ENCODER"
        r"|PREFIX|SUFFIX|IMG|FIM|CONTROL|TRIGGER|INSTANCE|PLACEHOLDER|INITIALIZER)_?TOKENS?(_.*"
        r")?|(.*_)?TOKEN_?(ID|IDS|IDX)",
    ),
    (COUNT, rf"{_COUNTED.format('TOKENS')}|{_NO_OTHER}({_COUNTED.format('TOKEN')})"),
    ("", r"(.*_)?[CX]SRF_?TOKEN(_.*)?|PUBLIC_?TOKEN|.*CREDENTIALS?_?ID"),
    ("", r"(XDG|GNOME|TERM|ITERM|TMUX|DESKTOP|KDE|KONSOLE|BYOBU)_.*SESSION_?ID"),
    ("", r"(.*_)?PUBLIC_?KEYS?"),
    ("", r"(?!GOOGLE_APPLICATION_CREDENTIALS).*_(FILE|FILENAME|PATH|DIR|VERSION|TYPE|BACKEND|STORE)"),
    (COUNT, rf"{_NO_OTHER}(?!.*(ACCESS|REFRESH|SESSION|BOT|LOGIN))(.*_)?TOKENS(_.*)?"),
    (FIELD, r"(?!AZURE_)(.*_)?(SORT|PRIMARY|FOREIGN|CACHE|PARTITION|HOT)_?KEYS?"),
    (
        "named",
        r"HF_TOKEN|HUGGING_?FACE_HUB_TOKEN|WANDB_(API_)?KEY|AWS_(SECRET_ACCESS_KEY|SESSION_TOKE"
        r"N|ACCESS_KEY_ID)"
        r"|AZURE_.*|GOOGLE_APPLICATION_CREDENTIALS.*|GITHUB_TOKEN|GH_TOKEN|OPENAI_API_KEY|ANTHROPIC_API_KEY"
        r"|NGC_API_KEY|NGC_CLI_API_KEY|MLFLOW_TRACKING_(PASSWORD|TOKEN)|COMET_API_KEY|NEPTUNE_API_TOKEN"
        r"|KRB5CCNAME|MYSQL_PWD|PGPASSWORD|REDISCLI_AUTH|NETRC|DOCKER_AUTH_CONFIG|SSHPASS",
    ),
    ("token", r".*(TOKEN|BEARER|JWT).*"),
    (PATTERN, r"(.*_)?PAT"),
    (
        "password",
        r".*(PASSW(OR)?D|PASSPHRASE|PASSCODE).*|(.*_)?(PASS|PW|PSWD|PWORD|PASSWORT)|.*_(PWD|PSW)"
        r"|.*(BINDPW|USERPWD|ROOTPW)"
        # Not `COMPASS`, `BYPASS` and `LOWPASS`.
        r"|(.*_)?(ADMIN|APP|BACKUP|CERT|DATABASE|DB|FTP|IMAP|JUPYTER|KEY|KEYSTORE|LDAP|LOGIN|MAIL|MONGO|MQ|MYSQL|PG"
        r"|POSTGRES|RABBIT|RDP|REDIS|ROOT|SFTP|SMTP|SQL|SSH|SSL|STORE|SUDO|SVN|TLS|USER|VNC|VPN|WEB|WIFI|ZIP)(PASS|PW)",
    ),
    ("secret", r".*SECRET.*"),
    ("credential", r".*(CREDENTIAL|CREDS).*"),
    (
        "key",
        r".*(API|APP|AUTH|SERVICE|ACCOUNT|DB|CLIENT|ACCESS|PRIVATE|PRIV|ENCRYPTION|SIGNING|SSH|MASTER)_?KEY.*"
        r"|(.*_)?KEY",
    ),
    ("cookie", r".*COOKIE.*"),
    ("session", r".*SESSION_?(ID|KEY)"),
    ("signature", r"(.*_)?(SIGNATURE|SIG)"),
    ("sas", r"(.*_)?SAS(_URL|_URI)?"),
    ("webhook", r".*WEBHOOK.*|.*CONNECTION_?STRING.*|(.*_)?DSN"),
)


# The first alternative that fits the whole name wins. One pattern is compiled four times as fast as its parts; those of
# `VALUES` are compiled where a mark was found, which is seldom.
_NAMES = re.compile("|".join(f"(?P<r{n}>{pattern})" for n, (_, pattern) in enumerate(NAMES)), re.IGNORECASE)
# A number or a switch, with what may enclose it in JSON.
AMOUNT = re.compile(
    r"(?i)[\"']?([+-]?\d[\d_]{0,19}(\.\d{1,9})?(e[+-]?\d{1,3})?[kmgbt]?|yes|no|true|false|on|off|"
    r"none|null)[\"'\])}]{0,9}"
)
# What servers of models that ask for no key are given for one.
_NO_SECRET = re.compile("EMPTY|empty")
# A number of passes is called like a password: `NGPU_PASS=2`.
_PASSES = re.compile(r"(?i).*_PASS")
# A special token, or a list of these, of short words and of numbers: `<s>`, `[MASK]`, `<|endoftext|>`, `\n\n`, `1,2`.
_SPECIAL = re.compile(
    r"(?:[\"'\[( ]{0,3}(?:</?[\w|/ -]{1,40}>|\[[A-Za-z_]{1,20}\]|<\|[^|<>\s]{1,40}\|>|(?:\\n){1,4}"
    r"|(?<![\w#▁])(?:\d{1,9}|[A-Za-z_#▁]{1,15})(?![\w#▁]))[\"'\]),; ]{0,4}"
    r"){1,20}"
)
# Words, numbers, and words that end in a number, with what may enclose them in JSON: `created_at`, `v3-linux-py311`.
IDENTIFIER = re.compile(
    r"[\"'\[({]{0,3}([A-Za-z]{1,20}\d{0,6}|\d{1,8})(([-_.:/]|[\"']?,[ ]?[\"']?)([A-Za-z]{1,20}\d{0"
    r",6}|\d{1,8})){0,9}"
    r"[\"'\])},;]{0,9}|[\[({]+"
)


def rule_of_name(name: str) -> str:
    """Return the rule for a name; an empty one where no value makes it a secret."""
    return _judged_name(name) if len(name) <= 128 else _judge_name(name)


def _judge_name(name: str) -> str:
    found = _NAMES.fullmatch(name)
    return NAMES[int(str(found.lastgroup)[1:])][0] if found else ""


# A value names the same things again and again, and is judged once more when it is shown.
_judged_name = functools.lru_cache(maxsize=4096)(_judge_name)


def secret_name(name: str, value: str = "") -> str | None:
    """Return the rule by which a variable of this name holds a secret, or None.

    Args:
        name: of a variable, an option or a parameter.
        value: what it holds, where that is known: `NEW_TOKEN` counts something if it is a number,
            `SORT_KEY` names something if it is a short identifier.
    """
    rule = rule_of_name(name)
    if rule and _NO_SECRET.fullmatch(value):
        return None
    if rule == "password" and _PASSES.fullmatch(name) and re.fullmatch(r"\d{1,2}", value):
        return None
    if rule == COUNT:
        return None if AMOUNT.fullmatch(value) else "token"
    if rule == VOCABULARY:
        amount = len(value) <= 12 and AMOUNT.fullmatch(value)
        return None if amount or _SPECIAL.fullmatch(value) or not value else "token"
    if rule == FIELD:
        return None if IDENTIFIER.fullmatch(value) else "key"
    if rule == PATTERN:
        harmless = len(value) <= 12 and AMOUNT.fullmatch(value)
        return None if (harmless or _is_pattern(value)) and value != GONE else "token"
    return rule or None


def _is_pattern(value: str) -> bool:
    """Whether `value` is a pattern of words and numbers; an odd character makes none of a random text."""
    words = pattern_words(value)
    return words is not None and all(is_word(word) for word in words)


def entropy(text: str) -> float:
    """Return the Shannon entropy of `text` in bits for each character."""
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())


def looks_generated(text: str) -> bool:
    """Whether `text` reads like a generated key: letters and digits mixed, and no word that stands for one."""
    if re.search(r"(?i:example|your|change.?me|dummy|placeholder)|xxx|XXX|\*\*\*|[${}<>%]", text):
        return False
    return bool(re.search(r"\d", text) and re.search(r"[A-Za-z]", text)) and entropy(text) >= 3.5


def real_login(text: str) -> bool:
    """Whether `user:password` of an address is more than a sample or a template."""
    password = plain(text).partition(":")[2]
    sample = re.fullmatch(
        r"(?i)(my)?_?(pass(word|wd)?|pwd|secret|token|x+|\*+|user(name)?|foo|bar|changeme|example|port|\d{1,5})",
        password,
    )
    # A template before a slash is a port, and the rest a path.
    return not (sample or is_template(re.split("[/?#,;]", password, maxsplit=1)[0]) or is_template(password))


def token_login(text: str) -> bool:
    """Whether the user of an address is a token: its password is absent, or says nothing (`x-oauth-basic`)."""
    user = plain(text.partition(":")[0])
    return looks_generated(user) or bool(re.fullmatch("[0-9a-f]{32,64}", user))


def plain(text: str) -> str:
    """Take the percent signs of encoded characters off: a password may have any, and a template has others."""
    return re.sub("%[0-9A-Fa-f]{2}", "-", text)


# What is written where a token would stand: letters and digits in their order, and one part again and again.
_COUNTING = re.compile(
    r"abcdefghijklm|(?i:ghijklmnopqrs)|(?:1234567890){2}|([0-9])\1{14}|([0-9][0-9A-Za-z]{2,3})\2{4}"
)


def plausible(text: str) -> bool:
    """Whether a token with a vendor's prefix is more than a sample of documentation."""
    return (
        not text.endswith("EXAMPLE")
        and len(set(text)) >= 8
        and not re.search(r"(?i)x{6}|your[_-]|example", text)
        and not _COUNTING.search(text[:200])
    )


def decoded(text: str) -> str | None:
    """Return what a text in base64 says, or None where it is none, or says no text."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        said = binascii.a2b_base64(plain + "=" * (-len(plain) % 4)).decode("ascii")
    except ValueError:
        return None
    return said if said and all(c.isprintable() or c in "\r\n\t" for c in said) else None


def is_login(text: str) -> bool:
    """Whether a text in base64 is `user:password`."""
    user, colon, password = (decoded(text) or "").partition(":")
    return bool(user and colon and password) and real_login(f"{user}:{password}")


def is_private_key(text: str) -> bool:
    """Whether a text in base64 is a private key in PEM, not a certificate."""
    return "PRIVATE KEY" in (decoded(text[:88]) or "")


# No word has so many consonants in a row.
_UNSPOKEN = re.compile("(?i)[bcdfghjklmnpqrstvwxyz]{5}")
_WORD_PARTS = re.compile(r"[a-z]{0,20}|[A-Z]{1,20}|(?:[A-Z]{0,3}[a-z]{2,20}){1,4}")


def is_word(text: str) -> bool:
    """Whether `text` reads like words and numbers: `created_at`, `v3-linux-py311`, `MyTokenizer2`."""
    parts = re.split(r"[^A-Za-z]{1,40}", text)
    spoken = not _UNSPOKEN.search(text) and all(_WORD_PARTS.fullmatch(part) for part in parts)
    return spoken and bool(IDENTIFIER.fullmatch(text))


def looks_random(text: str) -> bool:
    """Whether `text` mixes both cases and digits as a key does, and is no text in base64, path or name."""
    if not (re.search(r"\d", text) and re.search(r"[a-z]", text) and re.search(r"[A-Z]", text)):
        return False
    words = re.search(r"(?:[A-Z]?[a-z]{3,12}){3}|(?:[^/]{1,9}/){5}", text)
    spoken = words and not _UNSPOKEN.search(words[0])
    return entropy(text) >= 4.3 and not spoken and decoded(text) is None


# What a password of a person is called, as the last word of a variable.
_STRONG_NAME = re.compile("(?:[A-Z0-9_]{0,60}_)?[A-Z0-9]{0,20}(?:PASSWORD|PASSWORT|PASSWD|PSWD|PWORD|PWD)")
_SAMPLE_WORD = re.compile(
    r"(?i)(?:my|the|test|some|db|new)?(?:pass(?:word|wd)?|pwd|secret|token|key|test|admin|root|user|demo|foo|bar|abc"
    r"|qwerty|guest|default|postgres|mysql|redis|mongo|django|airflow)\d{0,9}"
)


def is_password_name(name: str) -> bool:
    """Whether a variable is called a password without doubt: `POSTGRES_PASSWORD`."""
    return len(name) <= 128 and _STRONG_NAME.fullmatch(name) is not None


def names_something(text: str) -> bool:
    """Whether words and numbers are none even where a password stands: an identifier, small letters, a sample."""
    return (
        "_" in text
        or bool(_SAMPLE_WORD.fullmatch(text))
        or (text.islower() and not re.fullmatch(r"[a-z]+\d+", text))
    )


def _is_drawn(text: str) -> bool:
    """Whether what stands beside `%s` is drawn itself: then the sign is a part of a password."""
    kinds = all(re.search(kind, text) for kind in ("[a-z]", "[A-Z]", r"\d"))
    return kinds and len(text) >= 12 and entropy(text) >= 3 and not is_word(text)


def looks_chosen(text: str, *, literal: bool = False, password: bool = False) -> bool:
    """Whether `text`, which a file gives to a name of a secret, may be a password: no template, path, type or word.

    Args:
        text: the value.
        literal: True if a shell leaves `$name` as it is.
        password: True if it has the name of a password: then a word with a number, as people make them up, is one.
    """
    if stands_in(text, literal=literal) or AMOUNT.fullmatch(text):
        return False
    if is_word(text) and not (password and not names_something(text)):
        return False
    if len(text) < 100 and re.match(r"[.~]{0,2}/[^+=]{0,100}$", text):
        return False
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]{0,20}://|sha\d|GPU-|[A-Za-z]:\\", text):
        return False
    if re.search(r"(?i)example|your|change.?me|dummy|placeholder|x{4}|\*\*\*|\.\.\.|[<>]", text):
        return False
    if re.search(r"%s\b", text) and not _is_drawn(text.replace("%s", "")):
        return False
    if _COUNTING.search(text[:200]) or "123456789012345678" in text:
        return False
    strange = (
        re.search(r"[!@#%^&*+?~=]", text) and re.search("[A-Za-z]", text) and not re.search(r"[.,;:]$", text)
    )
    return bool(re.search(r"\d", text) and re.search(r"[A-Za-z]", text) and (strange or entropy(text) >= 2.8))


# A word begins here, also behind the `\n` of JSON.
_PROGRAM = r"(?:(?<![\w.-])|(?<=\\[nrt]))"
_PART = r"(?:(?<![\w.?&;-])|(?<=\\[nrt]))"
# What may stand between a program and its option, and the word after that.
_BETWEEN = r"(?:[ \t]{1,4}[^\s]{1,100}){0,8}?[ \t]{1,4}"
# Short options without a value may stand before the last one in its word.
JOINED = r"-[A-Za-z0-9#]{0,12}?"
# Options of `htpasswd`, of which some have a number.
_OPTIONS = r"(?:-[A-Za-z0-9]{1,8}[ \t]{1,4}(?:\d{1,3}[ \t]{1,4})?){0,6}"
_WORD = r"(?P<before>[\"']?)(?P<secret>[^\s\"']{4,200})"

# Each password must have a letter and a digit, for sources have words and templates there.
COMMANDS: tuple[tuple[str, tuple[str, ...], str, str, bool], ...] = (
    (
        "registry-login",
        (" login ",),
        rf"{_PROGRAM}login{_BETWEEN}-p[ \t=]{{0,4}}{_WORD}",
        r"login[ \t].{0,200}-p",
        True,
    ),
    (  # MinIO: the key, then the secret
        "minio",
        ("alias set ", "host add "),
        rf"{_PROGRAM}mcl?i?{_BETWEEN}(?:alias[ \t]{{1,4}}set|host[ \t]{{1,4}}add){_BETWEEN}[\"']?https?://\S{{1,200}}"
        r"(?:[ \t]{1,4}--(?:(?:api|path)[ \t]{1,4}\S{1,40}|[a-z]\S{0,60})){0,4}[ \t]{1,4}(?!--)\S{1,200}[ \t]{1,4}"
        rf"{_WORD}",
        "://",
        False,
    ),
    (
        "ldap",
        ("ldap",),
        rf"{_PROGRAM}ldap(?:search|modify|add|delete|whoami|compare|modrdn){_BETWEEN}{JOINED}w[ \t]{{0,4}}{_WORD}",
        r"[ \t]-[A-Za-z]{0,12}w",
        True,
    ),
    (
        "redis",
        ("redis-cli", "keydb-cli", "valkey-cli"),
        rf"{_PROGRAM}(?:redis|keydb|valkey)-cli{_BETWEEN}(?:-a[ \t]{{1,4}}|--pass[ \t]{{1,4}}){_WORD}",
        "[ \\t]-(?:a|-pass)",
        True,
    ),
    (
        "sqlcmd",
        ("sqlcmd", "bcp "),
        rf"{_PROGRAM}(?:sqlcmd|bcp){_BETWEEN}-P[ \t]{{0,4}}{_WORD}",
        "[ \\t]-P",
        True,
    ),
    (
        "mongo",
        ("mongo",),
        rf"{_PROGRAM}mongo(?:sh|dump|restore|export|import|files|stat|top)?{_BETWEEN}-p[ \t]{{0,4}}{_WORD}",
        "[ \\t]-p",
        True,
    ),
    (
        "twine",
        ("twine ",),
        rf"{_PROGRAM}twine{_BETWEEN}-p[ \t]{{0,4}}{_WORD}",
        "[ \\t]-p",
        True,
    ),
    (
        "htpasswd",
        ("htpasswd ",),
        rf"{_PROGRAM}htpasswd[ \t]{{1,4}}{_OPTIONS}?-[A-Za-z]{{0,8}}b[A-Za-z]{{0,8}}[ \t]{{1,4}}{_OPTIONS}"
        rf"(?:[^\s-]\S{{0,100}}[ \t]{{1,4}}){{1,2}}{_WORD}",
        "-[a-zA-Z]{0,8}b",
        True,
    ),
    (
        "poetry",
        ("http-basic.",),
        rf"http-basic\.[\w.-]{{1,60}}[ \t]{{1,4}}[^\s-]\S{{0,100}}[ \t]{{1,4}}{_WORD}",
        "http-basic",
        False,
    ),
    (
        "samba",
        ("smbclient", "rpcclient"),
        rf"{_PROGRAM}(?:smb|rpc)client{_BETWEEN}(?:-U[ \t]{{0,4}}|--user[= ])(?P<before>[\"']?[^\s%\"'$]{{1,60}}%)"
        r"(?P<secret>[^\s\"']{4,200})",
        "%",
        True,
    ),
    (
        "lftp",
        ("lftp",),
        rf"{_PROGRAM}lftp{_BETWEEN}(?:-u[ \t]{{0,4}}|--user[= ])(?P<before>[\"']?[^\s,\"'$]{{1,60}},)"
        r"(?P<secret>[^\s\"']{4,200})",
        ",",
        True,
    ),
    (
        "archive-7z",
        ("7z ", "7za ", "7zr ", "7zz "),
        rf"{_PROGRAM}7z[arz]?{_BETWEEN}-p{_WORD}",
        "[ \\t]-p",
        True,
    ),
    (
        "archive-zip",
        ("zip -", "unzip "),
        rf"{_PROGRAM}(?:un)?zip{_BETWEEN}(?:{JOINED}P[ \t]{{0,4}}|--password[= ]){_WORD}",
        "[ \\t]-(?:[A-Za-z0-9]{0,12}P|-password)",
        True,
    ),
    (
        "openssl",
        ("pass:",),
        r"[ \t\"'](?:-pass(?:in|out|word)?|-k)[ \t]{1,4}(?P<before>[\"']?)pass:(?P<secret>[^\s\"']{4,200})",
        "-pass",
        False,
    ),
    (
        "curl-cookie",
        ("curl",),
        rf"curl{_BETWEEN}(?:{JOINED}b[ \t]{{0,4}}|--cookie[= ])[\"']?"
        r"(?:[A-Za-z][\w.-]{0,60}=[^\s\"'$;]{0,100};[ \t]?){0,9}?"
        r"[A-Za-z][\w.-]{0,60}=([^\s\"'$;]{8,4000})",
        r"(?:-[A-Za-z0-9#]{0,12}b|--cookie)",
        False,
    ),
    (  # a string of libpq, with the password at any place after another part
        "libpq",
        ("password=",),
        rf"{_PART}(?:host(?:addr)?|port|user|dbname|sslmode)=[^\s\"',;]{{1,100}}"
        rf"(?:[ \t]{{1,4}}[a-z_]{{2,20}}=[^\s\"',;]{{1,100}}){{0,6}}?[ \t]{{1,4}}password={_WORD}",
        "[ \\t]password=",
        False,
    ),
    (
        "libpq-first",
        ("password=",),
        rf"{_PART}password=([^\s\"'$,;]{{4,200}})(?=[ \t]{{1,4}}(?:host(?:addr)?|port|user|dbname|sslmode)=)",
        "(?:host|port|user|dbname|sslmode)",
        False,
    ),
    (
        "oracle",
        ("@",),
        r"(?<![\w./:@-])[A-Za-z][\w$#]{0,30}/[\"']?([^\s/@\"'$:]{4,100})[\"']?@(?://[A-Za-z0-9]|[\w.-]{1,200}:1521)",
        r"@//|@[\w.-]{1,200}:1521",
        False,
    ),
    (
        "oracle-command",
        ("sqlplus", "sqlcl", "sqlldr", "expdp", "impdp"),
        rf"{_PROGRAM}(?:sqlplus|sqlcl|sqlldr|expdp|impdp){_BETWEEN}(?P<before>[\"']?)(?:[a-z]{{1,20}}=)?"
        r"[A-Za-z][\w$#]{0,30}/[\"']?(?P<secret>[^\s/@\"'$]{4,100})",
        "/",
        False,
    ),
    (
        "oracle-address",
        ("jdbc:oracle:",),
        r"(?i:jdbc:oracle:(?:thin|oci8?)):[A-Za-z][\w$#]{0,30}/([^\s/@\"']{4,100})@",
        "@",
        False,
    ),
)


_NAMED = ("key", "token", "secret", "pass", "pwd")
_KEYED = r"\\?[\"'](?P<name>[A-Za-z][A-Za-z0-9_-]{1,60})\\?[\"']"
_VALUE = r"[bru]{0,2}\\?[\"'](?P<secret>[^\s\"'\\]{8,200})\\?[\"']"

# The name must be one of a secret, and the value may be one.
PAIRS: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    (  # with its type, or made by a call: `api_key: str = "..."`, `api_key=SecretStr("...")`
        "assigned-typed",
        _NAMED,
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z_][A-Za-z0-9_]{0,60})[ \t]{0,4}"
        r"(?:(?P<type>:[ \t]{0,4}[A-Za-z][\w.\[\], |]{0,60}[ \t]{0,4})?=)"
        r"[ \t]{0,4}(?P<call>(?:[A-Za-z][\w.]{0,40}\([ \t]{0,4}[a-z_]{1,20}[ \t]{0,2}=|Secret(?:Str)?\()[ \t]{0,2})?"
        r"(?(type)|(?(call)|(?!)))"  # what has neither is `assigned`
        r"[bfru]{0,2}\\?[\"'](?P<secret>[^\s\"'\\]{12,200})\\?[\"']",
        r"=[ \t]{0,4}(?:(?:[A-Za-z][\w.]{0,40}\([ \t]{0,4}[a-z_]{1,20}[ \t]{0,2}=|Secret(?:Str)?\()[ \t]{0,2})?"
        r"[bfru]{0,2}\\?[\"'](?=[^\s\"'\\]{0,199}\d)[^\s\"'\\]{12}",
    ),
    (  # an upper-case name of a password, which may have a word with a number
        "assigned-password",
        ("password", "passwd", "passwort", "pwd"),
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Z][A-Z0-9_]{1,60})\\?[\"'\]]{0,2}[ \t]{0,4}[=:][ \t]{0,4}[bru]{0,2}"
        r"\\?[\"'](?P<secret>[^\s\"'\\]{8,200})\\?[\"']",
        r"[=:][ \t]{0,4}[bru]{0,2}\\?[\"'](?=[^\s\"'\\]{0,199}\d)[^\s\"'\\]{8}",
    ),
    (  # in three quotes
        "assigned-block",
        _NAMED,
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z_][A-Za-z0-9_]{0,60})[\"'\]]{0,2}[ \t]{0,4}[=:][ \t]{0,4}"
        r"[bfru]{0,2}(?:(?:\\?\"){3}|'{3})(?P<secret>[^\s\"'\\]{8,200})(?:\\?\"|'){3}",
        r"\"\\?\"\\?\"|'{3}|\\\"\\\"",
    ),
    (  # words of a command in a list, and the default of an option
        "option-word",
        _NAMED,
        r"\\?[\"']--?(?P<name>[A-Za-z][A-Za-z0-9_-]{1,60})\\?[\"'][ \t]{0,4},\s{0,40}"
        r"(?:[^\n\"']{0,80}?default[ \t]{0,4}=[ \t]{0,4})?\\?[\"'](?P<secret>[^\s\"'\\]{8,200})\\?[\"']",
        r"[\"']--?[A-Za-z]",
    ),
    (  # what is taken where a variable is not set
        "or-value",
        (" or ",),
        rf"{_KEYED}[)\]][ \t]{{1,4}}or[ \t]{{1,4}}\\?[\"'](?P<secret>[^\s\"'\\]{{8,200}})\\?[\"']",
        r"[)\]][ \t]{1,4}or[ \t]{1,4}\\?[\"']",
    ),
    (  # the same as an argument: `getenv("NAME", "value")`, `env("NAME", default="value")`
        "default-value",
        _NAMED,
        r"(?:getenv|setenv|putenv|get|setdefault|pop|env|environ|config)\([ \t]{0,4}"
        rf"{_KEYED}[ \t]{{0,4}},[ \t]{{0,4}}(?:(?:default|fallback)[ \t]{{0,4}}=[ \t]{{0,4}})?{_VALUE}[ \t]{{0,4}}[,)]",
        r"[\"'][ \t]{0,4},[ \t]{0,4}(?:(?:default|fallback)[ \t]{0,4}=[ \t]{0,4})?[bru]{0,2}\\?[\"']",
    ),
    (  # the same in JavaScript
        "or-variable",
        _NAMED,
        r"process\.env(?:\.|\[\\?[\"'])(?P<name>[A-Za-z][A-Za-z0-9_]{1,60})(?:\\?[\"']\])?"
        rf"[ \t]{{0,4}}(?:\|\||\?\?)[ \t]{{0,4}}{_VALUE}",
        r"process\.env",
    ),
    (
        "element",
        ("key>", "token>", "secret>", "password>", "passphrase>"),
        r"<(?P<name>[A-Za-z][A-Za-z0-9_.-]{1,60})>(?P<secret>[^\s<>&;\"']{8,200})</",
        r">[^\s<>]{8,200}</",
    ),
)


# fmt: off
TOKENS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "aws-access-key",
        ("a3t", "akia", "asia", "abia", "acca",),
        r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])",
    ),
    (
        "huggingface",
        ("hf_", "api_org_",),
        r"(?:hf|api_org)_[A-Za-z0-9]{30,60}(?![A-Za-z0-9_])",
    ),
    (
        "github",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_",),
        r"gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{50,255}",
    ),
    (
        "gitlab",
        ("glpat-", "gldt-", "glptt-", "glrt-", "glcbt-", "glsoat-", "glft-", "glimt-", "glagent-",
         "gloas-", "gr1348941",),
        r"gl(?:pat|dt|ptt|rt|cbt|soat|ft|imt|agent|oas)-[A-Za-z0-9_.-]{20,250}|GR1348941[A"
        r"-Za-z0-9_-]{20,50}",
    ),
    (
        "slack",
        ("xox", "xapp-",),
        r"xox[abeoprs]-\d{1,20}-(?=[0-9-]{0,60}[A-Za-z])[A-Za-z0-9-]{6,250}|xapp-\d-[A-Za-z0"
        r"-9-]{20,250}",
    ),
    (
        "slack-webhook",
        ("hooks.slack.com/",),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?:[A-Za-z0-9]{6,20}/[A-Za-z0-9]"
        r"{6,20}/[A-Za-z0-9/]{16,100}|[A-Za-z0-9+/]{40,60}(?![A-Za-z0-9+/]))",
    ),
    (
        "discord-webhook",
        ("/api/webhooks/",),
        r"discord(?:app)?\.com/api/webhooks/\d{15,22}/[A-Za-z0-9_-]{40,100}",
    ),
    (
        "teams-webhook",
        ("/webhookb2/",),
        r"webhook\.office\.com/webhookb2/[0-9a-zA-Z@-]{70,80}/IncomingWebhook/[0-9a-zA-Z]{32"
        r"}(?:/[0-9a-zA-Z-]{36})?",
    ),
    (
        "anthropic",
        ("sk-ant-",),
        r"sk-ant-[a-z]{2,12}\d{2}-[A-Za-z0-9_-]{80,250}",
    ),
    (
        "openai",
        ("sk-",),
        r"sk-(?!ant-)(?=[A-Za-z0-9_-]{0,60}\d)(?=[A-Za-z0-9_-]{0,60}[A-Z])[A-Za-z0-9_-]{20,"
        r"250}",
    ),
    (
        "openai-like",
        ("sk-",),
        r"sk-(?:[0-9a-f]{32,64}|or-v1-[0-9a-f]{64}|lf-[0-9a-f-]{36}|(?=[a-z0-9]{0,40}\d)[a-"
        r"z0-9]{32,64})(?![A-Za-z0-9-])",
    ),
    (
        "groq",
        ("gsk_",),
        r"gsk_[A-Za-z0-9]{40,64}(?![A-Za-z0-9])",
    ),
    (
        "replicate",
        ("r8_",),
        r"r8_[A-Za-z0-9]{36,40}(?![A-Za-z0-9])",
    ),
    (
        "langsmith",
        ("lsv2_",),
        r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}(?![0-9a-f])",
    ),
    (
        "pinecone",
        ("pcsk_",),
        r"pcsk_[A-Za-z0-9]{4,10}_[A-Za-z0-9]{40,80}(?![A-Za-z0-9])",
    ),
    (
        "wandb-key",
        ("wandb_v1_",),
        r"wandb_v1_[A-Za-z0-9_]{40,120}(?![A-Za-z0-9_])",
    ),
    (
        "nvidia",
        ("nvapi-",),
        r"nvapi-[A-Za-z0-9_-]{40,100}",
    ),
    (
        "perplexity",
        ("pplx-",),
        r"pplx-[A-Za-z0-9]{40,64}",
    ),
    (
        "xai",
        ("xai-",),
        r"xai-[A-Za-z0-9]{60,100}",
    ),
    (
        "cerebras",
        ("csk-",),
        r"csk-[a-z0-9]{40,64}(?![A-Za-z0-9])",
    ),
    (
        "fireworks",
        ("fw_",),
        r"(?<![-_])fw_(?=[A-Za-z0-9]{0,30}\d)(?=[A-Za-z0-9]{0,30}[A-Z])[A-Za-z0-9]{22,32}(?"
        r"![A-Za-z0-9_-])",
    ),
    (
        "together",
        ("tgp_v1_",),
        r"tgp_v1_[A-Za-z0-9_-]{40,60}",
    ),
    (
        "tavily",
        ("tvly-",),
        r"tvly-[A-Za-z0-9-]{28,60}",
    ),
    (
        "jina",
        ("jina_",),
        r"jina_[0-9a-f]{32}[A-Za-z0-9_-]{20,40}",
    ),
    (
        "elevenlabs",
        ("sk_",),
        r"sk_[0-9a-f]{48}(?![A-Za-z0-9])",
    ),
    (
        "runpod",
        ("rpa_",),
        r"rpa_[A-Z0-9]{36,60}(?![A-Z0-9])",
    ),
    (
        "kaggle",
        ("kgat_",),
        r"KGAT_[0-9a-f]{32}(?![0-9a-f])",
    ),
    (
        "neptune",
        ("eyjhcglfywrkcmvzcyi6",),
        r"eyJhcGlfYWRkcmVzcyI6[A-Za-z0-9+/_-]{40,1000}={0,2}",
    ),
    (
        "prefect",
        ("pnu_", "pnb_",),
        r"pn[ub]_[A-Za-z0-9]{36}(?![A-Za-z0-9])",
    ),
    (
        "databricks",
        ("dapi",),
        r"dapi[0-9a-f]{32}(?:-\d)?(?![0-9a-f])",
    ),
    (
        "google",
        ("aiza",),
        r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])",
    ),
    (
        "google-client",
        ("gocspx-",),
        r"GOCSPX-[A-Za-z0-9_-]{28}(?![A-Za-z0-9_-])",
    ),
    (
        "google-access",
        ("ya29.",),
        r"ya29\.[A-Za-z0-9_.-]{20,2000}",
    ),
    (
        "google-refresh",
        ("1//0",),
        r"1//0[A-Za-z0-9_-]{40,200}(?![A-Za-z0-9_/-])",
    ),
    (
        "azure-client",
        ("q~",),
        r"[A-Za-z0-9_.~-]{3}\dQ~[A-Za-z0-9_.~-]{31,34}(?![A-Za-z0-9_~-])",
    ),
    (
        "azure-storage",
        ("+ast",),
        r"[A-Za-z0-9+/]{76}\+ASt[A-Za-z0-9+/]{6}==",
    ),
    (
        "azure-devops",
        ("azdo",),
        r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}(?![A-Za-z0-9])",
    ),
    (
        "digitalocean",
        ("dop_v1_", "doo_v1_", "dor_v1_",),
        r"do[opr]_v1_[0-9a-f]{64}",
    ),
    (
        "vault",
        ("hvs.", "hvb.", "hvr.",),
        r"hv[sbr]\.[A-Za-z0-9_-]{24,300}",
    ),
    (
        "terraform",
        (".atlasv1.",),
        r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}",
    ),
    (
        "grafana",
        ("glsa_", "glc_",),
        r"glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}|glc_eyJ[A-Za-z0-9+/=]{40,400}",
    ),
    (
        "tailscale",
        ("tskey-",),
        r"tskey-[a-z]{2,20}-[A-Za-z0-9]{8,40}-[A-Za-z0-9]{16,80}",
    ),
    (
        "age",
        ("age-secret-key-1",),
        r"(?i:AGE-SECRET-KEY-1[0-9A-Z]{58})(?![A-Za-z0-9])",
    ),
    (
        "sendgrid",
        ("sg.",),
        r"SG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{40,46}(?![A-Za-z0-9_-])",
    ),
    (
        "mailgun",
        ("key-",),
        r"key-[0-9a-f]{32}(?![0-9A-Za-z])",
    ),
    (
        "mailchimp",
        ("-us",),
        r"[0-9a-f]{32}-us\d{1,2}(?![0-9A-Za-z])",
    ),
    (
        "index-upload",
        ("pypi-",),
        r"pypi-[A-Za-z0-9_-]{50,250}",
    ),
    (
        "docker",
        ("dckr_",),
        r"dckr_[a-z]{3}_[A-Za-z0-9_-]{20,100}",
    ),
    (
        "npm",
        ("npm_",),
        r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])",
    ),
    (
        "rubygems",
        ("rubygems_",),
        r"rubygems_[0-9a-f]{48}",
    ),
    (
        "artifactory",
        ("akcp", "cmvmdgtuoj",),
        r"AKCp[A-Za-z0-9]{60,80}|cmVmdGtuOj[A-Za-z0-9]{50,70}={0,2}",
    ),
    (
        "telegram",
        (":aa",),
        r"(?:bot)?\d{6,12}:AA[A-Za-z0-9_-]{31,35}(?![A-Za-z0-9_-])",
    ),
    (
        "stripe",
        ("k_live_", "k_test_", "k_prod_", "whsec_",),
        r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{20,120}|whsec_(?=[A-Za-z0-9+/]{0,100}\d)[A-Z"
        r"a-z0-9+/]{32,100}",
    ),
    (
        "square",
        ("sq0atp-", "sq0csp-",),
        r"sq0(?:atp|csp)-[A-Za-z0-9_-]{22,50}",
    ),
    (
        "shopify",
        ("shpat_", "shpca_", "shppa_", "shpss_",),
        r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}(?![0-9a-fA-F])",
    ),
    (
        "atlassian",
        ("atatt3", "atctt3", "atbb",),
        r"AT(?:A|C)TT3[A-Za-z0-9_=-]{60,300}|ATBB(?=[A-Za-z0-9]{0,40}\d)[A-Za-z0-9]{32,40}("
        r"?![A-Za-z0-9])",
    ),
    (
        "linear",
        ("lin_api_",),
        r"lin_api_[A-Za-z0-9]{40}",
    ),
    (
        "notion",
        ("ntn_",),
        r"ntn_[A-Za-z0-9]{40,60}(?![A-Za-z0-9])",
    ),
    (
        "figma",
        ("figd_",),
        r"figd_[A-Za-z0-9_-]{36,60}",
    ),
    (
        "postman",
        ("pmak-",),
        r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}",
    ),
    (
        "doppler",
        ("dp.pt.", "dp.st.", "dp.ct.", "dp.sa.",),
        r"dp\.(?:pt|ct|sa|st(?:\.[a-z0-9_-]{1,40})?)\.[A-Za-z0-9]{40,44}",
    ),
    (
        "newrelic",
        ("nrak-",),
        r"NRAK-[A-Z0-9]{27}",
    ),
    (
        "sentry",
        ("sntrys_", "sntryu_",),
        r"sntryu_[0-9a-f]{64}(?![0-9a-f])|sntrys_[A-Za-z0-9+/=_-]{60,400}",
    ),
    (
        "dynatrace",
        ("dt0c01.",),
        r"dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}",
    ),
    (
        "supabase",
        ("sbp_", "sb_secret_",),
        r"sbp_[0-9a-f]{40}|sb_secret_[A-Za-z0-9_-]{20,60}",
    ),
    (
        "planetscale",
        ("pscale_",),
        r"pscale_(?:tkn|oauth|pw)_[A-Za-z0-9_.=-]{32,64}",
    ),
    (
        "pulumi",
        ("pul-",),
        r"pul-[0-9a-f]{40}(?![0-9a-f])",
    ),
    (
        "cloudflare",
        ("cfut_", "cfat_", "cfk_",),
        r"cf(?:ut|at|k)_[A-Za-z0-9]{48}(?![A-Za-z0-9])",
    ),
    (
        "onepassword",
        ("ops_eyj",),
        r"ops_eyJ[A-Za-z0-9+/_-]{200,2000}={0,2}",
    ),
    (
        "openshift",
        ("sha256~",),
        r"sha256~[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])",
    ),
    (
        "alibaba",
        ("ltai",),
        r"LTAI[A-Za-z0-9]{16,24}(?![A-Za-z0-9])",
    ),
    (
        "tencent",
        ("akid",),
        r"AKID(?=[A-Za-z0-9]{0,40}\d)[A-Za-z0-9]{32}(?![A-Za-z0-9])",
    ),
    (
        "firebase",
        (":apa91b",),
        r"[A-Za-z0-9_-]{11,200}:APA91b[A-Za-z0-9_-]{100,250}",
    ),
    (
        "jwt",
        ("eyj",),
        r"eyJ[A-Za-z0-9_-]{10,4000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{10,2000}",
    ),
    (
        "conda",
        ("/t/",),
        r"(?<=/t/)[a-z]{2}-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    ),
    (
        "onepassword-key",
        ("a3-",),
        r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}(?![A-"
        r"Z0-9])",
    ),
    (
        "aws-bedrock",
        ("absk",),
        r"ABSK[A-Za-z0-9+/]{109,269}={0,2}",
    ),
    (
        "facebook",
        ("eaa",),
        r"EAA(?=[A-Za-z0-9]{0,200}\d)[A-Za-z0-9]{97,400}(?![A-Za-z0-9])",
    ),
    (
        "fly",
        ("fo1_", "fm1a_", "fm1r_", "fm2_",),
        r"fo1_[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])|fm(?:1[ar]|2)_[A-Za-z0-9+/]{100,4000}={0,"
        r"3}",
    ),
    (
        "heroku",
        ("hrku-",),
        r"HRKU-[A-Za-z0-9_-]{36,70}(?![A-Za-z0-9_-])",
    ),
    (
        "infracost",
        ("ico-",),
        r"(?<!\.)ico-[A-Za-z0-9]{32}(?![A-Za-z0-9])",
    ),
    (
        "intra42",
        ("s-s4t2",),
        r"s-s4t2(?:ud|af)-[0-9a-f]{64}(?![0-9a-f])",
    ),
    (
        "sonar",
        ("sqp_", "squ_", "sqa_",),
        r"sq[pua]_(?=[A-Za-z0-9]{0,40}\d)[A-Za-z0-9]{40}(?![A-Za-z0-9])",
    ),
    (
        "sourcegraph",
        ("sgp_",),
        r"sgp_(?:local_|[0-9a-fA-F]{16}_)?[0-9a-fA-F]{40}(?![0-9a-zA-Z])",
    ),
    (
        "square-access",
        ("eaaa",),
        r"EAAA(?=[A-Za-z0-9_-]{0,60}\d)[A-Za-z0-9_-]{60}(?![A-Za-z0-9_-])",
    ),
    (
        "adobe",
        ("p8e-",),
        r"p8e-[0-9A-Za-z_-]{32}(?![0-9A-Za-z])",
    ),
    (
        "easypost",
        ("ezak", "eztk",),
        r"EZ[AT]K(?=[A-Za-z0-9]{0,54}\d)[A-Za-z0-9]{54}(?![A-Za-z0-9])",
    ),
    (
        "aws-session",
        ("fwogzxivyxdz", "iqojb3jpz2lux2vj", "fqodyxdz",),
        r"(?<![+/])(?:FwoGZXIvYXdz|IQoJb3JpZ2luX2Vj|FQoDYXdz)[A-Za-z0-9+/]{100,3000}={0,2}",
    ),
    (
        "nuget",
        ("oy2",),
        r"oy2(?=[a-z]{0,42}\d)[a-z2-7]{43}(?![A-Za-z0-9_-])",
    ),
    (
        "crates",
        ("cio",),
        r"(?<![-_./+])cio(?=[A-Za-z]{0,31}\d)(?=[a-z0-9]{0,31}[A-Z])(?=[A-Z0-9]{0,31}[a-z])"
        r"[A-Za-z0-9]{32}(?![A-Za-z0-9_+/=-])",
    ),
    (
        "modal",
        ("ak-", "as-",),
        r"(?<![-_./+])a[ks]-(?=[A-Za-z]{0,21}\d)(?=[a-z0-9]{0,21}[A-Z])(?=[A-Z0-9]{0,21}[a-"
        r"z])[A-Za-z0-9]{22}(?![A-Za-z0-9_-])",
    ),
    (
        "mapbox",
        ("sk.eyj",),
        r"sk\.eyJ[A-Za-z0-9_-]{20,400}\.[A-Za-z0-9_-]{20,60}(?![A-Za-z0-9_.-])",
    ),
)
# fmt: on


class Rule(NamedTuple):
    """One kind of secret.

    A line is searched only if it holds one of `marks`, in any case. Group `secret`, else group 1, of `pattern` is the
    secret itself; `real` may still call it a sample, and is given what the groups `name` and `before` hold where there
    are such: the name of the value, and the text before it with its quotes. A match may begin `lines` lines before the
    one with the mark, which has the secret. With `run` the marks are looked for in long words alone; no marks at all
    stand for any such word. The line of a source must hold `near`, too, which is quicker to find than `pattern`. With
    `option` it has ` -`, too, and no rule without `option` has such a mark.
    """

    name: str
    marks: tuple[str, ...]
    pattern: str
    real: Callable[..., bool] = lambda text: True
    run: bool = False
    near: str = ""
    option: bool = False
    lines: int = 0


# Each value that `looks_chosen` passes has a digit.
NUMBER = r"\d"
# Behind a letter or digit there is no token, but behind `\n` of JSON and `%3D` of an address.
START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
_NAMED_KEY = (
    r"(?:api|app|secret|access|auth|private|encryption|signing|account|master|service|clien"
    r"t|db|storage|shared|admin|deploy)"
    r"[_-]?key"
)
# What documents have for a password.
_SAMPLE_PASSWORD = re.compile(r"(?i)(?:my|the|test|some)?_?(?:pass(?:word|wd)?|pwd|secret|token|test|key)>?")
_UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Za-z]{4}){3}-[0-9A-Za-z]{12}"
_PASSWORD = r"pass(?:w(?:or)?d|wort|phrase|code)?|pwd"


def _names_secret(value: str, name: str, before: str = "'") -> bool:
    """Whether a name of a secret is given a value that may be one, without quotes or in single ones."""
    named = secret_name(name.replace("-", "_").replace(".", "_"), value) is not None
    return named and looks_chosen(value, literal=is_single_quoted(before), password=is_password_name(name))


def _names_generated(value: str, name: str) -> bool:
    drawn = looks_generated(value) or (is_password_name(name) and is_word(value))
    return len(value) >= 12 and drawn and _names_secret(value, name)


def _quoted(value: str, before: str = "", *, password: bool = False) -> bool:
    value = plain(value)
    drawn = entropy(value) >= 3 if len(value) >= 12 else _mixed(value)
    # `="` is of a shell, which replaces `$name`; ` = "` is of a program.
    shell = before in ("", '="', '=\\"')
    return drawn and looks_chosen(value, literal=not shell, password=password)


def _names_quoted(value: str, name: str) -> bool:
    """Whether a name of a secret is given a value in quotes, or in a place of its own, that may be one."""
    named = secret_name(name.replace("-", "_").replace(".", "_"), value) is not None
    return named and _quoted(value, password=is_password_name(name))


def _names_format(value: str, name: str) -> bool:
    """Whether a name of a secret is given a text with places to fill in, of which another part may be one."""
    return any(
        len(part) >= 12 and looks_generated(part) and _names_quoted(part, name)
        for part in re.split(r"\{[^{}]{0,80}\}", value)
    )


def _mixed(value: str) -> bool:
    """Whether a short value has characters of three kinds, or letters between numbers."""
    kinds = ("[a-z]", "[A-Z]", r"\d", r"[^A-Za-z0-9_.:/\s-]")
    drawn = (
        re.fullmatch(r"[A-Za-z]{0,9}\d{1,9}[A-Za-z]{1,9}\d[A-Za-z0-9]{0,9}", value) and entropy(value) >= 3
    )
    return bool(drawn) or sum(bool(re.search(kind, value)) for kind in kinds) >= 3


def _given(value: str, before: str = "") -> bool:
    return not stands_in(value, literal=is_single_quoted(before))


def _given_login(value: str, before: str = "") -> bool:
    return _given(value, before) and not _SAMPLE_PASSWORD.fullmatch(value)


def _chosen_login(value: str, before: str = "") -> bool:
    return looks_chosen(value, literal=is_single_quoted(before))


def _machine_login(value: str, before: str) -> bool:
    """Whether a file of logins has a password, which no shell replaces; without a login it must look like one."""
    if "login" not in before or before.startswith("default"):
        return looks_chosen(value, literal=True)
    sample = "\n" in before and _SAMPLE_PASSWORD.fullmatch(value)
    return not sample and not stands_in(value, literal=True)


def _generated(value: str, name: str) -> bool:
    mixed = len(re.findall(r"\d{1,99}", value)) >= 2 and ("-" not in value or re.fullmatch(_UUID, value))
    return bool(mixed and _names_secret(value, name) and _quoted(value))


def _header_value(value: str, name: str) -> bool:
    """Whether a header of curl is called like a secret, and has a value that may be one."""
    word = name.replace("-", "_")
    named = secret_name(word, value) or word.lower() == "authorization"
    return bool(named and looks_chosen(value) and _given(value))


# A quote ends a text of a program there, and a bracket an element of a page.
_ENDS = re.compile(r"[\"'][,;:+)\]}.%=>]|[,:+(\[{=%][\"']|<[/a-zA-Z]+>|^[\"'<]|>$")


def _quoted_login(value: str) -> bool:
    """Whether a login of an address holds quotes or angle brackets itself, and no text or element ends at them."""
    password = value.partition(":")[2]
    ends = _ENDS.search(password) or re.match(r"\d{0,5}['\"<>]", password)
    return not ends and real_login(value) and looks_chosen(re.sub("[<>]", "-", password), literal=True)


def _encoded_login(value: str) -> bool:
    """Whether a login whose colon is percent-encoded is one."""
    return real_login(re.sub("%(?:25){0,9}3[Aa]", ":", value, count=1))


def _header(value: str) -> bool:
    return is_login(value) or (len(value) >= 16 and looks_generated(value))


def _assignment(value: str) -> bool:
    """Whether a text in base64 says what is a secret itself: `PASSWORD=...`."""
    text = decoded(value)
    return text is not None and any(
        rule.real is not _assignment and marked(rule, text.lower()) and secrets_of(rule, text)
        for rule in VALUES
    )


def marked(rule: Rule, lowered: str) -> bool:
    """Whether a text, in lower case, is to be searched for a kind of secret."""
    return not rule.marks or any(mark in lowered for mark in rule.marks)


def secrets_of(rule: Rule, text: str) -> list[tuple[int, int]]:
    """Return start and end of each secret of a kind in a text that holds one of its marks."""
    return [span for match in re.finditer(rule.pattern, text) if (span := judged(rule, match)) is not None]


def judged(rule: Rule, match: re.Match[str] | re.Match[bytes]) -> tuple[int, int] | None:
    """Return where the secret of a match stands, or None if it is a sample or a stand-in."""
    group: str | int = "secret" if "secret" in match.re.groupindex else 1
    words = [match[group], *(match[extra] for extra in ("name", "before") if extra in match.re.groupindex)]
    plain = [word.decode("utf-8", "replace") if isinstance(word, bytes) else word or "" for word in words]
    return match.span(group) if rule.real(*plain) else None


# Every repeat is bounded, so that no input makes the search slow.
VALUES: tuple[Rule, ...] = (
    *(Rule(name, marks, f"{START}({pattern})", plausible, run=True) for name, marks, pattern in TOKENS),
    Rule(
        "aws-secret-key",
        ("secret",),
        r"(?i:aws)[\w.-]{0,20}(?i:secret)[\w.-]{0,20}[\"'\]]{0,2}[ \t]{0,5}[=:][ \t]{0,5}[\"']?"
        r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
        plausible,
    ),
    Rule(  # a key of AWS under any name: 40 characters, which no digest has in base64
        "aws-secret-value",
        (),
        r"(?<![A-Za-z0-9/+_.~-])([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+_.=-])",
        looks_random,
        run=True,
    ),
    Rule(
        "private-key",
        ("private key",),
        r"(-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:(?!-----)[\s\S]){0,9000}-----END [A-Z0-9 ]{0,40}-----|[A-Za-z0-9+/=\s\\]{0,9000}))",
    ),
    Rule(  # the body of a key of OpenSSH, with or without its header
        "openssh-key",
        ("b3blbnnzac1rzxktdje",),
        r"(b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/]{20,20000}(?:(?:\s|\\n){1,20}[A-Za-z0-9+/]{20,80}={0,2}){0,999})",
        plausible,
        run=True,
    ),
    Rule(
        "encoded-key",
        ("ls0tls1crudjti",),
        r"(LS0tLS1CRUdJTi[A-Za-z0-9+/]{60,20000}={0,2})",
        is_private_key,
        run=True,
    ),
    # `passw`, `secret`, `token`, `private`, these in capitals, `_KEY=`, `PASS=`, `"auth` and `-data:` in base64, at
    # each place of three
    Rule(
        "encoded",
        (
            "0b2tlb",
            "1kyxrho",
            "9lrvk9",
            "bbu1m9",
            "bbu1nx",
            "bhc3n3",
            "bssvzbve",
            "byaxzhdg",
            "c2vjcmv0",
            "cgfzc3",
            "chjpdmf0z",
            "dg9rzw",
            "fs0vzp",
            "imf1dg",
            "iyxv0a",
            "jhdxro",
            "lwrhdge6",
            "nfq1jfv",
            "nly3jld",
            "qqvntp",
            "qqvntv",
            "quklwqvrf",
            "rps0vo",
            "rva2vu",
            "trunsrv",
            "tzgf0yt",
            "u0vdukvu",
            "ueftu1",
            "ueftuz",
            "ufjjvkfur",
            "ut0tft",
            "ve9lru",
            "wcml2yxrl",
            "wyxnzd",
            "x0tfwt",
            "zzwnyzx",
        ),
        r"(?:(?<![A-Za-z0-9+/_\\-])|(?<=\\[nrt]))([A-Za-z0-9+/_-]{20,24000}={0,2})(?![A-Za-z0-9+/_-])",
        _assignment,
        run=True,
    ),
    Rule(
        "azure-key",
        ("accountkey=", "sharedaccesskey="),
        r"(?i:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,100}={0,2})",
    ),
    Rule(
        "azure-sas",
        ("sig=",),
        r"(?:[?&;\"' \t]|amp;)sig=([A-Za-z0-9%+/_-]{40,120}={0,2})",
        _quoted,
        run=True,
    ),
    Rule(
        "wandb",
        ("wandb",),
        r"(?i:wandb)(?:[\w.()\[\]\"' ,=:]{0,60}(?i:key)[\"'\]]{0,2}[ \t]{0,4}[=:,][ \t]{0,4}\\?[\"']?"
        r"|[ \t]{1,9}login[ \t]{1,9}(?:--[a-z]{1,20}[ \t]{1,9}){0,3})([0-9a-f]{40})(?![0-9a-f])",
    ),
    Rule(  # a slash in the password, but for a port and a path with `r.git@commit`
        "url-credential",
        ("@",),
        # No address has control characters; compiled code has them between its strings.
        r"://([^\s\x00-\x1f/:@'\"<>]{0,100}:(?:[^\s\x00-\x1f/@'\"<>]{1,300}"
        r"|(?!(?:\d{0,5}|(?i:port))[/?#,;])(?:(?!//)[^\s\x00-\x1f@'\"<>]){1,300}(?<!\.git)(?<!/)))@",
        real_login,
        near="://",
    ),
    Rule(  # with a quote or an angle bracket in the password, which else end an address
        "url-quoted",
        ("@",),
        r"://([^\s\x00-\x1f/:@'\"<>]{0,100}:[^\s\x00-\x1f/@'\"<>]{0,100}['\"<>](?:[^\s\x00-\x1f/@]{0,200}))@(?=[\w\[])",
        _quoted_login,
        near="://[^/@]{0,300}['\"<>][^/@]{0,200}@",
    ),
    Rule(  # `@` and `:` are percent-encoded
        "url-encoded",
        ("%40", "2540"),
        r"://([^\s/@'\"<>?#%]{0,100}%(?:25){0,9}3[Aa][^\s/@'\"<>?#]{1,300}?)%(?:25){0,9}40",
        _encoded_login,
        run=True,
        near="://",
    ),
    Rule(  # one slash, or three
        "url-slash",
        ("@",),
        r"(?i:https?|ftps?|ssh):(?:/|/{3,9})(?!/)([^\s/:@'\"<>]{0,100}:[^\s/@'\"<>]{1,300})@",
        real_login,
        near="[pPsShH]:/(?:[^/]|//)",
    ),
    Rule(
        "url-token",
        ("@",),
        r"(?i:https?)://([A-Za-z0-9_~+%-]{16,100}(?::[^\s/@'\"<>]{0,300})?)@(?!sha\d)",
        token_login,
        near="://",
    ),
    Rule(
        "url-parameter",
        ("token=", "key=", "signature="),
        r"(?i)[?&](?:amp;)?(?:[a-z_-]{0,20}token|[a-z_-]{0,20}key|[a-z_-]{0,20}signature)=([A-Z"
        r"a-z0-9%._~+/-]{20,400}={0,2})",
        _quoted,
        run=True,
    ),
    Rule(  # JDBC and ODBC
        "connection",
        ("password=", "pwd=", "passwd="),
        r"(?i)[?&;][ \t]?(?:password|passwd|pwd)=([^\s&;\"'<>\\]{4,200})",
        looks_chosen,
        near=NUMBER,
    ),
    Rule(
        "netrc",
        ("password",),
        r"(?:(?<![\w.-])|(?<=\\[nrt]))(?P<before>(?:machine[ \t]{1,9}\S{1,253}|default)"
        r"(?:[ \t\r\n]{1,9}(?:login|account)[ \t]{1,9}\S{1,200}){0,2})[ \t\r\n]{1,9}password[ \t]{1,9}"
        r"(?P<secret>\S{1,200})",
        _machine_login,
        lines=3,
    ),
    Rule(
        "docker-auth",
        ('"auth', "'auth", '"identitytoken'),
        r"\\?[\"'](?:auth|identitytoken)\\?[\"'][ \t]{0,4}:\s{0,40}\\?[\"']([A-Za-z0-9+/._-]{8,2000}={0"
        r",2})\\?[\"']",
        _header,
    ),
    Rule(
        "npm-auth",
        ("_auth", "_password="),
        r"(?<![A-Za-z0-9])_(?:authToken|auth|password)[ \t]{0,4}=[ \t]{0,4}[\"']?([A-Za-z0-9+/=_.-]{8,1000})",
        looks_chosen,
        near=NUMBER,
    ),
    Rule(
        "kaggle-json",
        ("key",),
        r"\\?[\"']username\\?[\"']\s{0,9}:\s{0,9}\\?[\"'][^\"'\\]{1,100}\\?[\"']\s{0,9},\s{0,9}\\?[\"']key\\?[\"'"
        r"]"
        r"\s{0,9}:\s{0,9}\\?[\"']([0-9a-f]{32})(?![0-9a-f])",
        near=NUMBER,
    ),
    Rule(
        "header",
        ("authorization", "bearer"),
        r"(?i)(?:authorization[\"']?[ \t]{0,4}[:=][ \t]{0,4}(?:[bfru]{0,2}[\"'])?"
        r"(?:bearer|basic|token|api-?(?:token|key))|(?<![a-z0-9_])bearer)"
        r"(?:[ \t]|%20){1,4}([A-Za-z0-9._~+/=-]{12,4000})",
        _header,
    ),
    Rule(
        "header-key",
        ("api-key", "x-auth", "-token", "-art-api"),
        r"(?i)(?:(?<![a-z0-9-])|(?<=\\[nrt]))(?:x-(?:api|auth|vault|goog-api|access)[a-z-]{0,20}"
        r"|private-token|job-token|api-key|x-jfrog-art-api)[\"']?"
        r"[ \t]{0,4}:[ \t]{0,4}[\"']?([^\s\"',;<>(){}]{8,400})",
        looks_chosen,
        near=NUMBER,
    ),
    Rule(
        "curl",
        ("curl",),
        rf"curl(?:[ \t]{{1,4}}[^\s]{{1,60}}){{0,6}}?[ \t]{{1,4}}(?:{JOINED}[uU]|--user|--proxy-user)[ \t=]{{0,3}}"
        r"(?P<before>[\"']?[^\s:\"'$]{0,60}:(?!//)[\"']?)(?P<secret>[^\s\"']{4,200})",
        _given_login,
    ),
    Rule(  # in a line of its own
        "curl-user",
        (" --user",),
        r"(?<![^\n])[ \t]{1,40}--user[ \t=]{1,3}(?P<before>[\"']?[^\s:\"'$]{0,60}:(?!//))"
        r"(?P<secret>[^\s\"']{8,200})",
        _chosen_login,
        near=NUMBER,
    ),
    Rule(  # the user is the token
        "curl-token",
        ("curl",),
        rf"curl(?:[ \t]{{1,4}}[^\s]{{1,60}}){{0,6}}?[ \t]{{1,4}}(?:{JOINED}u|--user)[ \t=]{{1,3}}"
        r"[\"']?([^\s:\"'$]{8,100}):(?![^\s\"'\\])",
        _chosen_login,
        near=NUMBER,
    ),
    Rule(
        "curl-header",
        ("key", "token", "secret", "pass", "auth", "cookie"),
        r"(?:-H|--header)[ \t=]{1,4}[\"'](?P<name>[A-Za-z][A-Za-z0-9-]{2,40}):[ \t]{0,4}"
        r"(?:[A-Za-z][A-Za-z-]{2,20}[ \t]{1,4})?(?P<secret>[^\s\"'\\$]{10,4000})",
        _header_value,
        near=r"(?:-H|--header)[ \t=]{1,4}[\"']",
    ),
    Rule(  # of Bundler, for the server that the name spells
        "bundler",
        ("bundle_",),
        r"BUNDLE_[A-Z0-9_]{1,80}__[A-Z0-9_]{1,60}[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?"
        r"([A-Za-z0-9_-]{4,100}:[^\s\"';&:/]{4,100})",
        real_login,
        run=True,
    ),
    Rule(
        "mysql",
        ("mysql", "mariadb"),
        r"(?:mysql(?:dump|admin|import)?|mariadb(?:-[a-z]{1,9})?)(?:[ \t]{1,4}[^\s]{1,60}){0,6}?["
        r" \t]{1,4}-p(?P<before>[\"']?)(?P<secret>[^\s\"']{4,100})",
        _chosen_login,
    ),
    *(
        Rule(name, marks, pattern, _chosen_login, near=near, option=option)
        for name, marks, pattern, near, option in COMMANDS
    ),
    Rule(
        "sshpass",
        ("sshpass",),
        r"sshpass[ \t]{1,9}(?:-v[ \t]{1,9})?-p[ \t]{0,9}(?P<before>[\"']?)(?P<secret>[^\s\"']{4,200})",
        _given,
    ),
    Rule(
        "option",
        ("key", "token", "secret", "pass"),
        r"(?i)--(?:password|passwd|pass|passphrase|token|api[_-]?key|secret(?:[_-]key)?|auth[_-"
        r"]token|access[_-](?:token|key))"
        r"(?:[ \t]{1,4}|=)(?P<before>[\"']?)(?P<secret>[^\s\"',;]{8,400})",
        _chosen_login,
        near=r"--(?i:pass|token|api|secret|auth|access)",
    ),
    Rule(
        "assigned",
        ("key", "token", "secret", "pass", "pwd"),
        r"(?i)(?<!public)(?<!public_)(?<!csrf-)(?<!csrf_)"
        rf"(?:{_NAMED_KEY}|token|secret|{_PASSWORD})\\?[\"'\]]{{0,2}}"
        r"(?P<before>[ \t]{0,4}(?:=>|[:?]{0,3}=|:)[ \t]{0,4}[bfru]{0,2}\\?[\"'])(?P<secret>[^\s\"'\\]{8,200})\\?[\"']",
        _quoted,
        near=r"[=:>][ \t]{0,4}[bfru]{0,2}\\?[\"'](?=[^\s\"'\\]{0,199}\d)[^\s\"'\\]{8}",
    ),
    *(Rule(name, marks, pattern, _names_quoted, near=near) for name, marks, pattern, near in PAIRS),
    Rule(  # a text of Python with places to fill in; the other part is the secret
        "assigned-format",
        ("key", "token", "secret", "pass", "pwd"),
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z_][A-Za-z0-9_]{0,60})[\"'\]]{0,2}[ \t]{0,4}[=:][ \t]{0,4}"
        r"[rR]?[fF][rR]?\\?[\"'](?P<secret>[^\s\"'\\]{0,100}\{[^\s\"'\\]{0,100}\}[^\s\"'\\]{0,100})\\?[\"']",
        _names_format,
        near=r"[fF][rR]?\\?[\"'][^\s\"'\\]{0,100}\{",
    ),
    Rule(  # what a shell takes where a variable is not set
        "default-variable",
        ("key", "token", "secret", "pass", "pwd"),
        r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]{0,60}):?[-=](?P<before>[\"']?)(?P<secret>[^\s\"'`${}]{8,200})[\"']?\}",
        _names_secret,
        near=r"\$\{[A-Za-z_]\w{0,60}:?[-=]",
    ),
    Rule(  # user and password, as requests and others take them
        "auth-pair",
        ("auth",),
        r"(?:(?<![A-Za-z0-9])auth[\"']?[ \t]{0,4}[=:][ \t]{0,4}[\[(]|(?i:Auth)\()"
        r"[ \t]{0,4}\\?[\"'][^\s\"'\\]{1,100}\\?[\"']"
        r"[ \t]{0,4},[ \t]{0,4}\\?[\"'](?P<secret>[^\s\"'\\]{8,200})\\?[\"'][ \t]{0,4},?[ \t]{0,4}[\])]",
        _quoted,
        near=r"[\[(][ \t]{0,4}\\?[\"'][^\s\"'\\]{1,100}\\?[\"'][ \t]{0,4},",
    ),
    Rule(  # in a Dockerfile, a notebook, csh, fish and Windows
        "set-variable",
        ("key", "token", "secret", "pass", "pwd", "_pat "),
        r"(?<![\w.-])(?:ENV|env|setenv|setx|set[ \t]{1,4}-[gUx]{1,3})[ \t]{1,4}(?P<name>[A-Z][A-Z0-9_]{1,60})[ \t]{1,4}"
        r"(?P<before>[\"']?)(?P<secret>[^\s\"'`;|&<>()\\,]{8,400})",
        _names_secret,
        near=r"(?:ENV|env|setenv|setx|-[gUx]{1,3})[ \t]{1,4}[A-Z]",
    ),
    Rule(  # a list of variables, as Kubernetes and ECS have it
        "named-value",
        ("value:", 'value":', "value':", 'value\\":'),
        r"name\\?[\"']?:[ \t]{0,4}\\?[\"']?(?P<name>[A-Za-z][A-Za-z0-9_.-]{1,60})\\?[\"']?,?(?:\s|\\n){1,40}"
        r"\\?[\"']?value\\?[\"']?:[ \t]{0,4}\\?[\"']?(?P<secret>[^\s\"'\\,{}]{8,400})",
        _names_quoted,
        near=r"value\\?[\"']?:[ \t]{0,4}\\?[\"']?(?=[^\s\"'\\,{}]{0,399}\d)[^\s\"'\\,{}]{8}",
        lines=1,
    ),
    Rule(  # the whole address is percent-encoded
        "url-encoded-whole",
        ("%40", "2540"),
        r"%(?:25){0,3}3[Aa](?:%(?:25){0,3}2[Ff]){2}([^\s/@'\"<>?#%&]{0,100}%(?:25){0,3}3[Aa]"
        r"(?:(?!%(?:25){0,3}2[Ff]%)[^\s/@'\"<>?#&]){1,200}?)%(?:25){0,3}40",
        _encoded_login,
        run=True,
        near="2[Ff]%(?:25){0,3}2[Ff]",
    ),
    Rule(  # any name of a secret, with what is surely generated
        "assigned-text",
        ("key", "token", "secret", "pass", "pwd"),
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z][A-Za-z0-9_-]{0,60})[\"'\]]{0,2}[ \t]{0,4}(?:=>|[:?]{0,3}=|:|,)[ \t]{0,4}"
        r"[\"'](?P<secret>[A-Za-z0-9+/_=.-]{16,200})[\"']",
        _generated,
        near=r"[=:>,][ \t]{0,4}[\"'][A-Za-z0-9+/_=.-]{16}",
    ),
    Rule(  # in a shell, a file of variables, a Dockerfile
        "assigned-variable",
        ("key", "token", "secret", "pass", "pwd"),
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Z][A-Z0-9_]{0,60})=(?P<before>[\"']?)(?P<secret>[^\s\"'`;|&<>()\\,]{8,400})",
        _names_secret,
        near=NUMBER,
    ),
    Rule(  # in YAML
        "assigned-entry",
        ("key", "token", "secret", "pass", "pwd"),
        r"(?<![^\n])[ \t]{0,40}(?:-[ \t]{1,4})?[\"']?(?P<name>[A-Za-z][A-Za-z0-9_.-]{0,60})[\"']?:[ \t]{1,9}"
        r"(?P<secret>[^\s\"'`()\[\]{}<>,;]{8,400})(?![^ \t\r\n])(?![ \t]{1,9}[^#\s])",
        _names_secret,
        near=NUMBER,
    ),
    # Names that have none of the five marks, in any place: each other mark is one more passage through a text, so they
    # have a rule of their own.
    Rule(
        "short-name",
        ("_psw", "_pword", "_pat=", "_pat:"),
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Z][A-Z0-9_]{0,60}_PAT|[A-Za-z][A-Za-z0-9_]{0,60}_(?i:pswd?|pword))"
        r"(?P<before>\\?[\"'\]]{0,2}[ \t]{0,4}(?::?[=:,-]|[ \t])[ \t]{0,4}\\?[\"']?)"
        r"(?P<secret>[^\s\"'`;|&<>(){}\\,]{8,400})",
        _names_secret,
        near=NUMBER,
    ),
    Rule(  # in INI, and in TOML without its quotes
        "assigned-setting",
        ("key", "token", "secret", "pass", "pwd"),
        r"(?<![^\n])[ \t]{0,40}(?:export[ \t]{1,4}|set[ \t]{1,4})?(?P<name>[A-Za-z][A-Za-z0-9_.-]{0"
        r",60})[ \t]{0,9}=[ \t]{0,9}"
        r"(?P<secret>[^\s\"'`()\[\]{}<>,;]{8,400})(?![^ \t\r\n])(?![ \t]{1,9}[^#\s])",
        _names_generated,
        near=NUMBER,
    ),
)


NOTHING = re.compile(
    r"(?i)\s*|yes|no|true|false|on|off|[01]|none|null|\(null\)|undefined"
    rf"|\${VARIABLE}"
    r"|\$?\{{1,2} ?[a-z_][\w.]{0,60} ?\}{1,2}|%\([a-z_]\w{0,60}\)s|</?[a-z_|/ -]{1,"
    r"40}>|<\|\w{1,40}\|>|\[[a-z_]{1,20}\]"
)
# Names that stand before `:` and ` = ` for much else: there the value must look like a secret, too.
LOOSE = re.compile(r"(?i)keys?|pass|sig|signature|tokens|cookies?|sas|dsn")
OPTION = re.compile(r"(?<![^\s\"'=])(--?[A-Za-z][A-Za-z0-9_-]{1,60})(?: {1,9}|=)(?=\S)")
# What a shell takes for one word; a quote that is never closed reaches to the end.
WORD = re.compile(r"(?:\"(?:[^\"\\]|\\.)*(?:\"|\\?\Z)|'[^']*(?:'|\Z)|[^\s\"'])+", re.DOTALL)
LOGIN = re.compile(rf"(?<![^\s\"'])(-[uU]|--user|--proxy-user)( {{1,9}}|=|)({WORD.pattern})", re.DOTALL)
# The password of `sshpass`, and Hydra's `+secrets.hf=value`.
SSHPASS = re.compile(rf"(?<![A-Za-z0-9_.-])(sshpass[ \t]+(?:-v[ \t]+)?-p[ \t]*)({WORD.pattern})", re.DOTALL)
GROUPED = re.compile(
    r"(?i)(?<![A-Za-z0-9_.-])((?:[a-z0-9_-]{1,60}\.){0,9}(?:secrets?|credentials?|creds|passwords?)"
    rf"(?:\.[a-z0-9_-]{{1,60}}){{1,9}}=)(?!=)({WORD.pattern})",
    re.DOTALL,
)
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s'\"<>]+")
# The value of the header, to the end of the line or of the quotes around it; the scheme stays.
AUTHORIZATION = re.compile(
    r"(?i)(([\"']?)authorization[\\\"']{0,4}\s{0,9}[:=]\s{0,9}(?:[bfru]{0,2}\\?([\"']))?"
    r"(?:[a-z][a-z0-9-]{0,30}[ \t]{1,9})?)(?=\S)"
)
BEARER = re.compile(r"(?i)((?:authorization:\s*)?(?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{8,})")
# A long line is searched in pieces; no pattern matches more than the second.
_PIECE, _OVERLAP = 1 << 18, 1 << 15
# Lines are searched in blocks of about so many bytes: what is known of their places is kept for one block only.
_BLOCK = 1 << 16
# More values than this are looked for all at once.
_MANY = 100
# A token is one long word. At the edge of a piece it may be cut: what is left of it must have its mark.
_LONG, _EDGE = 20, 1 << 10
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~+/=:%-"
_ONLY_LETTERS = bytes(code if code in _LETTERS else 32 for code in range(256))
# Names, paths and addresses that are spoken. Each turn begins in its own way, so there is one way to match.
_SPOKEN = re.compile(
    rb"[a-z]{0,99}(?:[A-Z][a-z]{2,99}|[_./=:~+%-][a-z]{0,99}(?:\d{1,2}(?![A-Za-z0-9]))?){0,99}"
)
# What is public, and has any shape in its last line.
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]{1,20000}-----END CERTIFICATE-----")
# Most rules that have no token of their own need one of these words in the line, and are looked for in such lines.
_WORDS = (b"key", b"token", b"secret", b"pass", b"pwd", b"auth", b"@")
# A command that is given a password has an option before it.
_OPTION = b" -"
_DIGIT = re.compile(rb"\d")
_MARKS = tuple(tuple(mark.encode() for mark in rule.marks) for rule in VALUES)
_UNMARKED = tuple(number for number, rule in enumerate(VALUES) if not rule.marks)
_BY_MARK = tuple((mark, number) for number, marks in enumerate(_MARKS) for mark in marks)
_IN_RUNS = tuple((mark, number) for mark, number in _BY_MARK if VALUES[number].run)
_IN_LINES = tuple((mark, number) for mark, number in _BY_MARK if not VALUES[number].run)
_WORDED = tuple(one for one in _IN_LINES if VALUES[one[1]].option or any(word in one[0] for word in _WORDS))
_IN_NUMBERED = tuple(one for one in _WORDED if VALUES[one[1]].near == NUMBER)
_IN_WORDED = tuple(one for one in _WORDED if one not in _IN_NUMBERED)
# Tokens that stand whole in one long word: none is longer than what two pieces share, nor has another character.
_WHOLE = {
    number: rule.pattern[len(START) :].encode()
    for number, rule in enumerate(VALUES)
    if rule.pattern.startswith(f"{START}(") and "@" not in rule.pattern
    and sum(map(int, re.findall(r"\{(?:\d+,)?(\d+)\}", rule.pattern))) < _EDGE
}  # fmt: skip
_ANYWHERE = tuple(one for one in _IN_LINES if one not in _WORDED)


class _Block(NamedTuple):
    """Some whole lines of a text, as they are and in small letters; where the first begins, and its number."""

    text: bytes
    lowered: bytes
    start: int
    line: int


def secret_value(value: str) -> str | None:
    """Return the rule by which this text holds a secret, whatever its name, or None."""
    lowered = value.lower()
    for rule in VALUES:
        if marked(rule, lowered) and secrets_of(rule, value):
            return rule.name
    return None


def find(
    text: bytes, most: int | None = None, look: Callable[[], object] = lambda: None
) -> list[tuple[int, str]]:
    """Return (line from 1, rule) of each line with a secret in a source, a patch or an output, in order of lines.

    Args:
        text: what is searched.
        most: the first so many are enough.
        look: called again and again; what it raises ends the search.
    """
    text = _without_nuls(text)
    if b"BEGIN CERT" in text:
        text = _CERTIFICATE.sub(lambda match: b"\n" * match[0].count(b"\n"), text)
    in_runs, values = _of_long_words(text, look)
    found: dict[int, str] = {}
    for block in _blocks(text):
        lines = {mark: _marked_lines(block.lowered, mark, look) for mark in (*_WORDS, _OPTION)}
        for number in sorted(in_runs | _marked_rules(block.lowered, lines)):
            places = _lines_to_search(number, block, lines, values, look)
            if places:
                _add_lines(VALUES[number], text, block, places, found, most, look)
        if most is not None and len(found) >= most:
            break
    return sorted(found.items())[:most]


def _blocks(text: bytes) -> Iterator[_Block]:
    """Cut a text into blocks of whole lines."""
    start, line = 0, 1
    while start < len(text):
        end = text.find(b"\n", start + _BLOCK) + 1 or len(text)
        part = text[start:end]
        yield _Block(part, part.lower(), start, line)
        start, line = end, line + part.count(b"\n")


def _lines_to_search(
    number: int, block: _Block, lines: dict[bytes, list[tuple[int, int]]], values: dict[int, set[bytes]],
    look: Callable[[], object],
) -> list[tuple[int, int]]:  # fmt: skip
    """Return start and end in a block of each line in which a rule is looked for, in order."""
    marks = _MARKS[number]
    if not marks:
        return _lines_with(values[number], block.text, look)
    for mark in marks:
        if mark not in lines:
            lines[mark] = _lines_of(mark, block.lowered, lines, look, option=VALUES[number].option)
    if len(marks) == 1:
        return lines[marks[0]]
    return sorted(set().union(*(lines[mark] for mark in marks)))


def _without_nuls(text: bytes) -> bytes:
    """Return a text of UTF-16, as Windows and its editors write it, in UTF-8; its lines stay."""
    head = text[: _EDGE & ~1]
    marked = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(head[:2])
    if marked is None and len(head) >= _LONG:
        halves = {"utf-16-be": head[::2], "utf-16-le": head[1::2]}
        marked = next((name for name, half in halves.items() if half.count(0) > 0.9 * len(half)), None)
        if marked and min(half.count(0) for half in halves.values()) > 0:  # compiled code has zeros anywhere
            return text
    return text.decode(marked, "replace").encode("utf-8", "replace") if marked else text


def _marked_rules(lowered: bytes, lines: dict[bytes, list[tuple[int, int]]]) -> set[int]:
    """Return the numbers of the rules that have a mark in some lines: each is looked for where it can be."""
    places = set().union(*lines.values())
    worded = b"\n".join(lowered[start:end] for start, end in places)
    numbered = b"\n".join(lowered[start:end] for start, end in places if _DIGIT.search(lowered, start, end))
    texts = (
        (_IN_WORDED, worded),
        (_IN_NUMBERED, numbered),
        (_ANYWHERE, lowered),
    )
    return {number for marks, text in texts if text for mark, number in marks if mark in text}


def _of_long_words(text: bytes, look: Callable[[], object]) -> tuple[set[int], dict[int, set[bytes]]]:
    """Return the rules that have a mark in a long word, and by rule the secrets of those that have no mark."""
    numbers: set[int] = set()
    values: dict[int, set[bytes]] = {number: set() for number in _UNMARKED}
    for runs in _long_runs(text, look):
        lowered = runs.lower()
        for mark, number in _IN_RUNS:
            if number not in numbers and _in_run(mark, number, runs, lowered):
                numbers.add(number)
        for number in _UNMARKED:
            values[number] |= _without_marks(VALUES[number], runs)
    return numbers | {number for number, found in values.items() if found}, values


def _in_run(mark: bytes, number: int, runs: bytes, lowered: bytes) -> bool:
    """Tell whether a long word has the mark of a rule, and may be its token where that can be seen of the word."""
    at = lowered.find(mark)
    if at < 0 or number not in _WHOLE:
        return at >= 0
    token = re.compile(_WHOLE[number])
    while at >= 0:
        start, end = lowered.rfind(b"\n", 0, at) + 1, lowered.find(b"\n", at)
        end = len(runs) if end < 0 else end
        if token.search(runs, start, end):
            return True
        at = lowered.find(mark, end)
    return False


def _add_lines(
    rule: Rule, text: bytes, block: _Block, places: list[tuple[int, int]], found: dict[int, str], most: int | None,
    look: Callable[[], object],
) -> None:  # fmt: skip
    """Add the lines of a block that hold a secret of a rule, of which no rule before it knows."""
    pattern, near = re.compile(rule.pattern.encode()), re.compile(rule.near.encode())
    number, counted, times = block.line, block.start, 0
    for start, end in ((block.start + start, block.start + end) for start, end in places):
        if times == most:
            break
        if not near.search(text, start, end):
            continue
        at = _lines_before(text, start, rule.lines) if rule.lines else start
        if _holds(rule, pattern, text, at, start, end, look):
            number += text.count(b"\n", counted, start)
            counted = start
            found.setdefault(number, rule.name)
            times += 1


def _long_runs(text: bytes, look: Callable[[], object]) -> Iterator[bytes]:
    """Yield by piece the long words that are not spoken, in which most marks are looked for: few of a text."""
    for at in range(0, len(text), _PIECE):
        look()
        piece = text[max(at - _EDGE, 0) : at + _PIECE + _EDGE].translate(_ONLY_LETTERS)
        words = {word for word in piece.split() if len(word) >= _LONG}
        yield b"\n".join([word for word in words if not _SPOKEN.fullmatch(word)])


def _without_marks(rule: Rule, runs: bytes) -> set[bytes]:
    """Return the secrets of a kind that has no mark."""
    pattern = re.compile(rule.pattern.encode())
    return {match[1] for match in pattern.finditer(runs) if judged(rule, match)}


def _holds(
    rule: Rule, pattern: re.Pattern[bytes], text: bytes, before: int, start: int, end: int,
    look: Callable[[], object],
) -> bool:  # fmt: skip
    """Tell whether a line holds a secret of a rule, which may begin in a line before it."""
    for at in (before, *range(start + _PIECE, end, _PIECE)):
        look()
        stop = min(end, max(at, start) + _PIECE + _OVERLAP)
        for match in pattern.finditer(text, at, stop):
            whole = stop == end or match.end() < stop  # else it may go on, and the next piece has it
            span = judged(rule, match) if whole else None
            if span and span[1] > start:
                return True
    return False


def _lines_before(text: bytes, start: int, count: int) -> int:
    """Return where the line `count` lines before `start` begins; lines that are long are not gone back over."""
    for _ in range(count):
        begin = text.rfind(b"\n", max(start - _EDGE, 0), max(start - 1, 0)) + 1
        if not begin and start > _EDGE:
            break
        start = begin
    return start


def _marked_lines(text: bytes, mark: bytes, look: Callable[[], object]) -> list[tuple[int, int]]:
    """Return start and end of each line with a mark: plain search is a hundred times as fast as the patterns."""
    lines = []
    at = text.find(mark)
    while at >= 0:
        look()
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        lines.append((text.rfind(b"\n", 0, at) + 1, end))
        at = text.find(mark, end)
    return lines


def _lines_of(
    mark: bytes,
    text: bytes,
    lines: dict[bytes, list[tuple[int, int]]],
    look: Callable[[], object],
    *,
    option: bool,
) -> list[tuple[int, int]]:
    """Return the lines with a mark, of those that are known to hold a part of it where there are such."""
    word = _OPTION if option else next((word for word in _WORDS if word in mark), None)
    if word is None:
        return _marked_lines(text, mark, look)
    look()
    return [place for place in lines[word] if text.find(mark, *place) >= 0]


def _lines_with(values: set[bytes], text: bytes, look: Callable[[], object]) -> list[tuple[int, int]]:
    """Return start and end of each line with one of some words; one search for each is slow where they are many."""
    if len(values) <= _MANY:
        return sorted(set().union(*(_marked_lines(text, value, look) for value in values)))
    lengths = {len(value) for value in values}
    lines, start = [], 0
    while start < len(text):
        look()
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        if any(text[at : at + size] in values for size in lengths for at in range(start, end - size + 1)):
            lines.append((start, end))
        start = end + 1
    return lines


def without_login(match: re.Match[str]) -> str:
    """Cut `user:password` after curl's `-u`; other tools have numbers and addresses there."""
    option, space, word = match[1], match[2], match[3].strip("\"'")
    glued = not space and not (option == "-u" and "curl" in match.string[: match.start()][-200:])
    if glued or ":" not in word or "://" in word or re.fullmatch(r"\d+:\d+", word):
        return match[0]
    return f"{option} {GONE}"


# `NAME=value`, `name = value`, `"name": "value"` in a command line, a file or a comment; `==` is a pinned version.
ASSIGNED = re.compile(
    r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_-]{0,100})([\\\"']{0,4}[ \t]{0,40})(:?=(?!=)|:(?!:|//))(\s{0,40})"
    r"[\\\"']{0,4}(?=\S)"
)
# A host far into an address: no scope (`/@scope`), no commit or branch (`r.git@main`), no version.
_LATER_HOST = re.compile(
    r"(?<!/)(?<!\.git)@(?:[A-Za-z][A-Za-z0-9.-]{0,252}|\d{1,3}(?:\.\d{1,3}){3}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?(?:(/)|\Z)"
)
# A login whose `@` is percent-encoded; no host has one.
# A login with a blank or a quote in its password, at which an address ends in a text, or behind the one slash that a
# path leaves; digits before a sign are a port.
_LOOSE_LOGIN = re.compile(
    r"(:/{1,9})[^\s/:@]{0,200}:(?!\d{1,5}(?:[/?#\s\"'`,;)\]]|\Z))(?=[^\s/])[^@\n/]{1,300}@(?=[A-Za-z0-9\[])"
)
# A login before a host without a scheme, as scp and variables of proxies have it; no `image:tag@sha256:...`.
_PLAIN_LOGIN = re.compile(
    r"(?<![\w.:@-])[A-Za-z0-9][\w.+-]{0,100}:(?!/)[^\s@\"'`]{1,300}@(?!sha\d)(?=[A-Za-z0-9\[])"
)
_ENCODED_AT = re.compile("%(?:25){0,9}40")
# After an address of IPv6: what is neither a port nor a template.
_NO_PORT = re.compile(r"^(\[[^\]]{0,100}\]):(?!\d{0,5}\Z|[${]).*", re.DOTALL)
_OF_PATH = re.compile(r";([^;/]{1,9999})")
# Parameters of links that are signed for a time, by stores of files and their front ends.
SIGNED = re.compile(r"(?i)x_(amz|goog|ms|oss|cos)_.*|hdn(ea|ts|tl)|hmac|auth|expires")


def strip_credentials(url: str) -> tuple[str, bool]:
    """Return the address without user, password and secret parameters, and whether there were any.

    The `git@` of an ssh address stays: it names an account that everybody shares, and nothing works without it.
    """
    scheme, mark, rest = url.partition("://")
    if not mark:
        return _cut_values(url)
    authority, slash, tail = _authority(rest, scheme)
    user, at, named = authority.rpartition("@")
    host = _NO_PORT.sub(r"\1", _ENCODED_AT.split(named)[-1])
    keep = "git@" if user == "git" and scheme.endswith("ssh") else ""
    bare = f"{scheme}://{keep}{host}{slash}{tail}"
    try:
        parts = urlsplit(bare)
        plain = parts._replace(
            path=_without_parameters(parts.path),
            query=_without_secrets(parts.query),
            fragment=_without_secrets(parts.fragment),
        )
        cut = urlunsplit(plain)
    except ValueError:  # "Invalid IPv6 URL" and its like: nothing in it can be told apart
        return f"{scheme}://{GONE}", True
    # urlunsplit writes file:///x and an empty query its own way; only a real cut may change the text.
    same = parts == plain
    clean, more = _cut_values(bare if same else cut)
    tokenless = clean if scheme.rpartition("+")[2] == "file" else CONDA_TOKEN.sub("", clean)
    return tokenless, bool(at and not keep) or host != named or not same or more or tokenless != clean


def without_logins(text: str) -> str:
    """Return a message with each address in it as `strip_credentials` leaves it; the rest of the text stays.

    `redact` cuts more, and would cut the words of a message that names a secret.
    """
    if not any(mark in text for mark in ("@", "://", "%40")):
        return text
    text = ADDRESS.sub(lambda match: strip_credentials(match[0])[0], text)
    return _cut_values(_PLAIN_LOGIN.sub(f"{GONE}@", _LOOSE_LOGIN.sub(rf"\1{GONE}@", text)))[0]


def redact(text: str) -> str:
    """Return `text` for the eyes: addresses without credentials, secrets and values of secret names as `***`."""
    text = ADDRESS.sub(lambda match: strip_credentials(match[0])[0], text)
    text = BEARER.sub(lambda match: match[1] + GONE, text)
    text = LOGIN.sub(without_login, _without_header(text))
    text = GROUPED.sub(lambda match: match[1] + GONE, SSHPASS.sub(lambda match: match[1] + GONE, text))
    text = _without_options(text)
    for match in ASSIGNED.finditer(text):
        if assigns_secret(match):
            return _cut_values(text[: match.end()])[0] + GONE
    return _cut_values(text)[0]


def _without_header(text: str) -> str:
    """Cut the logins out of headers that are called Authorization."""
    kept, at = [], 0
    for match in AUTHORIZATION.finditer(text):
        if match.start() >= at:
            ends = [
                i for i in (text.find(c, match.end()) for c in ("\n", match[3] or match[2]) if c) if i >= 0
            ]
            kept += [text[at : match.end()], GONE]
            at = min(ends, default=len(text))
    return "".join([*kept, text[at:]])


def _without_options(text: str) -> str:
    """Cut the words after options that are called like a secret."""
    kept, at = [], 0
    for match in OPTION.finditer(text):
        name, value = match[1].lstrip("-").replace("-", "_"), text[match.end() : match.end() + 200].split()[0]
        if match.start() >= at and secret_name(name, value):
            kept.append(f"{text[at : match.end(1)]} {GONE}")
            word = WORD.match(text, match.end())
            at = word.end() if word else match.end()
    return "".join([*kept, text[at:]])


def assigns_secret(match: re.Match[str]) -> bool:
    """Tell whether what follows is the value of a secret."""
    name = match[1].replace("-", "_")
    if not rule_of_name(name):
        return False
    whole = match.string[match.end() : match.end() + 200].split()[0]
    value = re.split("[\"',;]", whole)[0]
    found = secret_name(name, value)
    if match.string[max(match.start() - 2, 0) : match.start()] == "*.":  # `*.key=01;31`: an ending of files
        return False
    if not found or (not match[2] and (match[3] == "=" or match[4])):
        return bool(found)
    before = match.string[max(match.start() - 1, 0) : match.start()]
    if before == "/" or NOTHING.fullmatch(whole.strip("\\\"',;)}]")):  # `registry/token:latest`
        return False
    return not LOOSE.fullmatch(name) or (len(value) >= 16 and looks_generated(value))


def _authority(rest: str, scheme: str) -> tuple[str, str, str]:
    """Split what follows `://`; a password with a slash or an `@` in it must not end the authority early."""
    end = _ends(rest, 0)
    for _ in range(9):
        at = _goes_on(rest, end, scheme)
        if at < 0:
            break
        end = _ends(rest, at)
    return rest[:end], rest[end : end + 1], rest[end + 1 :]


def _ends(rest: str, start: int) -> int:
    return min((i for i in (rest.find(c, start) for c in "/?#") if i >= 0), default=len(rest))


def _goes_on(rest: str, end: int, scheme: str) -> int:
    """Return where the `@` stands before the real host, if what ends at `end` is a password's first part, or -1."""
    login, _, host = rest[:end].rpartition("@")
    name, _, port = host.partition(":")
    if "[" in rest[:end] or port.isdigit():
        return -1
    if port:
        return rest.find("@", end)
    if ":" not in login or "." in name or name == "localhost":
        return -1
    later = _LATER_HOST.search(rest, end)
    return later.start() if later and (later[1] or "+" not in scheme) else -1


def secret_query(query: str) -> bool:
    """Tell whether a parameter of an address may be a login, or a part of a signature."""
    return _without_secrets(query) != query or _cut_values(query)[1]


def _without_secrets(query: str) -> str:
    """Drop the parameters whose names are those of secrets; `;` parts them as `&` does."""
    kept = [pair for pair in re.findall("(^|[&;])([^&;]*)", query) if not _is_secret_parameter(pair[1])]
    return "".join(mark + part for mark, part in kept)[len(kept[0][0]) if kept else 0 :]


def _without_parameters(path: str) -> str:
    """Drop the parameters of a path (`/a.whl;jsessionid=...`) whose names are those of secrets."""
    return _OF_PATH.sub(lambda match: "" if _is_secret_parameter(match[1]) else match[0], path)


def _is_secret_parameter(part: str) -> bool:
    name, has_value, value = part.partition("=")
    word = unquote(name).strip().replace("-", "_")
    return bool(has_value and (secret_name(word, value) or SIGNED.fullmatch(word)))


def _cut_values(text: str) -> tuple[str, bool]:
    """Replace each secret that is known by its looks: the same that a search finds."""
    cut = text
    for rule in VALUES:
        if marked(rule, cut.lower()):
            for start, end in reversed(secrets_of(rule, cut)):
                cut = f"{cut[:start]}{GONE}{cut[end:]}"
    return cut, cut != text


_WEAK_NAME = re.compile(r"(?i)(^|_)(KEYS?|AUTH|CRED|PRIV|LOGIN|ACCESS|API|LICENSE)(_|$)")
_INSIDE = re.compile(
    r"(?<![A-Za-z0-9_.-])-{0,2}([A-Za-z_][A-Za-z0-9_-]{0,60})[\"']?\s{0,4}[=:]\s{0,4}[\"']?([^\s"
    r"\"',;]{1,200})"
)
# A parameter of an address that is long enough for a signature.
_PARAMETER = re.compile(r"[?&;]([A-Za-z][A-Za-z0-9_%-]{0,40})=([A-Za-z0-9%+/=_.~-]{16,400})")
_WORD_END = re.compile(r"[\s\"',;|&<>)\]}]")
_SCHEMES = re.compile(r"(?i)(basic|bearer|token|digest|negotiate|ntlm|api-?key|aws4-hmac-sha256)[ \t]")
# What stands for a value: `$TOKEN`, `{token}`, `%(token)s`, `<token>`.
_TEMPLATE = re.compile(
    rf"[\\\"']{{0,3}}(\$(?:{VARIABLE}|\d(?!\w)|[^A-Za-z0-9_$]|\Z)|[{{<]|%[({{]|%[A-Z][A-Z0-9_]{{1,40}}%|\*\*\*)"
)
# A group of the system after a user, a module after a file, a port after a host, a place in a container.
_NO_PASSWORD = re.compile(r"[a-z_][a-z_-]*|\d{1,5}|[./].*", re.DOTALL)
_GROUP = re.compile(r"[a-z_][a-z0-9_-]*\$?|\d+")
_RUNS_AS = re.compile(r"(?i)docker|podman|nerdctl|chown|chroot|kubectl|container")
# A proxy without a scheme, which programs take, too.
_PROXY = re.compile(r"(?i)[a-z0-9_]{0,40}proxy")
_PROXY_LOGIN = re.compile(r"[^\s/:@]{1,100}:(?![${])[^\s@]{1,300}@[A-Za-z0-9\[]")
# A text in base64, of which the line breaks are taken out.
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{24,999999}={0,2}")
# How far from an option the name of its program may stand.
_NEAR = 200


def secret_variable(name: str, value: str) -> str | None:
    """Return the rule by which this environment variable is a secret, or None.

    A variable with a secret's name and nothing in it (empty, a switch) is none. A name that only hints
    (`SOME_AUTH`) needs a value that looks generated.
    """
    if NOTHING.fullmatch(value):
        return None
    if _PROXY.fullmatch(name) and _PROXY_LOGIN.match(value):
        return "login"
    found = (
        secret_name(name, value)
        or secret_value(value)
        or _secret_inside(value)
        or _assigned_inside(value)
        or _login_inside(name, value)
        or _encoded_inside(value)
    )
    if found is None and _WEAK_NAME.search(name) and re.fullmatch(r"[A-Za-z0-9+/_=-]{20,512}", value):
        return "generated" if not value.startswith("/") and looks_generated(value) else None
    return found


def holds_secret(name: str, value: str) -> bool:
    """Tell whether a variable must stay out of an image and a lock: it is a secret, or `redact` would change it."""
    return secret_variable(name, value) is not None or redact(value) != value


def _encoded_inside(value: str) -> str | None:
    """Return the rule by which a value that is base64 as a whole says a secret: of a service account, a kubeconfig."""
    value = re.sub(r"\r?\n", "", value)
    text = decoded(value) if _ENCODED.fullmatch(value) else None
    if text is None:
        return None
    return secret_value(text) or _secret_inside(text) or _assigned_inside(text)


def _secret_inside(value: str) -> str | None:
    """Return the rule by which a value assigns a secret of its own: JSON, `key=value` lists, options."""
    for match in _INSIDE.finditer(value):
        rule = secret_name(match[1].replace("-", "_"), match[2])
        if (
            value[match.end(1) : match.end(1) + 1] == ":"
            and value[max(match.start() - 1, 0) : match.start()] == "/"
        ):
            continue  # `registry/token:latest`
        if rule and not NOTHING.fullmatch(match[2]):
            return rule
    return None


def _assigned_inside(value: str) -> str | None:
    """Return the rule of what `redact` takes for the value of a secret, wherever in a value the name of it stands.

    Each name is judged, also one within the value of another (`mode:x?secret=...`). A template is no secret.
    """
    for match in ASSIGNED.finditer(value):
        if not rule_of_name(match[1].replace("-", "_")):
            continue
        word = _WORD_END.split(value[match.end() : match.end() + _NEAR], maxsplit=1)[0]
        if word and assigns_secret(match) and not (NOTHING.fullmatch(word) or _TEMPLATE.match(word)):
            return secret_name(match[1].replace("-", "_"), word) or "assigned"
    for match in _PARAMETER.finditer(value):
        if SIGNED.fullmatch(unquote(match[1]).replace("-", "_")) and looks_generated(match[2]):
            return "signature"
    return None


def _login_inside(name: str, value: str) -> str | None:
    """Return the rule by which a value holds what `redact` cuts: a header, a login of curl, an option, a token.

    A template (`Bearer $TOKEN`) and what other programs have after `-u` (`docker -u ada:users`) are none.
    """
    for header in AUTHORIZATION.finditer(value):
        word = value[header.end() : header.end() + _NEAR].split()[0].strip("\"',;}")
        known = _SCHEMES.search(header[0]) or len(word) >= 16 or re.search(r"[^A-Za-z-]", word)
        if known and not (_TEMPLATE.match(word) or NOTHING.fullmatch(word)):
            return "header"
    if any(_is_bearer(match[1], match[2]) for match in BEARER.finditer(value)):
        return "header"
    if any(_is_login(match, name) for match in LOGIN.finditer(value)):
        return "login"
    if any(not _TEMPLATE.match(match[2]) for match in SSHPASS.finditer(value)):
        return "password"
    if any(not _TEMPLATE.match(m[2]) and not NOTHING.fullmatch(m[2]) for m in GROUPED.finditer(value)):
        return "secret"
    for match in ADDRESS.finditer(value):
        token = CONDA_TOKEN.search(match[0]) if match[0].lower().startswith("http") else None
        if token and looks_generated(token[0][3:]):
            return "conda-token"
    return _option_inside(value)


def _is_bearer(scheme: str, token: str) -> bool:
    """Whether this is a header's value without its name, and no text about something basic."""
    if scheme.lower().startswith("bearer"):
        return len(token) >= 16 and looks_generated(token)
    return is_login(token)


def _is_login(match: re.Match[str], name: str) -> bool:
    """Whether `user:password` after an option is a login, in a variable of this name."""
    user, _, password = match[3].strip("\"'").partition(":")
    if without_login(match) == match[0] or not user or not password or _TEMPLATE.match(password):
        return False
    before = f"{name} {match.string[max(match.start() - _NEAR, 0) : match.start()]}"
    if re.search("(?i)curl|proxy", before + match[1]):
        return not NOTHING.fullmatch(password)
    if _RUNS_AS.search(before):
        return not _GROUP.fullmatch(password)
    return not _NO_PASSWORD.fullmatch(password) and "/" not in user


def _option_inside(value: str) -> str | None:
    """Return the rule by which a word after an option (`--token abc`) is a secret."""
    for match in OPTION.finditer(value):
        word = value[match.end() : match.end() + _NEAR].split()[0].strip("\"',;")
        rule = secret_name(match[1].lstrip("-").replace("-", "_"), word)
        nothing = NOTHING.fullmatch(word) or _TEMPLATE.match(word) or re.match(r"-|[~.]{0,2}/", word)
        loose = LOOSE.fullmatch(match[1].lstrip("-")) and not (len(word) >= 16 and looks_generated(word))
        if rule and not nothing and not loose:
            return rule
    return None


# The path below the top of a source, any case. Keys have many names that certificates have, too: those are looked into.
_FILES = re.compile(
    r"(?i)(?:.*/)?(?:"
    r"\.env(?:rc|\.(?!(?:[a-z0-9_-]{1,40}\.){0,3}(?:example|sample|template|dist|defaults?|sch"
    r"ema|md|txt|in|j2|tpl)$)[^/]{1,100})?"
    r"|[._]netrc|\.git-credentials|\.pgpass|\.my\.cnf|\.s3cfg|\.boto|\.htpasswd|kaggle\.json|\.vault-token"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?|[^/]{1,100}\.(?:p12|pfx|keytab|jks|keystore|kdbx|ppk|kubeconfig)"
    r"|\.aws/credentials|\.kube/config|kubeconfig|\.oci/config|\.azure/(?:accesstokens\.json|msa"
    r"l_token_cache\.[a-z]{1,9})"
    r"|gcloud/(?:credentials\.db|access_tokens\.db|application_default_credentials\.json|legac"
    r"y_credentials/.{1,200})"
    r"|application_default_credentials\.json|client_secret[^/]{0,200}\.json|\.databrickscfg|\.t"
    r"erraform\.d/credentials\.tfrc\.json"
    r"|\.huggingface/token|\.cache/huggingface/(?:token|stored_tokens)"
    r")"
)
# These hold a login, or none: which of the two is seen in them.
_DOUBTFUL = re.compile(
    r"(?i)(?:.*/)?(?:\.pypirc|\.npmrc|\.yarnrc(?:\.yml)?|\.condarc|pip\.conf|\.docker/config\.json|"
    r"\.dockercfg"
    r"|[^/]{1,100}\.(?:pem|key|crt|cer)|credentials(?:\.json|\.toml)?|secrets?\.(?:ya?ml|json|toml|env))"
)
_LOGIN = re.compile(
    rb"(?i)PRIVATE KEY-----|(?:_?password|_auth(?:token)?|\"auth\"|token|secret[a-z_]{0,20})[\""
    rb"']?[ \t]{0,9}[=:][ \t]{0,9}[\"']?[^\s\"'${<]{4}"
    rb"|://[^\s/:@]{0,100}:[^\s/@]{1,200}@|/t/[a-z]{2}-[0-9a-f-]{30}"
)


def secret_name_of_file(path: str) -> bool:
    """Tell whether the name alone says that a file may be a secret."""
    return bool(_FILES.fullmatch(path) or _DOUBTFUL.fullmatch(path))


def secret_file(path: str, content: bytes) -> bool:
    """Tell whether a file of a source is a secret by its name, and holds something.

    Args:
        path: below the top of the source.
        content: of the file; public certificates and settings without a login are none.
    """
    if _FILES.fullmatch(path):
        return bool(content.strip())
    return bool(_DOUBTFUL.fullmatch(path) and _LOGIN.search(content))


# --- End of the secrets ---


# --- The program -----------------------------------------------------------------------------


def default_folder(environ: Mapping[str, str]) -> str:
    """Return the folder where none is named: the same for all ranks of a job."""
    for name in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"):
        if re.fullmatch(r"[\w.\[\]-]+", environ.get(name, "")):
            return f"snapshot-{environ[name]}"
    return "snapshot"


def main(words: Optional[List[str]] = None) -> int:
    """Run the command line, and return the code to exit with."""
    import argparse  # the library call needs none

    parser = argparse.ArgumentParser(prog=PROGRAM, description="Take a snapshot of this environment.")
    parser.add_argument(
        "-o", "--out", metavar="DIR", help="the folder to write (default: snapshot, or snapshot-JOB)"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="budget of the whole (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument(
        "--accept", metavar="FILE", action="append", default=[],
        help="capture this file of a repository (REPOSITORY/PATH) though it looks like a secret; again for more",
    )  # fmt: skip
    parser.add_argument(
        "--include", metavar="FILE", action="append", default=[],
        help="capture this file, which is in no repository or which git ignores, or `interpreter`; again for more",
    )  # fmt: skip
    parser.add_argument(
        "--pack-interpreter",
        metavar="DIR",
        help="pack this Python into DIR, print its facts, and capture nothing else",
    )
    asked = parser.parse_args(words)
    if asked.pack_interpreter:
        return _pack(asked.pack_interpreter, asked.seconds)
    try:
        out = asked.out or default_folder(os.environ)
        report = _capture(out, asked.seconds, True, asked.accept, asked.include)
    except Unwritable as err:
        return _finish(_report(asked.out or "", note=str(err)), asked.json, 3)
    except Exception as err:
        return _finish(_report(asked.out or "", note=f"the capture failed: {_harmless(err)}"), asked.json, 0)
    return _finish(report, asked.json, 0)


def _pack(folder: str, seconds: float) -> int:
    """Pack the interpreter alone, and print what capture.json would have of it."""
    context = Context({}, time.monotonic() + seconds, folder, program=True)
    try:
        facts = take_interpreter(context).facts
    except GaveUp as err:
        print(err.why or err.reason, file=sys.stderr)
        return 1
    print(json.dumps(facts))
    return 0


def _where(place: Mapping[str, Any]) -> str:
    """Return in which commit a secret stands, and what comes of it."""
    if not place.get("commit"):
        return ": a build will refuse it"
    return f" of commit {place['commit'][:12]}, which no remote has: it is in the bundle of this snapshot"


def _finish(report: Dict[str, Any], as_json: bool, code: int) -> int:
    """Say what there is to say; whoever reads it may be gone."""
    lines = [f"{report['folder']}: captured" if report["captured"] else report["note"]]
    lines += [
        f"{name}: {what}"
        for name, what in sorted(report["parts"].items())
        if what not in ("done", "not-there")
    ]
    lines += [f"withheld: {one['name']} ({one['what']})" for one in report["withheld"]]
    lines += report["notes"]
    lines += [
        f"a secret ({one['rule']}) in {one['repository']}, {one['file']}:{one['line']}{_where(one)}"
        for one in report["warnings"][:SAID]
    ]
    if len(report["warnings"]) > SAID:
        lines.append(f"and {len(report['warnings']) - SAID} more: capture.json lists them under `warnings`")
    with contextlib.suppress(OSError):
        for line in map(without_logins, lines):
            print(f"{PROGRAM}: {_path(line) if not line.isprintable() else line}", file=sys.stderr)
        if as_json:
            print(json.dumps(report, indent=1))
        sys.stdout.flush()
    return code


def _stopped(number: int, frame: object) -> None:
    raise SystemExit(128 + number)  # so that what is half written goes away


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stopped)
    try:
        _code = main()
    except KeyboardInterrupt:
        _code = 130
    except SystemExit as _err:
        _code = _err.code if isinstance(_err.code, int) else 0
    _WATCHER.end_all()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(_code)  # a part that hangs on a dead file server must not keep the job
