"""Fixtures that several test directories share.

They are the example, built once, and the command line as people call it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

from reprobuild.image.model import Image
from reprobuild.infra.directory_fd import remove
from reprobuild.lock.model import Lock
from reprobuild.output.directory import read_image
from reprobuild.store.keyring import StoreKeyring
from reprobuild.store.sharing import join
from reprobuild.store.signature import stored_key
from reprobuild.store.store import Store
from tests.documents import check_document
from tests.groups import GroupScheduling, prepare_groups, sort_by_group
from tests.snapshot import counts
from tests.squashfs import open_folder, squashfs_tools
from tests.torch_environment import make_torch_environment

# A test never asserts a time: a busy machine may be slow.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

pytest_plugins = ("tests.browser", "tests.system.base", "tests.engines.small")

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "cpu-train"
PROGRAM = (sys.executable, "-m", "reprobuild.cli")

# Tests must not download builds of Python; those that need some make them.
os.environ["UV_PYTHON_DOWNLOADS_JSON_URL"] = str(ROOT / "tests" / "no-python-builds.json")

# The keys of the stores that tests make are not for the user's home; processes that tests start know them, too.
_DATA = tempfile.TemporaryDirectory(prefix="reprobuild-tests-")
os.environ["XDG_DATA_HOME"] = _DATA.name
atexit.register(_DATA.cleanup)
_SHARED: list[Path] = []  # the store of the session, once a test asks for it


def another_user(data: Path, store: Path) -> dict[str, str]:
    """Return the variables of a user whose data directory is `data`; this user trusts one store.

    A user who did not trust it would give it a new key, and the other tests would lose its results.
    """
    folder, key = data / "reprobuild" / "keys", stored_key(store)
    assert key is not None
    assert StoreKeyring(folder).add(key)
    return {"XDG_DATA_HOME": str(data)}


def kept_store() -> Path | None:
    """Return the store that REPROBUILD_TEST_STORE names, or None.

    It is joined, because an earlier run of the tests made its key.
    """
    named = os.environ.get("REPROBUILD_TEST_STORE")
    if not named:
        return None
    if stored_key(Path(named)):
        join(Store(Path(named)), lambda _: None)
    return Path(named)


@contextlib.contextmanager
def unreadable(path: Path) -> Iterator[None]:
    """Make a file unreadable to this process in a block.

    That includes a process of root.
    """
    mode, user = path.stat().st_mode, os.geteuid()
    path.chmod(0)
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        path.chmod(mode)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that `make proof` uses."""
    parser.addoption("--long", action="store_true", help="only the tests that are marked long")


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the groups of tests that one process runs."""
    prepare_groups(config)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> GroupScheduling:
    """Give whole groups of tests to processes."""
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the tests by their length, and sort them by group."""
    is_long = {item: item.get_closest_marker("long") is not None for item in items}
    config.hook.pytest_deselected(
        items=[item for item in items if is_long[item] != config.getoption("--long")]
    )
    items[:] = [item for item in items if is_long[item] == config.getoption("--long")]
    sort_by_group(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of corpus lines of each class."""
    if lines := counts.table():
        terminalreporter.section("the corpus, counts per class")
        for line in lines:
            terminalreporter.line(line)


@dataclass(frozen=True)
class Built:
    """The example after `from-snapshot`.

    It has the printed text, the output directory, the store, and the certificate.
    """

    out: Path
    store: Path
    lock: Lock
    image: Image
    stdout: str
    stderr: str
    certificate: bytes = b""

    def copy(self, out: Path) -> Path:
        """Copy the output directory to `out`, with hard links.

        It is for a test that lets the program write there.
        """
        ignore = shutil.ignore_patterns("context", "verdict.json")
        shutil.copytree(self.out, out, ignore=ignore, copy_function=os.link)
        (out / "verdict.json").write_bytes(self.certificate)
        return out


def reprobuild(
    *arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path = ROOT, timeout: int = 1500,
    prefix: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run the program as a separate process, as people do, and compare a document with docs/json.md.

    Without `env`, a command that needs an engine takes the built-in one, unless `--engine` names another.
    """
    given = dict(env or os.environ)
    if env is None and "--engine" not in arguments and arguments[0] in ("from-snapshot", "verify", "run"):
        given.pop("DOCKER_HOST", None)
    done = subprocess.run(
        [*prefix, *PROGRAM, *map(str, arguments)], cwd=cwd, env=given,
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    check_document([*map(str, arguments)], done.stdout)
    return done


@pytest.fixture(scope="session")
def test_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of the session.

    It is kept between runs if REPROBUILD_TEST_STORE names one.
    """
    _SHARED.append(kept_store() or tmp_path_factory.mktemp("store"))
    return _SHARED[0]


@pytest.fixture(autouse=True)
def _one_key() -> Iterator[None]:
    """Refuse a test that gives the shared store another key.

    The tests after it would find no results there, and set certificates of the example aside.
    """
    before = stored_key(_SHARED[0]) if _SHARED else None
    yield
    assert before is None or stored_key(_SHARED[0]) == before, "the test gave the shared store another key"


@pytest.fixture(scope="session")
def built_example(test_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build the example with every check.

    The other tests of the session build on its store.
    """
    out = tmp_path_factory.mktemp("example") / "out"
    done = reprobuild(
        "from-snapshot",
        EXAMPLE / "snapshot",
        "--decisions",
        EXAMPLE / "reprobuild.yaml",
        "-o",
        out,
        "--store",
        test_store,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    lock, image = read_image(out)
    return Built(
        out=out, store=test_store, lock=lock, image=image, stdout=done.stdout, stderr=done.stderr,
        certificate=(out / "verdict.json").read_bytes(),
    )  # fmt: skip


@pytest.fixture(scope="session")
def torch_python(built_example: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an interpreter with the example's torch and NumPy.

    It has the start-up hook, and runs outside of a container.
    """
    return make_torch_environment(built_example.out / "context", tmp_path_factory.mktemp("torch") / "made")


def apptainer_environment(folder: Path, *options: str, users: str = "bin") -> Mapping[str, str]:
    """Return the environment of an Apptainer with its own cache.

    Args:
        folder: the directory of the cache.
        options: of `private_apptainer.py run`.
        users: the user that it runs as: "bin" the caller, "user" and "plain" one without privileges, with
            and without subordinate users.
    """
    docker = shutil.which("docker")
    in_use = Path(docker).parent.parent if docker else Path()
    where = (in_use if (in_use / "stamp.json").is_file() else ROOT / ".engine") / "apptainer"
    program = (
        sys.executable,
        str(ROOT / "dev" / "private_apptainer.py"),
        "run",
        *options,
        "--folder",
        str(where),
    )
    done = subprocess.run(
        [*program, "--", "sh", "-c", 'printf %s "$PATH"'],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    path = done.stdout.replace(f"{where}/bin", f"{where}/{users}")
    return {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(folder)}


@pytest.fixture(scope="session")
def apptainer_env(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return the environment of an Apptainer.

    It is the Apptainer of the machine, else a private one.
    """
    return apptainer_environment(tmp_path_factory.mktemp("apptainer"))


@pytest.fixture(scope="session")
def squashfs() -> Iterator[dict[str, str]]:
    """Yield an environment with squashfs-tools on its PATH."""
    with open_folder() as folder:
        yield squashfs_tools(folder)


@pytest.fixture
def example_copy(tmp_path: Path) -> Path:
    """Copy the example for a test that changes it.

    The copy has the snapshot, the overrides and the bundle.
    """
    copy = tmp_path / "example"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("project", "cluster"))
    return copy


@pytest.fixture(scope="session")
def podman_env() -> Mapping[str, str]:
    """Return an environment with our own podman first on PATH.

    Its packages are unpacked the first time. Each test process has a storage of its own, because tests count images
    and containers while the other process builds.
    """
    folder, storage = ROOT / "build" / "engines" / "podman", os.environ.get("PYTEST_XDIST_WORKER", "alone")
    argv = [sys.executable, str(ROOT / "dev" / "private_podman.py"), "prepare", "--folder", str(folder)]
    done = subprocess.run([*argv, "--storage", storage], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {**os.environ, "PATH": f"{folder / storage / 'bin'}:{os.environ['PATH']}"}


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Callable[[Path], Path]]:
    """Yield a function that makes 1500 nested directories.

    They are more than a recursive walk can enter, below `tmp_path`.
    """
    made: list[Path] = []

    def make(folder: Path) -> Path:
        for number in range(1500):
            os.mkdir(f"{folder}{'/d' * number}")  # noqa: PTH102  Path recurses
        made.append(folder)
        return folder

    yield make
    for folder in made:
        remove(folder)  # the removal by pytest recurses
