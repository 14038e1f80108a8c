"""What a source needs to be built: from its own pyproject.toml, with what those wheels need."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from reprobuild.config.overrides import BuildDecision
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.errors import BuildError, LockError, ReproError, UsageError
from reprobuild.infra.http.client import Net
from reprobuild.lock.python import Sdist, Source, Wheel
from reprobuild.lock.system import Artefact, EnvVar
from reprobuild.resolve.builds import build_requires
from reprobuild.resolve.builds.backends import requirements_of
from reprobuild.resolve.builds.build_requires import BuildWheelSource, ResolvedBuilds, lock_build_wheels
from reprobuild.resolve.builds.projects import Project, read_project
from reprobuild.store.fetch import fetch
from tests.image.made import Made, file, make_wheel

TARGET = WheelTarget(python="3.11.2", glibc=(2, 36), machine="x86_64")

NAME_A_VERSION = (
    "name a version in its pyproject.toml, and put a wheel of it into pip's find-links; of a wheel that "
    "needs it, take another version: build: {lib: {requires: [...]}}"
)


def make_sdist(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write an archive of sources as its name says, with one directory at the top."""
    top = path.name.removesuffix(".tar.gz").removesuffix(".zip")
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in files.items():
                archive.writestr(f"{top}/{name}", content)
        return path
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def artefact(path: Path) -> Artefact:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return Artefact(filename=path.name, sha256=digest, size=len(content), url=path.as_uri())


class Bench:
    """A store with sources, and a directory of wheels that pip would find."""

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

    def sdist(self, name: str, pyproject: str, filename: str = "") -> Sdist:
        path = make_sdist(
            self.folder / (filename or f"{name}-1.0.tar.gz"), {"pyproject.toml": pyproject.encode()}
        )
        return Sdist(name=name, version="1.0", file=artefact(path))

    def all(
        self, sources: Sequence[Source], sdists: Sequence[Sdist] = (), captured: Sequence[Wheel] = (),
        linked: Mapping[str, str] | None = None, **decided: BuildDecision,
    ) -> ResolvedBuilds:  # fmt: skip
        links = PackageIndexes(find_links=(self.folder.as_uri(),), simple=(), credentials={})
        files = FileLists(links, Net(offline=True))
        shelf = BuildWheelSource(files, TARGET, self.made.store, self._bring, captured, linked=linked or {})
        return lock_build_wheels(sources, sdists, decided, shelf)

    def resolve(self, source: Source, *captured: Wheel, **decided: BuildDecision) -> dict[str, str]:
        """Return {name: version} of the wheels of one source's build, all of which were brought."""
        found = self.all([source], captured=captured, **decided)
        assert {wheel.file.filename for wheel in found.wheels} == set(self.brought)
        assert {wheel.role for wheel in found.wheels} <= {"build"}
        assert found.sources[0].building.requires == tuple(
            sorted(wheel.file.sha256 for wheel in found.wheels)
        )
        return {wheel.name: wheel.version for wheel in found.wheels}

    def _bring(self, artefact: Artefact) -> None:
        self.brought.append(artefact.filename)
        fetch([artefact], self.made.store, Net(offline=True))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def asks(*needs: str) -> str:
    return "[build-system]\nrequires = [" + ", ".join(map(json.dumps, needs)) + "]\n"


def names(bench: Bench, source: Source) -> list[str]:
    return [str(one) for one in requirements_of(read_project(source, bench.made.store))]


def test_without_a_word_it_is_pep_518s_default(bench: Bench) -> None:
    for version in ("40.0", "69.5", "70.1"):
        bench.wheel("setuptools", version)
    bench.wheel("wheel", "0.43")
    assert names(bench, bench.source("none", None)) == ["setuptools>=40.8.0", "wheel"]
    sources = [bench.source("a", None), bench.source("b", "[project]\nname = 'b'\n")]
    found = bench.all(sources)
    assert {wheel.name: wheel.version for wheel in found.wheels} == {"setuptools": "70.1", "wheel": "0.43"}
    assert found.sources[0].building == found.sources[1].building


def test_what_is_asked_for_and_what_that_needs(bench: Bench) -> None:
    bench.wheel("hatchling", "1.20")
    bench.wheel("hatchling", "1.25", "packaging>=23", "pathspec", "tomli>=1; python_version < '3.11'",
                "extra-thing; extra == 'x'", 'other-extra ; extra=="x"', "win; sys_platform == 'win32'")  # fmt: skip
    bench.wheel("packaging", "24.1")
    bench.wheel("pathspec", "0.12", "packaging", "hatchling")
    source = bench.source("a", asks("hatchling<2", "hatchling; python_version < '3'"), subdirectory="sub/a")
    assert names(bench, source)[0] == "hatchling<2"
    assert bench.resolve(source) == {"hatchling": "1.25", "packaging": "24.1", "pathspec": "0.12"}


