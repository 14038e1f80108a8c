"""Code for the host, for images and for single files.

It needs Python 3.8 and the standard library only.
"""
