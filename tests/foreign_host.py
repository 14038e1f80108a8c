"""Run one program of this project as on macOS or Windows, as far as Linux can imitate them.

    python tests/foreign_host.py darwin|win32 -m MODULE [ARGUMENT...]
    python tests/foreign_host.py darwin|win32 FILE [ARGUMENT...]

Only the code of this project is on the foreign system: Python and other packages stay on Linux. Typeshed knows which
modules and names of the standard library each system has. The rest is imitated here: /proc is absent; on Windows no
function takes the descriptor of a directory, `select` takes no pipes, and an open file keeps its name.
"""

from __future__ import annotations

import ast
import builtins
import errno
import functools
import importlib
import os
import pathlib
import platform as real_platform
import runpy
import selectors
import stat
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import mypy

STUBS = pathlib.Path(mypy.__file__).parent / "typeshed" / "stdlib"
OURS = ("reprobuild", "reprobuild_portable", "reprobuild_runtime", "__main__")
ABSENT = ("/proc/", "/sys/", "/etc/machine-id", "/etc/os-release")
MODULES = (
    "errno", "os", "platform", "select", "selectors", "signal", "socket", "stat", "subprocess", "sys", "time"
)  # fmt: skip
O_BINARY = 1 << 29  # Linux has no such flag
SYSTEMS = {"win32": "Windows", "darwin": "Darwin"}


def is_true(test: ast.expr, platform: str) -> bool | None:
    """Return the value of a condition on the system or Python, or None."""
    if isinstance(test, ast.BoolOp):
        values = [is_true(part, platform) for part in test.values]
        return (all if isinstance(test.op, ast.And) else any)(value is not False for value in values)
    if isinstance(test, ast.UnaryOp):
        value = is_true(test.operand, platform)
        return None if value is None else not value
    scope = {"sys": types.SimpleNamespace(platform=platform, version_info=sys.version_info[:2])}
    try:
        return bool(eval(ast.unparse(test), scope))
    except NameError:
        return None


def stub_names(statements: list[ast.stmt], platform: str, *, imports: bool = True) -> Iterator[str]:
    """Yield the names that a stub of typeshed defines for a system, or imports."""
    for node in statements:
        if isinstance(node, ast.If):
            value = is_true(node.test, platform)
            yield from stub_names(node.body, platform, imports=imports) if value is not False else ()
            yield from stub_names(node.orelse, platform, imports=imports) if value is not True else ()
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom) and imports:
            yield from (alias.asname or alias.name for alias in node.names)
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                yield from names_of(str(node.module), platform)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


@functools.cache
def read_stub(module: str) -> list[ast.stmt]:
    """Return the statements of the stub of a module, none if it is not of the standard library."""
    place = STUBS.joinpath(*module.split("."))
    places = (place.with_suffix(".pyi"), place / "__init__.pyi")
    return ast.parse(next((path.read_text("utf-8") for path in places if path.exists()), "")).body


@functools.cache
def names_of(module: str, platform: str) -> frozenset[str]:
    """Return the names of a module of the standard library on a system."""
    return frozenset(stub_names(read_stub(module), platform))


@functools.cache
def is_absent(module: str, platform: str) -> bool:
    """Return whether a system lacks a module that Linux has."""
    linux, foreign = (
        [name for name in stub_names(read_stub(module), system, imports=False) if not name.startswith("_")]
        for system in ("linux", platform)
    )
    return bool(linux) and not foreign


class ForeignModule(types.ModuleType):
    """A module of the standard library without the names that a system lacks."""

    def __init__(self, real: types.ModuleType, platform: str, changes: dict[str, Any]) -> None:
        super().__init__(real.__name__)
        lacking = names_of(real.__name__, "linux") - names_of(real.__name__, platform)
        self.__dict__.update(_real=real, _lacking=lacking - changes.keys(), **changes)

    def __getattr__(self, name: str) -> Any:
        if name in self._lacking:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on this system")
        return getattr(self._real, name)


