"""Keys are pinned by fingerprint: who may sign, where certificates come from, and what every refusal says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pysequoia import SignatureMode, Tsk, sign

from reprobuild.ecosystems.apt.signatures import AptKeyring
from reprobuild.errors import FetchError

KEY, OTHER = Tsk.generate("one <one@archive.test>"), Tsk.generate("two <two@archive.test>")
PRINT = KEY.extract_certificate().fingerprint
WHERE = "http://archive.test/InRelease"
HINT = "put the archive's keys into /usr/share/keyrings (Debian's package of them ends in -keyring)"


def signed(key: Tsk, text: bytes = b"Suite: made\n") -> bytes:
    return sign(key.signer(), text, mode=SignatureMode.CLEAR)


def refusal(ring: AptKeyring, content: bytes) -> str:
    with pytest.raises(FetchError) as caught:
        ring.open(content, WHERE)
    assert caught.value.hint == HINT
    assert str(caught.value).startswith(f"{WHERE} is not signed by a key that is trusted for it: ")
    return str(caught.value)


@pytest.mark.parametrize(("name", "binary"), [("k.asc", False), ("k.gpg", True), ("k.pgp", True)])
def test_a_key_of_the_machine_opens_what_it_signed(tmp_path: Path, name: str, binary: bool) -> None:
    certificate = KEY.extract_certificate()
    (tmp_path / name).write_bytes(bytes(certificate) if binary else str(certificate).encode())
    (tmp_path / "a-damaged.gpg").write_bytes(b"\x99nothing")
    (tmp_path / "folder.gpg").mkdir()
    ring = AptKeyring([PRINT.upper()], [tmp_path / "absent", tmp_path])
    assert ring.open(signed(KEY), WHERE) == b"Suite: made\n"


def test_a_key_that_is_there_and_not_pinned_is_not_trusted(tmp_path: Path) -> None:
    for key, name in ((KEY, "one.asc"), (OTHER, "two.asc")):
        (tmp_path / name).write_text(str(key.extract_certificate()))
    ring = AptKeyring([PRINT], [tmp_path])
    refusal(ring, signed(OTHER))
    assert "none of the pinned keys is on this machine" in refusal(
        AptKeyring(["0" * 40], [tmp_path]), signed(KEY)
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"Suite: made\n",
        signed(KEY).replace(b"Suite: made", b"Suite: evil"),
        signed(KEY)[: len(signed(KEY)) // 2],
        b"\x00" * 1000,
    ],
)
def test_nothing_unsigned_changed_or_cut_is_opened(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "one.asc").write_text(str(KEY.extract_certificate()))
    refusal(AptKeyring([PRINT], [tmp_path]), content)


def test_text_around_the_signed_part_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "one.asc").write_text(str(KEY.extract_certificate()))
    try:
        found = AptKeyring([PRINT], [tmp_path]).open(
            b"Suite: evil\n\n" + signed(KEY) + b"\nSuite: evil\n", WHERE
        )
    except FetchError:
        return
    assert b"evil" not in found


def test_a_missing_key_is_fetched_once_it_is_needed(tmp_path: Path) -> None:
    asked = []

    def fetch(fingerprint: str) -> bytes:
        asked.append(fingerprint)
        return str(KEY.extract_certificate()).encode()

    ring = AptKeyring([PRINT], [tmp_path], fetch)
    assert asked == []
    assert ring.open(signed(KEY), WHERE) == b"Suite: made\n"
    assert ring.open(signed(KEY), WHERE) == b"Suite: made\n"
    assert asked == [PRINT]


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (str(OTHER.extract_certificate()).encode(), "another key was sent for "),
        (b"<html>not found</html>", "what was sent as the key "),
    ],
)
def test_another_key_than_the_pinned_one_is_refused(tmp_path: Path, sent: bytes, words: str) -> None:
    assert words in refusal(AptKeyring([PRINT], [tmp_path], lambda _: sent), signed(OTHER))


def test_a_key_server_that_is_down_is_told(tmp_path: Path) -> None:
    def fetch(_: str) -> bytes:
        raise FetchError("http://keys.test cannot be reached", hint="x")

    assert "http://keys.test cannot be reached" in refusal(
        AptKeyring([PRINT], [tmp_path], fetch), signed(KEY)
    )
