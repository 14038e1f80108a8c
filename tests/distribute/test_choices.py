"""Saved choices of compilers in bundles and registries."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.distribute import choice_secrets, choices
from reprobuild.distribute.choices import MOST, TYPE, list_choices
from reprobuild.distribute.pull import PullResult, pull
from reprobuild.distribute.push import push
from reprobuild.distribute.text import render_pulled
from reprobuild.distribute.unbundle import unbundle
from reprobuild.ecosystems.oci_registry.repository import MANIFEST, OciRepository
from reprobuild.errors import BuildError, DistributionError, UsageError
from reprobuild.image.choices.record import ChoiceFile, encode_choices, read_choices
from reprobuild.output.directory import read_image
from reprobuild.store.keyring import keyring
from reprobuild.store.store import Store
from tests.choices.samples import CACHE, PLATFORM, save_choices
from tests.distribute.conftest import Results
from tests.distribute.folders import make_results, make_session
from tests.distribute.held import Held, listed
from tests.registry.pushing import sha256

NAME = "team/train"
ANOTHER = msgspec.structs.replace(PLATFORM, cpu="two")


def unbundle_program(file: Path, out: Path) -> None:
    """Unpack a bundle with the program that needs only Python."""
    subprocess.run([sys.executable, str(file.parent / "unbundle.py"), str(file), "-o", str(out)], check=True)


def unbundle_command(file: Path, out: Path) -> None:
    unbundle(file, out, Store(out.parent / "other-store"), os.environ, signers=None, say=lambda text: None)


@pytest.fixture
def held() -> Iterator[Held]:
    with Held() as registry:
        yield registry


@pytest.fixture
def out(tmp_path: Path) -> Path:
    make_results(tmp_path / "out")
    return tmp_path / "out"


def send(out: Path, held: Held) -> dict[str, Any]:
    lock, image = read_image(out)
    return push(lock, image, out, f"{held.host}/{NAME}:1", make_session(out.parent / "unused"), {}).document


def bring(held: Held, out: Path) -> PullResult:
    return pull(f"{held.host}/{NAME}:1", out, make_session(out.parent / f"{out.name}-store"), {})


@pytest.mark.parametrize("api", [True, False], ids=["api", "tag"])
def test_choices_of_each_platform_travel_with_the_image(api: bool, out: Path, tmp_path: Path) -> None:
    files = [save_choices(out), save_choices(out, platform=ANOTHER)]  # two records of one archive
    with Held(api=api) as held:
        sent = send(out, held)
        assert len(sent["choices"]) == 2
        assert send(out, held)["choices"] == sent["choices"]
        pulled = bring(held, tmp_path / "there")
        assert {choice.digest for choice in pulled.choices} == {*sent["choices"]}
        assert {choice.file for choice in pulled.choices} == {f"choices/{file.record.name}" for file in files}
        assert pulled.strangers == 0
        for file in files:
            for path in (file.record, file.archive):
                assert (tmp_path / "there/choices" / path.name).read_bytes() == path.read_bytes()
        for file in files:
            command = f"reprobuild run {tmp_path / 'there'} --trust-choices {file.digest} -- CMD"
            assert f"choices of compilers, which are code: {command}" in render_pulled(pulled)
        bring(held, tmp_path / "there")  # once more, over the same files


def test_an_image_without_choices_sends_none(out: Path, held: Held, tmp_path: Path) -> None:
    assert send(out, held)["choices"] == ()
    assert bring(held, tmp_path / "there").choices == ()
    assert not (tmp_path / "there/choices").exists()


# --- a registry in which others write -----------------------------------------------------------------


def swap_layers(manifest: dict[str, Any]) -> None:
    manifest["layers"].reverse()


def forget_a_layer(manifest: dict[str, Any]) -> None:
    del manifest["layers"][1]


def name_another_image(manifest: dict[str, Any]) -> None:
    manifest["subject"]["digest"] = f"sha256:{'0' * 64}"


def state_another_size(manifest: dict[str, Any]) -> None:
    manifest["layers"][1]["size"] += 1


def replace_layers(manifest: dict[str, Any]) -> None:
    manifest["layers"] = 5


@pytest.mark.parametrize(
    "change", [swap_layers, forget_a_layer, name_another_image, state_another_size, replace_layers]
)
def test_a_manifest_that_was_made_up_is_named(
    change: Callable[[dict[str, Any]], None], out: Path, held: Held, tmp_path: Path
) -> None:
    save_choices(out)
    (digest,) = send(out, held)["choices"]
    manifest = json.loads(held.manifests.pop(digest)[1])
    change(manifest)
    content = json.dumps(manifest).encode()
    # The list of referrers, which the registry makes, still has it for this image.
    wrong = sha256(content)
    held.manifests[wrong] = (MANIFEST, content)
    _, image = read_image(out)
    entry = {"mediaType": MANIFEST, "digest": wrong, "size": len(content), "artifactType": TYPE}
    held.lie(
        "GET",
        f"/v2/{NAME}/referrers/{image.manifest}",
        listed(
            json.dumps(
                {"manifests": [*json.loads(held.referrers(image.manifest))["manifests"], entry]}
            ).encode()
        ),
    )
    pulled = bring(held, tmp_path / "there")
    assert {(choice.file, choice.why) for choice in pulled.choices} == {("", "damaged, or made up")}
    assert not (tmp_path / "there/choices").exists()


def test_a_record_of_another_size_leaves_the_image(out: Path, held: Held, tmp_path: Path) -> None:
    """One attachment of another party must not make every `pull` of the image fail."""
    save_choices(out)
    (digest,) = send(out, held)["choices"]
    manifest = json.loads(held.manifests.pop(digest)[1])
    manifest["layers"][0]["size"] -= 1
    content = json.dumps(manifest).encode()
    wrong = sha256(content)
    held.manifests[wrong] = (MANIFEST, content)
    _, image = read_image(out)
    entry = {"mediaType": MANIFEST, "digest": wrong, "size": len(content), "artifactType": TYPE}
    referrers = [*json.loads(held.referrers(image.manifest))["manifests"], entry]
    held.lie(
        "GET", f"/v2/{NAME}/referrers/{image.manifest}", listed(json.dumps({"manifests": referrers}).encode())
    )  # fmt: skip
    pulled = bring(held, tmp_path / "there")
    assert any("gives more than" in choice.why for choice in pulled.choices)
    assert read_image(tmp_path / "there")[1].manifest == image.manifest
    assert not (tmp_path / "there/choices").exists()


def test_an_archive_with_other_bytes_is_not_written(out: Path, held: Held, tmp_path: Path) -> None:
    file = save_choices(out)
    send(out, held)
    held.blobs[f"sha256:{file.saved.archive.sha256}"] = b"x" * file.saved.archive.size
    (choice,) = bring(held, tmp_path / "there").choices
    assert choice.file == ""
    assert file.archive.name in choice.why
    assert not (tmp_path / "there/choices").exists()


def test_an_archive_of_no_stated_size_is_not_fetched(out: Path, held: Held, tmp_path: Path) -> None:
    """A size of 0 means one that is not known: it would not count for the bound of all archives."""
    file = save_choices(out)
    (digest,) = send(out, held)["choices"]
    manifest = json.loads(held.manifests.pop(digest)[1])
    archive = msgspec.structs.replace(file.saved.archive, size=0)
    record = encode_choices(msgspec.structs.replace(file.saved, archive=archive))
    held.blobs[sha256(record)] = record
    manifest["layers"][0].update(digest=sha256(record), size=len(record))
    manifest["layers"][1]["size"] = 0
    content = json.dumps(manifest).encode()
    held.manifests[sha256(content)] = (MANIFEST, content)
    (choice,) = bring(held, tmp_path / "there").choices
    assert (choice.file, choice.why) == ("", "damaged, or made up")
    assert not (tmp_path / "there/choices" / file.archive.name).exists()


def test_archives_beyond_the_bound_are_not_fetched(
    out: Path, held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = save_choices(out)
    send(out, held)
    monkeypatch.setattr(choices, "LARGEST_SUM", file.saved.archive.size - 1)
    (choice,) = bring(held, tmp_path / "there").choices
    assert (choice.file, choice.why) == ("", f"too large: {file.saved.archive.size} bytes")


def test_choices_beyond_the_number_that_pull_looks_at_are_counted(
    out: Path, held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everyone who may write to the repository can attach some before the genuine ones."""
    monkeypatch.setattr(choices, "MOST", 2)
    for number in range(5):
        save_choices(out, platform=msgspec.structs.replace(PLATFORM, threads=number))
    send(out, held)
    pulled = bring(held, tmp_path / "there")
    assert len(read_choices(tmp_path / "there")) == 2
    why = f"not looked at: the registry lists more than {MOST}"
    assert [choice.why for choice in pulled.choices if not choice.file] == [why] * 3
    assert f"3 more choices of compilers {why}" in render_pulled(pulled).splitlines()