def test_markers_are_judged_by_the_image_alone(bench: Bench) -> None:
    """Nothing of this machine's kernel or Python counts; what nobody can judge is not needed."""
    markers = {
        "kernel": "platform_release != ''", "build": "platform_version != ''", "odd": "os_name ~= 'posix'",
        "here": "implementation_version == '3.11.2'",
    }  # fmt: skip
    for name in markers:
        bench.wheel(name, "1.0")
    lib = bench.source("lib", asks(*(f"{name}; {marker}" for name, marker in markers.items())))
    assert bench.resolve(lib) == {"here": "1.0"}


def test_extras_bring_what_they_need(bench: Bench) -> None:
    bench.wheel("tool", "1.0", "more; extra == 'all'", "less; extra == 'none'", "tool[deep]; extra == 'all'",
                "depth; extra == 'deep'")  # fmt: skip
    bench.wheel("more", "2.0")
    bench.wheel("depth", "3.0")
    found = bench.resolve(bench.source("a", asks("tool[all]")))
    assert found == {"tool": "1.0", "more": "2.0", "depth": "3.0"}


def test_nothing_may_be_needed(bench: Bench) -> None:
    assert bench.resolve(bench.source("a", asks())) == {}


@pytest.mark.parametrize(
    ("captured", "chosen"), [("1.5", "1.5"), ("0.5", "2.0"), ("3.0.dev1", "3.0.dev1")], ids=str
)
def test_the_captured_version_is_taken_where_it_fits(bench: Bench, captured: str, chosen: str) -> None:
    """What is compiled against one version of NumPy may not run with another; the file is the captured one's."""
    bench.wheel("numpy", "2.0")
    path = make_wheel(bench.made.root / f"numpy-{captured}-py3-none-any.whl", {"numpy.py": b"captured"})
    wheel = Wheel(name="numpy", version=captured, role="environment", file=artefact(path))
    found = bench.all([bench.source("a", asks("numpy>=1.0"))], captured=[wheel]).wheels
    assert [(one.name, one.version, one.role) for one in found] == [("numpy", chosen, "build")]
    assert (found[0].file == wheel.file) == (captured == chosen)


def test_a_build_imports_the_versions_that_conda_brings(bench: Bench) -> None:
    """What is compiled against the newest torch does not run with conda's."""
    for version in ("2.1.0", "2.9.0"):
        bench.wheel("torch", version, "numpy")
        bench.wheel("numpy", version)
    bench.wheel("setuptools", "70.1")
    source, linked = bench.source("ext", asks("setuptools", "torch")), {"torch": "2.1.0", "numpy": "2.1.0"}
    own = bench.all([source], linked=linked)
    assert {one.name: one.version for one in own.wheels} == {
        "setuptools": "70.1", "torch": "2.1.0", "numpy": "2.1.0",
    }  # fmt: skip
    inside = bench.all([source], linked=linked, ext=BuildDecision(environment=True))
    assert [one.name for one in inside.wheels] == ["setuptools"]
    another = bench.all([source], linked=linked, ext=BuildDecision(requires=("torch>2.5",)))
    assert {one.name: one.version for one in another.wheels}["torch"] == "2.9.0"
    assert bench.all([source], linked={"torch": "of no form"}).wheels


def test_a_version_of_conda_that_has_no_wheel_is_refused(bench: Bench) -> None:
    bench.wheel("torch", "2.9.0")
    with pytest.raises(
        LockError, match=r"ext needs torch to be built, conda has the version 2\.1\.0\.post300, and no"
    ) as err:
        bench.all([bench.source("ext", asks("torch"))], linked={"torch": "2.1.0.post300"})
    assert err.value.hint == (
        "build it with conda's own: build: {ext: {environment: true}} in reprobuild.yaml; or name another version "
        "there: {requires: [torch==VERSION]}"
    )


