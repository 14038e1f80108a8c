"""A small classifier of waves."""

__version__ = "0.3.1"
