"""One run of the workload in a container, and the index of its output files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.engines.model import Engine, Task
from reprobuild.errors import EngineError
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.lock.system import FILES, PREFIX
from reprobuild.verify.workload.holes import describe_holes, find_holes
from reprobuild.verify.workload.judge import display_line
from reprobuild.verify.workload.output_index import OUTPUTS as OUTPUTS
from reprobuild.verify.workload.output_index import OutputIndex
from reprobuild.verify.workload.work import Work

INDEX, LARGEST_INDEX = "index.json", 16 << 20  # 1,600 bytes for each of its files
PROGRAMS = f"{FILES}/lib/reprobuild_runtime/artefacts"
PYTHON = f"{PREFIX}/bin/python"


class WorkloadRun(Struct, frozen=True, kw_only=True):
    """One run: exit code, files, index, and printable errors.

    Of the errors, only the end is kept.
    """

    code: int
    folder: Path
    index: OutputIndex | None
    tail: str


def expand_output(text: str) -> str:
    """Return a text with the directory of output files for `{out}`."""
    return text.replace("{out}", OUTPUTS)


def collecting_command(artefacts: Sequence[str], command: Sequence[str]) -> tuple[str, ...]:
    """Return a command under the program that collects its output files in `OUTPUTS`."""
    collect = (PYTHON, "-I", "-S", f"{PROGRAMS}/collect.py", OUTPUTS, *map(expand_output, artefacts), "--")
    return (*collect, *map(expand_output, command))


def run_work_task(
    work: Work, task: Task, reference: str, engine: Engine, env: Mapping[str, str]
) -> WorkloadRun:
    """Run a workload's task in a container, and read the index of its files.

    Raises:
        EngineError: the engine failed, or the files are not available.
    """
    done = engine.run(reference, task, env)
    assert task.kept is not None
    tail = "\n".join(map(display_line, done.stderr.decode(errors="replace").strip().splitlines()[-10:]))
    index = read_index(task.kept)
    if index is None and done.code == 0:
        raise EngineError(
            f"what `{work.shown_text}` wrote cannot be had: the container left no list of it\n{tail}",
            hint="was its disk full? Let the command write less, or another engine run it (--engine)",
        )
    if index is not None and index.failed:
        raise EngineError(
            f"what `{work.shown_text}` wrote cannot be put aside: {display_line(index.failed)}",
            hint="name fewer or smaller artefacts, or let the command write them below {out}",
        )
    if index is not None and (holes := find_holes(task.kept, index)):
        raise EngineError(
            f"`{work.shown_text}` wrote {describe_holes(holes)}",
            hint="name other outputs, or let the command write a smaller file",
        )
    code = done.code if index is None else index.code
    return WorkloadRun(code=code, folder=task.kept, index=index, tail=tail)


def read_index(folder: Path) -> OutputIndex | None:
    """Return a container's index of its files, or None if unreadable."""
    path = folder / INDEX
    if not path.is_file() or path.stat().st_size > LARGEST_INDEX:
        return None
    try:
        index = decode_json(read_plain(path, LARGEST_INDEX), OutputIndex)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    whole = all(
        (folder / entry.stored).is_file() if entry.kind == "file" else not entry.stored
        for entry in index.files
    )
    return index if whole else None
