"""A freeze that another pip wrote than the environment's: `show` says it, `lock` refuses it, its class accepts it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.errors import LockError
from reprobuild.report.text import render_snapshot
from reprobuild.resolve.interpreter.other_pip import find_other_pip
from reprobuild.resolve.resolver import resolve_snapshot
from tests.resolve.small import around, snapshot, use_debian, write_wheel
from tests.snapshot.test_unlisted import document, one

REPORT = "Collecting environment information...\nPyTorch version: 2.5.1+cu124\nPython version: 3.11.2 (main) [GCC]\n"
VENV = "VIRTUAL_ENV=/home/ada/v\nPATH=/home/ada/v/bin:/usr/bin\n"
FREEZE = "/home/ada/v/bin/python -m pip freeze --all"
DEBIAN = "blinker @ file:///usr/lib/python3/dist-packages/blinker\n"
PYTHON = "Python 3.12.1 (main, Dec  8 2023, 05:40:51) [GCC 12.2.0]\nlinux-x86_64\n"


def captured(*found: dict[str, object]) -> str:
    taken = json.loads(document(*found))
    taken["python"]["version"] = "3.11.2"
    return json.dumps({**taken, "repositories": []})


@pytest.mark.parametrize(
    ("files", "sign", "command"),
    [
        ({"collect_env": REPORT, "env": VENV, "requirements": "six==1.16.0\n"},
         "collect_env.txt:2 names torch 2.5.1+cu124, and the freeze lists no torch", FREEZE),
        ({"collect_env": REPORT}, "names torch 2.5.1+cu124", "python -m pip freeze --all"),
        ({"capture": captured(one("torch"), one("six")), "requirements": "six==1.0\n"},
         "capture.json names torch, which the freeze does not list", "/home/ada/venv/bin/python -m pip freeze --all"),
        ({"env": VENV, "requirements": DEBIAN},
         "requirements.txt:1 lies below /usr, and VIRTUAL_ENV is /home/ada/v", FREEZE),
        ({"env": "CONDA_PREFIX=/opt/c/envs/x\n", "requirements": DEBIAN},
         "requirements.txt:1 lies below /usr, and CONDA_PREFIX is /opt/c/envs/x",
         "/opt/c/envs/x/bin/python -m pip freeze --all"),
        ({"python": PYTHON, "requirements": "-e /home/ada/w/lib/python3.10/site-packages/tool\n"},
         "requirements.txt:1 is of Python 3.10, and python.txt:1 has 3.12", "python -m pip freeze --all"),
    ],
)  # fmt: skip
def test_show_says_that_another_pip_wrote_the_freeze(
    files: dict[str, str], sign: str, command: str, tmp_path: Path
) -> None:
    held = snapshot(tmp_path / "snapshot", **files)
    (line,) = [line for line in render_snapshot(held).splitlines() if line.startswith("other pip")]
    assert sign in line
    assert line.endswith(f"; take it again with `{command} > requirements.txt`")


@pytest.mark.parametrize(
    "files",
    [
        {"collect_env": REPORT, "requirements": "torch==2.5.1\n"},
        {"collect_env": REPORT, "requirements": "-e git+https://h.test/p@0123456789abcdef#egg=torch\n"},
        {"collect_env": REPORT, "conda_list": "pytorch 2.5.1 py3.11_0 pytorch\n"},
        {"collect_env": REPORT.replace("2.5.1+cu124", "N/A")},
        {"capture": captured(one("six"), one("pip"), one("torch", installer="conda")), "requirements": "six==1.0\n"},
        {"capture": captured(one("torch", location="/usr/lib/python3/dist-packages"))},
        {"env": VENV, "requirements": "-e /home/ada/v/lib/python3.11/site-packages/tool\n"},
        {"env": VENV, "requirements": "-e /gpfs/home/ada/v/lib/python3.11/site-packages/tool\n"},
        {"env": VENV, "requirements": "-e /home/ada/.local/lib/python3.11/site-packages/tool\n"},
        {"env": VENV, "requirements": "-e /home/ada/project\n"},
        {"requirements": DEBIAN},
        {"python": PYTHON, "requirements": "-e /home/ada/w/lib/python3.12/site-packages/tool\n"},
    ],
)  # fmt: skip
def test_a_freeze_of_the_environment_is_not_doubted(files: dict[str, str], tmp_path: Path) -> None:
    held = snapshot(tmp_path / "snapshot", **files)
    assert find_other_pip(held) is None
    assert "other pip" not in render_snapshot(held)


def test_the_folder_of_a_stranger_is_no_command(tmp_path: Path) -> None:
    """A value that a shell would act on is not offered to be copied, and what paints nothing is written out."""
    hostile = "VIRTUAL_ENV=/home/a\u202e'; rm -rf x;'\n"
    found = find_other_pip(snapshot(tmp_path / "snapshot", env=hostile, requirements=DEBIAN))
    assert found is not None
    assert found.command == "python -m pip freeze --all"
    assert found.sentence().isprintable()


def test_lock_refuses_the_freeze_and_may_be_told_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_debian(monkeypatch)
    write_wheel(tmp_path / "wheels", "six")
    held = snapshot(tmp_path / "snapshot", collect_env=REPORT, env=VENV, requirements="six==1.0\n")
    here = around(tmp_path, tmp_path / "wheels")
    with pytest.raises(LockError) as caught:
        resolve_snapshot(held, Decisions(base="debian/bookworm"), here)
    assert "collect_env.txt:2: requirements.txt: unresolved (other-pip): " in str(caught.value)
    assert caught.value.hint.splitlines() == [
        f"take the freeze again in the environment that ran with `{FREEZE} > requirements.txt`",
        "to go on without exactly these: --accept other-pip",
    ]
    lock = resolve_snapshot(held, Decisions(base="debian/bookworm", accept=("other-pip",)), here)
    assert [wheel.name for wheel in lock.wheels] == ["six"]
