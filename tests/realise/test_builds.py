"""Archives of sources become wheels, once, by their own back ends."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import msgspec
import pytest

from reprobuild.config.overrides import BuildDecision
from reprobuild.errors import BuildError
from reprobuild.lock.file import write_lock
from reprobuild.lock.python import Wheel
from reprobuild.lock.system import Artefact
from reprobuild.realise.realise import is_realised, realise
from tests.conda_packages import Spec, locked
from tests.image.made import make_wheel
from tests.realise.projects import EXTENSION, Bench, rebuilt
from tests.terminal import HOSTILE, at_terminal

SETUP = b"from setuptools import Extension, setup\nsetup(name='made', version='1.5', packages=['made'], "
PURE = {"made/__init__.py": b"x = 1\n", "setup.py": SETUP + b")\n"}
COMPILED = {
    "made/__init__.py": b"from made._c import answer\n", "c/_c.c": EXTENSION,
    "setup.py": SETUP + b"ext_modules=[Extension('made._c', ['c/_c.c'])])\n",
}  # fmt: skip


def members(bench: Bench, wheel: Wheel) -> dict[str, bytes]:
    with zipfile.ZipFile(bench.store.blob(wheel.file.sha256)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_an_archive_becomes_a_wheel_once(bench: Bench) -> None:
    lock = bench.lock(sdists=[bench.sdist("made", "1.5", PURE)])
    assert not lock.sdists[0].building.compiles
    said: list[str] = []
    sealed = realise(lock, bench.store, said.append)
    (wheel,) = sealed.realised.wheels
    assert (wheel.name, wheel.version, wheel.role) == ("made", "1.5", "environment")
    assert members(bench, wheel)["made/__init__.py"] == b"x = 1\n"
    (built,) = sealed.realised.builds
    assert (built.name, built.wheel, built.parts, built.tools) == ("made", wheel.file.sha256, "", ())
    assert is_realised(lock, bench.store)
    assert realise(lock, bench.store, lambda text: pytest.fail(text)) == sealed


def test_an_archive_of_a_repository_tells_its_version_when_it_is_built(bench: Bench) -> None:
    """As `name @ https://.../v1.tar.gz#subdirectory=py` is locked: the address tells no version."""
    archive = bench.sdist("made", "1.5", {f"py/{name}": content for name, content in PURE.items()})
    direct = msgspec.structs.replace(archive, version="", subdirectory="py")
    sealed = realise(bench.lock(sdists=[direct]), bench.store)
    assert [(wheel.name, wheel.version) for wheel in sealed.realised.wheels] == [("made", "1.5")]


@pytest.mark.long
def test_an_extension_is_compiled_to_the_same_bytes_twice(bench: Bench) -> None:
    lock = bench.lock(sdists=[bench.sdist("made", "1.5", COMPILED)])
    assert lock.sdists[0].building.compiles
    first = rebuilt(bench, lock, "made").built
    sealed = realise(lock, bench.store)  # a build of its own: the store remembers none
    assert sealed.realised.builds == (first,)
    tools = dict(line.split(": ", 1) for line in sealed.realised.builds[0].tools)
    assert tools["cc"].startswith("cc (Debian 12")
    assert "-O2" in tools["CFLAGS"]
    name = "made/_c.cpython-311-x86_64-linux-gnu.so"
    library = members(bench, sealed.realised.wheels[0])[name]
    assert b"c/_c.c Jan  1 1980 00:00:00" in library


@pytest.mark.parametrize(
    ("version", "name", "words", "hint"),
    [
        ("1.4", "made", "was built to made 1.5, and the freeze says 1.4", "it is not what was installed: find the "
         "archive of that version, or name a wheel of it"),
        ("1.5", "other", "is one of made 1.5, in a file named made-1.5-py3-none-any.whl", "is other the name in its "
         "pyproject.toml, or setup.py?"),
    ],
)  # fmt: skip
def test_an_archive_of_something_else(bench: Bench, version: str, name: str, words: str, hint: str) -> None:
    lock = bench.lock(sdists=[bench.sdist(name, version, PURE)])
    with pytest.raises(BuildError, match=re.escape(words)) as caught:
        realise(lock, bench.store)
    assert caught.value.hint == hint


DYNAMIC = (
    b"import sys\nfrom setuptools import setup\nneeds = ['ninja>=1']\n"
    b"setup(name='made', version='1.5', setup_requires=needs)\n"
)


def test_a_back_end_that_asks_for_more(bench: Bench) -> None:
    """What setup.py computes nobody knows before it runs: the error says what to decide."""
    archive = bench.sdist("made", "1.5", {"setup.py": DYNAMIC})
    with pytest.raises(
        BuildError, match=r"the back end of made asks for ninja>=1, which its files did not"
    ) as caught:
        realise(bench.lock(sdists=[archive]), bench.store)
    assert caught.value.hint == (
        'add in reprobuild.yaml: build: {made: {requires: ["ninja>=1"]}}, and lock again'
    )
    decided = {"made": BuildDecision(requires=("ninja>=1",), variables={"SETTING": "7"})}
    sealed = realise(bench.lock(sdists=[archive], decided=decided), bench.store)
    assert ("SETTING", "7") in {(one.name, one.value) for one in sealed.realised.builds[0].variables}


def test_with_the_environment_condas_own_are_there(bench: Bench, tmp_path: Path) -> None:
    archive = bench.sdist("made", "1.5", {"setup.py": DYNAMIC})
    lock = bench.lock(sdists=[archive], decided={"made": BuildDecision(environment=True)})
    for version in ("1.11", "0.9", "odd"):
        spec = Spec(
            name="ninja", files={f"lib/python3.11/site-packages/ninja-{version}.dist-info/METADATA": b""}
        )
        package = msgspec.structs.replace(locked(spec, tmp_path, bench.store), distributions=("ninja",))
        with_conda = msgspec.structs.replace(lock, conda=(package,))
        if version == "1.11":
            assert rebuilt(bench, with_conda, "made").wheel.version == "1.5"
            continue
        with pytest.raises(BuildError, match="asks for ninja>=1"):
            rebuilt(bench, with_conda, "made")


def test_a_version_that_is_read_from_a_repository(bench: Bench) -> None:
    text = b"[build-system]\nrequires=['setuptools', 'setuptools-scm']\n[project]\nname='made'\ndynamic=['version']\n"
    files = {"pyproject.toml": text + b"[tool.setuptools_scm]\n[tool.setuptools]\npy-modules=[]\n"}
    with pytest.raises(BuildError) as caught:
        bench.sealed(bench.source("made", files))
    assert caught.value.hint == (
        "an image has no repository to read the version from: build: {made: {variables: "
        "{SETUPTOOLS_SCM_PRETEND_VERSION_FOR_MADE: VERSION}}} in reprobuild.yaml, and lock again"
    )


def test_what_comes_out_otherwise_than_a_sealed_lock_says(bench: Bench) -> None:
    sealed = realise(bench.lock(sdists=[bench.sdist("made", "1.5", PURE)]), bench.store)
    wheel = sealed.realised.wheels[0]
    other = msgspec.structs.replace(wheel, file=msgspec.structs.replace(wheel.file, sha256="1" * 64))
    wrong = msgspec.structs.replace(
        sealed, realised=msgspec.structs.replace(sealed.realised, wheels=(other,))
    )
    with pytest.raises(BuildError, match="the wheel of made came out otherwise than the lock says"):
        realise(wrong, bench.store)


AT_TERMINAL = """
from pathlib import Path
from reprobuild.lock.file import read_lock
from reprobuild.realise.realise import realise
from reprobuild.store.store import Store
realise(read_lock(Path(sys.argv[1])), Store(Path(sys.argv[2])))
"""


def test_a_back_end_of_a_hostile_source_has_no_terminal(bench: Bench, tmp_path: Path) -> None:
    """It would type a command into the shell of the user who builds; what it found is in its wheel."""
    count = b"open('made/__init__.py', 'w').write(f'TERMINALS = {len(found)}')\n"
    files = {"made/__init__.py": b"", "setup.py": HOSTILE.encode() + count + SETUP + b")\n"}
    lock = bench.lock(sdists=[bench.sdist("made", "1.5", files)])
    write_lock(lock, tmp_path / "x.lock")
    assert at_terminal(AT_TERMINAL, tmp_path / "x.lock", bench.store.root, typed=b"password")[1:] == (b"", 8)
    sealed = realise(lock, bench.store, lambda text: pytest.fail(text))
    (wheel,) = sealed.realised.wheels
    assert members(bench, wheel)["made/__init__.py"] == b"TERMINALS = 0"


NEEDS_TORCH = {
    "made/__init__.py": b"from made._c import answer\n", "c/_c.c": b'#include "torch.h"\n' + EXTENSION,
    "setup.py": b"import torch\n" + SETUP
    + b"ext_modules=[Extension('made._c', ['c/_c.c'], include_dirs=[torch.HERE])])\n",
}  # fmt: skip


def test_an_extension_is_compiled_against_the_environment(bench: Bench, tmp_path: Path) -> None:
    """With `environment` the build imports what the image has, where the image has it; without, it does not."""
    code = b"import os\nHERE = os.path.dirname(__file__)\nprint(HERE)\n"
    path = make_wheel(
        tmp_path / "torch-2.0-py3-none-any.whl", {"torch/__init__.py": code, "torch/torch.h": b""}
    )
    content = path.read_bytes()
    file = Artefact(filename=path.name, sha256=bench.store.add(content), size=len(content))
    torch = Wheel(name="torch", version="2.0", role="environment", file=file)
    archive = bench.sdist("made", "1.5", NEEDS_TORCH)
    with pytest.raises(BuildError, match="No module named 'torch'") as caught:
        realise(bench.lock(sdists=[archive], captured=[torch]), bench.store)
    assert caught.value.hint == (
        "it imports what the environment has: build: {made: {environment: true}} in reprobuild.yaml, and lock again"
    )
    decided = {"made": BuildDecision(environment=True)}
    lock = bench.lock(sdists=[archive], captured=[torch], decided=decided)
    sealed = realise(lock, bench.store)
    assert "made/_c.cpython-311-x86_64-linux-gnu.so" in members(bench, sealed.realised.wheels[0])
    assert "torch" not in {wheel.name for wheel in lock.wheels if wheel.role == "build"}
