"""The native builder: a sealed lock to an OCI layout.

It needs no daemon, root, network or other program. A layer is a function of its artefacts, the prefix, the
Python version and the epoch, so it is made once and kept in the store.
"""
