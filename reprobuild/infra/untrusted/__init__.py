"""Checks of untrusted archives before a byte is used.

They cover names, kinds and sizes. See docs/hostile.md.
"""
