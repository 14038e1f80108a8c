"""Conda packages and channels: formats and configuration.

This package contains the only use of rattler.
"""
