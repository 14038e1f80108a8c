"""Vendors' images that snapshots were taken inside."""
