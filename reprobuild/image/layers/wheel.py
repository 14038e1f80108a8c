"""Installation of wheels into a tree, by PyPA's `installer`.

The tree is below the prefix. Installers' trees differ in a few files. Six rules make them equal, so a second
builder with the same rules gives the same tree: one INSTALLER; no record of the request; no shipped bytecode;
entry-point scripts from `SCRIPT`; RECORD rewritten and sorted; modes 0644 or 0755.
"""

from __future__ import annotations

import base64
import configparser
import contextlib
import csv
import io
import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import installer
from installer.destinations import WheelDestination
from installer.exceptions import InstallerError
from installer.records import InvalidRecordEntry, RecordEntry
from installer.utils import Scheme

from reprobuild.errors import BuildError
from reprobuild.image.layers.content import LayerItem, arrange_items, text_item
from reprobuild.image.layers.wheel_source import OpenWheel, WheelMember
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.untrusted import zips
from reprobuild.infra.untrusted.names import HOSTILE, check_path
from reprobuild.lock.system import PREFIX

INSTALLER = b"reprobuild\n"
SHEBANG = f"#!{PREFIX}/bin/python\n"
SCRIPT = """\
import sys

from {module} import {name}

if __name__ == "__main__":
    sys.exit({attribute}())
"""

# Errors of a damaged wheel, from zipfile, csv and `installer`.
UNREADABLE = (*zips.UNREADABLE, csv.Error, InstallerError, InvalidRecordEntry, configparser.Error, KeyError)


def script_text(module: str, attribute: str) -> bytes:
    """Return the script of an entry point `module:attribute`.

    The attribute may hold dots.
    """
    name = attribute.split(".")[0]
    return (SHEBANG + SCRIPT.format(module=module, name=name, attribute=attribute)).encode()


def direct_url_text(direct_url: Mapping[str, Any]) -> bytes:
    """Return a `direct_url.json` in pip's form."""
    return json.dumps(direct_url, sort_keys=True).encode()


def site_packages(python: str) -> str:
    """Return the module directory of a Python version `X.Y`.

    It has no leading slash.
    """
    return f"{PREFIX[1:]}/lib/python{python}/site-packages"


@contextlib.contextmanager
def wheel_entries(
    path: Path, filename: str, python: str, *, direct_url: Mapping[str, Any] | None = None
) -> Iterator[list[LayerItem]]:
    """Yield the files and directories of an installed wheel, sorted.

    The wheel stays open meanwhile.

    Args:
        path: the wheel, under any name.
        filename: its name as published; it holds the project's name.
        python: the version `X.Y` of the image's Python.
        direct_url: the contents of `direct_url.json`; None for no such file.

    Raises:
        BuildError: the wheel is damaged, malicious, or differs from its RECORD. A content that differs from
            RECORD is detected only when it is read: see `blobs.write_layer`.
    """
    origin = f"the wheel {filename}"
    with zips.open_zip(path, origin) as (archive, members):
        destination = _Destination(origin, python)
        extra = {"INSTALLER": INSTALLER}
        if direct_url is not None:
            extra["direct_url.json"] = direct_url_text(direct_url)
        try:
            source = OpenWheel(archive, members, filename, origin)
            destination.project = source.distribution
            installer.install(source, destination, extra)
        except UNREADABLE as err:
            raise BuildError(f"{origin} cannot be installed: {err}", hint=HOSTILE) from None
        except AssertionError:
            raise BuildError(
                f"{origin} cannot be installed: a line of entry_points.txt is not `name = module:function`",
                hint=HOSTILE,
            ) from None
        yield arrange_items(destination.items)


class _Destination(WheelDestination):
    """A destination of `installer` that collects items.

    Their content is read later. `project` names the directory of C headers.
    """

    def __init__(self, origin: str, python: str) -> None:
        self.origin = origin
        self.python = python
        self.site = site_packages(python)
        self.project = ""
        self.items: list[LayerItem] = []

    def _place(self, scheme: str, path: str) -> str:
        if scheme in ("purelib", "platlib"):
            return f"{self.site}/{path}"
        prefix = PREFIX[1:]
        folders = {
            "scripts": f"{prefix}/bin",
            "headers": f"{prefix}/include/site/python{self.python}/{self.project}",
            "data": prefix,
        }
        return f"{folders[scheme]}/{path}"

    def write_file(self, scheme: Scheme, path: Any, stream: BinaryIO, is_executable: bool) -> RecordEntry:
        place = self._place(scheme, path)
        mode = 0o755 if is_executable or scheme == "scripts" else 0o644
        if not isinstance(stream, WheelMember):  # INSTALLER and direct_url.json
            return self._keep(text_item(place, stream.read(), self.origin, mode), path)
        if scheme == "scripts" and (content := stream.with_shebang(SHEBANG.encode())) is not None:
            return self._keep(text_item(place, content, self.origin, mode), path)
        entry = TarEntry(
            path=place, type="file", mode=mode, size=stream.info.file_size, sha256=stream.sha256()
        )
        return self._keep(LayerItem(entry=entry, origin=stream.origin, open=stream.reopen), path)

    def write_script(self, name: str, module: str, attr: str, section: Any) -> RecordEntry:
        check_path(name, self.origin)
        if "/" in name or "\\" in name:
            raise BuildError(f"{self.origin} holds the unsafe script name {name!r}", hint=HOSTILE)
        place = self._place("scripts", name)
        return self._keep(text_item(place, script_text(module, attr), self.origin, 0o755), name)

    def _keep(self, item: LayerItem, path: str) -> RecordEntry:
        self.items.append(item)
        return RecordEntry(path, None, item.entry.size)  # the hash is taken from the item

    def finalize_installation(
        self, scheme: Scheme, record_file_path: str, records: Iterable[tuple[Scheme, RecordEntry]]
    ) -> None:
        place = self._place(scheme, record_file_path)
        rows = [(record_file_path, "", "")]
        for item in self.items:
            path, entry = _record_path(item.entry.path, self.site), item.entry
            rows.append((path, _record_hash(entry.sha256), str(entry.size)))
        stream = io.StringIO(newline="")
        csv.writer(stream, lineterminator="\n").writerows(sorted(rows))
        self._keep(text_item(place, stream.getvalue().encode(), self.origin), record_file_path)


def _record_path(path: str, start: str) -> str:
    # relpath is slow, and nearly all files are below
    return path[len(start) + 1 :] if path.startswith(f"{start}/") else posixpath.relpath(path, start)


def _record_hash(sha256: str) -> str:
    return "sha256=" + base64.urlsafe_b64encode(bytes.fromhex(sha256)).decode().rstrip("=")
