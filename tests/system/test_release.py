from __future__ import annotations

import pytest

from reprobuild.errors import LockError
from reprobuild.resolve.system.release import infer_release
from tests.system.samples import package

HINT = (
    "say which one it was, by `base:` in reprobuild.yaml or as an option, for example: --base debian/bookworm"
)


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("12.4+deb12u11", "debian/bookworm"),
        ("12", "debian/bookworm"),
        ("13.1", "debian/trixie"),
        ("11.1+deb11u11", "debian/bullseye"),
        ("12ubuntu4.6", "ubuntu/jammy"),
        ("13ubuntu10.1", "ubuntu/noble"),
        ("11ubuntu5.8", "ubuntu/focal"),
        ("10.1ubuntu2.12", "ubuntu/bionic"),
        ("9.4ubuntu4.14", "ubuntu/xenial"),
        ("14ubuntu6.1", "ubuntu/resolute"),
        ("10.3+deb10u13", "debian/buster"),
    ],
)
def test_base_files_names_the_release(version: str, release: str) -> None:
    found = infer_release([package("base-files", version, line=7)])
    assert f"{found.distribution}/{found.codename}" == release
    assert found.evidence.startswith(f"base-files {version} (apt-packages.txt:7)")


def test_suites_and_versions_name_the_release_and_all_evidence_is_told() -> None:
    packages = [
        package("a", "1-1", suites=("jammy-updates", "jammy-security")),
        package("b", "2-1ubuntu0.22.04.3", suites=("jammy",)),
    ]
    found = infer_release(packages)
    assert found.codename == "jammy"
    assert "2 packages came from its suites" in found.evidence
    assert "1 package versions are marked" in found.evidence


def test_stable_alone_is_no_evidence_but_a_stable_update_is() -> None:
    with pytest.raises(LockError, match="nothing in the snapshot tells") as err:
        infer_release([package("a", "1-1", suites=("stable",))])
    assert err.value.hint == HINT
    assert infer_release([package("a", "1-1~deb12u1", suites=("oldstable",))]).codename == "bookworm"


def test_the_decision_wins() -> None:
    found = infer_release([package("base-files", "13.1")], "debian/bookworm")
    assert found.codename == "bookworm"
    assert found.evidence == "decided: base: debian/bookworm"


def test_an_image_of_this_machine_without_a_tag_is_told_how_to_write_it() -> None:
    with pytest.raises(LockError, match="`base: localhost/foo` names no distribution") as err:
        infer_release([], "localhost/foo")
    assert err.value.hint == "if an image is meant, write `image:localhost/foo:TAG`"


@pytest.mark.parametrize("base", ["bookworm", "debian/bookworm/x", "Debian/12", "debian/bookworm;id\n"])
def test_a_decision_that_names_no_release_is_refused(base: str) -> None:
    with pytest.raises(LockError, match="is not a distribution and a release") as err:
        infer_release([], base)
    assert err.value.hint == HINT


def test_evidence_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(LockError, match="more than one release") as err:
        infer_release([package("base-files", "12.4+deb12u1"), package("a", "1", suites=("jammy",))])
    assert err.value.hint == HINT
