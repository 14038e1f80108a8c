"""`python -m reprobuild.cli`."""

from reprobuild.cli.main import main

main()
