"""apt's lists in capture.json: when the captured machine was updated last, and against what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.model import AptList
from reprobuild.snapshot.parsers import capture_json
from reprobuild.snapshot.parsers.apt_lists import read_apt_lists
from reprobuild.snapshot.parsers.capture_json import DAMAGED
from reprobuild.snapshot.read import read_snapshot

ONE = {
    "file": "deb.example_debian_dists_bookworm_InRelease", "dated": "2026-07-12T05:00:07Z", "origin": "Debian",
    "suite": "oldstable", "codename": "bookworm", "date": "Sat, 11 Jul 2026 10:16:37 UTC",
}  # fmt: skip


def document(*lists: Any, **more: Any) -> bytes:
    return json.dumps(
        {"capture": 1, "dpkg": {"packages": 3, "native": "amd64", "lists": lists}, **more}
    ).encode()


def test_what_apt_had() -> None:
    assert read_apt_lists(capture_json.parse(document(ONE | {"of a newer capture": [1]}))) == (
        AptList(
            file="deb.example_debian_dists_bookworm_InRelease",
            date=1783764997,
            fetched=1783832407,
            origin="Debian",
            suite="oldstable",
            codename="bookworm",
        ),
    )


def test_a_machine_without_dpkg_has_none() -> None:
    assert read_apt_lists(capture_json.parse(b'{"capture": 1, "dpkg": null}')) == ()
    assert read_apt_lists(capture_json.parse(b'{"capture": 1}')) == ()
    assert read_apt_lists(capture_json.parse(document())) == ()


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("Thu, 01 Jan 2026 00:00:00 UTC", 1767225600),
        ("Thu, 01 Jan 2026 01:00:00 +0100", 1767225600),
        ("Thu, 01 Jan 1970 00:00:00 UTC", None),
        ("Thu, 99 Jan 2026 00:00:00 UTC", None),
        ("Thu, 01 Jan 99999999999999999999 00:00:00 UTC", None),
        ("Fri, 31 Dec 9999 23:59:59 -2359", 253402387139),
        ("Fri, 31 Dec 9999 23:59:59 -9999", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_dates_of_release_files(date: str, seconds: int | None) -> None:
    (one,) = read_apt_lists(
        capture_json.parse(document(ONE | {"date": date, "dated": "2026-13-01T00:00:00Z"}))
    )
    assert (one.date, one.fetched) == (seconds, None)


def test_what_is_shown_of_them_cannot_harm() -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    (one,) = read_apt_lists(
        capture_json.parse(document({"file": "x\x1b[31m", "origin": "a\nb\u202e", "suite": token}))
    )
    assert one == AptList(file="x\\x1b[31m", origin="a\\nb\\u202e", suite=one.suite)
    assert token not in one.suite


@pytest.mark.parametrize(
    "data",
    [
        b'{"capture": 1, "dpkg": {"lists": [{}]}}',
        b'{"capture": 1, "dpkg": {"lists": [{"file": 3}]}}',
        b'{"capture": 1, "dpkg": {"lists": 3}}',
        b'{"capture": 1, "dpkg": []}',
        b'{"capture": 1, "dpkg": {"lists": [{"file": "\xff"}]}}',
        b'{"capture": 1, "dpkg": {"lists": ' + b"[" * 100_000,
        document(ONE | {"origin": "x" * 4097}),
        document(*({"file": "x"} for _ in range(10_001))),
    ],
)
def test_a_damaged_one(data: bytes) -> None:
    with pytest.raises(SnapshotError) as err:
        capture_json.parse(data)
    assert err.value.hint == DAMAGED


def test_a_snapshot_has_them_and_its_digest_covers_them(tmp_path: Path) -> None:
    snapshots = []
    for lists in ((ONE,), (ONE | {"dated": "2026-07-12T05:00:08Z"},), ()):
        (tmp_path / "capture.json").write_bytes(document(*lists, repositories=[]))
        snapshots.append(read_snapshot(tmp_path))
    first, later, none = snapshots
    assert [one.codename for one in first.apt_lists] == ["bookworm"]
    assert none.apt_lists == ()
    assert len({first.digest, later.digest, none.digest}) == 3
    (tmp_path / "capture.json").write_text('{"capture": 1, "repositories": []}')
    assert read_snapshot(tmp_path).digest == none.digest  # as before there were any
