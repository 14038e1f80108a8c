"""Build requirements of projects, and the base for compiling."""
