"""The program that unpacks bundles.

`dev/amalgamate.py` makes one file of it.
"""
