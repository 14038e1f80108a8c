"""`python -m reprobuild.cli`."""

from reprobuild.cli import main

main()
