"""Scripts of conda's packages: run in the sandbox, after the packages that they need, or never."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from reprobuild.errors import BuildError
from reprobuild.infra.sandbox.model import Root
from reprobuild.realise.conda import link_conda
from tests.conda.test_linking import NALA, PYTHON, linked
from tests.conda_packages import Spec, locked
from tests.image.made import Made

PROGRAMS = ("env", "bash", "mkfifo", "cat", "mv", "ln", "rm")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """A directory with the few programs that the scripts use."""
    folder = tmp_path_factory.mktemp("root")
    for name in PROGRAMS:
        program = Path(shutil.which(name) or "")
        said = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
        for place in [*re.findall(r"(/\S+) \(0x", said), f"/usr/bin/{name}", f"/bin/{name}"]:
            target = folder / place.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(program if place.endswith(f"bin/{name}") else place, target)
    return Root(folder=folder)


def scripted(name: str, text: str, *, when: str = "post-link", depends: tuple[str, ...] = ()) -> Spec:
    return Spec(name=name, files={f"bin/.{name}-{when}.sh": text.encode()}, depends=depends)


def test_they_run_after_what_they_need_and_without_the_machine(root: Root, tmp_path: Path) -> None:
    text = 'echo "$PKG_NAME $PKG_VERSION $PREFIX" >> "$PREFIX/ran"; echo hello > "$PREFIX/.messages.txt"\n'
    specs = [
        scripted("aa", text, depends=("zz >=1",)), scripted("zz", text), scripted("bad", "exit 1\n", when="pre-link"),
        scripted("net", f'cat < /dev/tcp/192.0.2.1/80 || echo none >> "$PREFIX/ran"; cat {tmp_path}/store || :\n'),
        PYTHON,
    ]  # fmt: skip
    prefix = linked(specs, tmp_path, root=lambda: root)
    assert (prefix / "ran").read_text() == "zz 1.0 /opt/env\naa 1.0 /opt/env\nnone\n"
    assert not (prefix / ".messages.txt").exists()


def test_one_that_fails_is_an_error_with_its_words(root: Root, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"(?s)post-link script of conda's bad.*no such luck") as caught:
        linked([scripted("bad", "echo no such luck >&2; exit 3\n"), PYTHON], tmp_path, root=lambda: root)
    assert caught.value.hint == "its script is hostile, or broken; leave the package out with `--drop NAME`"


def test_what_is_no_file_is_refused(root: Root, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="left pipe, which is no file"):
        linked([scripted("bad", 'mkfifo "$PREFIX/pipe"\n'), PYTHON], tmp_path, root=lambda: root)


@pytest.mark.parametrize(
    "script",
    [
        'mv "$PREFIX/conda-meta" "$PREFIX/x"; ln -s {outside} "$PREFIX/conda-meta"',
        'rm "$PREFIX/conda-meta/nala-1.0-pyhd8ed1ab_0.json"',
        """x=$PREFIX/conda-meta/nala-1.0-pyhd8ed1ab_0.json; rm $x
        printf '{{"x":%s' "$(printf '[%.0s' {{1..9999}})" > $x""",
    ],
)
def test_the_record_of_what_a_wheel_replaces_is_removed_nowhere_else(
    root: Root, tmp_path: Path, script: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    record = outside / "nala-1.0-pyhd8ed1ab_0.json"
    record.write_text("{}")
    made = Made(tmp_path / "made")
    made.wheel("nala", {"nala/__init__.py": b""})
    specs = (PYTHON, NALA, scripted("bad", script.format(outside=outside), depends=("nala",)))
    packages = [locked(spec, tmp_path / "channel", made.store) for spec in specs]
    packages[1] = msgspec.structs.replace(packages[1], distributions=("nala",))
    with pytest.raises(BuildError, match=r"left something else than conda-meta/nala-1\.0") as caught:
        link_conda(made.lock(conda=tuple(packages)), tmp_path / "tree", lambda: root, made.store)
    assert caught.value.hint == "its script is hostile, or broken; leave the package out with `--drop NAME`"
    assert record.exists()
