"""Signed files of package archives, verified by pinned keys.

Keys are pinned by the fingerprint of their certificate. It is a hash of the key, so the source of the
certificate does not matter. OpenPGP is Sequoia's (https://github.com/wiktor-k/pysequoia).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pysequoia import Cert, verify

from reprobuild.errors import FetchError
from reprobuild.infra.untrusted.regular_files import read_plain

# The directories of Debian's and Ubuntu's archive keys, and those where apt(8) looks for other keys.
FOLDERS = (Path("/usr/share/keyrings"), Path("/etc/apt/keyrings"), Path("/etc/apt/trusted.gpg.d"))
_LARGEST = 4 << 20  # bytes of a file of keys; Debian's has some 60 000
_HINT = "put the archive's keys into /usr/share/keyrings (Debian's package of them ends in -keyring)"


class AptKeyring:
    """The certificates of pinned keys.

    Args:
        fingerprints: of the trusted certificates, in hex, any case.
        folders: the directories of key files (`*.gpg`, `*.asc`, `*.pgp`).
        fetch: returns the certificate of a fingerprint from elsewhere; called for those that no directory
            has, and only when a signature needs one. It may raise `FetchError`.
    """

    def __init__(
        self, fingerprints: Iterable[str], folders: Iterable[Path] = FOLDERS,
        fetch: Callable[[str], bytes] | None = None,
    ) -> None:  # fmt: skip
        self._pinned = {fingerprint.replace(" ", "").lower() for fingerprint in fingerprints}
        self._fetch = fetch
        self._trouble: list[str] = []
        self._certificates = {
            certificate.fingerprint: certificate
            for path in _key_files(folders)
            for certificate in _read_certificates(path)
            if certificate.fingerprint in self._pinned
        }

    def open(self, content: bytes, where: str) -> bytes:
        """Return the signed text of a file such as `InRelease`.

        Args:
            content: the file.
            where: its address, for the error.

        Raises:
            FetchError: no pinned key signed it.
        """
        why = "no signature can be checked"
        for more in (False, True):
            if more and not self._complete():
                break
            try:
                # It raises without a good signature of a given certificate (its documentation).
                return verify(content, store=lambda _: list(self._certificates.values())).bytes or b""
            except Exception as err:  # it raises plain exceptions of every kind
                why = str(err).strip().splitlines()[0] if str(err).strip() else why
        missing = [
            *self._trouble,
            *([] if self._certificates else ["none of the pinned keys is on this machine"]),
        ]
        raise FetchError(
            f"{where} is not signed by a key that is trusted for it: {'; '.join([why, *missing])}", hint=_HINT
        )

    def _complete(self) -> bool:
        """Fetch missing certificates; return whether any arrived."""
        before = len(self._certificates)
        for fingerprint in sorted(self._pinned - set(self._certificates)):
            if self._fetch is None:
                break
            try:
                certificates = {cert.fingerprint: cert for cert in Cert.split_bytes(self._fetch(fingerprint))}
            except FetchError as err:
                self._trouble.append(str(err))
                break
            except Exception as err:  # as above
                self._trouble.append(f"what was sent as the key {fingerprint} is none: {err}")
                continue
            if fingerprint in certificates:
                self._certificates[fingerprint] = certificates[fingerprint]
            else:
                self._trouble.append(f"another key was sent for {fingerprint}")
        return len(self._certificates) > before


def _key_files(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        with contextlib.suppress(OSError):
            for path in sorted(folder.iterdir()):
                if path.suffix in (".gpg", ".asc", ".pgp") and path.stat().st_size <= _LARGEST:
                    yield path


def _read_certificates(path: Path) -> list[Cert]:
    """Return the certificates of a file, or [] if unreadable.

    Another file may have the key.
    """
    try:
        return list(Cert.split_bytes(read_plain(path, _LARGEST)))
    except Exception:  # as above, including keyboxes and damaged files
        return []
