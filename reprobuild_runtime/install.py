"""An installer of an image's Python environment.

It is a step of the Dockerfile and the Apptainer.def, and installs from the build context.

    /usr/bin/python3.11 -I -S -B CONTEXT/LOCK/install.py CONTEXT/LOCK/install.json

runs inside the image under construction, with the context mounted, without network, as root. It writes below the prefix
alone. `install.json` lists the wheels with their sha256, in order. A second argument names another root directory than
/.

It does the work of pip, without pip. A wheel is a zip archive of files with fixed paths, so this file is all that must
be checked (https://packaging.python.org/en/latest/specifications/binary-distribution-format/). pip would be one more
input to lock and trust, and its traces (installer, request, and source path; the text of the scripts; the order of
RECORD) would have to be removed afterwards, which takes as much code.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import stat
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from typing import IO, Any, Iterator

CHUNK = 1 << 20
INSTALLER = b"reprobuild\n"
# Files that each installer writes in its own way; a wheel's own versions of them are not used.
LEFT_OUT = ("INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "provenance_url.json", "RECORD")
ENTRY_POINT = re.compile(r"(?P<module>[\w.]+)\s*:\s*(?P<attribute>[\w.]+)\s*(\[.*\])?\s*$")
SCRIPT = """\
import sys

from {module} import {name}

if __name__ == "__main__":
    sys.exit({attribute}())
"""


class Prefix:
    """The environment's directory `root` below the directory `image`.

    It also has the files written into it.
    """

    def __init__(self, facts: dict[str, Any], image: str) -> None:
        self.image = image
        self.root: str = facts["prefix"]
        self.executable: str = facts["executable"]
        self.shared: bool = facts.get("shared", False)
        self.version: str = facts["python"]
        self.epoch: int = facts["epoch"]
        self.minor = ".".join(self.version.split(".")[:2])
        self.site = f"{self.root}/lib/python{self.minor}/site-packages"
        self.shebang = f"#!{self.root}/bin/python\n".encode()

    def create(self) -> None:
        """Make the virtual environment: https://peps.python.org/pep-0405/."""
        programs = f"{self.image}{self.root}/bin"
        os.makedirs(programs, exist_ok=True)
        os.makedirs(self.image + self.site, exist_ok=True)
        os.symlink(self.executable, f"{programs}/python")
        for name in ("python3", f"python{self.minor}"):
            os.symlink("python", f"{programs}/{name}")
        home = os.path.dirname(self.executable)
        shared = str(self.shared).lower()
        text = f"home = {home}\ninclude-system-site-packages = {shared}\nversion = {self.version}\n"
        self.write(f"{self.root}/pyvenv.cfg", io.BytesIO(text.encode()))

    def write(self, path: str, stream: IO[bytes], executable: bool = False) -> tuple[str, str, str]:
        """Write a file and return its row of RECORD.

        Of two files with one content, the first stays.
        """
        if not f"{os.path.normpath(path)}/".startswith(f"{self.root}/"):
            sys.exit(f"install.py: {path} is outside {self.root}")
        place = self.image + path
        os.makedirs(os.path.dirname(place), exist_ok=True)
        digest, size = hashlib.sha256(), 0
        is_present = os.path.lexists(place)
        with open(os.devnull if is_present else place, "wb") as target:
            for chunk in iter(lambda: stream.read(CHUNK), b""):
                target.write(chunk)
                digest.update(chunk)
                size += len(chunk)
        if not is_present:
            os.chmod(place, 0o755 if executable else 0o644)
        elif os.path.islink(place) or hash_file(place) != digest.hexdigest():
            sys.exit(f"install.py: {path} is there already, with different content")
        encoded = base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")
        return os.path.relpath(path, self.site), f"sha256={encoded}", str(size)

    def set_times(self) -> None:
        """Set the image's time on all files.

        Files of a layer below, which have it already, are not touched.
        """
        for folder, folders, files in os.walk(self.image + self.root, topdown=False):
            for name in folders + files:
                self.set_time(os.path.join(folder, name))
        self.set_time(self.image + self.root)

    def set_time(self, path: str) -> None:
        """Set the image's time on one file, link or directory."""
        if os.lstat(path).st_mtime != self.epoch:
            os.utime(path, (self.epoch, self.epoch), follow_symlinks=False)