def test_older_setuptools_needs_wheel_and_hatchling_editables(bench: Bench) -> None:
    for name, version in (
        ("setuptools", "69.0"),
        ("setuptools", "70.1"),
        ("wheel", "0.43"),
        ("hatchling", "1.0"),
    ):
        bench.wheel(name, version)
    bench.wheel("editables", "0.5")
    old = bench.all([bench.source("old", asks("setuptools<70"))]).wheels
    assert {one.name: one.version for one in old} == {"setuptools": "69.0", "wheel": "0.43"}
    new = bench.all([bench.source("new", asks("setuptools"))]).wheels
    assert {one.name: one.version for one in new} == {"setuptools": "70.1"}
    hatch = asks("hatchling") + "build-backend = 'hatchling.build'\n"
    assert {one.name for one in bench.all([bench.source("h", hatch)]).wheels} == {"hatchling", "editables"}
    assert {one.name for one in bench.all([], [bench.sdist("s", hatch)]).wheels} == {"hatchling"}


def test_what_setup_py_and_hooks_of_hatch_ask_for(bench: Bench) -> None:
    bench.made.source(
        "legacy",
        [
            file("setup.cfg", b"[options]\nsetup_requires =\n  cffi>=1\n  numpy; python_version < '4'\n"),
            file("setup.py", b"from setuptools import setup\nsetup(setup_requires=['cython<3', *more])\n"),
        ],
    )
    assert names(bench, bench.made.sources[-1])[2:] == ["cffi>=1", 'numpy; python_version < "4"', "cython<3"]
    bench.made.source("old", [file("setup.py", b"print 'Python 2'\n")])
    assert names(bench, bench.made.sources[-1]) == ["setuptools>=40.8.0", "wheel"]
    hatch = asks("hatchling") + (
        "build-backend = 'hatchling.build'\n[project]\ndependencies = ['numpy']\n"
        "[tool.hatch.build.targets.wheel]\nrequire-runtime-dependencies = true\n"
        "[tool.hatch.build.targets.wheel.hooks.mypyc]\ndependencies = ['hatch-mypyc']\n"
    )
    assert names(bench, bench.source("h", hatch)) == ["hatchling", "hatch-mypyc", "numpy"]


def test_each_project_has_its_own_set(bench: Bench) -> None:
    for version in ("59.8", "70.1"):
        bench.wheel("setuptools", version)
    bench.wheel("wheel", "0.43")
    new, old = bench.source("new", asks("setuptools>60")), bench.source("old", asks("setuptools<60"))
    found = bench.all([new, old], [bench.sdist("third", asks("setuptools"), "third-1.0.zip")])
    versions = {wheel.file.sha256: f"{wheel.name} {wheel.version}" for wheel in found.wheels}
    one, two = found.sources
    assert [versions[sha256] for sha256 in one.building.requires] == ["setuptools 70.1"]
    assert sorted(versions[sha256] for sha256 in two.building.requires) == ["setuptools 59.8", "wheel 0.43"]
    assert found.sdists[0].building == one.building
    assert found.sdists[0].file.sha256 in {
        hashlib.sha256(p.read_bytes()).hexdigest() for p in bench.folder.iterdir()
    }


def test_an_older_release_is_taken_where_a_need_asks_for_it(bench: Bench) -> None:
    bench.wheel("packaging", "21.0")
    bench.wheel("packaging", "24.1")
    bench.wheel("old_tool", "1.0", "packaging<22")
    assert bench.all([bench.source("lib", asks("packaging", "old-tool"))]).wheels[0].version == "21.0"


def test_what_is_decided_for_one_project(bench: Bench) -> None:
    for name, version in (("setuptools", "70.1"), ("ninja", "1.0"), ("torch", "2.0")):
        bench.wheel(name, version)
    bench.made.wheels.clear()
    torch = Wheel(
        name="torch",
        version="2.0",
        role="environment",
        file=artefact(bench.folder / "torch-2.0-py3-none-any.whl"),
    )
    choice = BuildDecision(requires=("ninja",), variables={"MAX_JOBS": "4"}, environment=True)
    found = bench.all(
        [bench.source("my_ext", asks("setuptools", "torch>=1"))],
        captured=[torch],
        **{"My.Ext": choice},
    )
    assert {wheel.name for wheel in found.wheels} == {"setuptools", "ninja"}
    building = found.sources[0].building
    assert (building.environment, building.variables) == (True, (EnvVar(name="MAX_JOBS", value="4"),))


def test_a_decision_for_what_is_not_built(bench: Bench) -> None:
    with pytest.raises(LockError, match="`build` names other, and nothing of that name is built") as caught:
        bench.all([bench.source("lib", asks())], other=BuildDecision())
    assert caught.value.hint == (
        "it is for projects that have no wheel: editable and version-control lines, and source archives"
    )