def test_pull_writes_no_more_records_than_run_reads(
    out: Path, held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        save_choices(out, platform=msgspec.structs.replace(PLATFORM, threads=number))
    send(out, held)
    monkeypatch.setattr(choices, "MOST_RECORDS", 2)
    for _ in range(2):  # the second time, over the same files
        pulled = bring(held, tmp_path / "there")
        assert sorted(choice.why for choice in pulled.choices) == ["", "", "choices has 2 records"]
    assert len(read_choices(tmp_path / "there")) == 2


def test_pull_does_not_write_through_a_link(out: Path, held: Held, tmp_path: Path) -> None:
    save_choices(out)
    send(out, held)
    bring(held, tmp_path / "there")
    shutil.rmtree(tmp_path / "there/choices")
    (tmp_path / "there/choices").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="is a link, and the choices are not written through it"):
        bring(held, tmp_path / "there")


# --- what is handed over ------------------------------------------------------------------------------


def test_a_text_that_looks_like_a_secret_is_not_handed_over(out: Path) -> None:
    token = "ghp_" + "wJalrXUtnFEMIK7MDENGbPxRfiCYzz123456"
    file = save_choices(
        out, {**CACHE, "inductor/ab/cab.py": f"url = 'https://{token}@example.org'\n".encode()}
    )
    with pytest.raises(DistributionError, match=r"inductor/ab/cab\.py:1 looks like a secret") as caught:
        list_choices(out, keyring())
    assert caught.value.hint == f"remove {file.record}, or hand the image over without its choices"
    assert token not in str(caught.value)
    file.record.unlink()
    assert list_choices(out, keyring()) == ()


