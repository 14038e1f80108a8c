"""Figures of reprobuild, each against another command.

Both are measured in the same run.
"""
