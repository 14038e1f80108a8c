"""Images of some kilobytes whose lists of packages would take hours or gigabytes are read up to a bound."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reprobuild.compare.environments import image as environment_image
from reprobuild.compare.environments.image import TOO_LARGE, TOO_MUCH
from reprobuild.compare.images import dpkg_status, installed_lists
from reprobuild.compare.images.attribute import Origins, origin_file_hashes, read_origins
from reprobuild.compare.images.dpkg_status import DpkgPackage, read_status
from reprobuild.infra.tar.entries import TarEntry
from tests.compare.samples import compared, make_image
from tests.compare.test_compare import unsaid
from tests.image.made import SITE, file
from tests.test_explain import between

RECORD = b"pkg/a.py,,\npkg/b.py,,\npkg/c.py,,\n"
STATUS = b"Package: a\nVersion: 1\nArchitecture: amd64\n"


def list_links(count: int, content: bytes = RECORD) -> tuple[dict[str, TarEntry], dict[str, bytes]]:
    """Return a tree with one RECORD at many paths, and its content by sha256."""
    paths = [f"opt/{number}/p{number}-1.dist-info/RECORD" for number in range(count)]
    entry = TarEntry(path="", type="file", mode=0o644, sha256="0" * 64, size=len(content))
    folders = {
        f"opt/{number}/pkg": TarEntry(path="", type="directory", mode=0o755) for number in range(count)
    }
    return {**dict.fromkeys(paths, entry), **folders}, {entry.sha256: content}


def read(count: int, content: bytes = RECORD) -> tuple[Origins, int]:
    """Return the origins of such a tree, and how often a list was read."""
    tree, contents = list_links(count, content)
    read_lists: list[str] = []

    def read_list(entry: TarEntry) -> bytes:
        read_lists.append(entry.sha256)
        return contents[entry.sha256]

    return read_origins(tree, read_list, None), len(read_lists)


def count_files(origins: Origins) -> int:
    return sum(path.endswith(".py") for path in origins.paths)


def test_the_lines_of_all_lists_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A RECORD of 4 MB with 20 hard links took 109 s, and one with a thousand hours."""
    origins, reads = read(9)
    assert (count_files(origins), reads, origins.unread) == (27, 9, 0)
    monkeypatch.setattr(installed_lists, "MOST_LINES", 7)
    origins, reads = read(9)
    assert (count_files(origins), reads, origins.unread) == (7, 3, 7)


def test_the_bytes_of_all_lists_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed_lists, "MOST_BYTES", 2 * len(RECORD) + 1)
    origins, reads = read(9)
    assert (count_files(origins), reads, origins.unread) == (6, 2, 7)


def test_a_large_list_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, _ = list_links(1)
    assert origin_file_hashes(tree) == {"0" * 64}
    monkeypatch.setattr(installed_lists, "LARGEST_LIST", len(RECORD) - 1)
    assert origin_file_hashes(tree) == set()
    origins, reads = read(1)
    assert (count_files(origins), reads, origins.unread) == (0, 0, 1)


