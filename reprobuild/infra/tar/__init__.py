"""Deterministic tar files, and listings of their contents.

A listing is the part of a file tree that is visible in a container: path, type, mode, owner, link target,
extended attributes and content. Times are not in it: every time in a layer is the epoch of the lock.
"""
