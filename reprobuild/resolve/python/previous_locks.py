"""Files of earlier locks that the store still has.

They can replace a deleted project or version.
"""

from __future__ import annotations

import shlex
import threading
from functools import cached_property

from packaging.utils import InvalidWheelFilename, canonicalize_name

from reprobuild.ecosystems.pypi.versions import same_version
from reprobuild.errors import FetchError
from reprobuild.infra.untrusted.wheels import read_wheel_filename
from reprobuild.store.roots import read_records, recorded_lock_path
from reprobuild.store.store import Store


class KeptWheels:
    """The wheels of kept locks in a store, by distribution.

    Args:
        store: the store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._guard = threading.Lock()

    def __call__(self, name: str, version: str) -> str:
        """Describe a stored wheel of a version that no index has.

        The text is empty if there is no such wheel.
        """
        with self._guard:  # read once, and only if a file is missing
            known = self._wheels.get(canonicalize_name(name), [])
        for filename, wheel_version, sha256, lock in known:
            if same_version(wheel_version, version):
                where = f"{filename} (sha256 {sha256}) of the lock {lock}"
                return (
                    f"; the store has {where}: copy {self._store.blob(sha256)} under that name into a directory, and "
                    f"name that with --index {shlex.quote(name)}=FOLDER"
                )
        return ""

    @cached_property
    def _wheels(self) -> dict[str, list[tuple[str, str, str, str]]]:
        wheels: dict[str, list[tuple[str, str, str, str]]] = {}
        try:
            records = read_records(self._store)
        except FetchError:  # `store gc` reports the damaged record
            return {}
        for _, record in records:
            for sha256, named in record.files.items():
                try:
                    name, version, _ = read_wheel_filename(named.name)
                except InvalidWheelFilename:
                    continue
                if self._store.has(sha256):
                    wheel = (named.name, str(version), sha256, str(recorded_lock_path(record)))
                    wheels.setdefault(str(name), []).append(wheel)
        return wheels
