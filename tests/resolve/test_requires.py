"""What wheels require of each other: read from their metadata, judged for the captured interpreter, and compared."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from packaging.markers import Marker

from reprobuild.ecosystems.pypi import requires
from reprobuild.ecosystems.pypi.requires import LONGEST, MOST, read_requires, with_requires
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.errors import BuildError, FetchError
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.lock.model import Lock, Resolution
from reprobuild.lock.python import CondaPackage, Wheel
from reprobuild.lock.requirements import find_conflicts, find_missing_names, shorten_conflicts
from reprobuild.recipe.render import render_pylock
from reprobuild.report.text import render_resolutions
from reprobuild.store.store import Store
from tests.image.made import Made
from tests.resolve.test_shared_libraries import made_wheel
from tests.verify.samples import make_lock
from tests.verify.samples import wheel as sample_wheel

TARGET = WheelTarget(python="3.8.19", glibc=(2, 36), machine="aarch64")  # surely not what runs this test

NESTED = "other; " + "(" * 900 + "a"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def wheel_of(store: Store, name: str, requires: Sequence[str], version: str = "1") -> Wheel:
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    text = "\n".join([*lines, *(f"Requires-Dist: {one}" for one in requires), "", "About it\n"])
    wheel = made_wheel(store, name, {f"{name}-{version}.dist-info/METADATA": text.encode()})
    return msgspec.structs.replace(wheel, version=version)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("other", "other"),
        ("Other.Name[b,a] (>=1,<2)", "Other.Name[a,b]<2,>=1"),
        ('other; python_version < "3.9"', "other"),
        ('other; python_version >= "3.9"', None),
        ('other==1; python_full_version == "3.8.19" and implementation_version == "3.8.19"', "other==1"),
        ('other; platform_machine == "aarch64" and sys_platform == "linux" and os_name == "posix"', "other"),
        ('other; platform_machine == "x86_64"', None),
        ('other; platform_python_implementation == "PyPy" or platform_system == "Windows"', None),
        ('other; extra == "nobody-asks"', None),
        ('other; python_version < "3.9" or extra == "nobody-asks"', "other"),
        ('other; platform_release ~= "5.0"', None),  # no snapshot tells it, and such a comparison has no answer
        ("other @ https://ada:secret@x.test/other-1.whl?token=secret#sha256=00", "other @ https://x.test/other-1.whl"),
        ("no requirement at all", "no requirement at all"),
        (NESTED, NESTED),  # deeper than any parser goes
    ],
)  # fmt: skip
def test_markers_are_judged_for_the_captured_interpreter(text: str, kept: str | None, store: Store) -> None:
    found = with_requires([wheel_of(store, "one", [text])], TARGET, store)[0].requires
    assert found == ((kept,) if kept else ())
    assert "secret" not in "".join(found)


def test_extras_that_others_ask_for(store: Store) -> None:
    """Also through themselves, as `everything` of many projects does."""
    one = wheel_of(store, "one", ["Two.Parts[everything]"])
    two = wheel_of(
        store, "two-parts",
        ['two-parts[A_a,b]; extra == "everything"', 'three; extra == "a.a"', 'four>=2; extra == "c"', "five"],
    )  # fmt: skip
    found = {wheel.name: wheel.requires for wheel in with_requires([one, two], TARGET, store)}
    assert found == {
        "one": ("Two.Parts[everything]",),
        "two-parts": ("five", "three", "two-parts[A_a,b]"),
    }
    assert with_requires([two], TARGET, store)[0].requires == ("five",)
    (named,) = with_requires([two], TARGET, store, {"two-parts": {"c"}})
    assert named.requires == ("five", "four>=2")
    assert find_missing_names(make_lock(wheels=(named,))) == {"five", "four"}


def test_what_is_read_is_remembered_and_bounded(store: Store) -> None:
    wheel = wheel_of(store, "one", ["b", "a" * (LONGEST + 1)])
    found = read_requires(wheel.file, store)
    assert found[0] == "b"
    assert len(found[1]) == LONGEST
    assert with_requires([wheel], TARGET, store)[0].requires[0].endswith("…")
    store.blob(wheel.file.sha256).unlink()
    assert read_requires(wheel.file, store) == found
    store.remember(hashlib.sha256(f"requires 1 {wheel.file.sha256}".encode()).hexdigest(), {"damaged": 1})
    with pytest.raises(FetchError, match="is not in the store"):
        read_requires(wheel.file, Store(store.root))
    assert read_requires(made_wheel(store, "bare", {"bare.py": b""}).file, store) == ()
    damaged = wheel_of(store, "damaged", ["x" * 200])
    content = store.blob(damaged.file.sha256).read_bytes()
    start = content.index(b"METADATA") + 12
    with store.scratch() as folder:
        (folder / "x").write_bytes(content[:start] + bytes(8) + content[start + 8 :])
        broken = msgspec.structs.replace(damaged.file, sha256=store.adopt(folder / "x"))
    with pytest.raises(BuildError, match=r"is damaged at damaged-1\.dist-info/METADATA"):
        read_requires(broken, store)
    many = wheel_of(store, "many", [f"a{number}" for number in range(MOST + 1)])
    with pytest.raises(BuildError, match=f"has {MOST + 1} requirements") as caught:
        read_requires(many.file, store)
    assert caught.value.hint == HOSTILE


def locked(tmp_path: Path, wheels: Sequence[Wheel], **more: object) -> Lock:
    return Made(tmp_path / "made").unsealed_lock(wheels=tuple(wheels), **more)


def test_what_is_not_met_is_said_and_is_no_error(store: Store, tmp_path: Path) -> None:
    one = wheel_of(
        store, "one", ["two>=2", "three", "odd one out", "setuptools", "conda-made<2", "debians", "pre"]
    )
    wheels = with_requires(
        [one, wheel_of(store, "two", ["one"]), wheel_of(store, "pre", [], "2rc1")], TARGET, store
    )
    file = wheels[0].file
    conda = CondaPackage(
        name="conda-made", version="2.0", build="0", subdir="noarch", channel="made", file=file
    )
    debian = Resolution(
        file="pip-freeze.txt", line=1, subject="Debians", outcome="in base", reason="python3-debians"
    )
    lock = locked(tmp_path, wheels, conda=(conda,), rulings=(debian,))
    found = find_conflicts(lock)
    assert found == (
        "one 1 requires `odd one out`, which is no requirement that can be read",
        "one 1 requires conda-made<2, and the image has conda-made 2.0",
        "one 1 requires setuptools, and the image has no setuptools; `pip freeze` may have left it out",
        "one 1 requires three, and the image has no three",
        "one 1 requires two>=2, and the image has two 1",
    )
    assert all(f"  {said}" in render_resolutions(lock).splitlines() for said in found)
    met = locked(
        tmp_path / "met", with_requires([wheel_of(store, "two", ["pre>=1"]), wheels[2]], TARGET, store)
    )
    assert find_conflicts(met) == ()
    assert "not met" not in render_resolutions(met)
    many = wheel_of(store, "many", [f"gone{number:02}" for number in range(23)])
    told = render_resolutions(locked(tmp_path / "many", with_requires([many], TARGET, store))).splitlines()
    assert sum("requires gone" in line for line in told) == 20
    assert "  and 3 more requirements that are not met" in told


def test_a_name_with_endless_versions_is_not_compared_with_each() -> None:
    """1,500 versions with 1,500 requirements were two million comparisons, and 16 MB of text."""
    asked = tuple(f"torch==2.{number}" for number in range(1500))
    many = [
        sample_wheel("torch", f"1.{number}", requires=asked if number == 0 else ()) for number in range(1500)
    ]
    start = time.process_time()
    found = find_conflicts(make_lock(wheels=tuple(many)))
    assert time.process_time() - start < 1
    assert len(found) == 1500
    assert found[0] == "torch 1.0 requires torch==2.0, and the image has 1500 versions of torch"
    few = find_conflicts(make_lock(wheels=tuple(many[:20])))
    assert few[0].startswith("torch 1.0 requires torch==2.0, and the image has torch 1.0, 1.1, 1.10, ")
    assert shorten_conflicts(few)[-1] == "and 1480 more requirements that are not met"


def test_pylock_names_the_dependencies_among_its_packages(store: Store, tmp_path: Path) -> None:
    """As PEP 751 has them: an array of tables, each with what tells one package from the others."""
    wheels = with_requires(
        [
            wheel_of(store, "one", ["Two.Parts>=1", "gone", "not readable at all"]),
            wheel_of(store, "two-parts", []),
        ],
        TARGET,
        store,
    )
    packages = msgspec.toml.decode(render_pylock(locked(tmp_path, wheels)))["packages"]
    assert [(one["name"], one.get("dependencies")) for one in packages] == [
        ("one", [{"name": "two-parts"}]),
        ("two-parts", None),
    ]


def test_metadata_of_endless_kinds_of_fields_is_refused_at_once(store: Store) -> None:
    start = time.process_time()
    wheel = wheel_of(store, "evil", [f"x\nX-{number}: y" for number in range(20_000)])
    with pytest.raises(
        BuildError, match=r"evil.* has metadata of 200\d\d kinds of fields, and at most 500"
    ) as caught:
        read_requires(wheel.file, store)
    assert caught.value.hint
    assert time.process_time() - start < 5  # the parser takes 10 s and more


def test_each_extra_is_judged_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of extras that a wheel asks of itself: e0 asks for e1, which asks for e2."""
    judged: list[str] = []
    judge = requires.marker_holds

    def counted(marker: Marker | None, markers: Mapping[str, str], extra: str) -> bool:
        judged.append(extra)
        return judge(marker, markers, extra)

    monkeypatch.setattr(requires, "marker_holds", counted)
    count = 30
    chain = [f"evil[e{n}]; extra == 'e{n - 1}'" for n in range(1, count)]
    never = " or ".join(f"extra == 'e{n}' and extra == 'x'" for n in range(count))
    wheel = wheel_of(store, "evil", ["evil[e0]", *chain, *(f"p{n}; {never}" for n in range(10))])
    (found,) = with_requires([wheel], TARGET, store)
    assert found.requires == tuple(sorted(f"evil[e{n}]" for n in range(count)))
    assert (
        len(judged) <= (count + 10) + 2 * count + 10 * count
    )  # without an extra, of the chain, of the others
