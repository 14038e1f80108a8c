"""A lock whose names are paths: it is refused when it is read, and writes nothing outside without that, too."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reprobuild.errors import BuildError, LockError
from reprobuild.lock.file import read_lock
from reprobuild.lock.model import Lock, encode
from reprobuild.recipe.build_context import write_context
from reprobuild.recipe.render import render_recipe
from tests.conftest import reprobuild
from tests.image.made import Made, file
from tests.recipe.full_lock import Step, replaced
from tests.recipe.test_install import sealed
from tests.store.sealing import built
from tests.store.sealing import sealed as seal_all

PLACES: dict[str, tuple[Step, ...]] = {
    "a wheel of an index": ("wheels", 0, "file", "filename"),
    "a wheel that was built": ("realised", "wheels", 0, "file", "filename"),
    "a source": ("sources", 0, "name"),
}


@pytest.fixture
def made(tmp_path: Path) -> Made:
    made = Made(tmp_path / "made")
    made.wheel("six", {"six.py": b"pass\n"})
    made.wheel("project", {"project.pth": b"x\n"}, built=True)
    made.source("project", [file("project.py", b"pass\n")])
    (tmp_path / "home").mkdir()
    return made


def hostile(lock: Lock, place: str, target: Path) -> Lock:
    """Return a lock of which a name leads to a file of the user, from wherever the results are."""
    return replaced(lock, PLACES[place], "../" * 24 + str(target)[1:])  # type: ignore[no-any-return]  # a Lock


def home(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "home").iterdir()}


@pytest.mark.parametrize("place", PLACES)
def test_it_is_refused_when_it_is_read(made: Made, tmp_path: Path, place: str) -> None:
    path = tmp_path / "evil.lock"
    path.write_bytes(encode(hostile(made.lock(), place, tmp_path / "home" / ".bashrc")))
    with pytest.raises(LockError, match=r"is not a lock: Expected `str` matching .* - at `\$\.") as caught:
        read_lock(path)
    named = ".".join(str(step) for step in PLACES[place]).replace(".0", "[0]")
    assert f"`$.{named}`" in str(caught.value)
    assert caught.value.hint == (
        "make it again with `reprobuild lock DIR`; if somebody handed it over, it was changed since, or made to harm"
    )


@pytest.mark.parametrize("there", [True, False], ids=["overwritten", "made"])
@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_written_outside_of_the_context(
    made: Made, tmp_path: Path, place: str, *, there: bool
) -> None:
    """The context is written beside the image, before a builder looks at a name: it was too late to refuse then."""
    victim = tmp_path / "home" / ".bashrc"
    if there:
        victim.write_bytes(b"the user's own")
    before = home(tmp_path)
    (tmp_path / "out").mkdir()
    lock = hostile(sealed(made), place, victim)
    with pytest.raises(BuildError, match="unsafe path"):
        write_context(lock, made.store, tmp_path / "out", render_recipe(made.lock()))
    assert home(tmp_path) == before
    assert list((tmp_path / "out").iterdir()) == []


def test_the_context_of_an_honest_lock(made: Made, tmp_path: Path) -> None:
    lock = sealed(made)
    (tmp_path / "out").mkdir()
    context = write_context(lock, made.store, tmp_path / "out", render_recipe(lock))
    wheel = context / "wheels" / "six-1.0-py3-none-any.whl"
    assert wheel.stat().st_ino == made.store.blob(lock.wheels[0].file.sha256).stat().st_ino


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"wheels": ("six", "six")}, r"two items are six - at `\$\.wheels`"),
        ({"realised": "six"}, "two files are named six-1.0-py3-none-any.whl"),
        ({"filename": "six.whl"}, r"Invalid wheel filename.*at `\$\.wheels\[0\]\.file\.filename`"),
        ({"filename": "other-1.0-py3-none-any.whl"}, "other-1.0-py3-none-any.whl is no wheel of six"),
        ({"sources": "name"}, "two items are project"),
        ({"sources": "path"}, "two stand in /src/project"),
        ({"place": "/src/other"}, r"/src/other is no place of project - at `\$\.sources\[0\]\.path`"),
    ],
)
def test_parts_that_would_stand_in_each_others_place(
    made: Made, tmp_path: Path, change: dict[str, str], said: str
) -> None:
    lock = made.lock()
    if "wheels" in change:
        lock = msgspec.structs.replace(lock, wheels=lock.wheels * 2)
    elif "realised" in change:
        realised = msgspec.structs.replace(lock.realised, wheels=lock.wheels[:1])
        lock = msgspec.structs.replace(lock, realised=realised)
    elif "filename" in change:
        lock = replaced(lock, ("wheels", 0, "file", "filename"), change["filename"])
    elif "place" in change:
        lock = replaced(lock, ("sources", 0, "path"), change["place"])
    else:
        other = {"name": "path", "path": "name"}[change["sources"]]
        more = msgspec.structs.replace(lock.sources[0], **{other: {"path": "/src/b", "name": "b"}[other]})
        lock = msgspec.structs.replace(lock, sources=(*lock.sources, more))
    path = tmp_path / "reprobuild.lock"
    path.write_bytes(encode(lock))
    with pytest.raises(LockError, match=said) as caught:
        read_lock(path)
    assert "made to harm" in str(caught.value.hint)


# Places from which a source would lead the sandbox's set-up out of its root (`system/test_places.py`).
OUTSIDE = (
    "/proc/self/root/usr/local/sbin",
    "/opt",
    "/mnt",
    "/src/project/inside",
    "/src/../opt",
    "/dev/shm/project",
)


@pytest.mark.parametrize("place", OUTSIDE)
def test_a_source_that_stands_elsewhere_is_refused(made: Made, tmp_path: Path, place: str) -> None:
    path = tmp_path / "evil.lock"
    path.write_bytes(encode(replaced(made.lock(), ("sources", 0, "path"), place)))
    with pytest.raises(
        LockError, match=r"is not a lock: Expected `str` matching .* - at `\$\.sources\[0\]\.path`"
    ):
        read_lock(path)


@pytest.mark.parametrize("place", ["/proc/self/root/usr/local/sbin", "/proc", "/dev/shm", "/src/../proc"])
def test_a_working_folder_of_the_kernel_is_refused(made: Made, tmp_path: Path, place: str) -> None:
    path = tmp_path / "evil.lock"
    path.write_bytes(encode(msgspec.structs.replace(made.lock(), workdir=place)))
    with pytest.raises(LockError, match=r"is not a lock: Expected `str` matching .* - at `\$\.workdir`"):
        read_lock(path)


@pytest.mark.parametrize("command", ["fetch", "build", "render", "rebuild", "run", "verify"])
def test_each_command_that_follows_a_lock_refuses_it(made: Made, tmp_path: Path, command: str) -> None:
    """A file of its own, or the one of an output directory, as a bundle or a registry brings it."""
    lock = seal_all(made, "alpha")
    built(lock, tmp_path / "given.lock", made.store, tmp_path / "out")
    path = tmp_path / "out" / "reprobuild.lock"
    lock = msgspec.structs.replace(lock, sources=made.lock().sources)
    path.write_bytes(encode(replaced(lock, ("sources", 0, "path"), OUTSIDE[0])))
    given = path if command in ("fetch", "build", "render") else path.parent
    done = reprobuild(command, given, *(["--", "true"] if command == "run" else []))
    assert done.returncode != 0
    assert "is not a lock" in done.stderr
    assert "$.sources[0].path" in done.stderr
