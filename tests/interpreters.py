"""Archives of the layout of standalone builds of Python, made of the system's Python."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

# The address that uv replaces by a mirror: https://docs.astral.sh/uv/reference/environment/#uv_python_install_mirror
PUBLISHED = "https://github.com/astral-sh/python-build-standalone/releases/download"
# Debian's is in one piece with its library, so that it runs from any directory.
PROGRAM = Path("/usr/bin/python3").resolve()
VERSION = subprocess.run(
    [PROGRAM, "-c", "import platform; print(platform.python_version())"], check=True, capture_output=True, text=True
).stdout.strip()  # fmt: skip
MINOR = ".".join(VERSION.split(".")[:2])
LIBRARY = Path("/usr/lib", f"python{MINOR}")
# As a real build has it: it was installed to /install, by a compiler that few machines have under this name.
SYSCONFIG = b"""# system configuration generated and used by the sysconfig module
build_time_vars = {'AR': '/tools/llvm/bin/llvm-ar',
 'CC': 'clang -pthread',
 'CFLAGS': '-O3 -I/install/include -I/opt/installed',
 'CXX': '/usr/bin/clang++ -pthread',
 'INCLUDEPY': '/install/include/python3.11',
 'LDSHARED': 'clang -pthread -shared',
 'LIBDIR': '/install/lib',
 'LINKCC': '',
 'prefix': '/install'}
"""
# Directories of the standard library without which everything here runs.
LEFT_OUT = {
    "__pycache__", "test", "tests", "idlelib", "lib2to3", "tkinter", "turtledemo", "ensurepip", "pydoc_data",
    "site-packages", "dist-packages", f"config-{MINOR}-{platform.machine()}-linux-gnu",
}  # fmt: skip


def make_build(
    path: Path, *, more: Mapping[str, bytes] | None = None, only: Sequence[str] = (), program: Path = PROGRAM,
    library: Path = LIBRARY,
) -> Path:  # fmt: skip
    """Write a build: `python/bin/python3`, `python/bin/pythonX.Y` and `python/lib/pythonX.Y`.

    Args:
        path: where the archive goes.
        more: other files by their path in the archive.
        only: directories of the standard library that are taken; empty for all but those that are `LEFT_OUT`.
        program, library: of another Python of this minor version.
    """

    def wanted(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        folder = info.name.removeprefix(f"python/lib/python{MINOR}/").split("/")
        if LEFT_OUT & set(folder) or (only and info.isdir() and len(folder) == 1 and folder[0] not in only):
            return None
        return info

    with tarfile.open(path, "w:gz", compresslevel=1, dereference=True) as tar:
        tar.add(program, f"python/bin/python{MINOR}")
        link = tarfile.TarInfo("python/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, f"python{MINOR}"
        tar.addfile(link)
        for child in sorted(library.iterdir()):
            tar.add(child, f"python/lib/python{MINOR}/{child.name}", filter=wanted)
        for name, content in (more or {}).items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, io.BytesIO(content))
    return path


def small_root(folder: Path) -> Path:
    """Make a root directory that holds no more than what the build of `make_build` needs to start in a sandbox."""
    env = Path("/usr/bin/env")
    said = subprocess.run(["ldd", env, PROGRAM], check=True, capture_output=True, text=True).stdout
    for path in {env, *(Path(name) for name in re.findall(r"(/\S+) \(0x", said))}:
        place = folder / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    return folder


def fake_build(path: Path, minor: str = MINOR) -> Path:
    """Write an archive of that layout whose interpreter is none; uv unpacks it, and starts nothing."""
    library = f"python/lib/python{minor}"
    files = {
        f"python/bin/python{minor}": b"", f"{library}/os.py": b"",
        f"{library}/_sysconfigdata__linux_x86_64-linux-gnu.py": SYSCONFIG,
    }  # fmt: skip
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def offer(
    mirror: Path,
    archives: Mapping[str, Path],
    *,
    machine: str = platform.machine(),
    url: str = PUBLISHED,
    free: bool = False,
) -> dict[str, str]:
    """Offer builds as their publisher does, and return the variables by which uv finds them in the mirror.

    Args:
        mirror: a directory that is made; its content can be served, too.
        archives: the archive of each version.
        machine: that they are for.
        url: what the addresses begin with.
        free: whether they are free-threaded.
    """
    variant = "freethreaded" if free else None
    more, end = ("+freethreaded", "freethreaded-install_only_stripped") if free else ("", "install_only")
    known = {}
    for version, archive in archives.items():
        name = f"cpython-{version}%2B20240107-{machine}-unknown-linux-gnu-{end}.tar.gz"
        place = mirror / "20240107" / name.replace("%2B", "+")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(archive, place)
        major, minor, patch = map(int, version.split("."))
        known[f"cpython-{version}{more}-linux-{machine}-gnu"] = {
            "name": "cpython", "arch": {"family": machine, "variant": None}, "os": "linux", "libc": "gnu",
            "major": major, "minor": minor, "patch": patch, "prerelease": "", "variant": variant, "build": "20240107",
            "url": f"{url}/20240107/{name}", "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        }  # fmt: skip
    (mirror / "builds.json").write_text(json.dumps(known))
    return {
        "UV_PYTHON_DOWNLOADS_JSON_URL": str(mirror / "builds.json"),
        "UV_PYTHON_INSTALL_MIRROR": mirror.as_uri(),
        "UV_HTTP_RETRIES": "0",
    }


def needed_packages() -> list[str]:
    """Return lines of `apt list --installed`, as they can be had: the packages whose libraries this Python needs."""
    programs = [PROGRAM, *(path for path in LIBRARY.glob("lib-dynload/*.so") if "tkinter" not in path.name)]
    said = subprocess.run(["ldd", *programs], check=True, capture_output=True, text=True).stdout
    paths = {Path(name) for name in re.findall(r"=> (/\S+) \(0x", said)}
    names = [str(one) for path in paths for one in (path, path.resolve())]
    argv = ["dpkg-query", "--search", *names]
    owned = subprocess.run(argv, check=False, capture_output=True, text=True).stdout
    packages = {match[1] for match in re.finditer(r"(?m)^([a-z0-9.+-]+)(?::\w+)?: /", owned)}
    argv = ["apt", "list", "--installed", *sorted(packages)]
    listed = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    found = re.findall(r"(?m)^(\S+)/\S+ (\S+) (\S+) \[installed(?:,upgradable to: ([^]\s]+))?", listed)
    return [f"{name}/stable,now {newer or has} {machine} [installed]" for name, has, machine, newer in found]


def site_python(folder: Path, *, only: Sequence[str] = ()) -> Path:
    """Install a Python as a site does, into `folder/python`, and return its program: no package has it."""
    prefix = folder / "python"
    config = f"python/lib/python{MINOR}/_sysconfigdata__linux_x86_64-linux-gnu.py"
    more = {
        config: SYSCONFIG.replace(b"/install", str(prefix).encode()),
        f"python/bin/python{MINOR}-config": f"#!{prefix}/bin/python{MINOR}\nprint('made')\n".encode(),
        f"python/include/python{MINOR}/Python.h": b"/* made */\n",
    }
    archive = make_build(folder / "python.tar.gz", more=more, only=only)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="fully_trusted") if hasattr(tarfile, "data_filter") else tar.extractall(
            folder
        )
    return prefix / "bin" / f"python{MINOR}"
