"""Signatures of bundles, with OpenSSH's own program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprobuild.distribute import signing, unbundle
from reprobuild.distribute.signing import sign
from reprobuild.distribute.standalone import unbundle as form
from reprobuild.errors import DistributionError
from tests.distribute.conftest import Results
from tests.distribute.test_bundle import ALONE, alone, check_bundle, take
from tests.distribute.test_damage import refused
from tests.openssh import openssh_client
from tests.squashfs import open_folder


@pytest.fixture(scope="module")
def ssh_keygen() -> Iterator[str]:
    """The directory of OpenSSH's program."""
    with open_folder() as folder:
        yield openssh_client(folder)


@pytest.fixture(autouse=True)
def _on_the_path(ssh_keygen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{ssh_keygen}:{os.environ['PATH']}")


def make_key(path: Path, name: str) -> str:
    """Make a key, and return its line for a file of allowed signers."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path], check=True)
    kind, key, _ = path.with_suffix(".pub").read_text().split()
    return f'{name} namespaces="reprobuild-bundle" {kind} {key}\n'


def test_a_signed_bundle(results: Results, tmp_path: Path) -> None:
    signers, others = tmp_path / "signers", tmp_path / "others"
    own = make_key(tmp_path / "key", "ann@example.org")
    others.write_text(make_key(tmp_path / "other", "eve@example.org"))
    signers.write_text(others.read_text() + own)
    file = tmp_path / "b.tar"
    sent = results.bundle(file, key=tmp_path / "key")
    assert sent.signed
    assert results.bundle(tmp_path / "2.tar", key=tmp_path / "key").sha256 == sent.sha256
    assert take(file, tmp_path / "o", tmp_path / "s", signers).signer == "ann@example.org"
    said = alone(file, "--check", "--allowed-signers", signers)
    assert (said.returncode, said.stderr.splitlines()[0]) == (0, "signed by ann@example.org")
    assert "signed by an unknown key: the signer was not checked" in alone(file, "--check").stderr
    checked = unbundle.check_bundle(file, os.environ, signers=signers, say=lambda text: None)
    assert (checked.signed, checked.signer) == (True, "ann@example.org")
    steps: list[str] = []
    assert unbundle.check_bundle(file, os.environ, signers=None, say=steps.append).signer == ""
    assert steps[0] == unbundle.UNKNOWN_SIGNER
    with pytest.raises(DistributionError, match=r"no signer of .*others signed the bundle"):
        unbundle.check_bundle(file, os.environ, signers=others, say=lambda text: None)
    with pytest.raises(DistributionError, match=r"no signer of .*others signed the bundle") as caught:
        take(file, tmp_path / "p", tmp_path / "s", others)
    assert caught.value.hint == "ask for the signer's key, by another way than the bundle came"
    argv = [
        "ssh-keygen",
        "-Y",
        "verify",
        "-f",
        signers,
        "-I",
        "ann@example.org",
        "-n",
        "reprobuild-bundle",
        "-s",
    ]
    manifest = (tmp_path / "o" / "bundle.json").read_bytes()
    subprocess.run(
        [*argv, tmp_path / "o" / "bundle.json.sig"], input=manifest, check=True
    )  # as docs/bundles.md says
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("form", ["{kind} {key} a comment\n", "# of a page\n\n{kind} {key}\n"])
def test_a_key_without_a_name_is_no_signer(form: str, results: Results, tmp_path: Path) -> None:
    """As in a `.pub` file, or a page of keys; the hint is followed."""
    kind, key = make_key(tmp_path / "key", "x").split()[2:]
    file, keys = tmp_path / "b.tar", tmp_path / "the keys"
    results.bundle(file, key=tmp_path / "key")
    keys.write_text(form.format(kind=kind, key=key))
    with pytest.raises(DistributionError) as caught:
        take(file, tmp_path / "o", tmp_path / "s", keys)
    assert str(caught.value) == f"{keys} names no signer: each line needs a name before its key"
    _, command, after = caught.value.hint.split("`")
    assert after == " writes a file with NAME"
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    assert take(file, tmp_path / "o", tmp_path / "s", tmp_path / "the keys.named").signer == "NAME"
    assert keys.read_text() == form.format(kind=kind, key=key)


def test_the_hint_on_a_key_without_a_name_overwrites_no_file(results: Results, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(" ".join(make_key(tmp_path / "key", "x").split()[2:]))
    file = tmp_path / "b.tar"
    results.bundle(file, key=tmp_path / "key")
    (tmp_path / "keys.named").write_text("of the user")
    (tmp_path / "keys.named-2").symlink_to(tmp_path / "absent")
    with pytest.raises(DistributionError) as caught:
        take(file, tmp_path / "o", tmp_path / "s", keys)
    subprocess.run(["sh", "-c", caught.value.hint.split("`")[1]], cwd=tmp_path, check=True)
    assert (tmp_path / "keys.named").read_text() == "of the user"
    assert not (tmp_path / "absent").exists()
    assert (tmp_path / "keys.named-3").read_text() == f"NAME {keys.read_text()}"


@pytest.mark.parametrize("name", ["ssh-ops@x", "ecdsa-team", "ssh-ed25519", "sk-ssh-x", "ssh-rsa,b"])
def test_a_name_of_a_signer_can_begin_like_a_key(name: str, results: Results, tmp_path: Path) -> None:
    kind, key = make_key(tmp_path / "key", "x").split()[2:]
    file, signers = tmp_path / "b.tar", tmp_path / "signers"
    results.bundle(file, key=tmp_path / "key")
    signers.write_text(f"{name} {kind} {key}\n")
    assert take(file, tmp_path / "o", tmp_path / "s", signers).signer == name.partition(",")[0]


def test_a_signature_of_something_else(results: Results, tmp_path: Path) -> None:
    signers = tmp_path / "signers"
    signers.write_text(make_key(tmp_path / "key", "ann@example.org"))
    plain = results.bundle(tmp_path / "plain.tar")
    with pytest.raises(DistributionError, match="the bundle is not signed") as caught:
        take(tmp_path / "plain.tar", tmp_path / "o", tmp_path / "s", signers)
    assert caught.value.hint == "leave --allowed-signers out to take it all the same"
    file = tmp_path / "b.tar"
    results.bundle(file, key=tmp_path / "key")
    data = file.read_bytes()
    at = data.index(b"-----BEGIN SSH SIGNATURE-----")
    file.write_bytes(data[: at + 80] + bytes([data[at + 80] ^ 1]) + data[at + 81 :])
    assert refused(file, tmp_path / "o")[0] == "bundle.json.sig is damaged, or of another bundle"
    empty = tmp_path / "empty"
    empty.mkdir()
    file.write_bytes(data)
    env = {"PATH": str(empty)}
    argv = [sys.executable, "reprobuild/distribute/standalone/unbundle.py", file, "--check"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "signed by an unknown key: the signer was not checked" in done.stderr
    argv += ["--allowed-signers", signers]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 11
    assert "the bundle is signed, and ssh-keygen cannot be run" in done.stderr
    assert "hint: install OpenSSH 8.2 or newer" in done.stderr
    assert not plain.signed


def test_who_signed_is_looked_at_before_the_manifest_is_read(tmp_path: Path) -> None:
    """What is signed by nobody of those asked for can be any bytes."""
    (tmp_path / "signers").write_text(make_key(tmp_path / "key", "ann@example.org"))
    head = form.header("bundle.json", 1, 0)
    (tmp_path / "b.tar").write_bytes(head + b"{" + bytes(4096 + 511))
    with pytest.raises(DistributionError, match="the bundle is not signed"):
        take(tmp_path / "b.tar", tmp_path / "o", tmp_path / "s", tmp_path / "signers")


def planted(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a script on the path that says to be ssh-keygen."""
    (folder / "bin").mkdir()
    (folder / "bin" / "ssh-keygen").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin" / "ssh-keygen").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder / "bin"))


def test_a_program_of_signatures_that_never_ends(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_key(tmp_path / "key", "ann@example.org")
    results.bundle(tmp_path / "b.tar", key=tmp_path / "key")
    planted(tmp_path, "exec /bin/sleep 600", monkeypatch)
    monkeypatch.setattr(form, "KEYGEN_TIME", 0.2)
    monkeypatch.setattr(signing, "KEYGEN_TIME", 0.2)
    with pytest.raises(DistributionError, match="`ssh-keygen` did not end within") as caught:
        take(tmp_path / "b.tar", tmp_path / "o", tmp_path / "s")
    assert caught.value.hint == "run it again; `command -v ssh-keygen` names the program that waits"
    with pytest.raises(form.RefusedError, match="ssh-keygen did not end within") as alone:
        check_bundle(tmp_path / "b.tar")
    assert alone.value.hint == "run it again"


def test_a_look_at_a_signature_gets_little_of_the_environment(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "signers").write_text(make_key(tmp_path / "key", "ann@example.org"))
    results.bundle(tmp_path / "b.tar", key=tmp_path / "key")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/nonexistent/agent")
    monkeypatch.setenv("SOME_TOKEN", "x")
    planted(tmp_path, f"/usr/bin/env > {tmp_path}/seen", monkeypatch)
    take(tmp_path / "b.tar", tmp_path / "o", tmp_path / "s")
    names = {line.partition("=")[0] for line in (tmp_path / "seen").read_text().splitlines()}
    assert {"PATH", "LC_ALL"} <= names <= {"PATH", "LC_ALL", "HOME", "TMPDIR", "PWD"}
    (tmp_path / "bin" / "ssh-keygen").unlink()
    assert take(tmp_path / "b.tar", tmp_path / "p", tmp_path / "s").signed  # nobody asks by whom
    with pytest.raises(DistributionError, match="`ssh-keygen` is not on PATH") as caught:
        take(tmp_path / "b.tar", tmp_path / "q", tmp_path / "s", tmp_path / "signers")
    assert caught.value.hint == "install OpenSSH 8.2 or newer"
    with pytest.raises(DistributionError, match=r"none is no file of allowed signers") as caught:
        take(tmp_path / "b.tar", tmp_path / "q", tmp_path / "s", tmp_path / "none")
    assert caught.value.hint == "see ALLOWED SIGNERS in ssh-keygen(1)"


@pytest.mark.parametrize(
    "script",
    [
        'echo "unknown option -- Y" >&2; echo "usage: ssh-keygen [-q]" >&2; exit 1',  # OpenSSH 8.0
        'echo "ssh-keygen: illegal option -- Y" >&2; exit 1',
        """case $2 in check-novalidate) exit 0;; esac
        echo 'Unsupported operation for -Y: "find-principals"' >&2; exit 255""",  # OpenSSH 8.1
    ],
)
def test_a_program_of_signatures_that_is_too_old(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    """It is as if it were not there: who asks for nobody gets the bundle."""
    (tmp_path / "signers").write_text(make_key(tmp_path / "key", "ann@example.org"))
    file = tmp_path / "b.tar"
    results.bundle(file, key=tmp_path / "key")
    planted(tmp_path, script, monkeypatch)
    done = take(file, tmp_path / "o", tmp_path / "s")
    assert (done.new, done.signed, done.signer) == (True, True, "")
    said = alone(file, "--check")
    assert said.returncode == 0
    assert "signed by an unknown key: the signer was not checked" in said.stderr
    told = "the bundle is signed, and this ssh-keygen is too old to look at signatures"
    with pytest.raises(DistributionError) as caught:
        take(file, tmp_path / "p", tmp_path / "s", tmp_path / "signers")
    assert (str(caught.value), caught.value.hint) == (told, "install OpenSSH 8.2 or newer")
    said = alone(file, "--check", "--allowed-signers", tmp_path / "signers")
    assert said.returncode == 11
    assert said.stderr == f"error: {told}\n\nhint: install OpenSSH 8.2 or newer\n"
    with pytest.raises(DistributionError) as caught:
        sign(b"x", tmp_path / "key", os.environ)
    assert caught.value.hint == "install OpenSSH 8.2 or newer, or leave --sign out"


def test_no_room_for_a_look_at_a_signature(results: Results, tmp_path: Path) -> None:
    make_key(tmp_path / "key", "ann@example.org")
    results.bundle(tmp_path / "b.tar", key=tmp_path / "key")
    argv = ["prlimit", "--fsize=0", sys.executable, "-I", "-S", ALONE, tmp_path / "b.tar", "--check"]
    done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 11
    assert done.stderr.startswith("error: the signature cannot be looked at: ")
    assert (
        "hint: make room for temporary files, or name another directory for them with TMPDIR" in done.stderr
    )


def test_what_cannot_sign(tmp_path: Path) -> None:
    (tmp_path / "none").write_text("no key")
    (tmp_path / "none").chmod(0o600)
    with pytest.raises(DistributionError, match="could not sign the bundle") as caught:
        sign(b"x", tmp_path / "none", os.environ)
    assert caught.value.hint == "--sign takes a key of ssh: make one with `ssh-keygen -t ed25519 -f KEY`"
    with pytest.raises(DistributionError, match="`ssh-keygen` is not on PATH") as caught:
        sign(b"x", tmp_path / "none", {"PATH": str(tmp_path)})
    assert caught.value.hint == "install OpenSSH 8.2 or newer, or leave --sign out"
