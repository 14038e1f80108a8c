"""A lock is built on a host that has Python, util-linux and little else: no dpkg, apt, tar, perl or git."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import site
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from reprobuild.ecosystems.apt.deb import open_part
from reprobuild.ecosystems.apt.index import SystemIndex, newest_candidate
from reprobuild.infra.proc import run
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.infra.sandbox.model import Bind
from reprobuild.infra.sandbox.namespaces import PATH
from reprobuild.lock.file import read_lock
from reprobuild.realise.unpack import extract, unpack_root
from reprobuild.resolve.system.packages import resolve_base
from reprobuild.store.store import Store
from tests.conftest import ROOT, reprobuild
from tests.resolve.repositories import Project
from tests.system.samples import EPOCH, bring

# The programs that `build` starts, all of them; docs/builders.md has this list.
PROGRAMS = {
    "python3.11", "unshare", "mount", "sh", "dash", "env", "hostname", "ln", "mkdir", "true",
}  # fmt: skip
_PROJECT = {
    "pyproject.toml": b'[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n\n'
    b'[project]\nname = "proj"\nversion = "1"\n',
    "proj/__init__.py": b"answer = 42\n",
}
PROBE = """
from pathlib import Path
from reprobuild.infra.sandbox.model import Bind, Root
from reprobuild.infra.sandbox.command import run_in_root
binds = [Bind(source=Path("/code/reprobuild/errors.py"), target="/there/errors.py")]
run_in_root(Root(folder=Path("/inner")), ["/bin/sh", "-c", ":"], epoch=1, purpose="try", binds=binds)
"""
# A root directory as a machine: what is in it may make namespaces, which no command in our sandbox may.
MACHINE = """
set -e
sh -c "$SETUP" sandbox "$1" "$2" "$3" "$4"
cd -- "$1"
shift 4
while [ "$#" -gt 0 ]; do
    mkdir -p "./$2"
    mount -n --rbind "$1" "./$2"
    if [ "$3" = ro ]; then mount -n -o remount,bind,ro "./$2"; fi
    shift 3
done
mount -n -o remount,bind,rw proc && mount -n --move . / &&
exec setpriv --inh-caps=-all --bounding-set=-sys_admin chroot . /usr/bin/env -i $VARIABLES sh -c "$COMMAND"
"""
# An ordinary user, in a host whose root is not the machine's.
AS_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")


@pytest.fixture(scope="module")
def mount(bookworm: SystemIndex, store: Store) -> Path:
    """The package of `mount`, which Debian keeps apart from util-linux: no small base has it."""
    tool, _ = resolve_base((), index=bookworm, roots=["mount"])
    (deb,) = (one for one in tool.packages if one.name == "mount")
    bring([deb], store)
    return store.verified(deb.file.sha256, "mount")


@pytest.fixture(scope="module")
def locked(bookworm: SystemIndex, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lock of a small base and of one source that must be built, on this machine."""
    folder = tmp_path_factory.mktemp("locked")
    project = Project(folder / "proj", _PROJECT)
    candidate = newest_candidate(bookworm.versions("python3.11"))
    assert candidate is not None
    snapshot = folder / "snapshot"
    snapshot.mkdir()
    (snapshot / "apt-packages.txt").write_text(f"python3.11/now {candidate.version} amd64 [installed]\n")
    (snapshot / "requirements.txt").write_text(f"-e git+https://h.test/proj@{project.head}#egg=proj\n")
    done = reprobuild(
        "lock", snapshot, "-o", folder / "reprobuild.lock", "--store", folder / "store", "--base", "debian/bookworm",
        "--source", f"proj={project.path}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = reprobuild("fetch", folder / "reprobuild.lock", "--store", folder / "store")
    assert done.returncode == 0, done.stderr
    return folder


def only_inputs(locked: Path, target: Path) -> Path:
    """Return a store that has what the lock names, and nothing that was made of it."""
    lock = read_lock(locked / "reprobuild.lock")
    files = [deb.file for deb in (*lock.base.packages, *lock.base.tools)]
    files += [one.file for one in (*lock.wheels, *lock.sources)]
    for file in files:
        blob = Store(target).blob(file.sha256)
        blob.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Store(locked / "store").blob(file.sha256), blob)
    return target


@pytest.fixture(scope="module")
def here(locked: Path) -> str:
    """The tree digest that this machine builds."""
    store = only_inputs(locked, locked / "here")
    done = reprobuild(
        "build", locked / "reprobuild.lock", "-o", locked / "out", "--store", store, "--offline", "--json"
    )
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["image"]["tree"])


