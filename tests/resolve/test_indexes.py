"""Which indexes this machine uses, asked of the real pip, and read from files and variables of uv."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reprobuild.ecosystems.pypi.indexes import PackageIndex, PackageIndexes, decided_indexes, read_indexes
from reprobuild.ecosystems.pypi.pip_config import Asking
from reprobuild.errors import LockError
from tests.resolve.served import Served


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
    assert read_indexes(env) == PackageIndexes(
        find_links=((tmp_path / "wheels").as_uri(), "https://links.test/page.html"),
        simple=("https://first.test:8443/simple", "https://second.test/simple", "https://third.test/simple"),
        credentials={
            "https://first.test:8443/simple": ("alice", "p@ss"), "https://third.test/simple": ("token", ""),
        },
    )  # fmt: skip


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
    assert read_indexes(env) == PackageIndexes(
        find_links=("file:///wheels",),
        simple=("https://extra.test/simple", "https://pip.test/simple", "https://default.test/simple"),
        named={"extra": "https://extra.test/simple"},
        uv_alone=(
            "file:///wheels",
            "https://extra.test/simple",
            "https://pip.test/simple",
            "https://default.test/simple",
        ),
        credentials={"https://extra.test/simple": ("bob", "pw")},
    )


def test_uvs_flat_indexes_are_pages_of_links(env: dict[str, str], tmp_path: Path) -> None:
    text = """
