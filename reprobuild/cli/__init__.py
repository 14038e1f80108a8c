"""The command line: it parses, calls and prints, and is the only place that exits. One file per verb."""

from __future__ import annotations

import signal
import sys
import traceback
from importlib import import_module
from types import FrameType
from typing import NoReturn

import click

from reprobuild import __version__
from reprobuild.errors import ReproError

# Verb: its line in `--help`. The module of a verb is imported when it is used, so that help is quick.
VERBS = {
    "from-snapshot": "Snapshot to checked image: the main job.",
    "show": "What is in a snapshot, and what is missing.",
    "lock": "Pin every line of a snapshot.",
    "fetch": "Bring all that a lock names into the store.",
    "render": "Write Dockerfile, Apptainer.def and pylock.toml of a sealed lock.",
    "build": "Build the image of a lock.",
    "verify": "Check an image again, now, here.",
    "run": "Run a command in the image, seeded.",
    "compare": "What differs between two locks or snapshots.",
}


class LazyGroup(click.Group):
    """A group that knows its verbs by name and imports each when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = import_module(f"reprobuild.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="reprobuild")
def cli() -> None:
    """Turn a captured ML environment into a frozen container image, with proof.

    \b
    Example:
      reprobuild from-snapshot repro/4242 -o frozen
    """


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line, print its errors, and return its exit code (see `errors`)."""
    try:
        code = cli.main(arguments, prog_name="reprobuild", standalone_mode=False)
    except ReproError as err:
        _print_error(str(err), err.hint)
        return err.exit_code
    except click.ClickException as err:
        err.show()
        return err.exit_code
    except (KeyboardInterrupt, click.Abort):
        _print_error("interrupted", "what was complete is kept; run the command again to go on")
        return 130
    except BrokenPipeError:
        return 0
    except Exception:
        click.echo(traceback.format_exc(), err=True)
        _print_error(
            "this is a bug in reprobuild", "please report the lines above; they hold no values of variables"
        )
        return ReproError.exit_code
    return code if isinstance(code, int) else 0


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _print_error(what: str, hint: str) -> None:
    click.echo(click.style("error: ", fg="red") + what, err=True)
    if hint:
        click.echo("\n" + click.style("hint: ", fg="cyan") + hint, err=True)
