"""Signatures of bundles by OpenSSH: `ssh-keygen -Y sign`.

The program is available with every ssh. https://man.openbsd.org/ssh-keygen.1#Y~4;
https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from reprobuild.errors import DistributionError
from reprobuild.infra import proc
from reprobuild_portable.unbundle.format import RefusedError
from reprobuild_portable.unbundle.signature import (
    KEYGEN_TIME,
    NAMESPACE,
    NEW_KEYGEN,
    TOO_OLD,
    AbsentError,
    Keygen,
    is_too_old,
)

_NO_SIGN = f"{NEW_KEYGEN}, or leave --sign out"
# Other variables that OpenSSH's programs read lead to agents, askers and libraries, and are not needed here.
_SIGN_SECONDS = 600  # for a person to type a passphrase, or to touch a key
_KEPT = ("PATH", "HOME", "TMPDIR")


def sign(content: bytes, key: Path, env: Mapping[str, str]) -> bytes:
    """Return the signature of bytes by a key.

    Ed25519 and RSA sign the same bytes alike each time.

    Args:
        content: the bytes to sign.
        key: a private key of ssh, or a public one whose private key the agent has.
        env: the user's environment, with the agent's address.

    Raises:
        DistributionError: there is no such key, it cannot be used, or `ssh-keygen` is absent or too old.
    """
    argv = ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", NAMESPACE]
    try:
        return proc.run(
            argv, env=env, purpose="sign the bundle", stdin=content, missing=DistributionError,
            hint=_NO_SIGN, timeout=_SIGN_SECONDS, terminal=True,  # it asks for the key's passphrase
        )  # fmt: skip
    except proc.ProcessFailedError as err:
        if is_too_old(err.stderr):
            raise DistributionError(
                "this `ssh-keygen` is too old to sign the bundle", hint=_NO_SIGN
            ) from None
        raise DistributionError(
            str(err), hint="--sign takes a key of ssh: make one with `ssh-keygen -t ed25519 -f KEY`"
        ) from None


class _NoKeygenError(DistributionError):
    """An error: `ssh-keygen` cannot be run."""


def make_keygen(env: Mapping[str, str]) -> Keygen:
    """Return a function that verifies signatures by `ssh-keygen -Y`.

    It has a time limit, and passes on only a few variables.

    Args:
        env: the user's environment.
    """
    variables = {name: env[name] for name in _KEPT if name in env}

    def look(arguments: Sequence[str], content: bytes) -> str | None:
        try:
            stdout = proc.run(
                ["ssh-keygen", "-Y", *arguments], env={**variables, "LC_ALL": "C"}, stdin=content, timeout=KEYGEN_TIME,
                purpose="look at the signature of the bundle", missing=_NoKeygenError,
                hint=NEW_KEYGEN,
            )  # fmt: skip
        except _NoKeygenError as err:
            raise AbsentError(str(err), err.hint) from None
        except proc.ProcessFailedError as err:
            if is_too_old(err.stderr):
                raise AbsentError(TOO_OLD, NEW_KEYGEN) from None
            return None  # the check failed
        except proc.ProcessTimeoutError as err:
            # The error of `proc` names the files of a directory that no longer exists.
            raise RefusedError(
                str(err), "run it again; `command -v ssh-keygen` names the program that waits"
            ) from None
        return stdout.decode(errors="replace")

    return look
