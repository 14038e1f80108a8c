"""The capture program.

`dev/amalgamate.py` makes one file of it.
"""