TOKEN = "ghp_" + "wJalrXUtnFEMIK7MDENGbPxRfiCYzz123456"


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"\x7fELF\0\1\2" + bytes(range(256)) * 40 + TOKEN.encode() + b"\0\0\0", ""),  # compiled code
        (bytes(range(256)) * 40 + b"\0\1" * 50 + TOKEN.encode("utf-16-le"), ""),
        (bytes((1 << 20) - 10) + TOKEN.encode(), ""),  # between two pieces
        (f"a\0b\nx = '{TOKEN}'\n".encode(), ":2"),  # a text with a NUL
        (f"first\nx = '{TOKEN}'\n".encode("utf-16"), ":2"),
        (f"first\nx = '{TOKEN}'\n".encode("utf-16-be"), ":2"),
        # It begins in one encoding, and the token is in another one.
        (b"\0\1" * 4096 + TOKEN.encode() + b"\n", ""),
        (b"\1\0" * 4096 + TOKEN.encode() + b"\n", ""),
        (b"\xff\xfe\1\1" + f"x = '{TOKEN}'\n".encode(), ""),
        (b"\xfe\xff" + "text\n".encode("utf-16-be") + TOKEN.encode("utf-16-le"), ""),
        (b"text\n" * 2000 + TOKEN.encode("utf-16-le"), ""),
    ],
)
def test_a_secret_in_any_kind_of_file_is_seen(out: Path, content: bytes, place: str) -> None:
    file = save_choices(out, {"inductor/ab/cab.so": content})
    with pytest.raises(DistributionError, match=rf"inductor/ab/cab\.so{place} looks like a secret") as caught:
        list_choices(out, keyring())
    assert caught.value.hint == f"remove {file.record}, or hand the image over without its choices"


