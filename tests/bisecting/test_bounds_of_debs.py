"""Requirements of Debian's packages that somebody wrote to cost time: few comparisons, and bounds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reprobuild.api.context import open_context
from reprobuild.bisect.debs import MOST_PROVIDED, MOST_REQUIRED, MOST_TOGETHER, link_debs, open_control
from reprobuild.bisect.slots import Slot, Slots
from reprobuild.ecosystems.apt.deb import DebControl, control_text
from reprobuild.ecosystems.apt.relations import VERSION, Relation
from reprobuild.errors import BuildError
from reprobuild.lock.system import Deb
from tests.bisecting.locks import deb
from tests.system.samples import ar_bytes, member, tar_bytes


def control(*groups: tuple[Relation, ...], provides: tuple[str, ...] = ()) -> DebControl:
    return DebControl(
        name="p", architecture="amd64", multi_arch="", before=(), needs=groups, provides=provides
    )


def slot(name: str) -> Slot:
    return "system", f"{name}:amd64"


def side(version: str, *names: str) -> Slots:
    return {slot(name): deb(name, f"{version}-{name}") for name in names}


def link(first: Slots, second: Slots, *controls: DebControl, **named: DebControl) -> list[tuple[Slot, Slot]]:
    """Return the links if each package of B has the first control, but for the named ones."""
    in_second = {item.file.sha256 for item in second.values()}

    def read(item: Deb) -> DebControl | None:
        return named.get(item.name, *controls) if item.file.sha256 in in_second else None

    return link_debs((first, second), list({**first, **second}), read)


@pytest.mark.parametrize("shared", [True, False])
def test_requirements_are_looked_at_once(shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 packages with 1,000 requirements each were a million looks at each side, of five comparisons each."""
    looks = []
    allows = Relation.allows
    monkeypatch.setattr(Relation, "allows", lambda *words: looks.append(words) or allows(*words))
    groups = [(Relation("p0", ">=", "2"),)] * 500 + [
        (Relation(f"p{number}", "<<", "9"),) for number in range(500)
    ]
    names = [f"p{number}" for number in range(500)]
    first, second = side("1", *names), side("2", *names)
    if shared:
        second = {key: msgspec.structs.replace(item, file=deb("x", "x").file) for key, item in second.items()}
    assert link(first, second, control(*groups)) == sorted((slot(name), slot("p0")) for name in names[1:])
    assert len(looks) <= 4 * 1000


def test_the_first_requirements_count() -> None:
    groups = [(Relation("gone"),)] * 50 + [(Relation(f"x{number}"),) for number in range(MOST_REQUIRED)]
    needs = link(
        {},
        side("2", "a", "x0", f"x{MOST_REQUIRED - 2}", f"x{MOST_REQUIRED - 1}"),
        control(),
        a=control(*groups),
    )
    assert needs == [(slot("a"), slot("x0")), (slot("a"), slot(f"x{MOST_REQUIRED - 2}"))]
    many = tuple(Relation(f"x{number}") for number in range(MOST_REQUIRED + 1))
    assert link({}, side("2", "a", "x0"), control(), a=control(many)) == []
    provides = tuple(f"v{number}" for number in range(MOST_PROVIDED + 1))
    asking = control((Relation("v0"),), (Relation(provides[-1]),))
    assert link({}, side("2", "a", "b"), control(provides=provides), a=asking) == [(slot("a"), slot("b"))]
    asking = control((Relation(provides[-1]),))
    assert link({}, side("2", "a", "b"), control(provides=provides), a=asking) == []


def test_requirements_of_all_packages_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_TOGETHER == 300_000
    monkeypatch.setattr("reprobuild.bisect.debs.MOST_TOGETHER", 5)
    names = "a", "b", "c", "d"
    groups = [(Relation(name),) for name in names]
    links = link({}, side("2", *names), control(*groups))
    assert links == [(slot("a"), slot(other)) for other in names[1:]]
    monkeypatch.setattr("reprobuild.bisect.debs.MOST_TOGETHER", 100)
    assert len(link({}, side("2", *names), control(*groups))) == 12


@pytest.mark.parametrize(
    ("operator", "expected"),
    [("<<", "100"), ("<=", "110"), ("=", "010"), (">=", "011"), (">>", "001"), ("", "111"), ("?", "000")],
)
def test_each_operator(operator: str, expected: str) -> None:
    relation = Relation("a", operator, "2")
    assert "".join(f"{relation.allows(version):d}" for version in ("1", "2", "3")) == expected


def test_a_long_version_is_none() -> None:
    """A million characters took minutes, and 4,301 digits were a crash."""
    assert VERSION.fullmatch("1" * 255)
    assert Relation("a", ">=", "1" * 255).allows("2" * 255)
    assert not Relation("a", ">=", "1" * 5000).allows("2" * 5000)
    assert not Relation("a", ">=", "1").allows("2." * 5000 + "1")


def package(folder: Any, text: bytes) -> bytes:
    content = ar_bytes([
        ("debian-binary", b"2.0\n"), ("control.tar", tar_bytes([(member("./control"), text)])),
        ("data.tar", tar_bytes([])),
    ])  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / "p.deb").write_bytes(content)
    return content


def test_a_control_file_is_short(tmp_path: Any) -> None:
    package(tmp_path, b"Package: p\n" + b"X" * (1 << 20))
    with pytest.raises(BuildError, match="it has no control file"):
        control_text(tmp_path / "p.deb", "p.deb")


def test_a_control_file_of_another_package_is_none(tmp_path: Any) -> None:
    """`build` refuses it: one file cannot be that of many packages."""
    context = open_context(tmp_path / "store", offline=True, caches=False)
    content = package(tmp_path / "x", b"Package: p\nArchitecture: amd64\nDepends: q\n")
    file = msgspec.structs.replace(deb("p", "1").file, sha256=context.store.add(content), size=len(content))
    item = msgspec.structs.replace(deb("p", "1"), file=file)
    found = open_control(item, context)
    assert found is not None
    assert found.needs == ((Relation("q"),),)
    assert open_control(msgspec.structs.replace(item, name="other"), context) is None
    assert open_control(msgspec.structs.replace(item, architecture="i386"), context) is None
