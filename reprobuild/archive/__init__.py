"""Deterministic tar files, and listings of what is in them.

A listing is the part of a file tree that a container can see: path, type, mode, owner, link target,
extended attributes and content. Times are not in it: every time in a layer is the epoch of the lock.
"""

from __future__ import annotations

from reprobuild.archive.entries import CHUNK as CHUNK
from reprobuild.archive.entries import Entry as Entry
from reprobuild.archive.entries import EntryType as EntryType
from reprobuild.archive.entries import entry_of as entry_of
from reprobuild.archive.entries import hashed as hashed
from reprobuild.archive.entries import normal as normal
from reprobuild.archive.entries import parents as parents
from reprobuild.archive.index import index_tar as index_tar
from reprobuild.archive.reading import list_tar as list_tar
from reprobuild.archive.reading import members as members
from reprobuild.archive.reading import read_tar as read_tar
from reprobuild.archive.writing import TarWriter as TarWriter
from reprobuild.archive.writing import full_header as full_header
from reprobuild.archive.writing import plain_header as plain_header
