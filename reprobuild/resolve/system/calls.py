"""Programs that an environment's code calls, by quoted words.

The code is not run.

In Python a program is a quoted word at the beginning of a text: `run(["git", ...])`, `cmd = "ffmpeg -i ..."`. If its
name is also an ordinary word (`"node"`), only a call or a command counts. In scripts of a shell and in settings a plain
word is enough.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath

import msgspec

from reprobuild.errors import BuildError
from reprobuild.infra.tar.reading import read_tar
from reprobuild.infra.untrusted.decode import decode_value
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.infra.untrusted.strings import Line
from reprobuild.infra.untrusted.zips import UNREADABLE, open_zip
from reprobuild.lock.python import Source, Wheel
from reprobuild.lock.system import Artefact
from reprobuild.resolve.system.needed import is_ordinary_word
from reprobuild.store.store import Store

VERSION = 1  # of remembered results
_WORKERS = 4
# Files that are not run: tests and examples, and code that builds packages.
_NOT_RUN = re.compile(
    r"(^|/)(tests?|testing|conftest\.py|docs?|examples?|_?distutils|setuptools|pkg_resources|pip|f2py|__config__\.py)(/|$)"
)
_LONGEST = 4 << 20  # of a text that people or tools write; longer ones are data
_QUOTED = re.compile(rb"""['"](?:[^'"\s]{0,80}/)?([A-Za-z0-9][\w.+-]{0,39}?)(?:\.exe)?(?=[\s'"])""")
_PLAIN = re.compile(rb"(?<![\w./@$-])(?:/[\w./-]{1,80}/)?([A-Za-z0-9][\w+-]{0,39})(?![\w.=(/-])")
# The text before a program: a call that starts programs, or a name that holds a command.
_CALL = re.compile(
    rb"(?:which|find_executable|run|call|check_call|check_output|Popen|popen|system|getoutput|getstatusoutput"
    rb"|exec[lv]p?e?|spawn[lv]p?e?|create_subprocess_exec|create_subprocess_shell|[cC]md|[cC]ommand)\(\s*"
    rb"(?:\w+\s*=\s*)?[\[(]?\s*[rbfu]?$"
    rb"|(?i:cmd|command|args|argv|exe|executable|program|binary|tool|compiler)['\"]?\s*[+]?[=:]\s*"
    rb"(?:[\w.]+\(\s*)?[\[(]?\s*[rbfu]?$"
)
_LIST = re.compile(rb"[\[(]\s*$")
_OPTION = re.compile(rb"['\"]\s*,\s*[rbf]?['\"]-")
_NEAR = 100  # bytes before a word that may have a call
_MOST = 1000  # occurrences of one word in one text to check; a word that has more counts as called
_SCRIPTS = {
    ".sh", ".bash", ".zsh", ".slurm", ".sbatch", ".pbs", ".mk", ".cmake", ".toml", ".cfg", ".ini", ".yaml", ".yml",
    ".smk", ".nf", ".ipynb",
}  # fmt: skip
_NAMED = {"Makefile", "GNUmakefile", "Dockerfile", "Containerfile", "Snakefile", "justfile", "CMakeLists.txt"}


def find_callers(
    wheels: Iterable[Wheel], sources: Iterable[Source], commands: Iterable[str], programs: Collection[str],
    store: Store, captured: Iterable[str] = (),
) -> dict[str, str]:  # fmt: skip
    """Return the programs that an environment calls.

    Each has its first caller.

    Args:
        wheels: they are in the store.
        sources: the user's own code, in the store.
        commands: the commands of the image, as shell text.
        programs: the names to look for.
        store: remembers the calls of wheels.
        captured: command lines of the captured job, as shell text.

    Raises:
        FetchError: a file is not in the store.
        BuildError: a wheel is malicious or damaged.
    """
    first_callers: dict[str, str] = {}
    if not programs:
        return first_callers
    for command in commands:
        first_callers |= dict.fromkeys(_match_words(command.encode(), programs), "the workload")
    for command in captured:
        for program in _match_words(command.encode("utf-8", "replace"), programs):
            first_callers.setdefault(program, "the captured command")
    for source in sources:
        for program in sorted(_search_source(source, programs, store)):
            first_callers.setdefault(program, source.name)
    with ThreadPoolExecutor(_WORKERS) as pool:
        wheels = tuple(wheels)
        for wheel, called in zip(
            wheels, pool.map(lambda wheel: find_wheel_calls(wheel.file, programs, store), wheels), strict=True
        ):
            for program in called:
                first_callers.setdefault(program, f"{wheel.name} {wheel.version}")
    return first_callers


def find_wheel_calls(file: Artefact, programs: Collection[str], store: Store) -> tuple[str, ...]:
    """Return the programs that the modules of a wheel call, sorted.

    Raises:
        FetchError: the wheel is not in the store.
        BuildError: it is malicious or damaged.
    """
    names = " ".join(sorted(programs))
    key = hashlib.sha256(f"calls {VERSION} {names} {file.sha256}".encode()).hexdigest()
    try:
        return decode_value(store.recall(key), tuple[Line, ...])
    except msgspec.ValidationError:  # not there yet, or damaged
        calls = tuple(sorted(_search_wheel(file, programs, store)))
        store.remember(key, calls)
        return calls


def _search_wheel(file: Artefact, programs: Collection[str], store: Store) -> set[str]:
    calls: set[str] = set()
    search = make_python_search(programs)
    with open_zip(store.verified(file.sha256, file.filename), file.filename) as (archive, members):
        for name, info in members.items():
            if name.endswith(".py") and info.file_size <= _LONGEST and not _NOT_RUN.search(name):
                try:
                    calls |= search(archive.read(info))
                except UNREADABLE as err:
                    raise BuildError(f"{file.filename} is damaged at {name}: {err}", hint=HOSTILE) from None
    return calls


def _search_source(source: Source, programs: Collection[str], store: Store) -> set[str]:
    calls: set[str] = set()
    search = make_python_search(programs)
    with store.verified(source.file.sha256, source.file.filename).open("rb") as stream:
        for entry, content in read_tar(stream, source.file.filename):
            path = PurePosixPath(entry.path)
            if entry.type != "file" or entry.size > _LONGEST:
                continue
            if path.suffix == ".py":
                calls |= search(content())
            if path.suffix in _SCRIPTS or path.name in _NAMED:
                calls |= _match_words(content(), programs)
    return calls


def make_python_search(programs: Collection[str]) -> Callable[[bytes], set[str]]:
    """Return a function that finds programs called by Python text."""
    known = {program.encode(): program for program in programs}
    words = {
        word: re.compile(rb"['\"]" + re.escape(word) + rb"(?=[\s'\"])")
        for word in known
        if is_ordinary_word(known[word])
    }

    def search(text: bytes) -> set[str]:
        quoted = set(_QUOTED.findall(text)) & known.keys()
        return {known[word] for word in quoted if word not in words or _is_called(words[word], text)}

    return search


def _is_called(word: re.Pattern[bytes], text: bytes) -> bool:
    """Return whether a quoted word is in a call or a command."""
    for number, match in enumerate(word.finditer(text)):
        if number == _MOST:
            return True
        before = b" ".join(text[max(0, match.start() - _NEAR) : match.start()].split())
        if _CALL.search(before) or (_LIST.search(before) and _OPTION.match(text, match.end())):
            return True
    return False


def _match_words(text: bytes, programs: Collection[str]) -> set[str]:
    words = {word.decode() for word in _PLAIN.findall(text)}
    return words & set(programs)