@pytest.fixture
def bare(store_blob: Path, mount: Path, tmp_path: Path) -> Path:
    """A root directory with no other programs than `PROGRAMS`, and nothing that dpkg or Perl left."""
    root = tmp_path / "bare"
    root.mkdir()
    unpack_root(store_blob, root)
    with open_part(mount, "data.tar", "mount") as tar:
        extract(tar, root, "mount")
    for folder in ("usr/bin", "usr/sbin"):
        for path in (root / folder).iterdir():
            if path.name not in PROGRAMS:
                path.unlink()
    for name in (
        "var/lib/dpkg",
        "usr/lib/dpkg",
        "usr/share/dpkg",
        "etc/dpkg",
        "usr/share/perl5",
        "var/lib/apt",
    ):
        shutil.rmtree(root / name, ignore_errors=True)
    return root


def seen_code() -> tuple[list[Bind], dict[str, str]]:
    """Return our program and the libraries that it needs as binds, and the variables that lead to them.

    The libraries are those of the Python that runs the tests; the host has the same version.
    """
    assert sys.version_info[:2] == (3, 11)
    binds = [
        Bind(source=ROOT / name, target=f"/code/{name}")
        for name in ("reprobuild", "reprobuild_portable", "reprobuild_runtime", "templates")
    ]
    places = [Path(place) for place in site.getsitepackages() if Path(place).is_dir()]
    binds += [Bind(source=place, target=f"/packages/{number}") for number, place in enumerate(places)]
    path = ":".join(["/code", *(f"/packages/{number}" for number in range(len(places)))])
    return binds, {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}


def on_machine(root: Path, argv: Sequence[str], binds: Sequence[Bind], env: Mapping[str, str]) -> bytes:
    """Run a command on a machine that is a root directory."""
    mounts = [
        word for bind in binds for word in (str(bind.source), bind.target, "rw" if bind.writable else "ro")
    ]
    variables = {"PATH": PATH, "HOME": "/root", "SOURCE_DATE_EPOCH": str(EPOCH), **env}
    return run(
        [
            "unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork",
            "--kill-child", "--", "sh", "-c", MACHINE, "machine", str(root), "bare", "no", "0", *mounts,
        ],
        env={
            "PATH": PATH, "SETUP": (ROOT / "reprobuild/infra/sandbox/setup.sh").read_text(),
            "COMMAND": shlex.join(argv),
            "VARIABLES": " ".join(f"{name}={value}" for name, value in variables.items()),
        },
        purpose="run on a bare host",
    )  # fmt: skip


@pytest.mark.long  # each builds an image, and so does the fixture `here`
@pytest.mark.parametrize("user", [(), AS_USER], ids=["root", "user"])
def test_a_host_without_dpkg_builds_the_same_tree(
    user: tuple[str, ...], locked: Path, here: str, bare: Path, tmp_path: Path
) -> None:
    assert {path.name for name in ("bin", "sbin") for path in (bare / "usr" / name).iterdir()} <= PROGRAMS
    work = tmp_path / "work"
    only_inputs(locked, work / "store")
    shutil.copyfile(locked / "reprobuild.lock", work / "reprobuild.lock")
    binds, env = seen_code()
    binds.append(Bind(source=work, target="/job", writable=True))
    argv = [
        *user, "python3.11", "-m", "reprobuild.cli", "build", "/job/reprobuild.lock", "-o", "/job/out",
        "--store", "/job/store", "--offline", "--json",
    ]  # fmt: skip
    said = on_machine(bare, argv, binds, env)
    assert json.loads(said)["image"]["tree"] == here


def test_each_program_of_the_list_is_needed(bare: Path, tmp_path: Path) -> None:
    """So that the list of what a host needs is no longer than it must be."""
    inner = tmp_path / "inner"
    shutil.copytree(bare, inner, symlinks=True, copy_function=os.link)
    binds, env = seen_code()
    binds.append(Bind(source=inner, target="/inner", writable=True))

    def tries() -> str:
        try:
            on_machine(bare, ["/usr/bin/python3.11", "-c", PROBE], binds, env)
        except ProcessFailedError as err:
            return err.stderr
        return ""

    assert tries() == ""
    # `env` and the shell are what starts a program on this machine.
    for name in sorted(PROGRAMS - {"python3.11", "sh", "dash", "env"}):
        (path,) = (one for place in ("bin", "sbin") if (one := bare / "usr" / place / name).exists())
        path.rename(tmp_path / name)
        assert tries(), name
        (tmp_path / name).rename(path)
