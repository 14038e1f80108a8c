"""A wheel file as a source of `installer`, checked first."""

from __future__ import annotations

import base64
import binascii
import hashlib
import stat
import zipfile
from collections.abc import Iterator, Mapping
from typing import IO, Any, cast

from installer.records import parse_record_file
from installer.sources import WheelContentElement, WheelSource
from installer.utils import canonicalize_name, parse_wheel_filename

from reprobuild.errors import BuildError
from reprobuild.infra.tar.entries import CHUNK
from reprobuild.infra.untrusted import zips
from reprobuild.infra.untrusted.ini import collapse_blanks, without_references
from reprobuild.infra.untrusted.names import HOSTILE

# Written by installers, each in its own way; those in a wheel are not used.
LEFT_OUT = ("INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "provenance_url.json")
# RECORD need not list itself and its signatures.
UNLISTED = ("RECORD", "RECORD.jws", "RECORD.p7s")


class WheelMember:
    """A file of a wheel.

    `installer` passes it through as a stream.
    """

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, origin: str, stated: str) -> None:
        self.archive = archive
        self.info = info
        self.origin = origin
        self.stated = stated

    def reopen(self) -> IO[bytes]:
        """Open the content.

        It ends at the stated size, and zipfile compares its CRC there.
        """
        return self.archive.open(self.info)

    def with_shebang(self, shebang: bytes) -> bytes | None:
        """Return the script with a new shebang, or None.

        Its `#!python` line is replaced; None means that it has no such line. Source: the wheel specification,
        "Recommended installer features".
        """
        with self.reopen() as stream:
            if stream.read(8) != b"#!python":
                return None
        self.sha256()
        content = zips.read_text(self.archive, self.info, self.origin)
        return shebang + content.partition(b"\n")[2]

    def sha256(self) -> str:
        """Return the sha256 (hex) that RECORD states.

        If RECORD states another kind of hash, that one is checked now.

        Raises:
            BuildError: the row of RECORD cannot be read, or its hash is not the content's.
        """
        kind, _, value = self.stated.partition("=")
        if kind == "sha256":
            try:
                digest = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
            except (binascii.Error, ValueError):
                digest = b""
            if len(digest) != hashlib.sha256().digest_size:
                raise self.wrong(f"the hash {value!r}, which is none")
            return digest.hex()
        if kind and kind not in hashlib.algorithms_guaranteed:
            raise self.wrong(f"a hash of the unknown kind {kind!r}")
        sha256_hash, other = hashlib.sha256(), hashlib.new(kind or "sha256")
        with self.reopen() as stream:
            while chunk := stream.read(CHUNK):
                sha256_hash.update(chunk)
                other.update(chunk)
        content_hash = base64.urlsafe_b64encode(other.digest()).decode().rstrip("=")
        if kind and value.rstrip("=") != content_hash:
            raise self.wrong(f"{kind}={value}, and the file has {kind}={content_hash}")
        return sha256_hash.hexdigest()

    def wrong(self, states: str) -> BuildError:
        """Return the error for a member that contradicts RECORD."""
        return BuildError(f"{self.origin}: RECORD states for {self.info.filename} {states}", hint=HOSTILE)


class OpenWheel(WheelSource):
    """An open wheel whose file may have any name.

    `members` are its files by name, from `untrusted.zips.open_zip`.

    Raises:
        BuildError: its directories are not those of one wheel.
    """

    def __init__(self, archive: zipfile.ZipFile, members: zips.Members, filename: str, origin: str) -> None:
        name = parse_wheel_filename(filename)
        super().__init__(name.distribution, name.version)
        self._archive = archive
        self._origin = origin
        self._members = members
        self._dist_info = self._find_dist_info()
        for path in self._members:  # `installer` 1.1.0 never returns from a file named like the directory
            if path == self.data_dir or (path.startswith(f"{self.data_dir}/") and path.count("/") < 2):
                raise BuildError(f"{origin} holds {path}, which is in no scheme", hint=HOSTILE)

    def _find_dist_info(self) -> str:
        tops = {name.split("/", 1)[0] for name in self._members if "/" in name}
        folders = sorted(top for top in tops if top.endswith(".dist-info"))
        project = canonicalize_name(self.distribution)
        if len(folders) == 1 and canonicalize_name(folders[0].rsplit("-", 2)[0]) == project:
            return folders[0]
        raise BuildError(
            f"{self._origin} must hold one .dist-info directory, of {self.distribution}, and holds {folders}",
            hint=HOSTILE,
        )

    @property
    def dist_info_dir(self) -> str:
        return self._dist_info

    @property
    def data_dir(self) -> str:
        return self._dist_info.removesuffix(".dist-info") + ".data"

    @property
    def dist_info_filenames(self) -> list[str]:
        prefix = f"{self._dist_info}/"
        return [name.removeprefix(prefix) for name in self._members if name.startswith(prefix)]

    def read_dist_info(self, filename: str) -> str:
        name = f"{self._dist_info}/{filename}"
        text = zips.read_text(self._archive, self._members[name], self._origin).decode()
        return without_references(collapse_blanks(text)) if filename == "entry_points.txt" else text

    def get_contents(self) -> Iterator[WheelContentElement]:
        """Yield every member to install.

        Shipped bytecode and the files of `LEFT_OUT` are left out. A `.pyc` outside `__pycache__` without a
        `.py` beside it is a module itself, and stays.

        Raises:
            BuildError: RECORD does not list the files of the archive, or a row states another size.
        """
        rows = {row[0]: row for row in parse_record_file(self.read_dist_info("RECORD").splitlines())}
        self._check_rows(rows)
        left_out = {f"{self._dist_info}/{name}" for name in LEFT_OUT}
        for name, info in self._members.items():
            if name in left_out or "__pycache__" in name.split("/")[:-1]:
                continue
            if name.endswith(".pyc") and name[:-1] in self._members:
                continue
            _, stated, size = rows.get(name, (name, "", ""))  # RECORD and its signatures have no row
            member = WheelMember(self._archive, info, self._origin, stated)
            if size and size != str(info.file_size):
                raise member.wrong(f"{size} bytes, and the archive {info.file_size}")
            executable = stat.S_ISREG(info.external_attr >> 16) and info.external_attr >> 16 & 0o111
            yield (name, "", ""), cast("Any", member), bool(executable)

    def _check_rows(self, rows: Mapping[str, object]) -> None:
        """Compare the names in RECORD with those of the archive.

        The wheel specification requires it of installers.
        https://packaging.python.org/en/latest/specifications/binary-distribution-format/#the-dist-info-directory
        """
        unlisted = self._members.keys() - rows.keys() - {f"{self._dist_info}/{name}" for name in UNLISTED}
        for name in sorted(unlisted):
            raise BuildError(f"{self._origin} holds {name}, which its RECORD does not list", hint=HOSTILE)
        absent = rows.keys() - self._members.keys() - {f"{self._dist_info}/{name}" for name in UNLISTED}
        for name in sorted(absent):
            raise BuildError(f"{self._origin} lacks {name!r}, which its RECORD lists", hint=HOSTILE)
