"""Realisation: from lock and store to sealed lock.

The required programs are run once, in a sandbox without network.

Their outputs are inputs from then on. Whether running them again on another machine gives the same bytes is a separate
claim; if a sealed lock states the outputs, they are checked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import msgspec

from reprobuild.errors import BuildError, LockError
from reprobuild.infra.sandbox.model import Root
from reprobuild.infra.sandbox.namespaces import can_mount_overlay, check_namespaces
from reprobuild.lock.consistent import check_readable
from reprobuild.lock.model import Bytecode, Lock, RealisedOutputs, SealedLock, seal
from reprobuild.lock.python import Interpreter, Wheel
from reprobuild.lock.system import EPOCH
from reprobuild.realise.base import realise_base, recall_base
from reprobuild.realise.builds import build_projects, recall_projects
from reprobuild.realise.bytecode import bytecode_key, compile_wheels
from reprobuild.realise.interpreter import realise_interpreter, recall_interpreter, with_interpreter
from reprobuild.realise.rootfs import provide_root
from reprobuild.realise.runtime import compile_runtime, recall_runtime
from reprobuild.realise.unpack import unpack_root
from reprobuild.recipe.payload import pack_runtime
from reprobuild.store.store import Store


def realise(
    lock: Lock, store: Store, say: Callable[[str], None] = lambda _: None, *, exact: bool = True
) -> SealedLock:
    """Run the required programs, and return the sealed lock.

    Args:
        lock: sealed or not; of a sealed one only outputs that the store lacks are made again.
        store: has every artefact of the lock.
        say: logs each step that takes time.
        exact: outputs made again for a sealed lock must match it; else the returned lock has the new outputs.

    Raises:
        BuildError: a step failed, or an output differs from the sealed lock.
    """
    if isinstance(lock, SealedLock) and _has_all_outputs(lock.realised, store):
        return lock
    base = realise_base(lock.base, store, lock.epoch, say)
    environment = [wheel for wheel in lock.wheels if wheel.role == "environment"]
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(_Root(lambda: base, lock.interpreter, store))
        build_root = stack.enter_context(
            _Root(lambda: _realise_build_base(lock, store, say), lock.interpreter, store)
        )
        root.tree = build_root.tree = tree = realise_interpreter(lock, root.get, store, say)
        built_wheels = build_projects(
            lock, tree, lambda compiles: (build_root if compiles else root).get(), store, say
        )
        built = tuple(built_wheel.wheel for built_wheel in built_wheels)
        bytecode = _bytecode([*environment, *built], lock, root, store, say)
        runtime = _runtime(lock, root, store, exact)
    builds = tuple(built_wheel.built for built_wheel in built_wheels)
    outputs = RealisedOutputs(
        base=base, runtime=runtime, wheels=built, bytecode=bytecode, interpreter=tree, builds=builds
    )
    if not isinstance(lock, SealedLock):
        return _check_readable(
            seal(msgspec.structs.replace(lock, wheels=_with_sizes(lock.wheels, store)), outputs)
        )
    if exact:
        _check_same(lock, outputs)
    return _check_readable(seal(lock, outputs))


def _check_readable(lock: SealedLock) -> SealedLock:
    """Return a sealed lock after checking that it can be read.

    Names of files and versions of tools come from untrusted programs.

    Raises:
        BuildError: a lock cannot hold a value that a build left.
    """
    try:
        check_readable(lock)
    except LockError as err:
        raise BuildError(
            str(err), hint="a build left it; build that project by hand, and name its wheel"
        ) from None
    return lock


def is_realised(lock: Lock, store: Store) -> bool:
    """Return whether the store has or remembers all outputs.

    If so, no program must be run.
    """
    if isinstance(lock, SealedLock):
        return _has_all_outputs(lock.realised, store)
    if recall_base(lock.base, store, lock.epoch) is None:
        return False
    tree = recall_interpreter(lock, store)
    if tree is None:
        return False
    built_wheels = recall_projects(lock, tree, store)
    if built_wheels is None:
        return False
    wheels = [wheel for wheel in lock.wheels if wheel.role == "environment"]
    wheels += [built_wheel.wheel for built_wheel in built_wheels]
    if recall_runtime(pack_runtime(store), lock.base, lock.interpreter, store, tree) is None:
        return False
    return len(_recall_bytecode(wheels, lock, tree, store)) == len({wheel.file.sha256 for wheel in wheels})


def list_foreign_outputs(lock: SealedLock, store: Store) -> tuple[str, ...]:
    """Return the realised outputs of a lock that a store does not remember to have made, by their description."""
    realised = lock.realised
    tree = recall_interpreter(lock, store)
    names = {wheel.file.sha256: wheel.name for wheel in (*lock.wheels, *realised.wheels)}
    foreign = []
    if recall_base(lock.base, store, lock.epoch) != realised.base:
        foreign.append("base tree")
    if tree != realised.interpreter:
        foreign.append("tree of the interpreter")
    tree = tree or ""
    if recall_runtime(pack_runtime(store), lock.base, lock.interpreter, store, tree) != realised.runtime:
        foreign.append("runtime package")
    projects = recall_projects(lock, tree, store) or ()
    wheels = {project.wheel.file.sha256 for project in projects}
    parts = {(project.built.name, project.built.parts) for project in projects}
    known = _recall_bytecode((*lock.wheels, *realised.wheels), lock, tree, store)
    return (
        *foreign,
        *(f"wheel of {wheel.name}" for wheel in realised.wheels if wheel.file.sha256 not in wheels),
        *(
            f"compiled parts of {build.name}"
            for build in realised.builds
            if build.parts and (build.name, build.parts) not in parts
        ),
        *sorted(
            f"bytecode of {names.get(code.artefact, code.artefact)}"
            for code in realised.bytecode
            if known.get(code.artefact) != code.tar
        ),
    )


def _with_sizes(wheels: Sequence[Wheel], store: Store) -> tuple[Wheel, ...]:
    """Return the wheels with the sizes of their files.

    Some indexes do not state the sizes, or not always.
    """

    def sized(wheel: Wheel) -> Wheel:
        size = store.blob(wheel.file.sha256).stat().st_size
        return msgspec.structs.replace(wheel, file=msgspec.structs.replace(wheel.file, size=size))

    return tuple(map(sized, wheels))


class _Root:
    """The directory of a base's tree, unpacked on first use.

    If all outputs are remembered, it is not needed.

    `tree` is that of an interpreter of its own, once it is made; programs in the root see it.
    """

    def __init__(self, base: Callable[[], str], interpreter: Interpreter, store: Store) -> None:
        self._base, self._interpreter, self._store = base, interpreter, store
        self.tree = ""
        self._stack = contextlib.ExitStack()
        self._root: Root | None = None

    def __enter__(self) -> _Root:
        return self

    def __exit__(self, *failure: object) -> None:
        self._stack.close()

    def get(self) -> Root:
        """Return the root.

        If layering is not possible, the root is a copy for this run.
        """
        if self._root is None:
            check_namespaces()
        if self._root is None and can_mount_overlay():
            self._root = Root(folder=provide_root(self._base(), self._store), layered=True)
        elif self._root is None:
            folder = self._stack.enter_context(self._store.workspace())
            unpack_root(self._store.verified(self._base(), "the base tree"), folder)
            self._root = Root(folder=folder)
        return with_interpreter(self._root, self._interpreter, self.tree, self._store)


def _realise_build_base(lock: Lock, store: Store, say: Callable[[str], None]) -> str:
    """Return the tree to compile in; its times do not affect outputs."""
    return realise_base(lock.build_base or lock.base, store, EPOCH, say)


def _bytecode(
    wheels: Sequence[Wheel], lock: Lock, root: _Root, store: Store, say: Callable[[str], None]
) -> tuple[Bytecode, ...]:
    known = _recall_bytecode(wheels, lock, root.tree, store)
    missing = [wheel for wheel in wheels if wheel.file.sha256 not in known]
    if missing:
        say(f"compiling the modules of {len(missing)} wheels")
        codes = compile_wheels(missing, lock.base, lock.interpreter, root.get(), store)
        for wheel, code in zip(missing, codes, strict=True):
            store.remember(bytecode_key(wheel, lock.base, lock.interpreter, root.tree), code.tar)
            known[wheel.file.sha256] = code.tar
    return tuple(Bytecode(artefact=artefact, tar=tar) for artefact, tar in known.items())


def _recall_bytecode(wheels: Sequence[Wheel], lock: Lock, tree: str, store: Store) -> dict[str, str]:
    known: dict[str, str] = {}
    for wheel in wheels:
        tar = store.recall(bytecode_key(wheel, lock.base, lock.interpreter, tree))
        if isinstance(tar, str) and store.has(tar):
            known[wheel.file.sha256] = tar
    return known


def _has_all_outputs(realised: RealisedOutputs, store: Store) -> bool:
    hashes = [
        realised.base,
        realised.runtime,
        *([realised.interpreter] if realised.interpreter else []),
        *(w.file.sha256 for w in realised.wheels),
        *(b.tar for b in realised.bytecode),
        *(b.parts for b in realised.builds if b.parts),
    ]
    return all(store.has(sha256) for sha256 in hashes)


def _runtime(lock: Lock, root: _Root, store: Store, exact: bool) -> str:
    """Return the sealed lock's runtime package, or else ours."""
    sealed = lock.realised.runtime if isinstance(lock, SealedLock) else ""
    if sealed and store.has(sealed):
        return sealed
    sources = pack_runtime(store)
    runtime = recall_runtime(sources, lock.base, lock.interpreter, store, root.tree)
    if runtime is None:
        runtime = compile_runtime(sources, lock.base, lock.interpreter, root.get(), store, root.tree)
    if exact and sealed and sealed != runtime:
        raise BuildError(
            "the lock was sealed by another version of reprobuild, whose runtime package is not in the store",
            hint="use that version, or make a new lock",
        )
    return runtime


