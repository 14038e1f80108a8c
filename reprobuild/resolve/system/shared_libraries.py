"""System packages for the wheels' shared libraries.

Libraries that are left out have a reason.

A library that no wheel of the environment has must come from the system. The files show the libraries that an import
needs: extension modules, and all that these lead to. A file that no other leads to is a plugin (of Qt, of NVSHMEM),
loaded on request. docs/libraries.md has the results for real wheels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from msgspec import Struct

from reprobuild.config.overrides import is_named
from reprobuild.ecosystems.apt.index import SystemIndex
from reprobuild.infra.display import escape_text
from reprobuild.lock.model import Outcome, Resolution
from reprobuild.lock.python import Wheel
from reprobuild.lock.system import Base
from reprobuild.resolve.system.sonames import (
    glibc_of,
    guess_packages,
    is_alternative,
    is_host_library,
    newest_glibcxx,
    package_of,
)
from reprobuild.resolve.system.wheel_libraries import ElfFile
from reprobuild.snapshot.model import Snapshot

_LIBC = "libc6"


class Ask(Struct, frozen=True, kw_only=True):
    """One library that wheels need and none has.

    `imported` is set if an import needs it.
    """

    soname: str
    wheel: Wheel
    path: str
    imported: bool


def required_libraries(wheels: Iterable[tuple[Wheel, tuple[ElfFile, ...]]]) -> tuple[Ask, ...]:
    """Return the libraries that an environment's wheels lack.

    There is one entry for each wheel and library.
    """
    everything = [(wheel, file) for wheel, files in wheels for file in files]
    by_name: dict[str, list[int]] = {}
    for number, (_, file) in enumerate(everything):
        for name in file.names:
            by_name.setdefault(name, []).append(number)
    imported = _find_imported_files(everything, by_name)
    by_key: dict[tuple[str, str], Ask] = {}
    for number, (wheel, file) in enumerate(everything):
        for soname in file.needed:
            if soname not in by_name:
                ask = Ask(soname=soname, wheel=wheel, path=file.path, imported=number in imported)
                known = by_key.setdefault((wheel.name, soname), ask)
                if ask.imported and not known.imported:
                    by_key[wheel.name, soname] = ask
    return tuple(by_key[key] for key in sorted(by_key))


def _find_imported_files(
    everything: list[tuple[Wheel, ElfFile]], by_name: Mapping[str, list[int]]
) -> set[int]:
    """Return the files that an import leads to.

    Python code opens the files of a wheel without extension modules, if no other wheel needs them (soundfile, xgboost):
    then all of its files count.
    """
    extending = {wheel.name for wheel, file in everything if file.is_extension}
    having = {name: {everything[number][0].name for number in numbers} for name, numbers in by_name.items()}
    pairs = {(wheel.name, soname) for wheel, file in everything for soname in file.needed if soname in having}
    led_to = {owner for asker, soname in pairs for owner in having[soname] if owner != asker}
    queue = [
        number
        for number, (wheel, file) in enumerate(everything)
        if file.is_extension or wheel.name not in extending | led_to
    ]
    file_numbers, followed = set(queue), set[str]()
    while queue:
        for soname in everything[queue.pop()][1].needed:
            if soname in by_name and soname not in followed:
                followed.add(soname)
                queue += [other for other in by_name[soname] if other not in file_numbers]
                file_numbers.update(by_name[soname])
    return file_numbers


def choose_library_packages(
    needed: Iterable[Ask], snapshot: Snapshot, index: SystemIndex, base: Base, drop: Collection[str]
) -> tuple[dict[str, str], tuple[Resolution, ...]]:
    """Choose the package of each library, or give a reason.

    With a package list, a library is added if the captured host had its package; another one was absent there, too, or
    came from a place outside of the list, as conda's libraries do. Without a list, and with conda, it is added if the
    index has it. Plugins are not added.

    Args:
        needed: the results of `required_libraries`.
        snapshot: the captured environment.
        index: the packages of the base's release.
        base: the packages already in the image.
        drop: names that the user leaves out.

    Returns:
        The packages to add, each with the asking wheel; and a resolution (`missing-library`, `host-library`,
        `plugin-library`) for each wheel and library without a package. These need no acceptance: wheels list libraries
        that they can do without (docs/libraries.md), and verification of the image shows whether the imports work.
    """
    fitting = (index.architecture, "all")
    base_names = set(base.installed)
    captured = {
        package.name for package in snapshot.packages
        if package.mark != "residual" and package.architecture in fitting
    }  # fmt: skip
    has_list = bool(captured) and not snapshot.conda
    roots: dict[str, str] = {}
    rulings = []
    for ask in needed:
        if any(name in base_names for name in guess_packages(ask.soname)):
            continue
        package = package_of(ask.soname, index)
        if is_host_library(ask.soname):
            rulings.append(
                _make_resolution(
                    ask, "the GPU driver's, which the host brings when the image runs", "host-library"
                )
            )
        elif not ask.imported:
            rulings.append(
                _make_resolution(ask, "no extension module leads to that file, a plugin", "plugin-library")
            )
        elif package is None:
            why = f"no wheel of the environment has it, and no package of {index.label} is named after it"
            rulings.append(_make_resolution(ask, why, "missing-library"))
        elif is_named(package, drop):
            rulings.append(_make_resolution(ask, f"{package} was dropped by decision", "missing-library"))
        elif package not in captured and (has_list or is_alternative(ask.soname)):
            why = f"the captured system did not have {package} either"
            rulings.append(_make_resolution(ask, why, "missing-library"))
        else:
            roots.setdefault(package, f"the shared libraries of {ask.wheel.name} ({ask.soname})")
    return roots, tuple(rulings)


def rule_newer_libraries(
    wheels: Iterable[tuple[Wheel, tuple[ElfFile, ...]]], base: Base
) -> Iterator[Resolution]:
    """Yield a resolution (`newer-library`) for each too new wheel.

    Its files need a newer glibc or libstdc++ than the base's.

    Its tag promised otherwise, or made no promise (`linux_x86_64`). It must be accepted: such a file does not load.
    """
    versions = base.installed
    limits: tuple[tuple[str, Callable[[ElfFile], tuple[int, ...]], tuple[int, ...] | None], ...] = (
        ("GLIBC", lambda file: file.glibc, glibc_of(versions.get(_LIBC, ""))),
        ("GLIBCXX", lambda file: file.glibcxx, newest_glibcxx(versions.get("libstdc++6", ""))),
    )
    for wheel, files in wheels:
        for word, of_file, limit in limits:
            most = max(files, key=of_file, default=None)
            if most and limit and of_file(most) > limit:
                reason = (
                    f"{escape_text(most.path)} needs {word}_{_format_version(of_file(most))}, "
                    f"and the base has {word}_{_format_version(limit)}"
                )
                yield _wheel_resolution(wheel, wheel.name, reason, "newer-library", "unresolved")


def _format_version(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def _make_resolution(ask: Ask, why: str, kind: str) -> Resolution:
    reason = f"{ask.wheel.name} needs it for {escape_text(ask.path)}; {why}"
    return _wheel_resolution(ask.wheel, escape_text(ask.soname), reason, kind, "excluded")


def _wheel_resolution(wheel: Wheel, subject: str, reason: str, kind: str, outcome: Outcome) -> Resolution:
    return Resolution(
        file=wheel.file.filename, line=0, subject=subject, outcome=outcome, reason=reason, kind=kind
    )  # fmt: skip
