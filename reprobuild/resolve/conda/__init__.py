"""Packages of conda: choice, channels, and the variables that they set."""
