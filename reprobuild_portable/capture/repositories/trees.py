"""Trees of the index and the work tree."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Set, Tuple

from reprobuild_portable.capture.limits import DEEPEST
from reprobuild_portable.capture.repositories.repository import Entry, Files, Head, Repository
from reprobuild_portable.capture.repositories.staged import Staged


def _trees(
    repository: Repository,
    head: Head,
    staged: Optional[Sequence[Staged]],
    entries: Mapping[bytes, Entry],
    files: Files,
    unmerged: Sequence[bytes],
) -> Tuple[bytes, bytes]:
    """Return the trees of the index and the work tree.

    A large repository without staged changes has its tree already. The others are made here: git would write
    every tree of the repository, and wait for the disk after each.
    """
    changes = {**dict.fromkeys(unmerged), **files.changed, **files.untracked}
    index = (head.tree or "").encode() if staged == [] else b""
    if index and not changes:
        return index, index
    if _is_doubtful(repository, entries, files):
        index = index or repository.tree(dict.fromkeys(unmerged), "staged")
        return index, repository.tree(changes, "work") if changes else index
    root = _root(entries)
    oids: Set[bytes] = set()
    if staged is not None:
        for row in staged:
            root.put(row.path, (row.mode_before, row.before) if row.mode_before.strip(b"0") else None)
        if root.write(repository, oids, known=True).decode() == head.tree:
            for row in staged:
                root.put(row.path, (row.mode, row.oid) if row.mode.strip(b"0") else None)
        else:  # no index makes such a tree: for example one with an empty directory
            root = _root(entries)
            oids.clear()
    index = index or root.write(repository, oids)
    for path, entry in changes.items():
        root.put(path, entry)
    return index, root.write(repository, oids) if changes else index


def _is_doubtful(repository: Repository, entries: Mapping[bytes, Entry], files: Files) -> bool:
    """Return whether only git can compute the trees.

    That is so for very deep directories, and for an entry that may only be intended to be added: such an
    entry is in no tree, and looks like an empty file that was staged.
    """
    empty = repository.id(b"blob 0\0").encode()
    return any(
        (entry.oid == empty and (path in files.touched or entry.tag != b"H")) or path.count(b"/") > DEEPEST
        for path, entry in entries.items()
    ) or any(path.count(b"/") > DEEPEST for path in files.untracked)


def _root(entries: Mapping[bytes, Entry]) -> Folder:
    root = Folder()
    for path, entry in entries.items():
        root.put(path, entry)
    return root


class Folder(Dict[bytes, Any]):
    """A tree of git, with its entries by name.

    An entry is mode and id, or another tree. The tree remembers its id until an entry changes.
    """

    oid = b""

    def put(self, path: bytes, entry: Optional[Tuple[bytes, ...]]) -> None:
        """Set one path, or remove it.

        As in an index, a file takes the place of a directory and the reverse.
        """
        folder, above = self, []
        *names, last = path.split(b"/")
        for name in names:
            folder.oid = b""
            inner = folder.get(name)
            if not isinstance(inner, Folder):
                if entry is None:
                    return
                inner = folder[name] = Folder()
            above.append((folder, name))
            folder = inner
        folder.oid = b""
        if entry is not None:
            folder[last] = entry
        elif not isinstance(folder.get(last), Folder):
            folder.pop(last, None)
            while above and not folder:  # git knows no empty directories
                folder, name = above.pop()
                del folder[name]

    def write(self, repository: Repository, oids: Set[bytes], known: bool = False) -> bytes:
        """Return the id, and write the tree if necessary.

        A tree that is not in `oids` is written and added to it. If it is `known`, it is only added.
        """
        if self.oid:
            return self.oid
        rows = []
        for name, entry in self.items():
            if not isinstance(entry, Folder):
                rows.append((name, entry[0] + b" " + name + b"\0" + bytes.fromhex(entry[1].decode())))
            else:
                oid = entry.write(repository, oids, known)
                rows.append((name + b"/", b"40000 " + name + b"\0" + bytes.fromhex(oid.decode())))
        content = b"".join(row for _, row in sorted(rows))
        self.oid = repository.id(b"tree %d\0" % len(content) + content).encode()
        if not known and self.oid not in oids:
            repository.add(b"tree", content)
        oids.add(self.oid)
        return self.oid
