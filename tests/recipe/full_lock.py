"""A lock that has a value in each field, and the places of its strings by reflection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from reprobuild.lock.file import VERSION
from reprobuild.lock.model import (
    BuildRecord,
    Bytecode,
    Lock,
    RealisedOutputs,
    Resolution,
    SealedLock,
    Workload,
)
from reprobuild.lock.python import Building, CondaPackage, Interpreter, Sdist, Source, Wheel
from reprobuild.lock.recorded import RecordedArchive, RecordedBuild, RecordedDecisions, RecordedWorkload
from reprobuild.lock.system import (
    Artefact,
    Base,
    BaseImage,
    Deb,
    EnvVar,
    ImageBlob,
    ImageLayer,
    ImagePackage,
    InheritedSetting,
)

URL = "https://files.example.org/"
# A place in a value: names of fields, numbers of items, keys of maps; ("key", K) is a key itself.
Step = str | int | tuple[str, str]


def file(name: str, digit: str) -> Artefact:
    return Artefact(filename=name, sha256=digit * 64, size=3, url=URL + name)


def blob(name: str, digit: str) -> ImageBlob:
    return ImageBlob(filename=name, sha256=digit * 64, size=3, url=f"{URL}v2/blobs/{digit}")


def setting(name: str) -> EnvVar:
    return EnvVar(name=name, value=f"of {name}", needs=(f"/usr/lib/{name}.so",))


def base() -> Base:
    deb = Deb(
        name="libone", version="1:2.0-1+deb12u1", architecture="amd64", essential=True,
        file=file("libone_2.0-1+deb12u1_amd64.deb", "1"),
    )  # fmt: skip
    image = BaseImage(
        reference="registry.example.org/team/base:1", digest=f"sha256:{'2' * 64}",
        config=blob("team/base, config", "3"),
        layers=(ImageLayer(file=blob("team/base, layer", "4"), media_type="application/x.tar+gzip", diff_id="5" * 64),),
        packages=(ImagePackage(name="libtwo", version="3", architecture="amd64"),),
        environment=(InheritedSetting(name="BELOW", value="of it", needs=("/usr/lib/x.so",)),),
    )  # fmt: skip
    return Base(distribution="debian", release="bookworm", packages=(deb,), tools=(deb,), image=image)


def full_lock(executable: str = "/usr/bin/python3.11") -> Lock:
    """Return a sealed lock with something in each field."""
    building = Building(requires=("6" * 64,), variables=(setting("BUILDING"),))
    wheel = Wheel(
        name="first", version="1.0+cpu", role="environment", file=file("first-1.0+cpu-py3-none-any.whl", "7"),
        yanked="broken", requires=("other>=1",),
    )  # fmt: skip
    source = Source(
        name="project", url="git+https://git.example.org/project.git", commit="8" * 40, tree="9" * 40, patch="a" * 64,
        path="/src/project", editable=True, epoch=1_700_000_000, file=file("project-999.tar", "b"),
        subdirectory="python", building=building,
    )  # fmt: skip
    built = BuildRecord(
        name="project", wheel="c" * 64, tools=("gcc 12",), variables=(setting("BUILT"),), parts="d" * 64,
        files=("project/fast.so",),
    )  # fmt: skip
    return SealedLock(
        version=VERSION, snapshot="e" * 64, platform="linux/amd64", epoch=1_700_000_000, seed=1, profile="torch",
        interpreter=Interpreter(
            version="3.11.2", executable=executable, evidence="asked", kind="standalone",
            file=file("cpython.tar.gz", "f"),
        ),
        base=base(), build_base=base(), wheels=(wheel,), sources=(source,),
        environment=(setting("ORDINARY"), EnvVar(name="LINES", value="one\ntwo")), workdir="/src/project",
        workload=Workload(command=("python", "train.py"), outputs=("out.pt",)),
        decisions=RecordedDecisions(
            system="all", packages=("ffmpeg",),
            python="3.11", base="debian/bookworm", platform="linux/amd64", sources={"project": "project.bundle"},
            archives=(RecordedArchive(url=URL, key="AB", suites=("x",), components=("main",)),), indexes={"first": URL},
            channels=("conda-forge",), bake={"NAME": "value"}, drop=("gone",), accept=("withdrawn",), profile="torch",
            workload=RecordedWorkload(command=("python",), outputs=("out.pt",)),
            build={"project": RecordedBuild(requires=("a",), packages=("b",), variables={"C": "d"})}, build_image="x:1",
            as_of="2024-01-16T00:00:00Z",
        ),
        rulings=(
            Resolution(
                file="requirements.txt", line=1, subject="second", outcome="replaced", reason="gone", kind="withdrawn",
                captured="second==1",
            ),
        ),
        sdists=(
            Sdist(
                name="old", version="1.0", file=file("old-1.0.tar.gz", "0"), subdirectory="lib", yanked="why",
                building=building,
            ),
        ),
        conda=(
            CondaPackage(
                name="libthree", version="1!2", build="h1_0", subdir="linux-64", channel="conda-forge",
                file=file("libthree-1!2-h1_0.conda", "1"), distributions=("three",),
            ),
        ),
        realised=RealisedOutputs(
            base="2" * 64, runtime="3" * 64, interpreter="4" * 64, builds=(built,),
            wheels=(
                Wheel(
                    name="project", version="1", role="environment", file=file("project-1-py3-none-any.whl", "5"),
                    requires=("first",),
                ),
            ),
            bytecode=(Bytecode(artefact="6" * 64, tar="7" * 64),),
        ),
    )  # fmt: skip


def texts(
    value: Any, path: str = "$", steps: tuple[Step, ...] = ()
) -> Iterator[tuple[str, tuple[Step, ...], str]]:
    """Yield (path as `types_walk.strings` has it, steps, text) of each string of a value."""
    if isinstance(value, str):
        yield path, steps, value
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from texts(getattr(value, name), f"{path}.{name}", (*steps, name))
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from texts(item, f"{path}[...]", (*steps, number))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"{path}{{key}}", (*steps, ("key", key)), key
            yield from texts(item, f"{path}[...]", (*steps, key))


def replaced(value: Any, steps: tuple[Step, ...], text: str) -> Any:
    """Return a value with another text at a place; nothing is validated."""
    if not steps:
        return text
    step, *rest = steps
    if isinstance(step, tuple):
        return {text if key == step[1] else key: item for key, item in value.items()}
    if isinstance(value, Struct):
        new = replaced(getattr(value, str(step)), tuple(rest), text)
        return msgspec.structs.replace(value, **{str(step): new})
    if isinstance(value, tuple):
        return tuple(
            replaced(item, tuple(rest), text) if number == step else item for number, item in enumerate(value)
        )
    return {key: replaced(item, tuple(rest), text) if key == step else item for key, item in value.items()}
