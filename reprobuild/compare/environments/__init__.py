"""Comparison of two environments.

Each may be a snapshot, a lock, an image, or the running environment.
"""