[[index]]
name = "links"
url = "https://flat.test/page/"
format = "flat"
[[index]]
name = "mine"
url = "https://mine.test/page"
format = "flat"
explicit = true
"""
    uv_file(env, tmp_path, text)
    found = read_indexes(env)
    assert (found.find_links, "https://flat.test/page" in found.simple) == (
        ("https://flat.test/page/",),
        False,
    )
    for name in ("links", "mine"):
        assert decided_indexes({"tool": name}, found)[0]["tool"].links


def test_uvs_variables_go_over_its_files(env: dict[str, str], tmp_path: Path) -> None:
    uv_file(env, tmp_path, 'index-url = "https://file.test/s"\nextra-index-url = ["https://fe.test/s"]\n')
    assert read_indexes(env).simple == ("https://fe.test/s", "https://file.test/s")
    (tmp_path / "own.toml").write_text('index-url = "https://own.test/s"\n')
    env |= {
        "UV_CONFIG_FILE": str(tmp_path / "own.toml"),
        "UV_INDEX": "named=https://n.test/s https://m.test/s?a=b",
    }
    found = read_indexes(env)
    assert found.simple == ("https://n.test/s", "https://m.test/s?a=b", "https://own.test/s")
    assert found.named == {"named": "https://n.test/s"}
    env |= {"UV_DEFAULT_INDEX": "https://d.test/s", "UV_FIND_LINKS": "https://l.test/a,https://l.test/b"}
    found = read_indexes(env)
    assert found.simple[-1] == "https://d.test/s"
    assert found.find_links == ("https://l.test/a", "https://l.test/b")
    assert read_indexes({**env, "UV_NO_INDEX": "1"}).simple == ()
    assert "https://own.test/s" not in read_indexes({**env, "UV_NO_CONFIG": "1"}).simple


def test_uvs_extra_indexes_come_first_then_pips_defaults_then_pips_extras(env: dict[str, str]) -> None:
    env |= {"PIP_INDEX_URL": "https://p.test/s/", "UV_INDEX_URL": "https://u.test/s"}
    env |= {"PIP_EXTRA_INDEX_URL": "https://u.test/s https://x.test/s", "UV_INDEX": "https://e.test/s"}
    assert read_indexes(env).simple == (
        "https://e.test/s", "https://p.test/s", "https://u.test/s", "https://x.test/s",
    )  # fmt: skip
    assert [place.url for place in read_indexes(env).places if place.uv] == ["https://e.test/s"]


WHOLE = """
extra-index-url = ["{0}/extra"]
[[index]]
name = "one"
url = "{0}/one"
[[index]]
name = "my-own"
url = "{0}/explicit"
explicit = true
[[index]]
name = "last"
url = "{0}/default"
default = true
[pip]
extra-index-url = ["{0}/pip-extra"]
"""


@pytest.mark.parametrize(
    "variables", [{}, {"UV_INDEX": "mine={0}/env"}, {"UV_DEFAULT_INDEX": "{0}/own-default"}]
)
def test_the_order_is_the_one_in_which_uv_itself_asks(
    variables: dict[str, str], env: dict[str, str], tmp_path: Path
) -> None:
    with Served() as served:
        uv_file(env, tmp_path, WHOLE.format(served.url))
        env |= {name: value.format(served.url) for name, value in variables.items()}
        env |= {"NO_PROXY": "127.0.0.1", "UV_CACHE_DIR": str(tmp_path / "cache"), "UV_PYTHON": sys.executable}
        uv = Path(sys.executable).with_name("uv")
        ran = subprocess.run(
            [uv, "pip", "compile", "--quiet", "-"],
            input=b"tool==1.0",
            env=env,
            cwd=tmp_path,
            capture_output=True,
        )
        asked = [path.removesuffix("/tool/") for path, _ in served.asked]
    assert b"tool was not found" in ran.stderr
    found = read_indexes(env)
    assert [url.removeprefix(served.url) for url in found.simple] == asked
    assert found.named["my-own"] == f"{served.url}/explicit"


def test_logins_of_uvs_named_indexes(env: dict[str, str], tmp_path: Path) -> None:
    uv_file(env, tmp_path, WHOLE.format("https://old:login@w.test"))
    env |= {
        "UV_INDEX_MY_OWN_USERNAME": "al",
        "UV_INDEX_MY_OWN_PASSWORD": "s@3/",
        "UV_INDEX_ONE_USERNAME": "bo",
    }
    found = read_indexes(env)
    assert found.credentials["https://w.test/explicit"] == ("al", "s@3/")
    assert found.credentials["https://w.test/one"] == ("bo", "")
    assert found.credentials["https://w.test/default"] == ("old", "login")
    assert all("@" not in url for url in (*found.simple, *found.named.values()))


def test_a_keyring_is_not_asked_and_that_is_said(env: dict[str, str], tmp_path: Path) -> None:
    pip_file(env, tmp_path, "[global]\nkeyring-provider = subprocess\n")
    env["UV_KEYRING_PROVIDER"] = "subprocess"
    pip, uv = read_indexes(env).remarks
    assert pip == (
        "pip is told to ask a keyring for logins, and reprobuild does not: put the login into netrc, or into the "
        "index's address"
    )
    assert uv == pip.replace("pip is", "uv is")


def test_a_decided_index_is_an_address_a_folder_or_one_of_uvs(env: dict[str, str], tmp_path: Path) -> None:
    uv_file(env, tmp_path, WHOLE.format("https://w.test"))
    known = read_indexes(env)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "tool-1.0-py3-none-any.whl").touch()
    decided = {
        "a": "https://me:pw@a.test/simple/", "b": "https://b.test/links.html", "c": "my-own",
        "d": str(tmp_path / "wheels"), "e": str(tmp_path),
    }  # fmt: skip
    found, logins, _ = decided_indexes(decided, known)
    assert found == {
        "a": PackageIndex("https://a.test/simple"), "b": PackageIndex("https://b.test/links.html", links=True),
        "c": PackageIndex("https://w.test/explicit"), "d": PackageIndex((tmp_path / "wheels").as_uri(), links=True),
        "e": PackageIndex(tmp_path.as_uri()),
    }  # fmt: skip
    assert logins == {"https://a.test/simple": ("me", "pw")}
    with pytest.raises(LockError, match="the index nowhere of tool is no address and no directory") as caught:
        decided_indexes({"tool": "nowhere"}, known)
    assert (
        caught.value.hint == "write it as https://HOST/PATH, as a directory or one of uv's: last, my-own, one"
    )


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


def test_pip_that_was_asked_before_gives_the_same(env: dict[str, str], tmp_path: Path) -> None:
    pip_file(
        env,
        tmp_path,
        "[global]\nindex-url = https://a.test/simple\nextra-index-url = https://b.test/simple\n",
    )
    with Asking(env) as asking:
        assert read_indexes(env, asking) == read_indexes(env)


def test_an_answer_that_nobody_takes_is_not_waited_for(env: dict[str, str], tmp_path: Path) -> None:
    """As when a verb fails before it needs the answer: a process left behind would be an error of this test."""
    with pytest.raises(ZeroDivisionError), Asking(env):
        raise ZeroDivisionError


def test_files_of_a_project_do_not_count(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The current directory may be somebody else's snapshot; relative directories of settings would be in it."""
    place = tmp_path / "place"
    line = '[[index]]\nurl = "https://decoy.invalid/simple"\n'
    for name in ("uv.toml", "xdg/uv/uv.toml", ".config/uv/uv.toml", "uv/uv.toml"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(line)
    (place / "pyproject.toml").write_text('[[tool.uv.index]]\nurl = "https://decoy.invalid/simple"\n')
    monkeypatch.chdir(place)
    plain = read_indexes(env)
    assert read_indexes({**env, "XDG_CONFIG_HOME": "xdg", "XDG_CONFIG_DIRS": "xdg:"}) == plain
    assert read_indexes({**env, "HOME": ""}) == read_indexes({**env, "HOME": "."}) == plain
    named = read_indexes({**env, "UV_CONFIG_FILE": "uv.toml"})
    assert "https://decoy.invalid/simple" in named.simple  # it is named by the user


def test_pips_own_file_may_be_named_in_the_current_directory(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip_file(env, tmp_path, "[global]\nindex-url = https://own.test/simple\n")
    monkeypatch.chdir(tmp_path)
    # The machine's own /etc/pip.conf counts, too, and may name more.
    assert read_indexes({**env, "PIP_CONFIG_FILE": "pip.conf"}).simple[0] == "https://own.test/simple"
