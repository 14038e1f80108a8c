"""Figures of reprobuild, each against something else that is measured in the same run."""
