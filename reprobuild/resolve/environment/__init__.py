"""Captured variables and modules, and the directories that they name."""