@pytest.mark.parametrize(
    ("variables", "words", "hint"),
    [
        ({"A=B": "c"}, "'A=B' cannot be set as a variable", "a name has letters, digits and `_`; no value holds a NUL"),
        ({"API_TOKEN": "hf_" + "Zx9" * 12}, "API_TOKEN looks like a secret", "build that wheel by hand, and put it "
         "into a directory of pip's find-links"),
    ],
)  # fmt: skip
def test_variables_that_no_lock_can_hold(
    bench: Bench, variables: dict[str, str], words: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=f"build: lib: {words}") as caught:
        bench.resolve(bench.source("lib", asks()), lib=BuildDecision(variables=variables))
    assert caught.value.hint == hint
    assert "Zx9" not in str(caught.value)


@pytest.mark.parametrize(
    ("files", "words", "hint"),
    [
        (
            {"pyproject.toml": b"[build-system\n"},
            r"lib: pyproject\.toml: ",
            "pip could not build it either; mend it",
        ),
        (
            {"pyproject.toml/x": b""},
            r"lib: pyproject\.toml is no file",
            "pip could not build it either; mend it",
        ),
        (
            {"setup.py": b" " * (5 << 20)},
            r"lib: setup\.py has more than 4194304 bytes",
            "pip could not build it either; mend it",
        ),
        (
            {"../x": b""},
            "there is no file in its directory sub",
            "check the `subdirectory=` of its line in the freeze",
        ),
    ],
)
def test_a_project_that_cannot_be_read(bench: Bench, files: dict[str, bytes], words: str, hint: str) -> None:
    entries = [file(f"sub/{name}".replace("sub/../", ""), content) for name, content in files.items()]
    bench.made.source("lib", entries, subdirectory="sub")
    with pytest.raises(LockError, match=words) as caught:
        bench.resolve(bench.made.sources[-1])
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("need", "words", "hint"),
    [
        ("hatchling>>1", "lib needs 'hatchling>>1' to be built: ", "mend its pyproject.toml"),
        ("a @ https://example.invalid/a.whl", "lib needs a from an address to be built", NAME_A_VERSION),
    ],
)  # fmt: skip
def test_a_requirement_that_is_none(bench: Bench, need: str, words: str, hint: str) -> None:
    with pytest.raises(LockError, match=words) as caught:
        bench.resolve(bench.source("lib", asks(need)))
    assert caught.value.hint == hint


def test_a_need_of_a_wheel_that_is_an_address(bench: Bench) -> None:
    """It is not passed over; one that does not hold, or that the environment has, says nothing."""
    bench.wheel("tool", "1.0", "part @ https://example.invalid/part.whl ; extra == 'dev'")
    assert bench.resolve(bench.source("lib", asks("tool"))) == {"tool": "1.0"}
    with pytest.raises(
        LockError, match="tool needs part from an address to be built, which is not"
    ) as caught:
        bench.resolve(bench.source("lib", asks("tool[dev]")))
    assert caught.value.hint == NAME_A_VERSION
    inside = BuildDecision(environment=True)
    found = bench.all([bench.source("lib", asks("tool[dev]"))], linked={"part": "1.0"}, lib=inside)
    assert [one.name for one in found.wheels] == ["tool"]


def test_the_needs_of_a_wheel_are_its_own(bench: Bench) -> None:
    """setuptools brings the metadata of what it vendors, and they may stand first in the archive."""
    bench.wheel("tool", "1.0", "part")
    bench.wheel("part", "2.0")
    path = bench.folder / "tool-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path) as old:
        kept = {name: old.read(name) for name in old.namelist()}
    vendored = b"Metadata-Version: 2.1\nName: other\nVersion: 1\nRequires-Dist: nowhere\n"
    with zipfile.ZipFile(path, "w") as new:
        for name, content in {"tool/_vendor/other-1.dist-info/METADATA": vendored, **kept}.items():
            new.writestr(name, content)
    assert bench.resolve(bench.source("lib", asks("tool"))) == {"tool": "1.0", "part": "2.0"}


def test_a_requirement_that_is_nested_too_deeply(bench: Bench) -> None:
    need = f"x; {'(' * 5000}os_name == 'a'{')' * 5000}"
    with pytest.raises(LockError, match=r"lib needs \"x; \(+ to be built: maximum recursion") as caught:
        bench.resolve(bench.source("lib", asks(need)))
    assert caught.value.hint == "mend its pyproject.toml"


