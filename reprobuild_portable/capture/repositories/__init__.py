"""Capture git repositories."""
