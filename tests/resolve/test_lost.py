"""All that cannot be reached is in one error: channels, indexes, repositories, and builds of Python."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.errors import FetchError, LockError
from reprobuild.infra.http.client import Net
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.python.unreachable import check_availability
from reprobuild.resolve.resolver import resolve_snapshot
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from tests.conda_packages import Spec, index_channel, write_package
from tests.fault_injection.dead import MANNERS
from tests.system.samples import index, stanza

NO_BUILDS = "UV_PYTHON_DOWNLOADS_JSON_URL"
CLOSED = "http://127.0.0.1:1"
FIRST, SECOND = f"{CLOSED}/first", "http://127.0.0.1:2/second"
SOURCE = f"-e git+{CLOSED}/a.git@{'a' * 40}#egg=a"
APT = "libc6/stable,now 2.36-9 amd64 [installed]\n"
NO_BUILD = "Python 3.99.1 (python, python.txt:1) is not among the captured packages, and uv knows no standalone build"
MIRROR = (
    "name a mirror as uv has it, UV_PYTHON_INSTALL_MIRROR=URL, or take the system's Python: `--python X.Y`; where the "
    "environment still is, `reprobuild capture --include interpreter` packs its own Python"
)


@pytest.fixture(autouse=True)
def mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let apt have a small release, and nothing be asked through a proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = index(
        stanza("libc6", "2.36-9", "", "Essential: yes"), stanza("tzdata", "1"), stanza("fakeroot", "1"),
        stanza("libfakeroot", "1"),
    )  # fmt: skip
    monkeypatch.setattr("reprobuild.resolve.system.base.configured_index", lambda *_, **__: made)


def around(folder: Path, *simple: str) -> ResolveContext:
    env = {"PATH": os.defpath, "HOME": str(folder), NO_BUILDS: os.environ[NO_BUILDS]}
    return ResolveContext(
        store=Store(folder / "store"), net=Net(manners=MANNERS), env=env,
        folder=folder, now=0, captured=folder, indexes=PackageIndexes(find_links=(), simple=simple, credentials={}),
        say=lambda text: None,
    )  # fmt: skip


def snapshot(folder: Path, **files: str) -> Snapshot:
    folder.mkdir()
    for name, text in {"apt-packages": APT, "requirements": "", **files}.items():
        (folder / f"{name.replace('_', '-')}.txt").write_text(text)
    return msgspec.structs.replace(read_snapshot(folder), digest="5" * 64)


def test_channels_with_an_index_and_a_repository(tmp_path: Path) -> None:
    channel = tmp_path / "lab"
    write_package(Spec(name="there", version="1.0"), channel)
    index_channel(channel)
    lab = channel.as_uri()
    rows = [
        f"python 3.11.7 h1_0 {FIRST}", f"six 1.16.0 h1_0 {FIRST}", f"nala 1.0 0 {SECOND}",
        f"{SECOND}/linux-64/other-1.0-0.conda#{'0' * 32}", f"there 2.0 0 {lab}",
    ]  # fmt: skip
    held = snapshot(
        tmp_path / "snapshot",
        conda_list="\n".join(rows) + "\n",
        requirements=f"six==1.16.0\nidna==3.7\n{SOURCE}\n",
    )
    decisions = Decisions(base="debian/bookworm", channels=(lab,))
    with pytest.raises(FetchError) as caught:
        resolve_snapshot(held, decisions, around(tmp_path, f"{CLOSED}/simple"))
    text = str(caught.value)
    for place in (f"{FIRST}/linux-64", f"{SECOND}/linux-64", f"{CLOSED}/simple"):
        assert len(re.findall(f"(?m)^{re.escape(place)}.* cannot be reached: ", text)) == 1, text
    rest = text.partition("beside that, ")[2]
    assert re.findall(r"(?m)^  \S+: ([\w-]+): unresolved \(([\w-]+)\): ", rest) == [
        ("there", "conda-package"), ("a", "unreachable-source"),
    ]  # fmt: skip
    assert rest.startswith("2 captured lines cannot be repeated exactly:")
    hints = caught.value.hint.splitlines()
    assert "name a bundle, a clone or another remote with --source a=PATH|URL" in hints


def test_a_build_of_python_with_an_index_and_a_repository(tmp_path: Path) -> None:
    held = snapshot(
        tmp_path / "snapshot", python="Python 3.99.1 (main, Dec  8 2023, 05:40:51) [GCC 12.2.0]\nlinux-x86_64\n",
        requirements=f"idna==3.7\n{SOURCE}\n",
    )  # fmt: skip
    with pytest.raises(FetchError) as caught:
        resolve_snapshot(held, Decisions(base="debian/bookworm"), around(tmp_path, f"{CLOSED}/simple"))
    python, index_said, besides, *more = str(caught.value).splitlines()
    assert python.startswith(NO_BUILD)
    assert index_said.startswith(f"{CLOSED}/simple cannot be reached: ")
    assert besides == "beside that, 1 captured line cannot be repeated exactly:"
    assert more[0].startswith("  requirements.txt:2: a: unresolved (unreachable-source): ")
    assert caught.value.hint.splitlines()[0] == MIRROR


def test_a_build_of_python_alone_is_the_error_that_it_was(tmp_path: Path) -> None:
    held = snapshot(
        tmp_path / "snapshot",
        python="Python 3.99.1 (main, Dec  8 2023, 05:40:51) [GCC 12.2.0]\nlinux-x86_64\n",
    )
    with pytest.raises(LockError) as caught:
        resolve_snapshot(held, Decisions(base="debian/bookworm"), around(tmp_path))
    assert str(caught.value).startswith(NO_BUILD)
    assert "\n" not in str(caught.value)
    assert caught.value.hint == MIRROR


def test_a_version_of_two_parts(tmp_path: Path) -> None:
    """The lines of the freeze are looked for though no patch release is known."""
    held = snapshot(tmp_path / "snapshot", requirements="idna==3.7\n")
    with pytest.raises(FetchError) as caught:
        resolve_snapshot(
            held, Decisions(base="debian/bookworm", python="3.99"), around(tmp_path, f"{CLOSED}/simple")
        )
    python, index_said = str(caught.value).splitlines()
    assert python.startswith(
        "Python 3.99 (decided by the user) is not among the captured packages, and uv knows no"
    )
    assert index_said.startswith(f"{CLOSED}/simple cannot be reached: ")


def test_with_what_no_base_can_be_made_of(tmp_path: Path) -> None:
    """The error of the base does not hide that of the Python."""
    held = snapshot(
        tmp_path / "snapshot",
        python="Python 3.99.1 (main, Dec  8 2023, 05:40:51) [GCC 12.2.0]\nlinux-x86_64\n",
    )
    with pytest.raises(LockError) as caught:
        resolve_snapshot(held, Decisions(base="debian/bookworm", packages=("nosuch",)), around(tmp_path))
    first, second = str(caught.value).splitlines()[:2]
    assert first.startswith(NO_BUILD)
    assert "nosuch" in second


def test_only_the_python_makes_an_error_of_the_lock() -> None:
    lost = LockError("no Python", hint="name one")
    with pytest.raises(LockError, match=r"^no Python$"):
        check_availability((lost,), (), ())
    with pytest.raises(FetchError, match=r"^no Python\nno index$"):
        check_availability((lost, FetchError("no index")), (), ())
