"""The Python of the environment, and its source."""
