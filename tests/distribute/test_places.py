"""push and pull in an output directory of others, which may hold anything in the place of their files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprobuild.distribute import pull
from reprobuild.distribute.attachments import list_attachments
from reprobuild.errors import DistributionError
from reprobuild.infra.shell_words import quote_path
from reprobuild.store.store import Store
from tests.distribute.folders import make_results, remember_verdict


@pytest.mark.parametrize("kind", ["pipe", "directory", "link", "dangling link"])
def test_a_certificate_that_is_no_plain_file(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    lock, image = make_results(out, {"etc/one": b"1"})
    place = out / "verdict.json"
    place.rename(tmp_path / "aside")
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "directory":
        place.mkdir()
    else:
        place.symlink_to(tmp_path / ("aside" if kind == "link" else "nothing"))
    with pytest.raises(
        DistributionError, match=r"verdict\.json is no plain file, or cannot be read"
    ) as caught:
        list_attachments(lock, image, out, Store(tmp_path / "store"), lambda _: None)
    assert caught.value.hint == "take it away, and make a verdict with `reprobuild verify OUT`"


def test_a_verdict_of_another_party_is_not_attached(tmp_path: Path) -> None:
    """Found by an attacker: whoever pushed it, vouched for it."""
    lock, image = make_results(tmp_path / "it's out", {"etc/one": b"1"})
    out, store, said = tmp_path / "it's out", Store(tmp_path / "store"), list[str]()
    kinds = [one.kind for one in list_attachments(lock, image, out, store, said.append)]
    assert kinds == ["lock", "sbom", "provenance"]
    again = f"`reprobuild verify {quote_path(out)}` makes your own"
    assert said == [f"{out / 'verdict.json'} is left out: no check here made it; {again}"]
    remember_verdict(out, store)  # as that command does
    assert [one.kind for one in list_attachments(lock, image, out, store, said.append)] == [
        *kinds,
        "certificate",
    ]


@pytest.mark.parametrize("target", ["elsewhere", "there"])
def test_the_mark_of_a_pull_is_made_through_no_link(target: str, tmp_path: Path) -> None:
    out, digest = tmp_path / "out", f"sha256:{'0' * 64}"
    out.mkdir()
    pull._mark_begun(out, digest)
    pull._mark_begun(out, digest)  # a pull that goes on
    mark = pull._marker_path(out, digest)
    assert mark.read_bytes() == b""
    mark.unlink()
    there = tmp_path / "there"
    there.write_bytes(b"precious")
    there.chmod(0o600)
    mark.symlink_to(tmp_path / target)
    with pytest.raises(DistributionError, match="is no plain file, and no pull left it") as caught:
        pull._mark_begun(out, digest)
    assert caught.value.hint == "name another directory: `reprobuild pull REF -o OUT`"
    assert not (tmp_path / "elsewhere").exists()
    assert (there.read_bytes(), there.stat().st_mode & 0o777) == (b"precious", 0o600)
