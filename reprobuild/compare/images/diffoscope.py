"""The output of diffoscope on files with another content, in a sandbox.

diffoscope starts the parsers of dozens of formats, and some of them execute what a file says: R, for example, executes
promises of a serialised object. So it runs only if the user asks for it, without network, and sees the two files and
this machine's programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from reprobuild.compare.images.excerpt import quoting_obstacle
from reprobuild.compare.images.scan import Scanned
from reprobuild.compare.images.tree import FileChange
from reprobuild.errors import EngineError
from reprobuild.infra import proc
from reprobuild.infra.display import escape_text
from reprobuild.infra.sandbox.command import PATH, run_in_root
from reprobuild.infra.sandbox.host_programs import make_program_root
from reprobuild.infra.sandbox.model import Bind, Root
from reprobuild_portable import secrets

# The number of files to examine, the seconds for each, and the number of lines kept of each answer.
FILES = 5
SECONDS = 60
LINES = 60
# Bytes of memory and of a file, for each process; together, files have the size of the sandbox's /tmp at most.
MEMORY, FILE = 4 << 30, 1 << 30
FIRST, SECOND = "/input/one", "/input/other"
# It exits 1 if files differ: https://diffoscope.org
_COMMAND = '"$@"; [ $? -le 1 ]'
_HINT = "install it with `pip install 'reprobuild[diff]'`, or leave out `--diffoscope`"


class DiffoscopeResult(Struct, frozen=True, kw_only=True):
    """The output of diffoscope on one file."""

    path: str
    text: str


def find_diffoscope(env: Mapping[str, str]) -> str:
    """Return the path of diffoscope.

    Raises:
        EngineError: it is not on PATH.
    """
    if (program := proc.which("diffoscope", env)) is None:
        raise EngineError("diffoscope is not on PATH", hint=_HINT)
    return program


def run_diffoscope(
    pair: tuple[Scanned, Scanned], files: Sequence[FileChange], contents: Path, env: Mapping[str, str],
    say: Callable[[str], None],
) -> tuple[list[DiffoscopeResult], list[str]]:  # fmt: skip
    """Return diffoscope's output on the first "content" files, and notes.

    Args:
        pair: both images.
        files: the differences, with kinds.
        contents: the directory of contents by their sha256; files that must not be shown are left out.
        env: PATH is taken from it.
        say: called with each step.

    Raises:
        EngineError: diffoscope is absent, or this machine has no sandbox.
    """
    program = find_diffoscope(env)
    inputs = list(islice(_select_files(pair, files, contents), FILES))
    if not inputs:
        return [], []
    folder = contents / "root"
    folder.mkdir()
    root = make_program_root(folder, program, env)
    results, notes = [], []
    for path, first, second in inputs:
        say(f"diffoscope on {'/' + path!r}, at most {SECONDS} s")
        try:
            lines = _ask(root, program, (first, second), env)
        except proc.ProcessTimeoutError:
            notes.append(f"diffoscope on {path!r} did not end within {SECONDS} s")
            continue
        except EngineError as err:
            notes.append(f"diffoscope on {path!r}: {escape_text(str(err))}")
            continue
        excerpt = [
            secrets.redact(line.replace(FIRST, "one").replace(SECOND, "other")) for line in lines[:LINES]
        ]
        if len(lines) > len(excerpt):
            excerpt.append(f"... and {len(lines) - len(excerpt)} lines more")
        if not excerpt:
            notes.append(f"diffoscope said nothing of {path!r}")
        results += [DiffoscopeResult(path=path, text="\n".join(excerpt))] if excerpt else []
    return results, notes


def _ask(root: Root, program: str, files: tuple[Path, Path], env: Mapping[str, str]) -> list[str]:
    """Return the lines of diffoscope's answer on two files.

    The sandbox's `/tmp` is in memory, and vanishes with it.
    """
    limits = ("prlimit", f"--as={MEMORY}", f"--fsize={FILE}", f"--cpu={SECONDS}", "--")
    words = (program, "--text", "-", "--text-color", "never", FIRST, SECOND)
    variables = {
        "PATH": f"{proc.absolute_path(env).get('PATH', '')}:{PATH}", "HOME": "/tmp", "TMPDIR": "/tmp",
        "LC_ALL": "C.UTF-8", "TZ": "UTC",
    }  # fmt: skip
    output = run_in_root(
        root, ["/bin/sh", "-c", _COMMAND, "sh", *limits, *words], epoch=0, purpose="look into a file",
        binds=[Bind(source=file, target=name) for file, name in zip(files, (FIRST, SECOND), strict=True)],
        env=variables, cwd="/tmp", timeout=SECONDS,
    )  # fmt: skip
    return output.decode("utf-8", "replace").splitlines()


def _select_files(
    pair: tuple[Scanned, Scanned], files: Sequence[FileChange], contents: Path
) -> Iterator[tuple[str, Path, Path]]:  # fmt: skip
    """Yield path and contents of files that may be shown."""
    for file in files:
        first, second = contents / file.one, contents / file.other
        if file.kind != "content" or not first.is_file() or not second.is_file():
            continue
        entries = [scanned.tree[file.path] for scanned in pair]
        both = (first.read_bytes(), second.read_bytes())
        if not quoting_obstacle(file.path, entries[0], entries[1], both):
            yield file.path, first, second
