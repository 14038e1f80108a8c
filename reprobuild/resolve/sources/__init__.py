"""Editable installs and version control: commits and changes as verified trees."""
