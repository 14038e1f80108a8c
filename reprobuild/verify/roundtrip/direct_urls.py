"""Freeze lines with an address.

The image has that very file or commit, but records no address of it.
"""

from __future__ import annotations

import re

from packaging.utils import canonicalize_name

from reprobuild.lock.model import Lock, Resolution

_DIRECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]]*\])? *@ *(?P<address>\S+:\S+)")
_HASH = re.compile(r"[#&]sha256=(?P<sha256>[0-9a-f]{64})")
_COMMIT = re.compile(r"@(?P<commit>[0-9a-f]{7,64})(?:#|$)")


def explain_repetition(lock: Lock, ruling: Resolution, freeze: str) -> str:
    """Return why an image's line repeats a line with an address.

    It is empty if the line does not repeat it.

    Args:
        lock: with the builds, if any.
        ruling: of the captured line.
        freeze: the image's line.
    """
    match = _DIRECT.match(ruling.captured)
    if not match or ruling.outcome != "pinned":
        return ""
    name = canonicalize_name(ruling.subject)
    versions = {
        wheel.version for wheel in (*lock.wheels, *lock.built_wheels) if canonicalize_name(wheel.name) == name
    }
    shown, equals, version = freeze.partition("==")
    if canonicalize_name(shown) != name or not equals or version not in versions:
        return ""
    commit = _COMMIT.search(match["address"])
    commits = {
        source.commit
        for source in lock.sources
        if canonicalize_name(source.name) == name and not source.editable
    }
    if commit and any(source_commit.startswith(commit["commit"]) for source_commit in commits):
        return "built from that commit; the image records no address of it"
    if commits and match["address"].startswith("file:"):
        return "built from the repository that --source names; the image records no directory of it"
    here = [(wheel.name, wheel.file) for wheel in lock.wheels] + [
        (sdist.name, sdist.file) for sdist in lock.sdists
    ]
    files = [file for owner, file in here if canonicalize_name(owner) == name]
    digest_match = _HASH.search(match["address"])
    address = match["address"].partition("#")[0]
    if any(file.sha256 == digest_match["sha256"] if digest_match else file.url == address for file in files):
        return "that very file, by its hash; the image records no address of it"
    return ""