def _check_same(lock: SealedLock, after: RealisedOutputs) -> None:
    """Refuse outputs that differ from those of a sealed lock."""
    before = lock.realised
    if before.base != after.base:
        raise BuildError(
            f"the base came out as {after.base[:12]}, and the lock says {before.base[:12]}",
            hint="another kernel or another reprobuild made it; take the first one's store, or make a new lock",
        )
    if before.interpreter != after.interpreter:
        raise BuildError(
            f"the tree of the interpreter came out as {after.interpreter[:12]}, and the lock says "
            f"{before.interpreter[:12]}",
            hint="another reprobuild made it; take the first one's store, or make a new lock",
        )
    files = {wheel.file.sha256: wheel.name for wheel in (*lock.wheels, *before.wheels)}
    known = {(code.artefact, code.tar) for code in before.bytecode}
    for wheel in after.wheels:
        if wheel.file.sha256 not in files:
            raise BuildError(
                f"the wheel of {wheel.name} came out otherwise than the lock says", hint="make a new lock"
            )
    parts = {(build.name, build.parts) for build in before.builds}
    for build in after.builds:
        if (build.name, build.parts) not in parts:
            raise BuildError(
                f"what the build of {build.name} adds to its source came out otherwise than the lock says",
                hint="make a new lock",
            )
    for code in after.bytecode:
        if (code.artefact, code.tar) not in known:
            name = files.get(code.artefact, code.artefact[:12])
            raise BuildError(
                f"the bytecode of {name} came out otherwise than the lock says", hint="make a new lock"
            )
