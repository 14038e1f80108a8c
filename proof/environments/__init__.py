"""Ordinary environments, captured and turned into images.

Real tools make them in Debian roots of their own.
"""
