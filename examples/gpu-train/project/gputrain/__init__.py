"""A small transformer that continues sequences of digits."""

__version__ = "0.2.0"
