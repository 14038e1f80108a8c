"""The build environment: a virtual environment with wheels.

It is one of the image's interpreter.
"""

from __future__ import annotations

import configparser
import csv
import os
from collections.abc import Iterable
from pathlib import Path

import installer
from installer.destinations import SchemeDictionaryDestination
from installer.exceptions import InstallerError
from installer.records import InvalidRecordEntry
from installer.sources import WheelFile
from installer.utils import SCHEME_NAMES

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted import zips
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.lock.python import Interpreter, Wheel
from reprobuild.store.store import Store

_UNREADABLE = (
    *zips.UNREADABLE, csv.Error, InstallerError, InvalidRecordEntry, configparser.Error, KeyError, AssertionError,
)  # fmt: skip
_BOTH = "the projects that are needed to build cannot stand in one directory; mend the pyproject.toml"


def make_prefix(
    folder: Path, place: str, wheels: Iterable[Wheel], interpreter: Interpreter, store: Store, *, shared: bool = False
) -> None:  # fmt: skip
    """Make a virtual environment with wheels without running programs.

    Args:
        folder: an empty directory.
        place: its path in the sandbox.
        wheels: files in the store.
        interpreter: the interpreter of the environment.
        store: has the wheels.
        shared: whether the interpreter's own packages can be imported, too.

    Raises:
        BuildError: a wheel is malicious or damaged, or two of them cannot be in one directory.
    """
    minor = ".".join(interpreter.version.split(".")[:2])
    site = f"{place}/lib/python{minor}/site-packages"
    for wheel in wheels:
        places = dict.fromkeys(SCHEME_NAMES, site) | {
            "scripts": f"{place}/bin", "data": place,
            "headers": f"{place}/include/site/python{minor}/{wheel.file.filename.partition('-')[0]}",
        }  # fmt: skip
        target = SchemeDictionaryDestination(
            {name: f"{folder}{path.removeprefix(place)}" for name, path in places.items()},
            interpreter=f"{place}/bin/python", script_kind="posix", overwrite_existing=True,
        )  # fmt: skip
        _install(wheel, target, store)
        _check_own(folder, minor, wheel)
    _make_environment(folder, minor, interpreter, shared)


def _make_environment(folder: Path, minor: str, interpreter: Interpreter, shared: bool) -> None:
    """Make the directory a virtual environment.

    This comes last, so that no wheel is written through its links.
    """
    home = interpreter.executable.rpartition("/")[0]
    text = f"home = {home}\ninclude-system-site-packages = {str(shared).lower()}\nversion = {interpreter.version}\n"
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin/python").symlink_to(interpreter.executable)
    for name in ("python3", f"python{minor}"):
        (folder / "bin" / name).symlink_to("python")
    with (folder / "pyvenv.cfg").open("x") as stream:
        stream.write(text)


def _check_own(folder: Path, minor: str, wheel: Wheel) -> None:
    """Refuse the last installed wheel if it has environment files.

    They are the files that make the directory a virtual environment.
    """
    names = ["pyvenv.cfg", "bin/python", "bin/python3", f"bin/python{minor}"]
    conflicts = [name for name in names if os.path.lexists(folder / name)]
    if os.path.lexists(folder / "bin") and not (folder / "bin").is_dir():
        conflicts.append("bin")
    if conflicts:
        raise BuildError(
            f"the wheel {wheel.file.filename} brings {conflicts[0]}, which is the environment's own",
            hint=HOSTILE,
        )


def _install(wheel: Wheel, target: SchemeDictionaryDestination, store: Store) -> None:
    origin = f"the wheel {wheel.file.filename}"
    path = store.verified(wheel.file.sha256, wheel.file.filename)
    with zips.open_zip(path, origin) as (archive, members):
        archive.filename = wheel.file.filename  # the project's name is read from this
        try:
            source = WheelFile(archive)
            for name in members:  # `installer` 1.1.0 does not return for a file named like the directory
                if name == source.data_dir or (
                    name.startswith(f"{source.data_dir}/") and name.count("/") < 2
                ):
                    raise BuildError(f"{origin} holds {name}, which is in no scheme", hint=HOSTILE)
            installer.install(source, target, {})
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as err:
            place = str(err.filename or "").rpartition("site-packages/")[2]
            raise BuildError(f"{origin} and another both write {place}", hint=_BOTH) from None
        except _UNREADABLE as err:
            raise BuildError(f"{origin} cannot be installed: {err}", hint=HOSTILE) from None
