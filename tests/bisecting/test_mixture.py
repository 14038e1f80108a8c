"""Atoms cover every difference of two locks, and mixtures are locks."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from reprobuild.bisect.atoms import Atom, find_atoms
from reprobuild.bisect.debs import link_debs
from reprobuild.bisect.mixture import Mixer, make_mixer
from reprobuild.bisect.slots import INERT, SINGLE, split_lock
from reprobuild.ecosystems.apt.deb import DebControl
from reprobuild.ecosystems.apt.relations import parse_relations
from reprobuild.lock.consistent import check_readable
from reprobuild.lock.model import Lock, canonical, unseal
from reprobuild.lock.python import Building, Interpreter, Sdist
from reprobuild.lock.system import Artefact, Base
from tests.bisecting.locks import deb, list_needs, lock, random_other, variable
from tests.recipe.full_lock import full_lock
from tests.verify.samples import artefact, wheel

NUMPY = "numpy-1.26-cp311-cp311-linux_x86_64.whl"


def atoms_of(first: Lock, second: Lock) -> list[tuple[str, str]]:
    return [(atom.kind, atom.name) for atom in find_atoms(first, second).atoms]


def everything(mixer: Mixer) -> range:
    return range(len(mixer.atoms.atoms))


def test_all_atoms_make_b_and_none_make_a() -> None:
    rng = random.Random(22)
    for _ in range(300):
        first = random_other(lock(), rng)
        second = random_other(first, rng)
        mixer = make_mixer(first, second)
        assert mixer.mix(()).lock == canonical(first)
        assert mixer.mix(everything(mixer)).lock == canonical(second if mixer.atoms.atoms else first)


def test_each_mixture_has_the_slots_of_its_atoms() -> None:
    rng = random.Random(23)
    for _ in range(200):
        first = random_other(lock(), rng)
        mixer = make_mixer(first, random_other(first, rng))
        chosen = [number for number in everything(mixer) if rng.random() < 0.5]
        mixture = check_readable(mixer.mix(chosen).lock)
        slots, sides = split_lock(mixture), [split_lock(side) for side in (mixer.first, mixer.second)]
        taken = {slot for number in chosen for slot in mixer.atoms.atoms[number].slots}
        for slot in {*sides[0], *sides[1]}:
            assert slots.get(slot) == sides[slot in taken].get(slot)
        assert len(taken) == sum(len(mixer.atoms.atoms[number].slots) for number in chosen)


def test_sealed_locks_of_every_field_are_mixed() -> None:
    """No field of a lock is forgotten, so that a new one fails here."""
    first, second = full_lock(), lock()
    mixer = make_mixer(first, second)
    assert mixer.mix(everything(mixer)).lock == canonical(second)
    assert mixer.mix(()).lock == canonical(unseal(first))
    assert set(Lock.__struct_fields__) == {
        *INERT, *SINGLE, "base", "wheels", "sdists", "conda", "sources", "environment"
    }  # fmt: skip
    assert set(Base.__struct_fields__) == {"distribution", "release", "image", "packages", "tools"}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"environment": (variable("OMP_NUM_THREADS", "4"), variable("PYTHONPATH", "/a:/b"))},
         [("variable", "OMP_NUM_THREADS")]),
        ({"environment": (variable("OMP_NUM_THREADS", "2"), variable("PYTHONPATH", "/b:/a"))},
         [("order", "PYTHONPATH")]),
        ({"environment": (variable("OMP_NUM_THREADS", "2"), variable("PYTHONPATH", "/a:/b"),
                          variable("LD_PRELOAD", "/x.so"))}, [("preload", "LD_PRELOAD")]),
        ({"wheels": (wheel("torch", "2.1"), wheel("idna", "3.1"))}, [("python", "torch"), ("python", "numpy")]),
        ({"conda": ()}, [("conda", "mkl")]),
        ({"seed": 7, "profile": "strict"}, [("seed", "seed"), ("profile", "profile")]),
        ({"sources": ()}, [("source", "mylib")]),
        ({"interpreter": Interpreter(version="3.11.9", executable="/opt/python/bin/python3.11", evidence="it",
                                     kind="standalone")}, [("interpreter", "python")]),
        ({"epoch": 5, "environment": ()},
         [("variable", "PYTHONPATH"), ("variable", "OMP_NUM_THREADS"), ("recipe", "epoch")]),
        ({"snapshot": "7" * 64}, []),
    ],
)  # fmt: skip
def test_kinds_and_order(more: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert atoms_of(lock(), lock(**more)) == expected


def test_a_file_from_another_mirror_is_no_difference() -> None:
    def moved(item: Any) -> Any:
        file = msgspec.structs.replace(item.file, url="https://mirror.example.org/file")
        more = {"yanked": "a bug"} if hasattr(item, "yanked") else {}
        return msgspec.structs.replace(item, file=file, **more)

    first = lock()
    wheels, debs = tuple(map(moved, first.wheels)), tuple(map(moved, first.base.packages))
    second = msgspec.structs.replace(
        first,
        wheels=(*wheels[:2], wheel("idna", "3.2")),
        base=msgspec.structs.replace(first.base, packages=debs),
    )
    mixer = make_mixer(first, second)
    assert [(atom.name, atom.first, atom.second) for atom in mixer.atoms.atoms] == [("idna", "3.1", "3.2")]
    assert mixer.mix(everything(mixer)).lock == mixer.second
    conda = msgspec.structs.replace(first, conda=tuple(map(moved, first.conda)))
    assert [atom.name for atom in make_mixer(first, conda).atoms.atoms] == [
        "mkl"
    ]  # a package is unpacked with its address


def test_another_build_of_a_version_is_told_by_its_file() -> None:
    other = wheel("numpy", "1.26", file=Artefact(filename=NUMPY, sha256="b" * 64, size=1))
    first = lock()
    atoms = make_mixer(first, lock(wheels=(first.wheels[0], other, first.wheels[2]))).atoms.atoms
    assert [(atom.kind, atom.name, atom.first, atom.second) for atom in atoms] == [
        ("python", "numpy", f"1.26 (numpy-1.26-py3-none-any.whl, {first.wheels[1].file.sha256[:12]})",
         f"1.26 ({NUMPY}, bbbbbbbbbbbb)"),
    ]  # fmt: skip


def base_with(*packages: Any, **more: Any) -> dict[str, Any]:
    return {"base": Base(distribution="debian", release="bookworm", packages=packages, **more)}


def test_packages_of_one_source_release_are_one_atom() -> None:
    second = lock(
        **base_with(
            deb("bash", "5.3"), deb("libc6", "2.36-10"), deb("libc-bin", "2.36-10"), deb("zlib1g", "1.2"),
            tools=(deb("mawk", "1.3"),),
        )
    )  # fmt: skip
    atoms = find_atoms(lock(), second).atoms
    assert sorted(atom.names for atom in atoms) == [("bash",), ("libc-bin", "libc6")]


def control(name: str, needs: str = "", before: str = "", provides: tuple[str, ...] = ()) -> DebControl:
    return DebControl(
        name=name, architecture="amd64", multi_arch="", before=parse_relations(before), needs=parse_relations(needs),
        provides=provides,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "controls", "expected"),
    [
        # A new package comes with those that it requires.
        ([], [("app", "1"), ("lib", "5")], [control("app", "lib (>= 1)"), control("lib")], {"app": ["lib"], "lib": []}),
        # A requirement that both versions meet is no reason.
        ([("app", "1"), ("lib", "5")], [("app", "2"), ("lib", "6")], [control("app", "lib"), control("lib")],
         {"app": [], "lib": []}),
        # Each requires the other's version.
        ([("app", "1"), ("tool", "5")], [("app", "2"), ("tool", "6")],
         [control("app", "tool (>= 6)"), control("tool", before="app (>= 2)")], {"app": []}),
        # The old one breaks without the old library, so the library goes last.
        ([("app", "1"), ("lib", "5")], [], [control("app", "lib"), control("lib")], {"app": [], "lib": ["app"]}),
        # An alternative, and a virtual package.
        ([], [("app", "1"), ("mta", "5")], [control("app", "exim | mail"), control("mta", provides=("mail",))],
         {"app": ["mta"], "mta": []}),
        # A package of both meets it already.
        ([], [("app", "1"), ("dash", "5")], [control("app", "dash | bash"), control("dash")], {"app": [], "dash": []}),
    ],
)  # fmt: skip
def test_system_packages_come_with_those_that_they_require(
    first: list[tuple[str, str]], second: list[tuple[str, str]], controls: list[DebControl],
    expected: dict[str, list[str]],
) -> None:  # fmt: skip
    bash, by_name = deb("bash", "5.2"), {item.name: item for item in controls}
    locks = [lock(**base_with(bash, *(deb(*pair) for pair in side))) for side in (first, second)]
    found = find_atoms(
        *locks,
        find_links=lambda slots, differing: link_debs(slots, differing, lambda item: by_name.get(item.name)),
    )
    assert list_needs(found) == expected


def test_another_release_is_one_atom() -> None:
    base = Base(distribution="debian", release="trixie", packages=(deb("bash", "9"),))
    (atom,) = find_atoms(lock(), lock(base=base)).atoms
    assert atom.kind == "release"
    assert ("system", "zlib1g:amd64") in atom.slots


def test_a_system_interpreter_comes_with_its_packages() -> None:
    first = lock(**base_with(deb("python3.11-minimal", "3.11.2-6"), deb("bash", "5.2")))
    second = lock(
        **base_with(deb("python3.11-minimal", "3.11.4-1"), deb("bash", "5.3")),
        interpreter=msgspec.structs.replace(first.interpreter, version="3.11.4"),
    )
    interpreter, bash = find_atoms(first, second).atoms
    assert (interpreter.kind, bash.name) == ("interpreter", "bash")
    assert interpreter.slots == (("lock", "interpreter"), ("system", "python3.11-minimal:amd64"))


def test_another_minor_version_comes_with_its_wheels() -> None:
    def side(minor: int) -> Lock:
        file = artefact(f"fast-1.0-cp3{minor}-cp3{minor}-linux_x86_64.whl")
        return lock(
            wheels=(wheel("fast", "1.0", file=file), wheel("plain", f"1.{minor}")),
            interpreter=Interpreter(version=f"3.{minor}.0", executable=f"/usr/bin/python3.{minor}", evidence="it"),
        )  # fmt: skip

    atoms = find_atoms(side(11), side(12)).atoms
    assert [atom.names for atom in atoms] == [("python", "fast"), ("plain",)]


def by_name(first: Lock, second: Lock) -> tuple[dict[str, int], tuple[frozenset[int], ...], tuple[Atom, ...]]:
    found = find_atoms(first, second)
    return {atom.name: number for number, atom in enumerate(found.atoms)}, found.needs, found.atoms


def test_a_version_needs_what_it_requires() -> None:
    """torchvision 2 requires torch 2.1; torch 2.1 is possible beside torchvision 1."""
    first = lock(wheels=(wheel("torch", "2.0"), wheel("torchvision", "1.0", requires=("torch>=2",))))
    second = lock(wheels=(wheel("torch", "2.1"), wheel("torchvision", "2.0", requires=("torch==2.1",))))
    numbers, needs, _ = by_name(first, second)
    assert needs[numbers["torchvision"]] == {numbers["torch"]}
    assert needs[numbers["torch"]] == frozenset()


def test_a_version_needs_the_end_of_what_forbids_it() -> None:
    """torchvision 1 forbids torch 2.1, so torch 2.1 needs torchvision 2."""
    first = lock(wheels=(wheel("torch", "2.0"), wheel("torchvision", "1.0", requires=("torch<2.1",))))
    second = lock(wheels=(wheel("torch", "2.1"), wheel("torchvision", "2.0")))
    numbers, needs, _ = by_name(first, second)
    assert needs[numbers["torch"]] == {numbers["torchvision"]}
    assert needs[numbers["torchvision"]] == frozenset()


def test_versions_that_require_each_other_are_one_atom() -> None:
    first = lock(wheels=(wheel("torch", "2.0"), wheel("torchvision", "1.0", requires=("torch==2.0",))))
    second = lock(wheels=(wheel("torch", "2.1"), wheel("torchvision", "2.0", requires=("torch==2.1",))))
    (atom,) = find_atoms(first, second).atoms
    assert atom.names == ("torch", "torchvision")


def test_a_new_requirement_comes_first() -> None:
    first = lock(wheels=(wheel("torch", "2.0"),))
    second = lock(wheels=(wheel("torch", "2.1", requires=("triton",)), wheel("triton", "3")))
    numbers, needs, _ = by_name(first, second)
    assert needs[numbers["torch"]] == {numbers["triton"]}
    # the other way round, what is no longer required leaves last
    numbers, needs, _ = by_name(second, first)
    assert needs[numbers["triton"]] == {numbers["torch"]}


def test_a_captured_conflict_binds_nothing() -> None:
    first = lock(wheels=(wheel("torch", "2.0"), wheel("vision", "1.0", requires=("torch==9",))))
    second = lock(wheels=(wheel("torch", "2.1"), wheel("vision", "2.0", requires=("torch==9",))))
    assert [len(needs) for needs in find_atoms(first, second).needs] == [0, 0]


def test_a_project_brings_the_wheels_of_its_build() -> None:
    tool = wheel("setuptools", "80", role="build")
    other = wheel("setuptools", "81", role="build", file=msgspec.structs.replace(tool.file, sha256="b" * 64))
    sdist = Sdist(
        name="old", version="1", file=artefact("old-1.tar.gz"), building=Building(requires=("a" * 64,))
    )
    later = msgspec.structs.replace(sdist, version="2", building=Building(requires=("b" * 64,)))
    first = lock(wheels=(tool, wheel("torch", "2.0")), sdists=(sdist,))
    second = lock(wheels=(other, wheel("torch", "2.1")), sdists=(later,))
    mixer = make_mixer(first, second)
    numbers = {atom.name: number for number, atom in enumerate(mixer.atoms.atoms)}
    assert set(numbers) == {"torch", "old"}
    assert {item.version for item in mixer.mix([numbers["torch"]]).lock.wheels} == {"80", "2.1"}
    assert {item.version for item in mixer.mix([numbers["old"]]).lock.wheels} == {"81", "2.0"}
