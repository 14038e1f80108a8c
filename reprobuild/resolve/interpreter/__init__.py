"""Which Python the environment had, and where it comes from."""
