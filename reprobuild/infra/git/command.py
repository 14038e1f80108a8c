"""The git command, restricted for untrusted repositories.

It has no hooks, no helpers named by an address, and no endless waits. An address may come from a snapshot.
`NAME::REST` starts the program `git-remote-NAME` (https://git-scm.com/docs/gitremote-helpers), and `fd::0`
one that waits forever, so only git's own five transports are allowed (`protocol.allow` in
https://git-scm.com/docs/git-config).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from reprobuild.errors import EngineError, ReproError
from reprobuild.infra import proc
from reprobuild.infra.display import escape_text
from reprobuild.infra.git.credentials import REFUSED, login_for, login_options, take_login, without_netrc
from reprobuild.infra.http.model import origin
from reprobuild.infra.proc.errors import exit_error
from reprobuild_portable import secrets

PROTOCOLS = ("file", "git", "http", "https", "ssh")
# A configuration can name hooks for these events of a fetch and of an index, too (since git 2.54), which
# `core.hooksPath` does not switch off.
_EVENTS = ("reference-transaction", "post-index-change", "pre-auto-gc")
OPTIONS = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
    *(word for name in _EVENTS for word in ("-c", f"hook.{name}.enabled=false")),
    "-c", "protocol.allow=never", *(word for name in PROTOCOLS for word in ("-c", f"protocol.{name}.allow=always")),
)  # fmt: skip
_FETCH = ("fetch", "--progress", "--no-tags", "--update-shallow", "--no-recurse-submodules")
# An HTTP server that sends less than this for so many seconds is abandoned; the user's own settings take
# precedence.
SLOWEST, PATIENCE = 1000, 120
SILENCE = 180  # seconds without progress output, for any transport
TOO_SLOW = "Operation too slow"  # libcurl's text
# The bytes that a remote may send, or a half of the free space: git has no limit for a fetch.
MOST = 16 << 30
_MEMORY = 4 << 30  # bytes: git keeps each tag and tree of a pack in memory as a whole
_BLOCK = 4096  # bytes of a directory's block and inode, which some file systems do not state
_LARGE = "clone it by hand, and name the clone with --source NAME=PATH"
_KEPT = 64 << 10  # of git's output
_LACKING = " missing"
_SCHEMES = (*PROTOCOLS, "ssh+git", "git+ssh")
_HELPER = re.compile(r"([A-Za-z0-9][A-Za-z0-9+.-]*)::")
_SCHEME = re.compile(r"([A-Za-z0-9][A-Za-z0-9+.-]*)://")
_SHORT = re.compile(r"(?:[^@/:]*@)?([^@/:]+):(?!//)")  # HOST:PATH
_OPTION = re.compile(r"-|[^/:]*://([^/]*@)?-|[^/:]*@-")
_PROGRESS = re.compile(r"(remote: )?([A-Z][A-Za-z ]+:\s+\d+[%,. ]|Total \d+ |[A-Z][A-Za-z ]+: \d+$)")
# `git rev-parse --local-env-vars`, without the settings: they locate the user's own repository, which must
# not be written.
_PLACES = frozenset(
    f"GIT_{name}" for name in (
        "ALTERNATE_OBJECT_DIRECTORIES", "COMMON_DIR", "DIR", "GRAFT_FILE", "IMPLICIT_WORK_TREE", "INDEX_FILE",
        "INTERNAL_SUPER_PREFIX", "NAMESPACE", "NO_REPLACE_OBJECTS", "OBJECT_DIRECTORY", "PREFIX", "REPLACE_REF_BASE",
        "SHALLOW_FILE", "WORK_TREE",
    )
)  # fmt: skip


def check_address(place: str, error: type[ReproError]) -> None:
    """Refuse an address that needs more than git's own transports.

    Args:
        place: an address, or a path.
        error: the kind of error.

    Raises:
        ReproError: of the given kind.
    """
    if danger := _describe_danger(place):
        raise error(
            f"git is not given the address {escape_text(secrets.without_logins(place))}: {danger}",
            hint=f"name a path, HOST:PATH, or an address of {', '.join(PROTOCOLS)}",
        )


def is_safe(place: str) -> bool:
    """Return whether `check_address` accepts an address."""
    return not _describe_danger(place)


def is_local(place: str) -> bool:
    """Return whether git reads an address from the disk.

    It does so for a path, or `file:`; `HOST:PATH` is ssh's.
    """
    before, colon, _ = place.partition(":")
    return not colon or "/" in before or before.lower() == "file"


def _describe_danger(place: str) -> str:
    if helper := _HELPER.match(place):
        return f"it would start the program `git-remote-{helper[1]}`"
    scheme = _SCHEME.match(place)
    if scheme and scheme[1] not in _SCHEMES:
        return f"{scheme[1]} is not a transport of git's own"
    return "a program would take it for an option" if _OPTION.match(place) else ""


def batch_check_input(oids: Sequence[str]) -> tuple[bytes, int]:
    """Return input for `git cat-file --batch-check`, and its output bound.

    The bound is in bytes.
    """
    stdin = "".join(f"{oid}\n" for oid in oids).encode()
    return stdin, len(stdin) + len(_LACKING) * (len(oids) + 1)


def parse_missing(answer: bytes) -> list[str]:
    """Return the missing objects in an answer of git.

    The answer is that of `git cat-file --batch-check=%(objectname)`.
    """
    rows = answer.decode().splitlines()
    return [row.removesuffix(_LACKING) for row in rows if row.endswith(_LACKING)]


def fetch_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment for a fetch.

    It has the user's logins and settings, and not the user's own repository.
    """
    patient = {"GIT_HTTP_LOW_SPEED_LIMIT": str(SLOWEST), "GIT_HTTP_LOW_SPEED_TIME": str(PATIENCE)}
    variables = {name: value for name, value in env.items() if name not in _PLACES}
    protocols = env["GIT_ALLOW_PROTOCOL"].split(":") if env.get("GIT_ALLOW_PROTOCOL") else PROTOCOLS
    allowed = ":".join(name for name in PROTOCOLS if name in protocols) or "none"
    return {
        **patient, **variables, "GIT_ALLOW_PROTOCOL": allowed, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8",
    }  # fmt: skip


