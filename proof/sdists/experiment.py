"""Old releases run their own tests, with the newest requirements and with those of the release day.

Both environments have the same Python, made the same way, and hold the same requirement names: those of the project,
those of its tests, and pytest. uv chooses the newest versions in the first; in the second reprobuild chooses the
versions as of the day of the upload, and uv installs exactly these. The tests run without network and without rights on
the rest of the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import parse_sdist_filename

from proof.as_of import context_of, recover
from proof.sdists.cases import (
    LARGEST,
    MINORS,
    NAMES,
    choose_python,
    choose_release,
    find_reason_to_skip,
    find_test_folder,
    list_test_paths,
)
from proof.sdists.needs import find_needs
from proof.sdists.outcome import NOT_INSTALLABLE, Outcome, classify, describe_install
from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.pypi.indexes import PackageIndex, read_indexes
from reprobuild.ecosystems.pypi.page_cache import ListedFile
from reprobuild.errors import ReproError
from reprobuild.resolve.as_of_moment import parse_moment
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.python.context import make_file_lists
from reprobuild.resolve.static_requires import read_static_requires
from reprobuild.store.fetch import fetch

MOST = 120  # cases; further candidates are not looked at
SECONDS = 120  # for a run of tests
INSTALL_SECONDS = 600
_OPTIONS = ("-x", "-q")
# The root is read-only but for the case's own directory, the network is an empty loopback, and no capability is kept.
_SANDBOX = """\
set -e
ip link set lo up
mount --bind "$1" "$1"
mount -o remount,bind,ro /
mount -t tmpfs tmpfs /tmp
cd "$2"
shift 2
exec setpriv --bounding-set -all --inh-caps -all --no-new-privs "$@"
"""
_NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_BUNDLED = "import ensurepip, pathlib; print(pathlib.Path(ensurepip.__file__).parent / '_bundled')"


class Sdists:
    """The experiment.

    Args:
        folder: gets a directory for the present case, uv's cache, and `sdists.json` with what was done.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "sdists.json"
        rows = json.loads(self.path.read_text()) if self.path.exists() else []
        self.done: dict[str, dict[str, Any]] = {row["project"]: row for row in rows}
        self.pythons = find_pythons()

    def measure(self, names: Sequence[str] = NAMES, most: int = MOST) -> list[dict[str, Any]]:
        """Return the facts of each candidate, until enough of them are cases."""
        chosen: list[dict[str, Any]] = []
        for name in names:
            if sum("newest" in row for row in chosen) >= most:
                break
            if name not in self.done:
                self.done[name] = self._measure_one(name)
                print(self.done[name], file=sys.stderr, flush=True)
                self.path.write_text(json.dumps(list(self.done.values())))
            chosen.append(self.done[name])
        return chosen

    def _measure_one(self, name: str) -> dict[str, Any]:
        case = self.folder / "case"
        shutil.rmtree(case, ignore_errors=True)
        case.mkdir()
        context = context_of(self.folder, read_indexes(os.environ), int(time.time()))
        row: dict[str, Any] = {"project": name}
        try:
            file = choose_release(list_files(name, context))
            if file is None:
                return row | {"skipped": "no release"}
            if file.size > LARGEST:
                return row | {"skipped": "large"}
            archive = download(name, file, case, context)
            source = unpack(archive, case / "source")
        except (ReproError, OSError, tarfile.TarError) as err:
            return row | {"skipped": f"not available: {type(err).__name__}"}
        version, day = str(parse_sdist_filename(file.filename)[1]), (file.uploaded or "")[:10]
        row |= {"version": version, "day": day}
        metadata = source / "PKG-INFO"
        text = metadata.read_text(encoding="utf-8", errors="replace") if metadata.is_file() else ""
        minor = choose_python(
            text, file.requires_python or "", [minor for minor in MINORS if minor in self.pythons]
        )
        reason = find_reason_to_skip(source) if minor else "no Python for it"
        if reason or minor is None:
            return row | {"skipped": reason}
        python = self.pythons[minor]
        tests = find_test_folder(source) or source
        lists = make_file_lists(Decisions(), context.services, context)
        requires = read_static_requires(name, version, lists, context.store, context.net) or ()
        needs = find_needs(name, source, tests, requires, python[1])
        run = CaseRun(case, archive, list_test_paths(source, tests), python[0], self.folder / "uv-cache")
        began = time.monotonic()
        newest = run.try_newest(needs)
        middle = time.monotonic()
        ours = run.try_pins([f"{name}=={version}", *needs], day, python[1], context)
        seconds = [round(middle - began, 1), round(time.monotonic() - middle, 1)]
        keep_logs(case, self.folder / "logs" / name)
        return row | {
            "python": python[1], "needs": needs, "newest": as_dict(newest), "as of": as_dict(ours), "seconds": seconds,
        }  # fmt: skip


