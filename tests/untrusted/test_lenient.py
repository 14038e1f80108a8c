"""One odd entry of a foreign server's list is left out, and loses no other; a document of our own is refused whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.ecosystems.conda.repodata import _parse_entry
from reprobuild.ecosystems.oci_registry.manifest import (
    _choose_descriptor,
    _decode_document,
    _descriptors,
    _Index,
)
from reprobuild.ecosystems.oci_registry.reference import parse_reference
from reprobuild.ecosystems.pypi.json_page import FileFilter
from reprobuild.ecosystems.pypi.simple_api import _read_project
from reprobuild.errors import FetchError
from reprobuild.image.oci.members import DirectoryFiles
from reprobuild.infra.http.model import Page
from tests.untrusted.test_exploits import HOSTILE

REFERENCE = parse_reference("registry.example/team/x:1")
DIGEST = "sha256:" + "a" * 64
WHEEL = "tool-1.0-py3-none-any.whl"
GOOD = {"filename": WHEEL, "url": f"../x/{WHEEL}", "hashes": {"sha256": "a" * 64}}


def page(*files: dict[str, Any]) -> Page:
    content = json.dumps({"name": "tool", "meta": {"api-version": "1.1"}, "files": list(files)}).encode()
    return Page(
        url="https://index.example/simple/tool/",
        content=content,
        content_type="application/vnd.pypi.simple.v1+json",
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("filename", f"tool-{text}") for kind, text in HOSTILE.items() if kind not in ("option", "bidi", "long")),
        ("filename", "tool" + "x" * 300), ("url", "https://x.example/\n"), ("hashes", {"sha256": "../../x"}),
        ("hashes", {"../x": "a"}), ("requires-python", ">=3\x1b[2J"), ("filename", 7), ("yanked", 7),
    ],
)  # fmt: skip
def test_an_odd_file_of_an_index_loses_no_other(field: str, value: Any) -> None:
    found, some = _read_project(page({**GOOD, field: value}, GOOD), "tool", FileFilter(text="tool"))
    assert some
    assert [(one.filename, one.url) for one in found] == [
        (GOOD["filename"], "https://index.example/simple/x/tool-1.0-py3-none-any.whl")
    ]


def test_an_odd_file_that_is_not_wanted_loses_no_other() -> None:
    late = {**GOOD, "upload-time": "2024-01-01T00:00:00Z", "url": 7}
    odd = {**GOOD, "upload-time": 7}
    early = {**GOOD, "upload-time": "2022-01-01T00:00:00Z"}
    wanted = FileFilter(text="tool", also=lambda _, uploaded: (uploaded or "") < "2023")
    found, some = _read_project(page(late, odd, early, {**GOOD, "filename": "x.zip"}), "tool", wanted)
    assert some
    assert [(one.filename, one.uploaded) for one in found] == [(WHEEL, early["upload-time"])]


@pytest.mark.parametrize("wrong", [{"name": "x\n", "files": []}, {"name": "x"}, {"files": []}, []])
def test_a_page_that_is_none_is_refused(wrong: Any) -> None:
    bad = msgspec.structs.replace(page(), content=json.dumps(wrong).encode())
    with pytest.raises(msgspec.ValidationError):
        _read_project(bad, "tool", FileFilter(text="tool"))


def test_honest_pages_are_read_whole() -> None:
    """What PyPI and others list: sdists, eggs, installers, dates, reasons with line breaks."""
    names = ["tool-1.0.tar.gz", "tool-1.0.win32-py2.7.exe", "tool-1.0-py2.7.egg"]
    names += ["Tool_X-1!2.0+cu124-cp311-abi3-any.whl"]
    common = {**GOOD, "yanked": "broken:\nuse 1.1", "requires-python": ">=3.8, !=3.9.*"}
    files = [{**common, "filename": name} for name in names]
    found, _ = _read_project(
        page(*files, {**GOOD, "filename": "tool 1.0.zip", "size": None}), "tool", FileFilter(text="ool")
    )
    assert [one.filename for one in found] == [*names, "tool 1.0.zip"]
    assert found[0].yanked == "broken:\nuse 1.1"


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_odd_package_of_a_channel_loses_no_other(kind: str) -> None:
    good: dict[str, str | int] = {
        "filename": "x-1.0-h0_0.conda",
        "version": "1.0",
        "build": "h0_0",
        "size": 7,
    }
    assert _parse_entry(good) is not None
    for field in ("filename", "version", "build", "sha256", "md5"):
        odd = _parse_entry({**good, field: HOSTILE[kind]})
        assert (
            odd is None
            or (field == "filename" and kind == "bidi")
            or (field == "build" and kind == "option")
            or (field == "version" and kind == "option")
        )


@pytest.mark.parametrize("digest", ["sha512:" + "a" * 128, "sha256:../../x", "", 7])
def test_an_odd_image_of_a_list_loses_no_other(digest: Any) -> None:
    good = {"digest": DIGEST, "size": 1, "platform": {"os": "linux", "architecture": "amd64"}}
    content = json.dumps({"manifests": [{**good, "digest": digest}, good]}).encode()
    index = _decode_document(content, _Index, REFERENCE)
    assert [one.digest for one in _descriptors(index)] == [DIGEST]
    assert _choose_descriptor(index, "linux/amd64", REFERENCE).digest == DIGEST


def test_what_a_registry_says_wrong_is_named_by_its_place() -> None:
    with pytest.raises(FetchError, match="cannot be read: Expected `object`") as caught:
        _decode_document(b"[\x7f]", _Index, REFERENCE)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["../secret", "a/../../secret", "/etc/hostname", "x\x00y", "", "./secret"])
def test_the_files_of_an_image_lie_in_its_folder(name: str, tmp_path: Path) -> None:
    """`manifest.json` of `docker save` names files; in a directory they are paths."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "secret").write_text("fine")
    files = DirectoryFiles(tmp_path / "image")
    assert files.has("secret")
    assert not files.has(name)
    with pytest.raises(FileNotFoundError), files.open(name):
        pass
