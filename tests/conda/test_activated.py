"""Variables that scripts of conda's packages set when their environment is activated."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.lock.model import Resolution
from reprobuild.resolve.conda.environment import add_activation_variables
from reprobuild.resolve.environment.triage import triage_snapshot
from reprobuild.snapshot.read import read_snapshot

ENV = "/home/u/miniconda3/envs/x"


def settled(
    folder: Path, *variables: str, **decided: tuple[str, ...]
) -> tuple[dict[str, str], list[Resolution]]:
    """Return the image's variables and their rulings, where scripts of one package export all that was captured."""
    (folder / "env.txt").write_text("".join(f"{line}\n" for line in (f"CONDA_PREFIX={ENV}", *variables)))
    snapshot, decisions = read_snapshot(folder), Decisions(**decided)
    names = [line.partition("=")[0] for line in variables]
    triage = add_activation_variables(
        triage_snapshot(snapshot, decisions), snapshot, dict.fromkeys(names, "rust-1-0.conda")
    )
    return {one.name: one.value for one in triage.settings}, list(triage.rulings)


def test_lists_of_folders_keep_their_own_rules(tmp_path: Path) -> None:
    """conda-forge's rust and go export PATH; what was captured there is the host's, too."""
    found, rulings = settled(
        tmp_path, f"PATH=/home/u/bin:{ENV}/bin:/usr/bin", "LD_LIBRARY_PATH=/opt/site/lib",
        f"CMAKE_PREFIX_PATH={ENV}", f"PYTHONPATH={ENV}/more", f"GDAL_DATA={ENV}/share/gdal",
    )  # fmt: skip
    assert found == {"CONDA_PREFIX": "/opt/env", "GDAL_DATA": "/opt/env/share/gdal"}
    assert {one.subject for one in rulings if one.outcome == "pinned"} == {"CONDA_PREFIX", "GDAL_DATA"}


def test_what_was_dropped_stays_out(tmp_path: Path) -> None:
    found, rulings = settled(tmp_path, f"GDAL_DATA={ENV}/share/gdal", drop=("GDAL_DATA", "CONDA_PREFIX"))
    assert found == {}
    assert {(one.subject, one.reason) for one in rulings} == {
        ("GDAL_DATA", "dropped by decision"), ("CONDA_PREFIX", "dropped by decision"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ENV, "/opt/env"), (f"{ENV}/lib/jvm", "/opt/env/lib/jvm"), ("LP64,GNU", "LP64,GNU"),
        (f"-isystem {ENV}/include -O2", "-isystem /opt/env/include -O2"), (f"{ENV}/a:{ENV}/b", "/opt/env/a:/opt/env/b"),
        (f"{ENV}-other/share", None), (f"{ENV}/../y/share", None), (f"{ENV}/share:/usr/share", None), ("~/data", None),
        ("/usr/share/proj", None), ("file:///etc/xml/catalog", None), (f"-I{ENV}/include", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["ZED_DATA", "JAVA_HOME"])
def test_only_values_of_the_prefix_are_taken(
    name: str, value: str, expected: str | None, tmp_path: Path
) -> None:
    assert settled(tmp_path, f"{name}={value}")[0].get(name) == expected
