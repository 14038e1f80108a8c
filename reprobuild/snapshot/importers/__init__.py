"""Importers: tracker runs and lock files as snapshots, one file for each format."""
