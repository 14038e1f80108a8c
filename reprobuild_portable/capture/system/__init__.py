"""Facts about the system around the interpreter."""
