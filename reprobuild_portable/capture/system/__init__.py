"""Capture the system around the interpreter."""
