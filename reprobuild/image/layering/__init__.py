"""Layers of an image from any builder: unpacked, and merged."""
