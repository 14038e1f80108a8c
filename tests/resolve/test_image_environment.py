"""The variables of an image: what is kept, what must be accepted, and what never shows."""

from __future__ import annotations

import pytest

from reprobuild.lock.system import EnvVar, InheritedSetting
from reprobuild.resolve.system.image_environment import inherit_environment

TOKEN = "hf_" + "a1B2c3D4e5" * 3
OURS = (EnvVar(name="MKL_NUM_THREADS", value="1"),)


@pytest.mark.parametrize(
    ("variable", "outcome", "kind"),
    [
        ("PATH=/vendor:/usr/bin", "in base", ""),
        ("LD_LIBRARY_PATH=/vendor/lib", "in base", ""),
        ("NVIDIA_REQUIRE_CUDA=cuda>=12.1 brand=tesla,driver>=470", "in base", ""),
        ("NVIDIA_DRIVER_CAPABILITIES=compute,utility", "in base", ""),
        ("EMPTY=", "in base", ""),
        ("OMP_NUM_THREADS=3", "replaced", "base-variable"),
        ("LD_PRELOAD=/vendor/lib.so", "replaced", "base-variable"),
        ("MKL_NUM_THREADS=4", "excluded", "decision"),
        ("DROPPED_ONE=1", "excluded", "decision"),
        (f"HF_TOKEN={TOKEN}", "excluded", "secret"),
        (f"INNOCENT={TOKEN}", "excluded", "secret"),
        ("LINES=a\nb", "excluded", "session"),
        ("NO NAME=1", "excluded", "session"),
        ("", "excluded", "session"),
        ("\x1b[2J=1", "excluded", "session"),
    ],
)
def test_each_variable_is_decided(variable: str, outcome: str, kind: str) -> None:
    kept, (ruling,) = inherit_environment([variable], OURS, ["DROPPED_*"])
    assert (ruling.outcome, ruling.kind) == (outcome, kind)
    name, _, value = variable.partition("=")
    expected = [InheritedSetting(name=name, value=value)] if outcome in ("in base", "replaced") else []
    assert list(kept) == expected
    assert TOKEN not in repr((kept, ruling))
    assert ruling.subject.isprintable()


def test_the_last_of_several_values_counts() -> None:
    kept, rulings = inherit_environment(["A=1", "A=2", "B=1", f"B={TOKEN}"], (), ())
    assert kept == (InheritedSetting(name="A", value="2"),)
    assert [ruling.subject for ruling in rulings] == ["A", "B"]
