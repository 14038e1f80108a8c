"""A package `python` for conda that runs: the Python of this machine, and of its library what the tests need."""

from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path

from tests.conda_packages import Link, Spec
from tests.interpreters import LEFT_OUT, LIBRARY, MINOR, PROGRAM, VERSION

# Debian's own installs distributions into `dist-packages`; conda's does not.
_DEBIAN = (("dist-packages", "site-packages"), ("return 'posix_local'", "return 'posix_prefix'"))
# The round trip runs what is in the image: capture, and what lists distributions.
_NEEDED = {"asyncio", "unittest", "xml", "multiprocessing"}


def python_package() -> Spec:
    """Return the package; its version is that of the running Python."""
    files: dict[str, bytes | Link] = {
        f"bin/python{MINOR}": PROGRAM.read_bytes(), "bin/python3": Link(f"python{MINOR}"),
        "bin/python": Link(f"python{MINOR}"),
    }  # fmt: skip
    shared = sysconfig.get_config_var("INSTSONAME")
    for place in (
        (Path(sys.base_prefix, "lib", str(shared)),) if sysconfig.get_config_var("Py_ENABLE_SHARED") else ()
    ):
        if place.is_file():
            files[f"lib/{place.name}"] = place.read_bytes()
    for path in sorted(LIBRARY.rglob("*")):
        name = path.relative_to(LIBRARY).as_posix()
        if (
            path.is_file()
            and not (LEFT_OUT - _NEEDED) & set(name.split("/"))
            and not name.endswith((".a", ".pyc"))
        ):
            files[f"lib/python{MINOR}/{name}"] = _plain(name, path.read_bytes())
    return Spec(
        name="python", version=VERSION, build="h1_0_cpython", files=files, executable=(f"bin/python{MINOR}",),
        depends=("__glibc >=2.17", "libzed"),
    )  # fmt: skip


def _plain(name: str, content: bytes) -> bytes:
    if not re.fullmatch(r"site\.py|sysconfig(/__init__)?\.py", name):
        return content
    text = content.decode()
    for debian, plain in _DEBIAN:
        text = text.replace(debian, plain)
    return text.encode()
