"""The directory of a user's caches, also of users without a home."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from reprobuild.errors import UsageError
from reprobuild.infra.cache_directory import cache_directory, find_cache_directory
from tests.conftest import reprobuild

HINT = "let XDG_CACHE_HOME name a directory of yours: `export XDG_CACHE_HOME=DIR`"


def test_the_variables_come_first() -> None:
    assert cache_directory({"XDG_CACHE_HOME": "/fast/me", "HOME": "/home/me"}) == Path("/fast/me")
    assert cache_directory({"XDG_CACHE_HOME": "", "HOME": "/home/me"}) == Path("/home/me/.cache")


def test_without_a_home_it_is_that_of_the_password_database() -> None:
    """/var/tmp was taken before, where another user can make `.cache` first."""
    assert cache_directory({}) == Path(pwd.getpwuid(os.geteuid()).pw_dir, ".cache")


def test_a_user_without_any_home_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert find_cache_directory({}) is None
    with pytest.raises(UsageError, match="HOME is not set, and the user has no home directory") as caught:
        cache_directory({})
    assert caught.value.hint == HINT


def test_the_hint_leads_on(tmp_path: Path) -> None:
    """As a user whom the password database does not know, as in many containers."""
    env = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    grant = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]  # to read this checkout
    prefix = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", *grant]
    command = ["store", "gc", "--dry-run"]
    refused = reprobuild(*command, env=env, prefix=prefix)
    assert (refused.returncode, refused.stderr.splitlines()[-1]) == (2, f"hint: {HINT}"), refused.stderr
    found = reprobuild(*command, env={**env, "XDG_CACHE_HOME": str(tmp_path)}, prefix=prefix)
    assert f"error: there is no store at {tmp_path}/reprobuild\n" in found.stderr
