"""A command in a root directory without network."""