class WheelFile:
    """An open wheel.

    `project` and `info` are its name as in the file name, and its .dist-info directory.
    """

    def __init__(self, archive: zipfile.ZipFile, filename: str) -> None:
        self.archive = archive
        self.members = {info.filename: info for info in archive.infolist() if not info.is_dir()}
        self.project = filename.split("-")[0]
        self.info = next(name[:-7] for name in self.members if re.fullmatch(r"[^/]+\.dist-info/RECORD", name))

    def files(self, prefix: Prefix) -> Iterator[tuple[str, IO[bytes], bool]]:
        """Yield (path, content, executable) of each installed file.

        Shipped bytecode is left out.
        """
        for name, info in self.members.items():
            if name in [f"{self.info}/{left_out}" for left_out in LEFT_OUT]:
                continue
            if "/__pycache__/" in f"/{name}" or (name.endswith(".pyc") and name[:-1] in self.members):
                continue
            mode = info.external_attr >> 16
            executable = stat.S_ISREG(mode) and mode & 0o111 != 0
            scheme, path = self.place(name, prefix)
            with self.archive.open(info) as stream:
                if scheme == "scripts":
                    yield path, with_shebang(stream, prefix.shebang), True
                else:
                    yield path, stream, executable

    def place(self, name: str, prefix: Prefix) -> tuple[str, str]:
        """Return the kind of a member, and its path."""
        data = self.info[: -len(".dist-info")] + ".data/"
        if not name.startswith(data):
            return "library", f"{prefix.site}/{name}"
        scheme, _, rest = name[len(data) :].partition("/")
        folders = {
            "purelib": prefix.site,
            "platlib": prefix.site,
            "scripts": f"{prefix.root}/bin",
            "headers": f"{prefix.root}/include/site/python{prefix.minor}/{self.project}",
            "data": prefix.root,
        }
        return scheme, f"{folders[scheme]}/{rest}"

    def scripts(self, prefix: Prefix) -> Iterator[tuple[str, IO[bytes], bool]]:
        """Yield (path, content, executable) of each entry point's command."""
        if f"{self.info}/entry_points.txt" not in self.members:
            return
        config = ConfigParser(delimiters="=")
        config.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
        config.read_string(self.archive.read(f"{self.info}/entry_points.txt").decode())
        for section in config.sections():
            for name, value in config.items(section) if section in ("console_scripts", "gui_scripts") else ():
                match = ENTRY_POINT.match(value)
                if match is None or "/" in name:
                    sys.exit(f"install.py: {self.info}: not an entry point: {name} = {value}")
                attribute = match["attribute"]
                script = SCRIPT.format(
                    module=match["module"], name=attribute.split(".")[0], attribute=attribute
                )
                yield f"{prefix.root}/bin/{name}", io.BytesIO(prefix.shebang + script.encode()), True


def with_shebang(stream: IO[bytes], shebang: bytes) -> IO[bytes]:
    """Return a script with `#!python` replaced by the environment's Python.

    Other scripts are returned unchanged.
    """
    content = stream.read()
    if content.startswith(b"#!python"):
        content = shebang + content.partition(b"\n")[2]
    return io.BytesIO(content)


def install(path: str, direct_url: dict[str, Any] | None, prefix: Prefix) -> None:
    """Install one wheel, and write INSTALLER and RECORD.

    For an editable, direct_url.json (PEP 610) is written, too.
    """
    with zipfile.ZipFile(path) as archive:
        wheel = WheelFile(archive, os.path.basename(path))
        folder = f"{prefix.site}/{wheel.info}"
        rows = [prefix.write(*script) for script in wheel.scripts(prefix)]
        rows += [prefix.write(*file) for file in wheel.files(prefix)]
        rows.append(prefix.write(f"{folder}/INSTALLER", io.BytesIO(INSTALLER)))
        if direct_url is not None:
            text = json.dumps(direct_url, sort_keys=True).encode()
            rows.append(prefix.write(f"{folder}/direct_url.json", io.BytesIO(text)))
        rows.append((f"{wheel.info}/RECORD", "", ""))
        record = io.StringIO(newline="")
        csv.writer(record, lineterminator="\n").writerows(sorted(rows))
        prefix.write(f"{folder}/RECORD", io.BytesIO(record.getvalue().encode()))


def unpack_bytecode(path: str, prefix: Prefix) -> None:
    """Unpack the bytecode compiled by the same interpreter.

    Its paths begin at the root.
    """
    with tarfile.open(path, "r:") as tar:
        for member in tar:
            content = tar.extractfile(member)
            if content is not None:
                prefix.write(f"/{member.name}", content)


def hash_file(path: str) -> str:
    """Return the sha256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for chunk in iter(lambda: stream.read(CHUNK), b""):
            digest.update(chunk)
    return digest.hexdigest()


def check_file(context: str, file: dict[str, str]) -> str:
    """Return the path of a context's file after checking its hash.

    The hash is that of the lock.
    """
    path, sha256 = f"{context}/{file['path']}", file["sha256"]
    digest = hash_file(path)
    if digest != sha256:
        sys.exit(f"install.py: {path} is not the file of the lock: its sha256 is {digest}, not {sha256}")
    return path


def main(facts_file: str, image: str = "") -> None:
    """Install all wheels of `install.json`.

    Its paths begin at the directory above.
    """
    os.umask(0o022)
    context = os.path.dirname(os.path.dirname(os.path.abspath(facts_file)))
    with open(facts_file, encoding="utf-8") as stream:
        facts = json.load(stream)
    prefix = Prefix(facts, image)
    if facts["create"]:
        prefix.create()
    for item in facts["wheels"]:
        install(check_file(context, item["wheel"]), item["direct_url"], prefix)
        if item["bytecode"]:
            unpack_bytecode(check_file(context, item["bytecode"]), prefix)
    prefix.set_times()


if __name__ == "__main__":
    main(*sys.argv[1:])
