"""Editable installs and version control: a commit and its captured changes become one verified tree."""
