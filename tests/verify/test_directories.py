"""verify of an output directory of others: no file of the caller is copied into it, and no digest of it is believed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from reprobuild.errors import BuildError, UsageError
from reprobuild.image.engine_name import encode_named_index, own_name
from reprobuild.image.model import Image
from reprobuild.image.oci.read import read_layout
from reprobuild.output.directory import IMAGE, REPORT, VERDICT, read_image
from reprobuild.pipeline import verify as checks
from reprobuild.pipeline.verify import verify
from reprobuild.pipeline.verify_options import VerifyOptions
from reprobuild.recipe.image_config import image_config
from reprobuild.verify.certificate.read import LARGEST, is_certificate
from tests.distribute.folders import make_results, make_session
from tests.image.layouts import write_image
from tests.registry.pushing import file, layer
from tests.report.commands import Box
from tests.verify.samples import PreparedEngine, good_answers

SECRET = b"-----BEGIN OPENSSH PRIVATE KEY-----\n"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    make_results(tmp_path / "out", {"etc/one": b"1"}, certificate=False)
    return tmp_path / "out"


def check(out: Path, against: Path | None = None) -> None:
    """Verify a directory, with an engine of prepared answers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "find_engine", lambda *_, **__: PreparedEngine(good_answers()))
        verify(
            *read_image(out),
            out,
            make_session(out.parent / "store"),
            VerifyOptions(cpu_only=True, against=against),
        )


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


def test_a_directory_that_cannot_be_written_to_gets_no_file(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site keeps images that its users may only read; root may write everywhere."""
    said: list[str] = []
    monkeypatch.setattr(checks, "find_engine", lambda *_, **__: PreparedEngine(good_answers()))
    monkeypatch.setattr(checks.os, "access", lambda path, mode: path != out)
    context = msgspec.structs.replace(make_session(out.parent / "store"), say=said.append)
    before = sorted(path.name for path in out.iterdir())
    verdict = verify(*read_image(out), out, context, VerifyOptions(cpu_only=True))
    assert verdict.determinism.cpu == "identical"
    assert sorted(path.name for path in out.iterdir()) == before
    assert f"warning: {out} cannot be written to: the verdict is printed, and no file is written" in said


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


def test_the_page_loads_no_image_under_the_name_of_another(out: Path) -> None:
    """Docker takes the name from the layout, and the commands for podman would give it."""
    lock, image = read_image(out)
    for reference in ("docker.io/library/python:3.11", own_name(lock.digest)):
        layout = read_layout(out / "image")
        (out / "image" / "index.json").write_bytes(encode_named_index(layout, reference))
        (out / IMAGE).write_bytes(msgspec.json.encode(msgspec.structs.replace(image, reference=reference)))
        check(out)
        tabs = Box((out / REPORT).read_text()).lines
        assert ("Docker" in tabs) == (reference == own_name(lock.digest))
        assert {
            own_name(lock.digest) in "".join(tabs[engine]) for engine in tabs.keys() & {"Docker", "podman"}
        } == {True}
        assert not any("python:3.11" in line for lines in tabs.values() for line in lines)


# --- digests that lie ------------------------------------------------------------------------


def lying(out: Path, **stated: str) -> Image:
    """Put another image into a directory, which states the digests of the former one."""
    lock, honest = read_image(out)
    shutil.rmtree(out / "image")
    layout = write_image(out / "image", [layer([file("etc/evil", b"evil")])], image_config(lock).document())
    (out / "image" / "index.json").write_bytes(encode_named_index(layout, honest.reference))
    own = {"manifest": layout.manifest, "config": layout.config_digest, **stated}
    (out / IMAGE).write_bytes(msgspec.json.encode(msgspec.structs.replace(honest, **own)))
    return honest


def test_a_tree_that_the_layers_do_not_hold_is_refused(out: Path, tmp_path: Path) -> None:
    """A certificate would state the tree of the honest image, and `--against` call this one the same."""
    check(out)
    certificate = tmp_path / "honest.json"
    (out / VERDICT).rename(certificate)
    lying(out)
    with pytest.raises(
        UsageError, match=r"out does not hold the image that its image\.json states"
    ) as caught:
        check(out, against=certificate)
    assert caught.value.hint == f"make it of the lock: `reprobuild build {out}/reprobuild.lock -o {out}`"
    assert not (out / VERDICT).exists()


def test_a_record_with_two_trees_is_refused(out: Path) -> None:
    """Other programs may take the first."""
    text = (out / IMAGE).read_bytes()
    (out / IMAGE).write_bytes(text.replace(b"{", b'{"tree":"sha256:%s",' % (b"0" * 64), 1))
    with pytest.raises(UsageError, match=r"image\.json is damaged.*its JSON has the key 'tree' twice"):
        read_image(out)


def test_a_layout_of_another_name_is_refused(out: Path) -> None:
    """The honest image would be checked there, and the engines load that in `image`."""
    shutil.copytree(out / "image", out / "other")
    honest = lying(out)
    (out / IMAGE).write_bytes(msgspec.json.encode(honest).replace(b'"layout":"image"', b'"layout":"other"'))
    with pytest.raises(
        UsageError, match=r"image\.json is damaged.*Invalid enum value 'other' - at `\$\.layout`"
    ):
        read_image(out)


def test_a_configuration_that_is_another_is_refused(out: Path) -> None:
    _, image = read_image(out)
    (out / IMAGE).write_bytes(
        msgspec.json.encode(msgspec.structs.replace(image, config=f"sha256:{'0' * 64}"))
    )
    with pytest.raises(UsageError, match="does not hold the image"):
        check(out)


def test_a_tree_without_layers_is_not_believed(out: Path) -> None:
    shutil.rmtree(out / "image")
    with pytest.raises(
        UsageError, match=r"holds no layers, so that the tree that image\.json states cannot be"
    ):
        check(out)


def test_layers_are_read_once(out: Path) -> None:
    """As long as the store remembers what they hold; that of another store is not believed."""
    check(out)
    shutil.rmtree(out / "image")
    check(out)
    for made in (out.parent / "store" / "made").iterdir():  # also that a verdict was written here
        made.write_bytes(made.read_bytes()[:-1] + b"x")
    with pytest.raises(UsageError, match="holds no layers"):
        check(out)


def test_a_damaged_layer_is_said_also_of_an_image_that_was_checked_before(out: Path) -> None:
    """The built-in engine has unpacked it, and would not read it again."""
    check(out)
    layout = read_layout(out / "image")
    layer = layout.blob(layout.layers[0][1])
    whole = layer.read_bytes()
    layer.chmod(0o644)
    layer.write_bytes(whole + b"x")
    with pytest.raises(BuildError, match=f"blob {layer.name} of {out}/image is not what it states") as caught:
        check(out)
    assert caught.value.hint == f"make it of the lock: `reprobuild build {out}/reprobuild.lock -o {out}`"
    layer.write_bytes(whole)
    check(out)


def test_a_damaged_layer_is_said(out: Path) -> None:
    largest = max((out / "image" / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    largest.write_bytes(b"x" * largest.stat().st_size)
    with pytest.raises(BuildError):
        check(out)
