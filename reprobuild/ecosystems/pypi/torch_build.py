"""Build facts of a torch wheel, read from the wheel itself.

No table has each build.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted.decode import decode_value
from reprobuild.infra.untrusted.elf import MAGIC
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.infra.untrusted.zips import UNREADABLE, open_zip, read_text
from reprobuild.lock.system import Artefact
from reprobuild.store.store import CHUNK, Store

VERSION = 2  # of remembered facts
_TEXT = "torch/version.py"
# `torch._C._cuda_getArchFlags` returns a string that is compiled into the first, or (a static build) into the second.
_LIBRARIES = ("torch/lib/libtorch_python.so", "torch/lib/libtorch_cuda.so")
# `c10::Error(SourceLocation, std::string)` of c10/util/Exception.h, which is exported: its std::string shows the ABI
# (https://gcc.gnu.org/onlinedocs/libstdc++/manual/using_dual_abi.html).
_LIBRARY_OF_ERROR = "torch/lib/libc10.so"
_ERROR = re.compile(rb"_ZN3c105ErrorC1ENS_14SourceLocationE(?:(Ss)|NSt7__cxx1112basic_string)")
_LONGEST = 1024  # bytes of that string; 2.6 has 41, and each architecture takes ten
_ONE = rb"(?:sm|compute)_\d{2,4}[af]?"
_FLAGS = re.compile(rb"(?<=\0)" + _ONE + rb"(?: " + _ONE + rb")*(?=\0)")
_FIELD = re.compile(r"^(__version__|cuda|hip)(?:: [\w\[\]]+)? = '([\w.+]{1,60})'$", re.MULTILINE)

_Short = Annotated[str, Meta(max_length=60)]


class TorchBuild(Struct, frozen=True, kw_only=True):
    """One build of torch.

    `version` has its local label (`2.6.0+cu124`), which the wheel's own name may lack.

    `cuda` and `hip` are empty if it was built without; `architectures` are those of its CUDA code (`sm_80`). `cxx11`
    states whether it has the C++11 ABI of libstdc++, None if that is not known, or if it was built without CUDA.
    """

    version: _Short = ""
    cuda: _Short = ""
    hip: _Short = ""
    architectures: tuple[_Short, ...] = ()
    cxx11: bool | None = None


def recall_torch_build(file: Artefact, store: Store) -> TorchBuild | None:
    """Return the remembered facts of a wheel, or None.

    The wheel is not read.
    """
    try:
        return decode_value(store.recall(_key(file)), TorchBuild)
    except msgspec.ValidationError:  # not there yet, or damaged
        return None


def read_torch_build(file: Artefact, store: Store) -> TorchBuild:
    """Return the build facts of a torch wheel.

    It is read once, in pieces, and the facts are remembered.

    Args:
        file: the wheel; of another project the answer is empty.
        store: has the wheel, and remembers the answer.

    Raises:
        FetchError: the wheel is not in the store.
        BuildError: the wheel is malicious or damaged.
    """
    known = recall_torch_build(file, store)
    if known is not None:
        return known
    origin = file.filename
    with open_zip(store.verified(file.sha256, origin), origin) as (archive, members):
        try:
            build = _read_build(archive, members, origin)
        except UNREADABLE as err:
            raise BuildError(f"{origin} is damaged: {err}", hint=HOSTILE) from None
    store.remember(_key(file), msgspec.to_builtins(build))
    return build


def _key(file: Artefact) -> str:
    return hashlib.sha256(f"torch build {VERSION} {file.sha256}".encode()).hexdigest()


def _read_build(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], origin: str) -> TorchBuild:
    text = read_text(archive, members[_TEXT], origin).decode("utf-8", "replace") if _TEXT in members else ""
    fields = dict(_FIELD.findall(text))
    flags: tuple[str, ...] = ()
    for name in _LIBRARIES if "cuda" in fields else ():
        if name in members and not flags:
            flags = _read_architectures(archive, members[name])
    library = members.get(_LIBRARY_OF_ERROR) if "cuda" in fields else None
    return TorchBuild(
        version=fields.get("__version__", ""), cuda=fields.get("cuda", ""), hip=fields.get("hip", ""),
        architectures=flags, cxx11=_uses_cxx11_abi(archive, library) if library else None,
    )  # fmt: skip


def _read_windows(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the pieces of an ELF library, overlapping.

    Each has the end of the one before. Other files yield no pieces.
    """
    rest = b""
    with archive.open(info) as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            return
        while piece := stream.read(CHUNK):
            window = rest + piece
            yield window
            rest = window[-_LONGEST:]


def _uses_cxx11_abi(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bool | None:
    match = next(filter(None, map(_ERROR.search, _read_windows(archive, info))), None)
    return None if match is None else match[1] is None


def _read_architectures(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[str, ...]:
    """Return the architectures in a library's longest list."""
    flags = b""
    for window in _read_windows(archive, info):
        here = (match[0] for match in _FLAGS.finditer(window) if len(match[0]) <= _LONGEST)
        flags = max([flags, *here], key=len)
    return tuple(flags.decode().split())