def test_words_of_code_are_found_in_each_encoding() -> None:
    words = ("a short word", "one of 20 characters", "tabs\tcount as letters too")
    encodings = ("utf-8", "utf-16-le", "utf-16-be")
    code = b"\1\xff".join(b"\0\0\1".join(word.encode(name) for word in words) for name in encodings)
    found = list(choice_secrets._find_words(code))
    assert sorted(found) == sorted(3 * [words[1].encode(), words[2].encode()])


def test_code_without_words_has_no_text() -> None:
    for unit in (b"\0", b"\0a" * 18 + b"\1\1", b"a" * 19 + b"\1"):
        code = io.BytesIO(b"\0\1\2\3" * 2048 + unit * ((1 << 20) // len(unit)))
        assert {text for text, _ in choice_secrets._list_texts(code, 1 << 20)} == {b""}


def test_a_secret_in_a_name_of_a_file_is_seen_and_not_shown(out: Path) -> None:
    save_choices(out, {f"inductor/ab/{TOKEN}.so": b"\0"})
    with pytest.raises(DistributionError, match="the name of a file looks like a secret") as caught:
        list_choices(out, keyring())
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    "changed",
    [
        {"driver": TOKEN},
        {"gpus": (TOKEN,)},
        {"flags": (TOKEN,)},
        {"variables": {"API_KEY": "hunter2x-Zq81kd"}},
    ],
)
def test_a_secret_in_a_record_is_seen_and_not_shown(out: Path, changed: dict[str, Any]) -> None:
    file = save_choices(out, platform=msgspec.structs.replace(PLATFORM, **changed))
    with pytest.raises(DistributionError, match="has what looks like a secret") as caught:
        list_choices(out, keyring())
    assert str(file.record) in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert "hunter2x" not in str(caught.value)


def test_compiled_code_without_a_secret_is_handed_over(out: Path) -> None:
    save_choices(out, {"inductor/ab/cab.so": Path(sys.executable).read_bytes()[: 4 << 20]})
    assert len(list_choices(out, keyring())) == 1


def test_a_secret_far_behind_is_seen_and_too_much_text_is_refused(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice_secrets, "_MOST_TEXT", 1 << 20)
    token = "ghp_" + "wJalrXUtnFEMIK7MDENGbPxRfiCYzz123456"
    file = save_choices(out, {"inductor/ab/a.py": b"\n" * 500_000 + f"x = '{token}'\n".encode()})
    with pytest.raises(DistributionError, match=r"a\.py:500001 looks like a secret"):
        list_choices(out, keyring())
    file.record.unlink()
    save_choices(out, {f"inductor/ab/{name}.py": b"x\n" * 200_000 for name in "abc"})
    with pytest.raises(DistributionError, match="more than 1 MiB, too many to look for secrets") as caught:
        list_choices(out, keyring())
    assert "or hand the image over without its choices" in caught.value.hint


def test_an_archive_of_many_records_is_searched_once(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        save_choices(out, platform=msgspec.structs.replace(PLATFORM, threads=number))
    reads: list[str] = []
    read_files = choice_secrets.read_files

    def count_reads(*words: Any) -> Any:
        reads.append(words[2])
        return read_files(*words)

    monkeypatch.setattr(choice_secrets, "read_files", count_reads)
    assert len(list_choices(out, keyring())) == 5
    assert len(reads) == 1


def test_choices_that_the_user_did_not_accept_are_not_handed_over(out: Path) -> None:
    """A signature of the bundle would cover them."""
    file = save_choices(out, {"inductor/ab/foreign.so": b"\0"}, accepted=False)
    with pytest.raises(DistributionError, match="were not saved here, and are code") as caught:
        list_choices(out, keyring())
    command = f"accept them with `reprobuild run {out} --trust-choices {file.digest} -- CMD`, or remove {file.record}"
    assert caught.value.hint == command


def test_linked_choices_of_another_directory_are_not_handed_over(out: Path, tmp_path: Path) -> None:
    save_choices(tmp_path / "private")
    (out / "choices").symlink_to(tmp_path / "private/choices")
    with pytest.raises(UsageError, match="is a link"):
        list_choices(out, keyring())


def pipe(file: ChoiceFile) -> None:
    file.archive.unlink()
    os.mkfifo(file.archive)


def remove(file: ChoiceFile) -> None:
    file.archive.unlink()


def link(file: ChoiceFile) -> None:
    file.archive.rename(file.archive.with_suffix(".other"))
    file.archive.symlink_to(file.archive.with_suffix(".other"))


@pytest.mark.parametrize("change", [remove, link, pipe])
def test_a_missing_archive_is_named(change: Callable[[ChoiceFile], None], out: Path) -> None:
    file = save_choices(out)
    change(file)
    with pytest.raises(DistributionError, match="is missing, or no plain file") as caught:
        list_choices(out, keyring())
    hint = f"remove {file.record}, and save the choices again with `reprobuild run --save-choices`"
    assert caught.value.hint == hint


def test_a_damaged_archive_is_not_handed_over(out: Path) -> None:
    file = save_choices(out)
    file.archive.write_bytes(file.archive.read_bytes()[:-1])
    with pytest.raises(BuildError, match=f"the choices {file.name}"):
        list_choices(out, keyring())


@pytest.mark.parametrize("unpack", [unbundle_program, unbundle_command])
def test_a_bundle_carries_choices(
    unpack: Callable[[Path, Path], None], results: Results, tmp_path: Path
) -> None:
    file = save_choices(results.out)
    results.bundle(tmp_path / "plain" / "b.tar", parts=frozenset())
    unpack(tmp_path / "plain" / "b.tar", tmp_path / "without")
    assert not (tmp_path / "without/choices").exists()
    results.bundle(tmp_path / "b" / "b.tar", parts=frozenset({"choices"}))
    unpack(tmp_path / "b" / "b.tar", tmp_path / "there")
    (brought,) = read_choices(tmp_path / "there")
    assert brought.document == file.document
    assert brought.archive.read_bytes() == file.archive.read_bytes()


# --- another writer of the directory ------------------------------------------------------------------


def exchange(path: Path, private: Path) -> None:
    """Do what another writer of the directory can: replace a file by a link to a file of the user."""
    private.write_bytes(b"private " * 1000)
    path.unlink()
    path.symlink_to(private)


@pytest.mark.parametrize("kind", ["choices", "layer"])
def test_a_file_that_is_exchanged_after_its_check_is_not_sent(
    kind: str, out: Path, held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checked bytes are sent through the descriptor by which they were read."""
    file = save_choices(out)
    layers = sorted((out / "image/blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    path = file.archive if kind == "choices" else layers[-1]
    digest, content = sha256(path.read_bytes()), path.read_bytes()
    put, exchanged = OciRepository.put, []

    def exchange_first(
        repository: OciRepository, source: Any, wanted: str, *words: Any, **named: Any
    ) -> bool:
        if wanted == digest:
            exchange(path, tmp_path / "private")
            exchanged.append(path)
        return put(repository, source, wanted, *words, **named)

    monkeypatch.setattr(OciRepository, "put", exchange_first)
    send(out, held)
    assert exchanged == [path]
    assert held.blobs[digest] == content
    held.check()


def rewrite(path: Path, private: Path) -> None:
    """Replace a file by another one."""
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:-1] + b"x")


@pytest.mark.parametrize("change", [exchange, rewrite, lambda path, _: path.unlink()])
def test_an_archive_that_is_exchanged_after_the_search_is_not_sent(
    change: Callable[[Path, Path], None],
    out: Path,
    held: Held,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = save_choices(out)
    has = OciRepository.has
    before: list[int] = []

    def change_first(repository: OciRepository, digest: str) -> bool:
        if digest == f"sha256:{file.saved.archive.sha256}":
            change(file.archive, tmp_path / "private")
            before.append(len(held.sizes("POST")))
        return has(repository, digest)

    monkeypatch.setattr(OciRepository, "has", change_first)
    with pytest.raises(
        DistributionError, match="is not the archive in which secrets were searched"
    ) as caught:
        send(out, held)
    assert caught.value.hint == f"look which program writes to {out / 'choices'}, and push again"
    assert before == [len(held.sizes("POST"))]
    assert "1" not in held.manifests
