"""Define the lines of `pip freeze`."""
