"""Captured variables and modules: which go into the image, and the folders that they name."""
