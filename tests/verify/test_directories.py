"""verify of an output directory of others: no file of the caller is copied into it, and no digest of it is believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprobuild import checks
from reprobuild.checks import Checks, verify
from reprobuild.results import VERDICT, read_image
from reprobuild.verify.certificate import LARGEST, is_certificate
from tests.ship.folders import make_results, make_session
from tests.verify.samples import PreparedEngine, good_answers

SECRET = b"-----BEGIN OPENSSH PRIVATE KEY-----\n"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    make_results(tmp_path / "out", {"etc/one": b"1"}, certificate=False)
    return tmp_path / "out"


def check(out: Path) -> None:
    """Verify a directory, with an engine of prepared answers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "find_engine", lambda *_, **__: PreparedEngine(good_answers()))
        verify(*read_image(out), out, make_session(out.parent / "store"), Checks(cpu_only=True))


def private(tmp_path: Path, content: bytes = SECRET) -> Path:
    """Return a file that nobody but the caller may read."""
    path = tmp_path / "id"
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def test_a_linked_verdict_is_not_followed(out: Path, tmp_path: Path) -> None:
    """Neither what is no certificate nor one that the link leads to comes into the directory."""
    for content in (SECRET, b'{"version": 1, "determinism": {}}'):
        (out / VERDICT).unlink(missing_ok=True)
        (out / VERDICT).symlink_to(private(tmp_path, content))
        check(out)
        assert not (out / VERDICT).is_symlink()
        assert list(out.glob("verdict-*")) == []
        assert (tmp_path / "id").read_bytes() == content
        (tmp_path / "id").unlink()


@pytest.mark.parametrize("content", [SECRET, b"", b"{", b'{"version": "1"}', b"[" * 100_000])
def test_what_is_no_certificate_is_not_kept_aside(content: bytes, out: Path) -> None:
    (out / VERDICT).write_bytes(content)
    check(out)
    assert list(out.glob("verdict-*")) == []
    assert is_certificate((out / VERDICT).read_bytes())


def test_a_pipe_and_a_file_without_end_are_not_waited_for(out: Path) -> None:
    os.mkfifo(out / VERDICT)
    check(out)
    with (out / VERDICT).open("wb") as stream:
        stream.truncate(LARGEST + 1)
    check(out)
    assert list(out.glob("verdict-*")) == []


def test_certificates_of_each_form_are_kept_aside(out: Path) -> None:
    check(out)
    first = (out / VERDICT).read_bytes()
    check(out)
    (kept,) = out.glob("verdict-*")
    assert kept.read_bytes() == first
    (out / VERDICT).write_bytes(b'{"version": 1, "determinism": {"cpu": "identical"}}')
    check(out)
    assert len(list(out.glob("verdict-*"))) == 2
