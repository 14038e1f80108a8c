"""Signatures of bundles, by OpenSSH: `ssh-keygen -Y sign`, which is wherever ssh is.

https://man.openbsd.org/ssh-keygen.1#Y~4; https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from reprobuild.errors import ShipError
from reprobuild.infra import proc
from reprobuild_portable.unbundle.format import Refused
from reprobuild_portable.unbundle.signature import (
    KEYGEN_TIME,
    NAMESPACE,
    NEW_KEYGEN,
    TOO_OLD,
    Absent,
    Keygen,
    is_too_old,
)

_NO_SIGN = f"{NEW_KEYGEN}, or leave --sign out"
# What OpenSSH's programs read else of an environment leads to agents, askers and libraries, which nobody needs here.
_SIGN_SECONDS = 600  # for somebody to type a passphrase, or to touch a key
_KEPT = ("PATH", "HOME", "TMPDIR")


def sign(content: bytes, key: Path, env: Mapping[str, str]) -> bytes:
    """Return the signature of bytes by a key; Ed25519 and RSA sign the same bytes alike each time.

    Args:
        content: what is signed.
        key: a private key of ssh, or a public one whose private key the agent has.
        env: the user's environment, with the agent's address.

    Raises:
        ShipError: there is no such key, it cannot be used, or `ssh-keygen` is absent or too old.
    """
    argv = ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", NAMESPACE]
    try:
        return proc.run(
            argv, env=env, purpose="sign the bundle", stdin=content, missing=ShipError,
            hint=_NO_SIGN, timeout=_SIGN_SECONDS, terminal=True,  # it asks for the key's passphrase
        )  # fmt: skip
    except proc.Failed as err:
        if is_too_old(err.stderr):
            raise ShipError("this `ssh-keygen` is too old to sign the bundle", hint=_NO_SIGN) from None
        raise ShipError(
            str(err), hint="--sign takes a key of ssh: make one with `ssh-keygen -t ed25519 -f KEY`"
        ) from None


class _NoKeygen(ShipError):
    """`ssh-keygen` cannot be run."""


def looking_by(env: Mapping[str, str]) -> Keygen:
    """Return what starts `ssh-keygen -Y` for a look at a signature: in time, and with little of the environment.

    Args:
        env: the user's environment.
    """
    kept = {name: env[name] for name in _KEPT if name in env}

    def look(arguments: Sequence[str], content: bytes) -> str | None:
        try:
            said = proc.run(
                ["ssh-keygen", "-Y", *arguments], env={**kept, "LC_ALL": "C"}, stdin=content, timeout=KEYGEN_TIME,
                purpose="look at the signature of the bundle", missing=_NoKeygen,
                hint=NEW_KEYGEN,
            )  # fmt: skip
        except _NoKeygen as err:
            raise Absent(str(err), err.hint) from None
        except proc.Failed as err:
            if is_too_old(err.stderr):
                raise Absent(TOO_OLD, NEW_KEYGEN) from None
            return None  # it was asked a question, and says no
        except proc.TimedOut as err:
            # That of `proc` names the files of a folder that is gone by now.
            raise Refused(
                str(err), "run it again; `command -v ssh-keygen` names the program that waits"
            ) from None
        return said.decode(errors="replace")

    return look
