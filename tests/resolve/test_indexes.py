"""Which indexes this machine uses, asked of the real pip, and read from files and variables of uv."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reprobuild.errors import LockError
from reprobuild.resolve.indexes import Indexes, read_indexes


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment in which neither pip nor uv is configured."""
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "PIP_CONFIG_FILE": os.devnull}


def pip_file(env: dict[str, str], tmp_path: Path, text: str) -> None:
    (tmp_path / "pip.conf").write_text(text)
    env["PIP_CONFIG_FILE"] = str(tmp_path / "pip.conf")


def uv_file(env: dict[str, str], tmp_path: Path, text: str) -> None:
    (tmp_path / "xdg" / "uv").mkdir(parents=True)
    (tmp_path / "xdg" / "uv" / "uv.toml").write_text(text)
    env["XDG_CONFIG_HOME"] = str(tmp_path / "xdg")


def test_without_configuration_it_is_pips_own_default(env: dict[str, str]) -> None:
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--help"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    (default,) = read_indexes(env).simple
    assert default in "".join(asked.stdout.split())
    assert read_indexes(env).find_links == ()


def test_pips_file_is_read_and_credentials_are_set_apart(env: dict[str, str], tmp_path: Path) -> None:
    pip_file(
        env,
        tmp_path,
        f"""
[global]
index-url = https://alice:p%40ss@first.test:8443/simple/
extra-index-url = https://second.test/simple
    https://token@third.test/simple/
find-links = {tmp_path}/wheels
    https://links.test/page.html
""",
    )
    assert read_indexes(env) == Indexes(
        find_links=((tmp_path / "wheels").as_uri(), "https://links.test/page.html"),
        simple=("https://first.test:8443/simple", "https://second.test/simple", "https://third.test/simple"),
        credentials={"first.test:8443": ("alice", "p@ss"), "third.test": ("token", "")},
    )


def test_pips_variables_go_over_its_sections_and_those_over_global(
    env: dict[str, str], tmp_path: Path
) -> None:
    text = "[global]\nindex-url = https://g.test/s\nextra-index-url = https://ge.test/s\n"
    text += "[install]\nextra-index-url = https://ie.test/s\n[search]\nindex = https://no.test/s\n"
    pip_file(env, tmp_path, text)
    assert read_indexes(env).simple == ("https://g.test/s", "https://ie.test/s")
    env |= {"PIP_INDEX_URL": "https://e.test/s", "PIP_FIND_LINKS": "https://a.test/l https://b.test/l"}
    found = read_indexes(env)
    assert found.simple == ("https://e.test/s", "https://ie.test/s")
    assert found.find_links == ("https://a.test/l", "https://b.test/l")


@pytest.mark.parametrize(("value", "simple"), [("1", ()), ("true", ()), ("0", ("https://i.test/s",))])
def test_no_index_is_obeyed(env: dict[str, str], value: str, simple: tuple[str, ...]) -> None:
    env |= {"PIP_NO_INDEX": value, "PIP_INDEX_URL": "https://i.test/s", "PIP_FIND_LINKS": "https://a.test/l"}
    found = read_indexes(env)
    assert (found.simple, found.find_links) == (simple, ("https://a.test/l",))


def test_uvs_file_is_read(env: dict[str, str], tmp_path: Path) -> None:
    uv_file(
        env,
        tmp_path,
        """
find-links = ["/wheels"]
[[index]]
name = "extra"
url = "https://bob:pw@extra.test/simple"
[[index]]
url = "https://default.test/simple"
default = true
[pip]
extra-index-url = ["https://pip.test/simple"]
""",
    )
    assert read_indexes(env) == Indexes(
        find_links=("file:///wheels",),
        simple=("https://default.test/simple", "https://pip.test/simple", "https://extra.test/simple"),
        credentials={"extra.test": ("bob", "pw")},
    )


def test_uvs_variables_go_over_its_files(env: dict[str, str], tmp_path: Path) -> None:
    uv_file(env, tmp_path, 'index-url = "https://file.test/s"\nextra-index-url = ["https://fe.test/s"]\n')
    assert read_indexes(env).simple == ("https://file.test/s", "https://fe.test/s")
    (tmp_path / "own.toml").write_text('index-url = "https://own.test/s"\n')
    env |= {
        "UV_CONFIG_FILE": str(tmp_path / "own.toml"),
        "UV_INDEX": "named=https://n.test/s https://m.test/s?a=b",
    }
    assert read_indexes(env).simple == ("https://own.test/s", "https://n.test/s", "https://m.test/s?a=b")
    env |= {"UV_DEFAULT_INDEX": "https://d.test/s", "UV_FIND_LINKS": "https://l.test/a,https://l.test/b"}
    found = read_indexes(env)
    assert found.simple[0] == "https://d.test/s"
    assert found.find_links == ("https://l.test/a", "https://l.test/b")


def test_pips_index_comes_before_uvs_and_none_twice(env: dict[str, str]) -> None:
    env |= {"PIP_INDEX_URL": "https://p.test/s/", "UV_INDEX_URL": "https://u.test/s"}
    env |= {"PIP_EXTRA_INDEX_URL": "https://u.test/s https://x.test/s"}
    assert read_indexes(env).simple == ("https://p.test/s", "https://u.test/s", "https://x.test/s")


def test_a_broken_file_of_uv(env: dict[str, str], tmp_path: Path) -> None:
    uv_file(env, tmp_path, "index-url = ")
    with pytest.raises(LockError, match=r"uv\.toml: ") as caught:
        read_indexes(env)
    assert caught.value.hint == "uv itself will refuse this file; mend it"


def test_a_pip_that_does_not_answer(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip_file(env, tmp_path, "no section")
    with pytest.raises(LockError, match="could not ask pip for the indexes of this machine") as caught:
        read_indexes(env)
    assert caught.value.hint == (
        f"{sys.executable} -m pip must work: install pip there, or mend its configuration"
    )
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(LockError, match="is not on PATH"):
        read_indexes(env)
