"""A command whose script no image has is refused before the first image is made."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reprobuild.api.context import open_context
from reprobuild.bisect.bisection import Judging
from reprobuild.bisect.script import check_script, find_script
from reprobuild.bisect.sides import bisect_sides
from reprobuild.bisect.trial import TrialCommand
from reprobuild.compare.environments.open import Running
from reprobuild.context import RunContext
from reprobuild.errors import UsageError
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock
from reprobuild.pipeline.locked_side import open_source
from reprobuild.run.options import RunOptions
from tests.bisecting.locks import lock
from tests.bisecting.small import TREE, add_source

MISSING = "the script of the command: it is of no repository and no mount"
GENERAL = "name a script of the image, or mount its directory, and start in it: -v DIR:/job --workdir /job"


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    return open_context(tmp_path / "store", offline=True, caches=False)


@pytest.fixture
def locked(context: RunContext) -> Lock:
    source = add_source(context.store, {**TREE, "sub/train.py": b""})
    return lock(sources=(source,), workdir="/src/tool")


def check(context: RunContext, first: Lock, second: Lock, *arguments: str, **options: object) -> None:
    command = TrialCommand(arguments=arguments, options=msgspec.convert(options, RunOptions))
    check_script(command, (first, second), lambda source: open_source(source, context))


@pytest.mark.parametrize(
    ("line", "script"),
    [
        ("python train.py --lr 3", "train.py"),
        ("/opt/env/bin/python3.11 -u -X dev t.py", "t.py"),
        ("bash -x run.sh", "run.sh"),
        ("python -m train", ""),
        ("python -c pass", ""),
        ("python -Bc pass", ""),
        ("bash -ec true", ""),
        ("python {out}/t.py", ""),
        ("python -", ""),
        ("python", ""),
        ("torchrun train.py", ""),
        ("", ""),
    ],
)
def test_the_script_of_a_command(line: str, script: str) -> None:
    assert find_script(line.split()) == script


def test_a_script_that_no_image_has_is_refused(context: RunContext, locked: Lock) -> None:
    with pytest.raises(UsageError, match=f"^no image has /src/tool/cod.py, {MISSING}$") as error:
        check(context, locked, locked, "python", "cod.py")
    assert error.value.hint == "did you mean `code.py`, in /src/tool?"
    check(context, locked, locked, "python", "code.py")
    with pytest.raises(UsageError, match=f"^no image has /job/other.py, {MISSING}$") as error:
        check(context, locked, locked, "python", "other.py", workdir="/job")
    assert error.value.hint == GENERAL


def test_a_script_of_this_directory_is_to_be_mounted(
    context: RunContext, locked: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my job").mkdir()
    (tmp_path / "my job" / "bench.py").touch()
    monkeypatch.chdir(tmp_path / "my job")
    with pytest.raises(UsageError, match=MISSING) as error:
        check(context, locked, locked, "python", "bench.py")
    assert error.value.hint == (
        'it is here: mount this directory, and start in it: -v "$PWD":/job --workdir /job'
    )
    check(context, locked, locked, "python", "bench.py", volumes=(f"{Path.cwd()}:/job",), workdir="/job")
    with pytest.raises(UsageError, match="no image has /job/bnch") as error:
        check(context, locked, locked, "python", "bnch", volumes=(f"{Path.cwd()}:/job",), workdir="/job")
    script = f"{tmp_path}/my job/bench.py"
    with pytest.raises(UsageError, match=MISSING) as error:
        check(context, msgspec.structs.replace(locked, sources=()), locked, "python", script)
    folder = f"'{tmp_path}/my job'"
    assert error.value.hint == f"it is on this machine: mount its directory: -v {folder}:{folder}"


def test_no_trial_is_prepared_for_a_missing_script(
    context: RunContext, locked: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a trial is prepared")

    monkeypatch.setattr("reprobuild.pipeline.locked_side.fetch_inputs", lambda *_: None)
    monkeypatch.setattr("reprobuild.bisect.sides.make_mixer", refuse)
    names = str(tmp_path / "a.lock"), str(tmp_path / "b.lock")
    write_lock(locked, Path(names[0]))
    write_lock(msgspec.structs.replace(locked, epoch=7), Path(names[1]))
    command = TrialCommand(arguments=("python", "gone.py"), options=RunOptions())
    (tmp_path / "sides").mkdir()
    with pytest.raises(UsageError, match=MISSING):
        bisect_sides(
            names,
            tmp_path / "sides",
            refuse,
            command,
            Judging(),
            context,
            Running(python="", env=context.env),
        )


def test_what_an_image_may_have_is_not_refused(context: RunContext, locked: Lock) -> None:
    for script in ("/usr/bin/pip", "/opt/env/bin/torchrun", "sub/train.py"):
        check(context, locked, locked, "python", script)
    without = msgspec.structs.replace(locked, sources=(), workdir="/src/tool")
    check(context, locked, without, "python", "code.py")  # one side has it
    (source,) = locked.sources
    copied = msgspec.structs.replace(source, installed=True)  # its tree may be there no more
    other = msgspec.structs.replace(locked, sources=(copied,))
    check(context, other, other, "python", "gone.py")
    lost = msgspec.structs.replace(
        source, file=msgspec.structs.replace(source.file, sha256="0" * 64), path="/src/tool"
    )
    check(context, *[msgspec.structs.replace(locked, sources=(lost,))] * 2, "python", "gone.py")
