"""`reprobuild completion`."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from reprobuild.cli import common, documents
from reprobuild.cli import main as cli

_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@common.json_option
def command(shell: str, as_json: bool) -> None:
    """Print the completion script for SHELL.

    \b
    Example:
      reprobuild completion bash > ~/.local/share/bash-completion/completions/reprobuild
      reprobuild completion zsh > ~/.zfunc/_reprobuild
      reprobuild completion fish > ~/.config/fish/completions/reprobuild.fish
    """
    generator = _SHELLS[shell](cli.cli, {}, cli.NAME, cli.COMPLETE)
    text = generator.source_template % generator.source_vars()
    if as_json:
        documents.print_json({"shell": shell, "script": text})
    else:
        common.print_result(text, nl=False)
