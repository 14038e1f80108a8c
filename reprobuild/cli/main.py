"""The commands as one program.

It parses, calls and prints, and is the only place that exits.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import NoReturn

import click
from click.exceptions import NoSuchCommand
from click.shell_completion import CompletionItem

from reprobuild import __version__
from reprobuild.cli import console, documents, progress, streams
from reprobuild.cli.interrupt import install_signal_handlers
from reprobuild.cli.remedies import find_remedy, has_remedy
from reprobuild.errors import ReproError, UsageError
from reprobuild.infra.shell_words import escape_breaks
from reprobuild.infra.suggest import did_you_mean

NAME = "reprobuild"
COMPLETE = "_REPROBUILD_COMPLETE"  # set by the scripts of `reprobuild completion`, as click has it
INTERRUPTED = 130
VERBOSE = "--verbose"
DEBUG = "REPROBUILD_DEBUG"  # if set, each error shows its place in the code
# The objects of the imports live as long as the process. With Python's own threshold, 700, the collector looks through
# them 140 times, which takes a tenth of the start of `build`.
_GC_THRESHOLD = 50_000
OWN_FAILURE = 125  # of `run`: its other codes are those of the command

# A line of a message, such as one of a failed program, that looks like a line of ours; escaped characters may be around
# its first word.
_BESIDE = r"(?:[^\S\n]|\\[xuU][0-9a-f]{2,8})*"
_LIKE_OURS = re.compile(rf"(?i)\n(?={_BESIDE}(?:hint|error){_BESIDE}:)")
_NO_CHOICE = re.compile("'([^']+)' is not one of")  # of click.Choice
# The groups of `--help`: each command with its line. A command's module is imported when it is used: help is quick.
GROUPS = {
    "Everyday": {
        "capture": "Capture this environment as a snapshot.",
        "show": "Show a snapshot, and what it lacks.",
        "from-snapshot": "Build a verified image from a snapshot.",
        "run": "Run a command in an image, seeded.",
        "verify": "Verify an image again on this machine.",
        "compare": "Compare two environments, and rank their differences.",
    },
    "Steps": {
        "import": "Write a tracker's run or a lock file as a snapshot.",
        "lock": "Pin every line of a snapshot in a lock.",
        "fetch": "Fetch every input of a lock into the store.",
        "render": "Write Dockerfile, Apptainer.def and pylock.toml of a sealed lock.",
        "build": "Build the image of a lock.",
        "rebuild": "Build an image again from its lock, and compare.",
        "diff": "Compare the files of two images, and name the inputs that differ.",
    },
    "Explain": {
        "bisect": "Find the differences of two environments that change a result.",
        "trace": "Find the first step and operation in which two runs of a command differ.",
    },
    "Hand over": {
        "bundle": "Write an output directory as one file with checksums.",
        "unbundle": "Unpack a bundle, and verify its checksums.",
        "push": "Push an image and its attachments to a registry.",
        "pull": "Pull an image and its attachments from a registry.",
        "doctor": "Check this machine, for every command or for one image.",
        "store": "Clean, verify or share the store.",
        "restore": "Restore a captured repository with its uncommitted work.",
        "completion": "Print the completion script of a shell.",
    },
    "Cluster": {
        "cluster": "Run the determinism test or a command on many machines, and compare them.",
    },
}
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
# macOS refuses the first, and Windows all but the second (docs/macos-windows.md).
NEED_LINUX = ("from-snapshot", "build", "rebuild", "verify", "run", "bisect", "trace", "cluster")
ON_WINDOWS = ("capture", "show", "compare", "import", "unbundle", "doctor", "completion")


def module_name(verb: str) -> str:
    """Return the module of a command: `import` is a keyword of Python."""
    return "import_run" if verb == "import" else verb.replace("-", "_")


class LazyGroup(click.Group):
    """A group that imports each command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        _check_system(cmd_name)
        module = import_module(f"reprobuild.cli.{module_name(cmd_name)}")
        command: click.Command = module.command
        _add_quiet(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands without importing them."""
        if incomplete.startswith("-"):
            return super(click.Group, self).shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])


def _silence(_: click.Context, __: click.Parameter, quiet: bool) -> None:
    if quiet:
        progress.silence()


QUIET = click.Option(
    ["-q", "--quiet"], is_flag=True, expose_value=False, callback=_silence,
    help="Print no steps: only results, warnings and errors.",
)  # fmt: skip


def _add_quiet(command: click.Command) -> None:
    """Give a command, and each command in it, the option that they share."""
    if QUIET not in command.params:
        command.params.append(QUIET)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _add_quiet(inner)


def _check_system(verb: str) -> None:
    """Refuse a command that cannot work on this operating system.

    Raises:
        UsageError: it needs Linux.
    """
    needs_linux = verb in NEED_LINUX if sys.platform == "darwin" else verb not in ON_WINDOWS
    if sys.platform in ("darwin", "win32") and needs_linux:
        raise UsageError(
            f"`{NAME} {verb}` needs Linux",
            hint="use WSL 2 or a virtual machine; here these work: " + ", ".join(ON_WINDOWS),
        )


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="reprobuild")
@click.option(*QUIET.opts, is_flag=True, expose_value=False, callback=_silence, help=QUIET.help)
def cli() -> None:
    """Turn a captured ML environment into a frozen container image, with proof.

    \b
    Example:
      reprobuild from-snapshot repro/4242 -o frozen
    """


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    gc.set_threshold(_GC_THRESHOLD)
    streams.repair_streams()
    install_signal_handlers()
    sys.exit(run_line(sys.argv[1:]))


def run_line(arguments: list[str]) -> int:
    """Run one command line, and return its exit code.

    Errors are printed; `errors` has their codes.
    """
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    documents.record_json_request(arguments)
    try:
        try:
            code = cli.main(arguments, prog_name=NAME, standalone_mode=False)
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except Exception as err:
            return _explain(err, arguments)
        except KeyboardInterrupt:
            return _explain(click.Abort(), arguments)
        return code if isinstance(code, int) else 0
    except (BrokenPipeError, SystemExit) as end:  # click makes the second of the first
        if COMPLETE in os.environ and isinstance(end, SystemExit):
            return int(end.code or 0)  # so click ends a completion
        # The reader has not received the answer, so it does not count. The rest is dropped.
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return INTERRUPTED
    finally:
        progress.stop()
        progress.silence(False)


def _explain(err: Exception, arguments: list[str]) -> int:
    """Print an error, and return its exit code."""
    progress.stop()
    debug = bool(os.environ.get(DEBUG))
    if debug:
        click.echo(_format_traceback(err), err=True)
    run_code = OWN_FAILURE if arguments[:1] == ["run"] else 0
    if isinstance(err, ReproError):
        everything = err.listing if VERBOSE in arguments else ()
        hint = _write_commands(err, arguments) if err.options else err.hint
        return _print_error("\n".join([str(err), *everything]), hint, run_code or err.exit_code, err.refused)
    if isinstance(err, click.UsageError) and type(err).__name__ != "NoArgsIsHelpError":
        word, names = _find_unknown_word(err)
        see = f"see `{err.ctx.command_path if err.ctx else NAME} --help`"
        meant = _correct(err, arguments) or did_you_mean(word, names)
        text = err.message if word and not isinstance(err, click.BadParameter) else err.format_message()
        stop = "" if not meant or meant.endswith("?") else ";"
        hint = f"{meant}{stop} {'Otherwise ' if not stop else 'otherwise '}{see}" if meant else see
        return _print_error(text, hint, run_code or err.exit_code)
    if isinstance(err, click.ClickException):
        err.show()
        return run_code or err.exit_code
    if isinstance(err, click.Abort):
        hint = "what was complete is kept; run the command again to go on"
        return _print_error("interrupted", hint, INTERRUPTED)
    if isinstance(err, OSError) and (err.filename is not None or has_remedy(err)):
        place = f"{os.fsdecode(err.filename)}: " if err.filename is not None else ""
        remedy = find_remedy(err, arguments, os.environ)
        return _print_error(f"{place}{err.strerror}", remedy, run_code or UsageError.exit_code)
    if not debug:
        click.echo(_format_traceback(err), err=True)
    hint = "please report the lines above; they hold no values of variables"
    return _print_error("this is a bug in reprobuild", hint, run_code or ReproError.exit_code)


def _write_commands(err: ReproError, arguments: Sequence[str]) -> str:
    """Return the hint of an error with whole commands."""
    from reprobuild.cli.hinted_options import write_commands  # no other error has use for it

    return write_commands(err.hint, err.options, arguments, err.omitted)


def _correct(err: click.UsageError, arguments: Sequence[str]) -> str:
    """Return a hint with the corrected command, or an empty text."""
    from reprobuild.cli.mistakes import find_correction  # no other command line has use for it

    return find_correction(err, arguments)


def _find_unknown_word(err: click.UsageError) -> tuple[str, list[str]]:
    """Return the unknown option, command or choice, and the known names.

    Both are empty for other errors.
    """
    if isinstance(err, click.BadParameter) and err.param and isinstance(err.param.type, click.Choice):
        match = _NO_CHOICE.match(err.message)
        return (match[1], list(map(str, err.param.type.choices))) if match else ("", [])
    if err.ctx and isinstance(err, click.NoSuchOption):
        options = err.ctx.command.get_params(err.ctx)
        return err.option_name, [
            name for option in options for name in (*option.opts, *option.secondary_opts)
        ]
    if err.ctx and isinstance(err, NoSuchCommand) and isinstance(err.ctx.command, click.Group):
        return err.command_name, err.ctx.command.list_commands(err.ctx)
    return "", []


def _format_traceback(err: BaseException) -> str:
    """Return the traceback and the kind of an exception.

    Its message could hold a secret.
    """
    before = err.__cause__ or err.__context__
    lines = [_format_traceback(before), "which led to:"] if before else []
    return "\n".join([*lines, "".join(traceback.format_tb(err.__traceback__)) + type(err).__qualname__])


def _print_error(message: str, hint: str, code: int, refused: Sequence[Mapping[str, object]] = ()) -> int:
    """Print an error, and return its exit code.

    It is for people, and with `--json` also the one document.
    """
    text = _LIKE_OURS.sub("\n  | ", progress.sanitise_text(message))
    console.print_report(f"error: {text}", sys.stderr)
    if hint:
        console.print_report(f"\nhint: {progress.sanitise_text(escape_breaks(hint))}", sys.stderr)
    try:
        documents.print_json_error(message, hint, code, refused)
    except OSError as err:
        if isinstance(err, BrokenPipeError):
            raise
        # Standard output takes no more; that may be the error itself. It is on standard error.
    return code
