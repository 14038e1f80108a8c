"""INI texts and relations of packages: no run of blanks takes time with the square of its length."""

from __future__ import annotations

import configparser
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reprobuild.ecosystems.apt.relations import Relation, parse_relations
from reprobuild.errors import BuildError
from reprobuild.image.layers.wheel import wheel_entries
from reprobuild.infra.untrusted.ini import collapse_blanks, without_references
from reprobuild.resolve.builds.projects import Project, setup_requires
from tests.image.made import make_wheel

BLANKS = " " * 20_000


def ini(text: str) -> dict[str, dict[str, str]]:
    config = configparser.ConfigParser(delimiters="=")
    config.read_string(without_references(collapse_blanks(text)))
    return {section: dict(config.items(section)) for section in config.sections()}


def test_blanks_within_a_line_are_one() -> None:
    assert ini("[a]\nx  =\t  y   z\n\n  more\n") == {"a": {"x": "y z\n\nmore"}}
    assert ini("[a]\nx = 5 %(y)s %%\n") == {"a": {"x": "5 %(y)s %%"}}


def of_setup_cfg(text: str) -> object:
    return setup_requires(Project(name="x", editable=False, paths=(), texts={"setup.cfg": text.encode()}))


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (of_setup_cfg, f"[options]\nx{BLANKS}y\n"),
        (parse_relations, f"a{BLANKS}b"),
    ],
)
def test_a_run_of_blanks_takes_no_time(read: Callable[[str], object], text: str) -> None:
    """Found by an attacker: a package of one kilobyte kept `lock` or `build` busy for hours."""
    start = time.process_time()
    read(text)
    assert time.process_time() - start < 0.5


def test_relations_have_their_blanks() -> None:
    assert parse_relations("a  (>=  1) ,\n  b | c:any\n") == (
        (Relation("a", ">=", "1"),),
        (Relation("b"), Relation("c", architecture="any")),
    )
    assert parse_relations(" \n ") == ()


def test_entry_points_refer_to_nothing(tmp_path: Path) -> None:
    """Ten levels of eight references would be a text of eight gigabytes."""
    levels = "".join(f"l{number} = {f'%(l{number + 1})s' * 8}\n" for number in range(9))
    path = make_wheel(
        tmp_path / "pkg-1.0-py3-none-any.whl",
        {"pkg/a.py": b""},
        scripts=f"[console_scripts]\n{levels}l9 = pkg:abcdefgh\n",
    )
    with (
        pytest.raises(BuildError, match="is not `name = module:function`"),
        wheel_entries(path, path.name, "3.11"),
    ):
        pass


def test_entry_points_of_many_blanks(tmp_path: Path) -> None:
    path = make_wheel(
        tmp_path / "pkg-1.0-py3-none-any.whl",
        {"pkg/a.py": b""},
        scripts=f"[console_scripts]\nrun{BLANKS}= pkg:run\n",
    )
    start = time.process_time()
    with wheel_entries(path, path.name, "3.11") as entries:
        assert "opt/env/bin/run" in {item.entry.path for item in entries}
    assert time.process_time() - start < 0.5
