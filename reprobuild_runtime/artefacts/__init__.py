"""Output files of a command: collection and comparison.

`collect` puts them aside after the command, and `compare` compares two runs.
"""
