"""A package `python` for conda that runs: Debian's own Python, and of its library what the tests need."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.conda_packages import Link, Spec
from tests.interpreters import LEFT_OUT

PROGRAM = Path("/usr/bin/python3").resolve()
MINOR = PROGRAM.name.removeprefix("python")
LIBRARY = Path("/usr/lib", PROGRAM.name)
# Debian's own installs distributions into `dist-packages`; conda's does not.
_DEBIAN = (
    ("dist-packages", "site-packages"),
    ("prefix_scheme = 'posix_local'", "prefix_scheme = 'posix_prefix'"),
)
# The module `site` is in the program itself.
_FROZEN = (b"dist-packages", b"site-packages")
# conda's finds this library by an RPATH. A name with a slash in it is a path to the loader, and this one is as long.
_LIBRARY, _PLACE = b"libexpat.so.1\0", b"/opt/env/x.so\0"
# The round trip runs what is in the image: capture, and what lists distributions.
_NEEDED = {"asyncio", "unittest", "xml", "multiprocessing"}


def python_package() -> Spec:
    """Return the package; its version is that of Debian's Python."""
    said = subprocess.run([PROGRAM, "-V"], check=True, capture_output=True, text=True).stdout
    libraries = subprocess.run(["ldd", PROGRAM], check=True, capture_output=True, text=True).stdout
    expat = re.search(r"libexpat\.so\.1 => (\S+)", libraries)
    files: dict[str, bytes | Link] = {
        f"bin/python{MINOR}": PROGRAM.read_bytes().replace(_LIBRARY, _PLACE).replace(*_FROZEN),
        "bin/python3": Link(f"python{MINOR}"), "bin/python": Link(f"python{MINOR}"),
    }  # fmt: skip
    if expat:
        files["x.so"] = Path(expat[1]).read_bytes()
    for path in sorted(LIBRARY.rglob("*")):
        name = path.relative_to(LIBRARY).as_posix()
        left_out = (LEFT_OUT - _NEEDED) & set(name.split("/")) or "config-" in name
        if path.is_file() and not left_out and not name.endswith((".a", ".pyc")):
            files[f"lib/python{MINOR}/{name}"] = _plain(name, path.read_bytes())
    return Spec(
        name="python", version=said.split()[1], build="h1_0_cpython", files=files,
        executable=(f"bin/python{MINOR}",), depends=("__glibc >=2.17", "libzed"),
    )  # fmt: skip


def _plain(name: str, content: bytes) -> bytes:
    if not re.fullmatch(r"site\.py|sysconfig(/__init__)?\.py", name):
        return content
    text = content.decode()
    for debian, plain in _DEBIAN:
        text = text.replace(debian, plain)
    return text.encode()
