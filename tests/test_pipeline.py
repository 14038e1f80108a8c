"""What the composition itself promises."""

from __future__ import annotations

import pytest

from reprobuild.errors import BuildError
from reprobuild.pipeline.render import refuse_secrets


def test_a_secret_in_what_would_be_written_stops_the_build() -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with pytest.raises(BuildError, match=r"Dockerfile:2: this looks like a secret") as err:
        refuse_secrets({"pylock.toml": b"x = 1\n", "Dockerfile": f"FROM scratch\nENV A={token}\n".encode()})
    assert token not in str(err.value)
    assert "leave its variable or package out with --drop NAME" in err.value.hint


def test_what_holds_none_passes() -> None:
    refuse_secrets({"Dockerfile": b"FROM scratch\nENV OMP_NUM_THREADS=2\n"})
