"""Deterministic tar files, and listings of what is in them.

A listing is the part of a file tree that a container can see: path, type, mode, owner, link target,
extended attributes and content. Times are not in it: every time in a layer is the epoch of the lock.
"""