def packed(bench: Bench, name: str, *needs: str) -> Source:
    """Return a source whose back end is a wheel with requirements."""
    bench.wheel(name, "1.0", *needs)
    return bench.source("lib", f'[build-system]\nrequires = ["{name}"]\nbuild-backend = "{name}"\n')


def test_repeated_conditions_are_joined_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[str] = []
    monkeypatch.setattr(
        build_requires, "SpecifierSet", lambda text="": joined.append(text) or SpecifierSet(text)
    )
    bench.wheel("x", "2.0")
    source = packed(bench, "tool", *[f"x!=1.{n % 150}" for n in range(2000)])
    assert [(one.name, one.version) for one in bench.all([source]).wheels] == [("tool", "1.0"), ("x", "2.0")]
    assert len(joined) < 10
    assert max(text.count(",") + 1 for text in joined) == 150


@pytest.mark.parametrize(
    ("needs", "error", "words"),
    [
        ([f"x!=1.{n}" for n in range(201)], LockError, "have more than 200 conditions on x"),
        (["x"] * 5001, BuildError, "has 5001 requirements, and at most 5000 are read"),
        ([f"x!={'1' * 2000}"], BuildError, "has a requirement of more than 2000 characters"),
        (["y"] * 4999 + ["tool[a,b,c,d]"], LockError, "have more than 20000 requirements"),
    ],
)  # fmt: skip
def test_requirements_without_number_are_refused(
    needs: list[str], error: type[ReproError], words: str, bench: Bench
) -> None:
    bench.wheel("x", "2.0")
    bench.wheel("y", "2.0")
    with pytest.raises(error, match=words) as err:
        bench.all([packed(bench, "tool", *needs)])
    if error is LockError:
        assert err.value.hint == (
            "of a wheel with that many, take another version: build: {lib: {requires: [...]}}"
        )


def test_a_marker_is_judged_once_for_each_extra(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []
    monkeypatch.setattr(
        build_requires, "marker_holds", lambda marker, markers, extra: judged.append(extra) or True
    )
    bench.wheel("x", "2.0")
    for name, need in (("a", "b"), ("b", "c"), ("c", "x")):
        bench.wheel(name, "1.0", need)
    bench.all([packed(bench, "tool", *["a"] * 100)])
    assert len(judged) < 200


def test_a_requirement_that_nobody_meets(bench: Bench) -> None:
    bench.wheel("hatchling", "1.20", "gone>2")
    bench.wheel("gone", "1.0")
    with pytest.raises(
        LockError, match=r"lib needs hatchling>=1\.21 to be built, and no index of this machine"
    ) as err:
        bench.resolve(bench.source("lib", asks("hatchling>=1.21")))
    assert err.value.hint == (
        "check the names in its pyproject.toml, and pip's indexes; of what is published without a wheel, put one that "
        "you built into a directory of pip's find-links"
    )
    with pytest.raises(LockError, match="hatchling needs gone>2 to be built"):
        bench.resolve(bench.source("lib", asks("hatchling")))
    with pytest.raises(LockError, match="lib needs gone>0, and lib needs gone<1 to be built"):
        bench.resolve(bench.source("lib", asks("gone>0", "gone<1")))


def test_a_requirement_without_a_wheel(bench: Bench) -> None:
    make_sdist(bench.folder / "only_source-1.0.tar.gz", {"setup.py": b""})
    with pytest.raises(
        LockError, match="lib needs only-source to be built, and no index of this machine has a wheel"
    ):
        bench.resolve(bench.source("lib", asks("only-source")))


def test_needs_that_turn_in_a_circle(bench: Bench) -> None:
    bench.wheel("a", "2.0", "b<2")
    bench.wheel("a", "1.0")
    bench.wheel("b", "1.0", "a<2")
    bench.wheel("b", "2.0")
    with pytest.raises(
        LockError, match="lib: no set of wheels was found that suits all that its build needs"
    ) as caught:
        bench.resolve(bench.source("lib", asks("a", "b")))
    assert caught.value.hint == "name versions in reprobuild.yaml: build: {lib: {requires: [...]}}"
    assert bench.all([bench.source("lib", asks("a", "b"))], lib=BuildDecision(requires=("a<2",))).wheels


def test_a_project_with_a_key_of_many_parts_is_refused() -> None:
    texts = {"pyproject.toml": b".".join([b"a"] * 40) + b" = 1"}
    project = Project(name="x", editable=False, paths=("pyproject.toml",), texts=texts)
    with pytest.raises(LockError, match=r"^x: pyproject\.toml: it has a key of more than 32 parts"):
        project.table("project")