class CaseRun:
    """The two environments of one release, and the runs of its tests.

    Args:
        folder: the directory of the case, the only one that its tests may write to.
        archive: the source archive.
        tests: the arguments of pytest, relative to its top.
        python: the interpreter.
        cache: uv's.
    """

    def __init__(self, folder: Path, archive: Path, tests: Sequence[str], python: Path, cache: Path) -> None:
        self.folder, self.archive, self.tests, self.python = folder, archive, tests, python
        dropped = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")
        self.env = {key: value for key, value in os.environ.items() if key not in dropped}
        self.env |= {"UV_CACHE_DIR": str(cache), "UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never"}

    def try_newest(self, needs: Sequence[str]) -> Outcome:
        """Return the outcome with the newest versions."""
        place = self.folder / "newest"
        return self._try(place, str(self.archive), *needs)

    def try_pins(self, lines: Sequence[str], day: str, python: str, context: ResolveContext) -> Outcome:
        """Return the outcome with the versions that reprobuild chooses as of a day.

        The first line is the project itself; it is built from its archive, with build requirements of that day.
        """
        place = self.folder / "as-of"
        try:
            chosen = recover(lines, day, python, context)
        except ReproError as err:
            place.mkdir()
            (place / "install.txt").write_text(str(err))
            return Outcome(name=NOT_INSTALLABLE, cause=describe_install(str(err)))
        project = lines[0].partition("==")[0]
        pins = [
            f"{name}=={version}" for name, version in sorted(chosen.items()) if name != project and version
        ]
        exact = ("--no-deps", "--exclude-newer", parse_moment(day))
        return self._try(place, *exact, str(self.archive), *pins)

    def _try(self, place: Path, *words: str) -> Outcome:
        if output := self._make(place) or self._install(place, *words):
            (place / "install.txt").write_text(output)
            return Outcome(name=NOT_INSTALLABLE, cause=describe_install(output))
        return self._test(place)

    def _make(self, place: Path) -> str:
        """Make an environment with the pip and setuptools that its Python brings; return the output of a failure."""
        place.mkdir()
        if output := self._run([*_UV, "venv", "--python", str(self.python), str(place / "venv")]):
            return output
        wheels = subprocess.run(
            [self.python, "-I", "-c", _BUNDLED], capture_output=True, text=True, check=True
        )
        site = next((place / "venv" / "lib").glob("python3*")) / "site-packages"
        for wheel in Path(wheels.stdout.strip()).glob("*.whl"):
            shutil.unpack_archive(wheel, site, "zip")
        return ""

    def _install(self, place: Path, *words: str) -> str:
        python = str(place / "venv" / "bin" / "python")
        return self._run([*_UV, "pip", "install", "--python", python, *words])

    def _run(self, argv: Sequence[str]) -> str:
        """Run a program; return the output of a failure, else an empty text."""
        try:
            done = subprocess.run(
                argv, env=self.env, cwd=self.folder, capture_output=True, text=True, check=False,
                timeout=INSTALL_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "timeout"
        return (done.stdout + done.stderr or "failed") if done.returncode else ""

    def _test(self, place: Path) -> Outcome:
        source = unpack(self.archive, place / "source")
        (place / "home").mkdir()
        programs = place / "venv" / "bin"
        env = {
            "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(place / "home"),
            "LANG": "C.UTF-8", "VIRTUAL_ENV": str(place / "venv"),
        }  # fmt: skip
        argv = [
            *_NAMESPACES, "sh", "-c", _SANDBOX, "sandbox", str(self.folder), str(source),
            str(programs / "pytest"), *_OPTIONS, *self.tests,
        ]  # fmt: skip
        code, output = run_limited(argv, env, place / "output.txt", SECONDS)
        return classify(code, output)


_UV = (sys.executable, "-m", "uv")


def run_limited(
    argv: Sequence[str], env: Mapping[str, str], log: Path, seconds: float
) -> tuple[int | None, str]:
    """Run a program for some seconds at most; return its exit code, or None if time ran out, and its output."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            argv,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return code, log.read_bytes()[-200_000:].decode(errors="replace")


def keep_logs(case: Path, folder: Path) -> None:
    """Keep the outputs of a case, for a person who asks for the reason of a failure."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in case.glob("*/*.txt"):
        shutil.copy(path, folder / f"{path.parent.name}-{path.name}")


def find_pythons() -> dict[str, tuple[Path, str]]:
    """Return this machine's interpreters and their full versions, by minor version: pyenv's, else the first on PATH."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    known = {}
    for minor in MINORS:
        first = shutil.which(f"python{minor}")
        paths = [*sorted(root.glob(f"{minor}.*/bin/python{minor}")), *([Path(first)] if first else [])]
        for path in paths:
            code = "import platform; print(platform.python_version())"
            done = subprocess.run([path, "-I", "-c", code], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                known[minor] = (path, done.stdout.strip())
                break
    return known


def list_files(name: str, context: ResolveContext) -> list[ListedFile]:
    """Return the files of a project on the machine's first index."""
    lists = make_file_lists(Decisions(), context.services, context)
    return lists.list_page(PackageIndex(context.indexes.simple[0]), name)


def download(name: str, file: ListedFile, folder: Path, context: ResolveContext) -> Path:
    """Fetch a source archive, and return its path in a directory."""
    lists = make_file_lists(Decisions(), context.services, context)
    artefact = lists.artefact(lists.named(name, file.filename)[0])
    fetch([artefact], context.store, context.net)
    return Path(shutil.copy(context.store.blob(artefact.sha256), folder / file.filename))


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a source archive, and return its top directory."""
    folder.mkdir(parents=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return next(path for path in folder.iterdir() if path.is_dir())


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome for the evidence."""
    row: dict[str, Any] = {"outcome": outcome.name, "passed": outcome.passed}
    return row | ({"reason": outcome.cause} if outcome.cause else {})
