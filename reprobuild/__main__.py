"""`python -m reprobuild`: the command line."""

from __future__ import annotations

from reprobuild.cli.main import main

main()