@pytest.mark.parametrize("row", [b"a," * 200_000, b'"\n",' * 70_000])
def test_a_row_with_very_many_fields_is_not_read(row: bytes) -> None:
    """A RECORD of one row with 8 million fields and 15 hard links took 876 MB and 50 s."""
    origins, reads = read(2, row + b"\n" + RECORD)
    assert (count_files(origins), reads, origins.unread) == (0, 2, 2)
    origins, reads = read(2, row[: len(row) // 10] + b"\n" + RECORD)
    assert (count_files(origins), origins.unread) == (6, 0)


@pytest.mark.parametrize("row", [b"b" * 140_000, b"pkg/b\r.py"])
def test_a_list_with_a_damaged_row_is_counted(row: bytes) -> None:
    """Python's reader ends at a field of 128 kB and at a bare carriage return."""
    origins, _ = read(1, b"pkg/a.py,,\n" + row + b",,\npkg/c.py,,\n")
    assert (count_files(origins), origins.unread) == (1, 1)


def test_a_row_can_have_lines() -> None:
    tree, _ = list_links(1)
    content = b'"pkg/a\nb.py",,\r\npkg/c.py,,\n'
    origins = read_origins(tree, lambda _: content, None)
    assert {"opt/0/pkg/a\nb.py", "opt/0/pkg/c.py"} <= origins.paths.keys()


def test_the_memory_of_all_paths_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million paths with an emoji, 4 bytes for each of 256 characters, took a gigabyte for each image."""
    wide = "pkg/\U0001f600.py,,\n".encode()
    monkeypatch.setattr(installed_lists, "MOST_MEMORY", 7 * sys.getsizeof("opt/0/pkg/\U0001f600.py") + 1)
    origins, reads = read(9, wide)
    assert (count_files(origins), reads, origins.unread) == (7, 8, 2)
    origins, reads = read(9, b"pkg/a.py,,\n")
    assert (count_files(origins), reads, origins.unread) == (9, 9, 0)


def test_the_packages_of_a_status_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    content = STATUS + b"\n" + STATUS.replace(b": a\n", b": b\n")
    tree = {"var/lib/dpkg/status": file("var/lib/dpkg/status", content)[0]}
    monkeypatch.setattr(dpkg_status, "MOST_PACKAGES", 2)
    origins = read_origins(tree, lambda _: content, None)
    assert (len(origins.versions), origins.unread) == (2, 0)
    monkeypatch.setattr(dpkg_status, "MOST_PACKAGES", 1)
    origins = read_origins(tree, lambda _: content, None)
    assert (origins.versions, origins.unread) == ({("system", "a"): "1"}, 1)


def test_the_stanzas_of_a_status() -> None:
    lines = [
        b"Package: a\r\n", b"Status: install ok installed\n", b"Version: 1\x0bVersion: 2\n", b" Version: 3\n", b" .\n",
        b"\n", b"\n", b"Version: 4\n", b"\r\n", b"Package: b\xff\n", b"Status: deinstall ok config-files",
    ]  # fmt: skip
    status = read_status(lines)
    assert status.is_complete
    assert status.packages == (
        DpkgPackage("a", "1\x0bVersion: 2", "", is_installed=True),
        DpkgPackage("b\N{REPLACEMENT CHARACTER}", "", "", is_installed=False),
    )


@pytest.mark.parametrize("path", ["etc/os-release", "usr/lib/os-release", "var/lib/dpkg/status"])
def test_a_large_list_of_the_system_is_in_doubt(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image of 64 kB, whose file has 32 MiB of short lines, took 1.5 GB."""
    content = b"A=\xff\n" * 300_000  # more than a megabyte
    image = make_image(tmp_path / "image", file(path, content))
    monkeypatch.setattr(environment_image, "LARGEST_STATUS", len(content) - 1)
    assert unsaid(compared(image, image))["system", TOO_LARGE.format("A")] == (f"/{path}",)


def test_very_many_packages_of_the_system_are_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = make_image(tmp_path / "image", file("var/lib/dpkg/status", STATUS))
    monkeypatch.setattr(dpkg_status, "MOST_PACKAGES", 0)
    reasons = unsaid(compared(image, image))
    assert reasons["system", TOO_LARGE.format("A")] == ("/var/lib/dpkg/status",)


def test_the_other_lists_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = {
        "opt/env/conda-meta/c-1-0.json": b'{"files": ["a.py", "b.py", "c.py"]}',
        "var/lib/dpkg/info/a.list": b"/opt/d.py\n/opt/e.py\n/opt/f.py\n",
        "var/lib/dpkg/status": STATUS,
    }
    tree = {path: file(path, content)[0] for path, content in lists.items()}
    tree |= {path: TarEntry(path=path, type="directory", mode=0o755) for path in ("opt", "opt/env")}

    def read_list(entry: TarEntry) -> bytes:
        return lists[entry.path]

    for lines, expected in ((9, 6), (8, 5), (5, 2), (3, 0)):
        monkeypatch.setattr(installed_lists, "MOST_LINES", lines)
        origins = read_origins(tree, read_list, None)
        assert count_files(origins) == expected
        assert origins.versions == {("system", "a"): "1"}
        assert bool(origins.unread) == (lines < 9)


def test_a_diff_tells_lists_that_were_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed_lists, "MOST_LINES", 2)
    sides = [[file("opt/p-1.dist-info/RECORD", RECORD), file("opt/x", word)] for word in (b"1", b"2")]
    notes = between(tmp_path, *sides).notes
    assert len(notes) == 2
    assert "1 lists of installed files of " in notes[0]
    assert notes[0].endswith(
        " were not read to their end, so the inputs of some paths may be unknown: one has more than 16 MB or a row "
        "that is damaged or of 256 kB, or all more than 256 MB, 2 lines or 128 MB of paths"
    )


def test_the_metadata_of_all_distributions_have_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 1 MB with 400 hard links took 94 s: only its head has name and version."""
    body = b"Name: %b\nVersion: 2\n\nVersion: 3\n" + b"a:\n" * 100_000
    files = [file(f"{SITE}/{name}-1.dist-info/METADATA", body % name.encode()) for name in "abc"]
    image = make_image(tmp_path / "image", *files)
    reason, head = TOO_MUCH.format("A"), environment_image.HEAD
    monkeypatch.setattr(environment_image, "MOST_PARSED", 4 * head)  # of the small files, too
    assert ("python", reason) not in unsaid(compared(image, image))
    monkeypatch.setattr(environment_image, "MOST_PARSED", 2 * head + head // 2)
    result = compared(image, image)
    assert unsaid(result)["python", reason] == (f"/{SITE}/c-1.dist-info/METADATA",)
    assert any(item.grave for item in result.not_compared if item.reason == reason)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"Name: a\nVersion: 1\n\nName: b\n", {"name": "a", "version": "1"}),
        (b"NAME:a\r\nname: b\r\n\r\nVersion: 2\r\n", {"name": "a"}),
        (b"\nName: a\n", {}),
        (b"Summary: Name: b\nX-Name: c\nVersion: 1.0", {"version": "1.0"}),
        (b" \t\nName: a\n", {}),
    ],
)
def test_the_head_of_metadata(content: bytes, expected: dict[str, str]) -> None:
    assert environment_image._parse_metadata(content) == expected
