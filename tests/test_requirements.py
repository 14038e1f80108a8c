"""The lock of this project's own dependencies: complete, with hashes, without addresses."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
LOCK = (ROOT / "dev" / "requirements.txt").read_text()
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
DIRECT = [
    *PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["dev"],
    *PROJECT["build-system"]["requires"],
]  # fmt: skip


def blocks(text: str) -> list[tuple[Requirement, list[str]]]:
    """Return each locked requirement with the sha256 of its files."""
    lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", text)).splitlines()
    parts = [line.split("--hash=") for line in lines if line.strip()]
    return [(Requirement(first), [item.strip() for item in rest]) for first, *rest in parts]


LOCKED = blocks(LOCK)


def missing(requirement: Requirement, locked: list[tuple[Requirement, list[str]]]) -> bool:
    """Tell whether no locked release satisfies a requirement of the project."""
    versions = [
        next(iter(item.specifier)).version
        for item, _ in locked
        if canonicalize_name(item.name) == canonicalize_name(requirement.name)
    ]
    return not any(requirement.specifier.contains(version, prereleases=True) for version in versions)


@pytest.mark.parametrize("text", DIRECT)
def test_each_direct_dependency_is_locked(text: str) -> None:
    assert not missing(Requirement(text), LOCKED), "run `make lock`"


def test_a_dependency_without_a_lock_is_seen() -> None:
    assert missing(Requirement("click>=9000"), LOCKED)
    assert missing(Requirement("no-such-project"), LOCKED)


def test_each_release_is_one_version_with_hashes() -> None:
    assert len(LOCKED) > 50
    for item, hashes in LOCKED:
        assert [specifier.operator for specifier in item.specifier] == ["=="], item
        assert hashes, item
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", text) for text in hashes), item


def test_the_lock_names_no_address() -> None:
    assert "://" not in LOCK
    assert not re.search(r"(?m)^\s*-(?!-hash=)", LOCK)
