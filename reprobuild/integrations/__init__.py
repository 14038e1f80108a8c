"""Callbacks that capture the environment of a run: one module for each library, which it imports.

Each calls `capture`: it raises nothing, prints nothing, and ends after seconds. docs/capture.md has an example of each.
"""
