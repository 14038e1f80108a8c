"""Lines of `pip freeze`."""
