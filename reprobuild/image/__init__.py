"""The native builder: a sealed lock and its store in, an OCI image layout out.

No daemon, no root, no network, no other programs. A layer is a function of the artefacts in it, the prefix,
the Python version and the epoch, so it is made once and kept in the store.
"""
