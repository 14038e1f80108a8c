# ruff: noqa: E501 (a row of a table stays on one line)

from __future__ import annotations

import pytest

from reprobuild.snapshot.parsers import modules
from tests.snapshot.samples import covered, written


def loaded(text: str) -> list[str]:
    found, remarks = modules.parse(text.encode())
    assert covered(found, remarks) == written(text.encode())
    return [m.name + (f"/{m.version}" if m.version else "") for m in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Currently Loaded Modules:\n  1) a/1.0 (H)   3) c/3-x\n  2) b     (H,S)   4) d/1/2.0\n\n  Where:\n   H:  Hidden Module\n",
         ["a/1.0", "b", "c/3-x", "d/1/2.0"]),
        ("Currently Loaded Modules:\n  1) Java/11 -> Java/11.0.20\n", ["Java/11.0.20"]),
        ("Currently Loaded Modulefiles:\n 1) 2020   3) c/3   \n10) b/2.0  \n", ["2020", "c/3", "b/2.0"]),
        ("Currently Loaded Modulefiles: 1) a/1 3) c/3 2) b/2\n", ["a/1", "b/2", "c/3"]),
        ("Currently Loaded Modulefiles:\n 1) a/1(default)   2) b/2 <aL>   3) c/3(default:latest)\n\nKey:\n<module-tag>  <aL>=auto-loaded\n",
         ["a/1", "b/2", "c/3"]),
        ("Currently Loaded Modules:\ngcc/12.2.0\nopenmpi/4.1\n", ["gcc/12.2.0", "openmpi/4.1"]),
        (">   1) a/1   2) b/2\n", ["a/1", "b/2"]),
        ("$ module list\nNo Modulefiles Currently Loaded.\n", []),
        ("No modules loaded\n", []),
        ("Currently Loaded Modules:\n 1) a/1\n\nInactive Modules:\n  1) b/2   2) c\n\nThe following have been reloaded with a version change:\n  1) d/1 => d/2   2) .e/.1 => .e/.2\n",
         ["a/1"]),
        ("Currently Loaded Modules:\n  1) udreg/2.3.2-7.0.1.1_3.33__g8175d3d.ari\n", ["udreg/2.3.2-7.0.1.1_3.33__g8175d3d.ari"]),
    ],
)  # fmt: skip
def test_lists(text: str, expected: list[str]) -> None:
    assert loaded(text) == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("  1) $(reboot)/1", "not a line"),
        ("  1) a/1   nonsense here", "not a line"),
        ("bash: module: command not found", "failed"),
        ("x " * 20_000, "too long"),
        ("", "gave nothing"),
    ],
)
def test_what_is_not_understood(line: str, reason: str) -> None:
    found, remarks = modules.parse(line.encode())
    assert not found
    assert reason in remarks[0].reason
    assert not remarks[0].understood