def fetch(
    repository: Path, place: str, *refs: str, env: Mapping[str, str], purpose: str, depth: int = 0,
    configured: bool = False,
) -> None:  # fmt: skip
    """Fetch into a repository of ours.

    git is ended if it is silent for `SILENCE` seconds.

    Args:
        repository: its `.git`, also git's current directory.
        place: an address that `check_address` accepts, or an absolute path. Its login is not on a command line.
        refs: the refs to fetch, and their destinations.
        env: git's environment.
        purpose: completes "could not ...".
        depth: the number of commits of each history; 0 for all.
        configured: the user named the address, so any entry of netrc may serve it.

    Raises:
        ProcessFailedError: git exited with another code than 0. ProcessTimeoutError: it was silent.
        EngineError: a remote sent more than `MOST`.
    """
    few = [f"--depth={depth}"] if depth else []
    place, url_login = take_login(place)
    words = [f"--git-dir={repository.absolute()}", *_FETCH, *few, "--", place, *refs]
    address = _effective_address(repository, place, env)
    if not address.startswith(("http://", "https://")):
        _fetch(repository, words, env, purpose, local=is_local(address))
        return
    with without_netrc(env) as clean_env:
        if url_login and origin(address) == origin(place):
            options, variables = login_options(address, url_login)
            _fetch(repository, [*options, *words], {**clean_env, **variables}, purpose)
            return
        if login := login_for(address, env, configured=configured or _host(address) != _host(place)):
            options, variables = login_options(address, login)
            try:
                _fetch(repository, [*options, *words], {**clean_env, **variables}, purpose)
                return
            except proc.ProcessFailedError as err:
                if not REFUSED.search(err.stderr):
                    raise
        _fetch(repository, words, clean_env, purpose)


def _host(address: str) -> str:
    """Return the host in an address, or "".

    Settings that change only the scheme name no host.
    """
    if short := _SHORT.match(address):
        return short[1].lower()
    with contextlib.suppress(ValueError):
        return urllib.parse.urlsplit(address).hostname or ""
    return ""


def _effective_address(repository: Path, place: str, env: Mapping[str, str]) -> str:
    """Return the address that git uses in place of another.

    `url.BASE.insteadOf` of the user's settings replaces it.
    """
    argv = ["git", *OPTIONS, f"--git-dir={repository.absolute()}", "ls-remote", "--get-url", "--", place]
    output = proc.run(argv, env=env, purpose="read the settings of git", cwd=repository)
    return output.decode(errors="surrogateescape").rstrip("\n")


def _fetch(
    repository: Path, words: Sequence[str], env: Mapping[str, str], purpose: str, *, local: bool = False
) -> None:  # fmt: skip
    output = bytearray()

    def take(stream: int, data: bytes) -> None:
        output.extend(data)
        del output[:-_KEPT]

    argv = ["git", *OPTIONS, *words]
    code = proc.stream(
        argv,
        env=env,
        purpose=purpose,
        sink=take,
        timeout=3600,
        silence=SILENCE,
        cwd=repository,
        terminal=True,
        watch=None if local else _watch_size(repository, purpose),
        memory=0 if local else _MEMORY,
    )  # ssh asks for the passphrase of a key
    if code:
        raise exit_error(argv, purpose, code, _without_progress(bytes(output)))


def _watch_size(repository: Path, purpose: str) -> Callable[[], None]:
    """Return a function that raises if a repository has grown too much."""
    begin, most = _measure(repository), min(MOST, shutil.disk_usage(repository).free // 2)

    def check() -> None:
        if _measure(repository) - begin > most:
            raise EngineError(f"could not {purpose}: the remote sent more than {most >> 20} MiB", hint=_LARGE)

    return check


def _measure(repository: Path) -> int:
    """Return the bytes that a repository takes on the disk.

    Its files come and go. Names of references are directories, as deep as the remote likes.
    """
    size, folders = 0, [str(repository)]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    facts = entry.stat(follow_symlinks=False)
                    is_folder = stat.S_ISDIR(facts.st_mode)
                    size += max(facts.st_size, _BLOCK) if is_folder else facts.st_size
                    folders += [entry.path] if is_folder else []
    return size


def _without_progress(output: bytes) -> bytes:
    lines = re.split(r"[\r\n]+", output.decode(errors="replace"))
    return "\n".join(line for line in lines if not _PROGRESS.match(line)).encode()
