"""Deterministic tar files, and listings of their contents.

A listing is the part of a file tree that is visible in a container: path, type, mode, owner, link target,
extended attributes and content. Times are not in it: every time in a layer is the epoch of the lock.
"""

from __future__ import annotations

from reprobuild.infra.tar.entries import CHUNK as CHUNK
from reprobuild.infra.tar.entries import Entry as Entry
from reprobuild.infra.tar.entries import EntryType as EntryType
from reprobuild.infra.tar.entries import entry_of as entry_of
from reprobuild.infra.tar.entries import hashed as hashed
from reprobuild.infra.tar.entries import normal as normal
from reprobuild.infra.tar.entries import parents as parents
from reprobuild.infra.tar.index import index_tar as index_tar
from reprobuild.infra.tar.reading import list_tar as list_tar
from reprobuild.infra.tar.reading import members as members
from reprobuild.infra.tar.reading import read_tar as read_tar
from reprobuild.infra.tar.writing import TarWriter as TarWriter
from reprobuild.infra.tar.writing import full_header as full_header
from reprobuild.infra.tar.writing import plain_header as plain_header
