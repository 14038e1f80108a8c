"""What a source needs to be built: from its own pyproject.toml, with what those wheels need."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from reprobuild.errors import LockError
from reprobuild.fetch import fetch
from reprobuild.lock import Artefact, Source
from reprobuild.net import Net
from reprobuild.resolve.build_requires import read_pyproject, read_requires, resolve_build_requires
from reprobuild.resolve.files import FileLists
from reprobuild.resolve.indexes import Indexes
from reprobuild.resolve.python import Target
from tests.image.made import Made, file, make_wheel

TARGET = Target(python="3.11.2", glibc=(2, 36), machine="x86_64")


class Bench:
    """A store with sources, and a folder of wheels that pip would find."""

    def __init__(self, tmp_path: Path) -> None:
        self.made = Made(tmp_path / "made")
        self.folder = tmp_path / "wheels"
        self.folder.mkdir()
        self.brought: list[str] = []

    def wheel(self, name: str, version: str, *needs: str) -> None:
        path = self.folder / f"{name}-{version}-py3-none-any.whl"
        make_wheel(path, {f"{name}.py": b""})
        if needs:  # one more METADATA would not do: the wheel is made anew with its needs
            info = f"{name}-{version}.dist-info/METADATA"
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
            with zipfile.ZipFile(path) as old:
                kept = {n: old.read(n) for n in old.namelist() if n != info}
            with zipfile.ZipFile(path, "w") as new:
                for member, content in {**kept, info: metadata.encode()}.items():
                    new.writestr(member, content)

    def source(self, name: str, pyproject: str | None, subdirectory: str = "") -> Source:
        place = f"{subdirectory}/pyproject.toml".lstrip("/")
        entries = [file("setup.py", b"")] if pyproject is None else [file(place, pyproject.encode())]
        self.made.source(name, entries, subdirectory=subdirectory)
        return self.made.sources[-1]

    def resolve(self, *sources: Source) -> dict[str, str]:
        links = Indexes(find_links=(self.folder.as_uri(),), simple=(), credentials={})
        files = FileLists(links, Net(offline=True))
        found = resolve_build_requires(sources, files, TARGET, self.made.store, self._bring)
        assert [self.folder / w.file.filename for w in found] == [self.folder / name for name in self.brought]
        assert {w.role for w in found} <= {"build"}
        return {w.name: w.version for w in found}

    def _bring(self, artefact: Artefact) -> None:
        self.brought.append(artefact.filename)
        fetch([artefact], self.made.store, Net(offline=True))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def asks(*needs: str) -> str:
    return "[build-system]\nrequires = [" + ", ".join(map(json.dumps, needs)) + "]\n"


def test_without_a_word_it_is_pep_518s_default(bench: Bench) -> None:
    for version in ("40.0", "69.5", "70.1"):
        bench.wheel("setuptools", version)
    bench.wheel("wheel", "0.43")
    assert read_requires(bench.source("none", None), bench.made.store) == ["setuptools>=40.8.0", "wheel"]
    sources = [bench.source("a", None), bench.source("b", "[project]\nname = 'b'\n")]
    assert bench.resolve(*sources) == {"setuptools": "70.1", "wheel": "0.43"}


def test_what_is_asked_for_and_what_that_needs(bench: Bench) -> None:
    bench.wheel("hatchling", "1.20")
    bench.wheel("hatchling", "1.25", "packaging>=23", "pathspec", "tomli>=1; python_version < '3.11'",
                "extra-thing; extra == 'x'", 'other-extra ; extra=="x"', "win; sys_platform == 'win32'")  # fmt: skip
    bench.wheel("packaging", "24.1")
    bench.wheel("pathspec", "0.12", "packaging", "hatchling")
    source = bench.source("a", asks("hatchling<2", "hatchling; python_version < '3'"), subdirectory="sub/a")
    assert read_pyproject(source, bench.made.store)["build-system"]["requires"][0] == "hatchling<2"
    assert bench.resolve(source) == {"hatchling": "1.25", "packaging": "24.1", "pathspec": "0.12"}


def test_nothing_may_be_needed(bench: Bench) -> None:
    assert bench.resolve(bench.source("a", asks())) == {}


def test_a_project_file_that_is_no_toml(bench: Bench) -> None:
    with pytest.raises(LockError, match=r"lib: sub/pyproject\.toml: ") as caught:
        bench.resolve(bench.source("lib", "[build-system\n", "sub"))
    assert caught.value.hint == "pip could not build it either; mend it"


def test_a_requirement_that_is_none(bench: Bench) -> None:
    with pytest.raises(LockError, match="lib needs 'hatchling>>1' to be built: ") as caught:
        bench.resolve(bench.source("lib", asks("hatchling>>1")))
    assert caught.value.hint == "mend its pyproject.toml"


def test_a_requirement_that_nobody_meets(bench: Bench) -> None:
    bench.wheel("hatchling", "1.20", "gone>2")
    bench.wheel("gone", "1.0")
    with pytest.raises(
        LockError, match=r"lib needs hatchling>=1\.21 to be built, and no index of this machine"
    ) as err:
        bench.resolve(bench.source("lib", asks("hatchling>=1.21")))
    assert err.value.hint == "check the name in its pyproject.toml, and pip's indexes"
    with pytest.raises(LockError, match="hatchling needs gone>2 to be built"):
        bench.resolve(bench.source("lib", asks("hatchling")))


def test_two_sources_are_built_with_the_same_wheels(bench: Bench) -> None:
    for version in ("59.8", "70.1"):
        bench.wheel("setuptools", version)
    new, old = bench.source("new", asks("setuptools")), bench.source("old", asks("setuptools<60"))
    assert bench.resolve(new, old) == {"setuptools": "59.8"}
    newer = bench.source("newer", asks("setuptools>60"))
    with pytest.raises(LockError) as caught:
        bench.resolve(old, newer)
    assert "old needs setuptools<60 to be built (all sources together: <60,>60), and no index" in str(
        caught.value
    )


def test_what_wheels_need_may_contradict_what_was_chosen(bench: Bench) -> None:
    bench.wheel("packaging", "24.1")
    bench.wheel("old_tool", "1.0", "packaging<22")
    with pytest.raises(
        LockError, match=r"old-tool needs packaging<22 to be built, and packaging 24\.1 was"
    ) as err:
        bench.resolve(bench.source("lib", asks("packaging", "old-tool")))
    assert err.value.hint == (
        "name packaging in the build-system.requires of the sources, with a version that suits all"
    )
