"""Command lines that hints and pages show, read as the program reads them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import click

from reprobuild.cli import main as cli


def find_command(name: str) -> click.Command:
    """Return a command by its words, as `run` or `cluster job`."""
    verb, _, part = name.partition(" ")
    command: click.Command = import_module(f"reprobuild.cli.{cli.module_name(verb)}").command
    return command.commands[part] if isinstance(command, click.Group) else command


def parse_command(name: str, words: Sequence[str]) -> click.Context:
    """Return the context of a command line; `words` follow the name.

    It has the settings of the program: click keeps the help option of the first context of a command.

    Raises:
        click.UsageError: the command line is not whole.
    """
    command, settings = find_command(name), cli.cli.context_settings
    return command.make_context(name, list(words), help_option_names=settings["help_option_names"])
