"""Ordinary environments, made by real tools in Debian roots of their own, captured and turned into images."""
