"""The signature of a bundle."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from typing import Callable, Optional, Sequence

from reprobuild_portable.search_path import absolute_path, find_program
from reprobuild_portable.unbundle.format import AGAIN, SIGNATURE, RefusedError
from reprobuild_portable.unbundle.manifest import escape_text

NAMESPACE = "reprobuild-bundle"  # of signatures: a signature for another purpose is not valid here
KEYGEN_TIME = 60.0  # seconds that a check of a signature may take
# `ssh-keygen -Y` came with OpenSSH 8.1 (that of RHEL 8 is 8.0), and `find-principals` with 8.2.
NEW_KEYGEN = "install OpenSSH 8.2 or newer"
TOO_OLD = "the bundle is signed, and this ssh-keygen is too old to look at signatures"
# A key without a name before it: names of signers can begin like the types of keys, which sshd(8) lists.
_KEY = re.compile(
    rb"\s*(?:ssh-(?:ed25519|rsa|dss)|ecdsa-sha2-nistp(?:256|384|521)|sk-(?:ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)"
    rb"\s+AAAA[A-Za-z0-9+/]*={0,2}(?:\s|\Z)"
)
_LARGEST = 1 << 20  # bytes of a file of signers that are looked at
_TOO_OLD = re.compile(r"(?:unknown|illegal|invalid|unrecognized) option\W+Y\b|Unsupported operation for -Y")


class AbsentError(RefusedError):
    """An error for an absent or too old `ssh-keygen`."""


Keygen = Callable[[Sequence[str], bytes], Optional[str]]  # arguments after `ssh-keygen -Y`, and its input


def check_signature(manifest: bytes, signature: bytes, signers: str, keygen: Keygen) -> str:
    """Check the signature of a bundle, and return its signer.

    Args:
        manifest: the first member, not parsed yet.
        signature: of the manifest; empty if absent.
        signers: a file of allowed signers (ssh-keygen(1)); empty to check only that the signature is of this
            bundle, if `ssh-keygen` is present.
        keygen: starts `ssh-keygen -Y`, as `run_keygen` does.

    Returns:
        The signer's name in the file, empty without a file.

    Raises:
        RefusedError: it is not signed, or by another signer, the signature is damaged, or `ssh-keygen` is absent.
    """
    if not signature:
        if signers:
            raise RefusedError(
                "the bundle is not signed", "leave --allowed-signers out to take it all the same"
            )
        return ""
    if signers and not os.path.isfile(signers):
        raise RefusedError(
            "%s is no file of allowed signers" % escape_text(signers), "see ALLOWED SIGNERS in ssh-keygen(1)"
        )
    try:
        if signers and _lacks_names(signers):
            raise RefusedError(
                "%s names no signer: each line needs a name before its key" % escape_text(signers),
                "`sed 's/^/NAME /' %s > %s` writes a file with NAME"
                % tuple(shlex.quote(escape_text(path)) for path in (signers, _new_name(signers))),
            )
        with tempfile.TemporaryDirectory() as folder:
            place = os.path.join(folder, SIGNATURE)
            with open(place, "wb") as stream:
                stream.write(signature)
            return _verify_signer(manifest, place, signers, keygen)
    except OSError as err:
        raise RefusedError(
            "the signature cannot be looked at: %s" % err.strerror,
            "make room for temporary files, or name another directory for them with TMPDIR",
        ) from None


def _lacks_names(signers: str) -> bool:
    """Return whether each line of a file begins with its key, as in a `.pub` file or a list of keys."""
    with open(signers, "rb") as stream:
        lines = stream.read(_LARGEST).splitlines()
    keys = [line for line in lines if line.strip() and not line.startswith(b"#")]
    return bool(keys) and all(_KEY.match(line) for line in keys)


def _new_name(signers: str) -> str:
    """Return a name for a file beside another that no file has."""
    named = [signers + ".named", *("%s.named-%d" % (signers, number) for number in range(2, 100))]
    return next((name for name in named if not os.path.lexists(name)), signers + ".named-new")


def _verify_signer(manifest: bytes, signature: str, signers: str, keygen: Keygen) -> str:
    options = ["-n", NAMESPACE, "-s", signature]
    try:
        if keygen(["check-novalidate", *options], manifest) is None:
            raise RefusedError("%s is damaged, or of another bundle" % SIGNATURE, AGAIN)
    except AbsentError:
        if signers:
            raise
        return ""
    if not signers:
        return ""
    options += ["-f", os.path.abspath(signers)]
    for name in (keygen(["find-principals", *options], b"") or "").splitlines():
        if keygen(["verify", *options, "-I", name], manifest) is not None:
            return name
    raise RefusedError(
        "no signer of %s signed the bundle" % escape_text(signers),
        "ask for the signer's key, by another way than the bundle came",
    )


def run_keygen(arguments: Sequence[str], content: bytes) -> Optional[str]:
    """Run `ssh-keygen -Y` with bytes as its input.

    Returns:
        Its output, None if it refuses.

    Raises:
        AbsentError: it cannot be run, or is too old. RefusedError: it does not end.
    """
    env = absolute_path(os.environ)
    argv = [find_program("ssh-keygen", env) or "/ssh-keygen", "-Y", *arguments]
    try:
        done = subprocess.run(
            argv, input=content, capture_output=True, check=False, timeout=KEYGEN_TIME, env=env
        )
    except OSError as err:
        raise AbsentError(
            "the bundle is signed, and ssh-keygen cannot be run: %s" % err.strerror, NEW_KEYGEN
        ) from None
    except subprocess.TimeoutExpired:
        raise RefusedError("ssh-keygen did not end within %d seconds" % KEYGEN_TIME, "run it again") from None
    if done.returncode == 0:
        return done.stdout.decode(errors="replace")
    if is_too_old(done.stderr.decode(errors="replace")):
        raise AbsentError(TOO_OLD, NEW_KEYGEN)
    return None


def is_too_old(stderr: str) -> bool:
    """Return whether an error shows that `ssh-keygen` is too old.

    An old one knows no `-Y`; another one refused a signature or a key.
    """
    return _TOO_OLD.search(stderr) is not None
