"""Git repositories of an environment."""