def windows_os() -> dict[str, Any]:
    """Return the functions of `os` that behave otherwise on Windows."""

    def refuse(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def function(*arguments: Any, **options: Any) -> Any:
            # The imitation of Windows: its Python raises these errors, with these texts.
            if any(options.get(key) is not None for key in ("dir_fd", "src_dir_fd", "dst_dir_fd")):
                raise NotImplementedError(f"{name}: dir_fd unavailable on this platform")
            if not options.get("follow_symlinks", True) and name in ("chmod", "utime"):
                raise NotImplementedError(f"{name}: follow_symlinks unavailable on this platform")
            if (
                name in ("scandir", "listdir", "chmod", "utime")
                and arguments
                and isinstance(arguments[0], int)
            ):
                raise TypeError(f"{name}: path should be string, not int")
            if name == "rename" and os.path.lexists(arguments[1]):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(arguments[0]))
            return real(*arguments, **options)

        return function

    def open_file(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None:  # Python on Windows raises this, too
            raise NotImplementedError("open: dir_fd unavailable on this platform")
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        if not flags & O_BINARY and os.fspath(path) != os.devnull:
            raise AssertionError(f"{path} is opened as a text file, which changes its bytes on Windows")
        return os.open(path, flags & ~O_BINARY, mode)

    names = (
        "stat",
        "mkdir",
        "rmdir",
        "unlink",
        "remove",
        "rename",
        "replace",
        "link",
        "symlink",
        "readlink",
        "access",
    )
    changes = {name: refuse(name) for name in (*names, "chmod", "utime", "scandir", "listdir")}
    return {
        **changes, "name": "nt", "open": open_file, "O_BINARY": O_BINARY, "O_NOINHERIT": 0, "supports_dir_fd": set(),
        "supports_fd": {os.stat}, "supports_follow_symlinks": {os.stat},
    }  # fmt: skip


class SocketSelector(selectors.DefaultSelector):
    """A selector that refuses pipes and files, as that of Windows does."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
        return super().register(fileobj, events, data)


def open_paths() -> Iterator[str]:
    """Yield the paths of all files that this process has open."""
    for number in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue


def refuse_open_files(event: str, arguments: tuple[Any, ...]) -> None:
    """Keep the name of an open file, as Windows does."""
    if event in ("os.remove", "os.rename", "os.rmdir"):
        path = os.path.abspath(os.fsdecode(arguments[0]))
        if any(place == path or place.startswith(path + "/") for place in open_paths()):
            raise PermissionError(errno.EACCES, "a process uses the file", path)


def refuse_linux_files(event: str, arguments: tuple[Any, ...]) -> None:
    """Let files of Linux's own be absent."""
    if event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(ABSENT):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), arguments[0])


def refusing(real: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
    """Return `os.stat` or `os.lstat` for a system without Linux's own files."""

    def status(path: Any, **options: Any) -> os.stat_result:
        refuse_linux_files("open", (path if isinstance(path, int) else os.fsdecode(path),))
        return real(path, **options)

    return status


def proxies(platform: str) -> dict[str, types.ModuleType]:
    """Return the modules that this project's code gets."""
    about = real_platform.uname_result(SYSTEMS[platform], "host", "1", "1", "x86_64")
    changes: dict[str, dict[str, Any]] = {
        "sys": {"platform": platform},
        "platform": {"uname": lambda: about, "system": lambda: about.system, "node": lambda: about.node},
    }
    if platform == "win32":
        changes |= {"os": windows_os(), "selectors": {"DefaultSelector": SocketSelector}}
    return {
        name: ForeignModule(importlib.import_module(name), platform, changes.get(name, {}))
        for name in MODULES
    }


def is_ours(name: str) -> bool:
    """Return whether a module belongs to this project."""
    return name.partition(".")[0] in OURS


def enter(platform: str) -> None:
    """Put the code of this project on a foreign system."""
    for name in ("stat", "lstat"):
        setattr(os, name, refusing(getattr(os, name)))
    modules, real_import = proxies(platform), builtins.__import__

    def import_module(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:  # fmt: skip
        if level == 0 and is_ours((globals or {}).get("__name__") or ""):
            if is_absent(name, platform):
                raise ModuleNotFoundError(f"No module named {name!r} on this system", name=name)
            if name.partition(".")[0] in modules:
                real_import(name, globals, locals, fromlist, level)
                return (
                    modules[name.partition(".")[0]] if name in modules or not fromlist else sys.modules[name]
                )
        return real_import(name, globals, locals, fromlist, level)

    builtins.__import__ = import_module
    sys.addaudithook(refuse_linux_files)
    if platform == "win32":
        sys.addaudithook(refuse_open_files)
        replace_path_rename()


def replace_path_rename() -> None:
    """Let `Path.rename` refuse an existing target."""
    real = pathlib.Path.rename

    def rename(self: pathlib.Path, target: Any) -> pathlib.Path:
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self))
        return real(self, target)

    pathlib.Path.rename = rename  # type: ignore[method-assign, assignment]  # the imitation


def main(platform: str, *words: str) -> None:
    """Run a module or a file on a foreign system."""
    enter(platform)
    if words[0] == "-m":
        sys.argv = [words[1], *words[2:]]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(words)
        sys.path[0] = os.path.dirname(words[0])
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
