"""The page docs/reference.md, written from the code.

It has commands, exit codes, decisions, services and variables.

    python dev/write_reference.py

tests/test_reference.py compares the page with this program's output, and fails on a page that is out of date. The
meaning of each variable stands in dev/variables.toml.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "dev")]

import click  # noqa: E402  after the path
import msgspec  # noqa: E402  after the path
from msgspec import Struct  # noqa: E402  after the path
from scan_variables import scan  # noqa: E402  after the path

from reprobuild import errors  # noqa: E402  after the path
from reprobuild.cli import common  # noqa: E402  after the path
from reprobuild.cli import main as cli  # noqa: E402  after the path
from reprobuild.config.overrides import ArchiveDecision, BuildDecision, Decisions, WorkloadDecision  # noqa: E402  after the path
from reprobuild.config.services import read_services  # noqa: E402  after the path

PAGE = ROOT / "docs" / "reference.md"
MEANINGS = ROOT / "dev" / "variables.toml"
TITLE = """\
# Reference

Written by `python dev/write_reference.py` from the code. The [index of these pages](README.md) says where each thing is
explained.

* [Commands](#commands)
* [Exit codes](#exit-codes)
* [Decisions](#decisions)
* [Services](#services)
* [Variables of the environment](#variables-of-the-environment)
"""
WORDS = {str: "text", int: "whole number", bool: "true or false", type(None): "nothing"}
TYPES = ((click.Path, "PATH"), (click.types.IntParamType, "N"), (click.types.FloatParamType, "NUMBER"))
OTHER_CODES = (
    (0, "Done, and every check that applies passed."),
    (1, "They differ: `compare` and `diff`."),
    (cli.INTERRUPTED, "Interrupted, or whoever read the output has gone."),
)
QUIET = (
    "Every command has `-h` and `--help`, and `-q` or `--quiet`: it prints no steps, only results, warnings and "
    "errors. `reprobuild help COMMAND` is `reprobuild COMMAND --help`."
)
UNKNOWN = "not described in dev/variables.toml"


def page() -> str:
    """Return the page for the code as it is now."""
    parts = (commands(), exit_codes(), decisions(), services(), variables())
    return "\n".join([TITLE, *("\n".join(part) + "\n" for part in parts)])


# --- commands --------------------------------------------------------------------------------


def commands() -> Iterator[str]:
    """Yield each command with its arguments and options, by click."""
    yield from ("## Commands", "", QUIET)
    for title, group in cli.GROUPS.items():
        yield from ("", f"{title}:", "", "| command | does |", "|---|---|")
        yield from (f"| [`{name}`](#reprobuild-{name}) | {cell(text)} |" for name, text in group.items())
    context = click.Context(cli.cli, info_name="reprobuild", **cli.cli.context_settings)
    for name in cli.COMMANDS:
        command = cli.cli.get_command(context, name)
        assert command is not None
        yield from _verb(command, click.Context(command, info_name=name, parent=context))


def _verb(command: click.Command, context: click.Context) -> Iterator[str]:
    yield from ("", f"### {context.command_path}", "")
    if isinstance(command, click.Group):
        yield from _prose(command.help or "")
        for name in command.list_commands(context):
            if inner := command.get_command(context, name):
                yield from _verb(inner, click.Context(inner, info_name=name, parent=context))
        return
    yield from ("    " + " ".join([context.command_path, *command.collect_usage_pieces(context)]), "")
    yield from _prose(command.help or "")
    options = [
        one
        for one in command.params
        if isinstance(one, click.Option) and not one.hidden and one is not cli.QUIET
    ]
    decided = {(name, option.help) for name, option in _decision_options().items()}
    own = [one for one in options if (one.name, one.help) not in decided]
    if own:
        yield from ("", "| option | means |", "|---|---|")
    yield from (f"| {_names(option)} | {_meaning(option)} |" for option in own)
    if len(own) < len(options):
        names = (f"`{one.opts[-1]}`" for one in options if one not in own)
        yield from ("", f"And [decisions](#decisions): {', '.join(names)}.")


def _prose(text: str) -> Iterator[str]:
    """Yield a docstring as Markdown.

    It has the paragraphs, and the example as it stands.
    """
    for number, paragraph in enumerate(inspect.cleandoc(text).split("\n\n")):
        lines = paragraph.split("\n")
        if number:
            yield ""
        if lines[0] == "\b":
            yield from (
                "Example:" if line.strip() == "Example:" else f"    {line.strip()}" for line in lines[1:2]
            )
            yield from ("", *(f"    {line.strip()}" for line in lines[2:]))
        else:
            yield from lines


def _names(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    names += "".join(f" / `{name}`" for name in option.secondary_opts)
    if option.is_flag or option.count:
        return names
    if isinstance(option.type, click.Choice):
        return names + " " + cell(", ".join(f"`{choice}`" for choice in option.type.choices))
    word = option.metavar or next((word for kind, word in TYPES if isinstance(option.type, kind)), "TEXT")
    return f"{names} `{cell(word)}`"


def _meaning(option: click.Option) -> str:
    said = cell(option.help or "")
    if option.multiple:
        said += " May be given several times."
    if option.show_default and isinstance(option.default, (str, int, float, Path)) and not option.is_flag:
        said += f" Default: `{option.default}`."
    return said.strip()


def cell(text: str) -> str:
    """Return a text as the content of a table's cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


# --- exit codes ------------------------------------------------------------------------------


def exit_codes() -> Iterator[str]:
    """Yield the exit codes, those of `errors` among them."""
    kinds: list[type[errors.ReproError]] = [
        kind for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.ReproError) and kind is not errors.ReproError
    ]  # fmt: skip
    rows = [*OTHER_CODES, *((kind.exit_code, inspect.cleandoc(kind.__doc__ or "")) for kind in kinds)]
    rows.append((errors.ReproError.exit_code, "A bug in reprobuild."))
    yield from ("## Exit codes", "", "| code | what happened |", "|---|---|")
    yield from (f"| {code} | {cell(text)} |" for code, text in sorted(rows))
    yield from ("", f"`run` gives the command's own code, and {cli.OWN_FAILURE} to 127 for its own failures.")


# --- decisions -------------------------------------------------------------------------------


def decisions() -> Iterator[str]:
    """Yield the keys of `reprobuild.yaml`, with their options."""
    options = _decision_options()
    yield "## Decisions"
    yield ""
    yield "Keys of `reprobuild.yaml`, and the options that are put over them. [decisions.md](decisions.md) has an"
    yield "example of each, and the classes that `accept` may name."
    yield from ("", "| key | takes | option | means |", "|---|---|---|---|")
    nested: dict[str, type[Struct]] = {
        "workload": WorkloadDecision, "archives": ArchiveDecision, "build": BuildDecision
    }  # fmt: skip
    hints = get_type_hints(Decisions)
    for key in Decisions.__struct_fields__:
        option = options.get(key)
        name = f"`{option.opts[-1]}`" if option else ""
        means = cell(option.help or "") if option else _first(nested[key])
        yield f"| `{key}` | {_takes(hints[key])} | {name} | {means} |"
    for key, kind in nested.items():
        yield from ("", f"{_first(kind)} Keys of `{key}`:", "", "| key | takes | default |", "|---|---|---|")
        for field in msgspec.structs.fields(kind):
            default = "must be given" if field.required else _default(field.default)
            yield f"| `{field.name}` | {_takes(field.type)} | {default} |"


def _decision_options() -> dict[str, click.Option]:
    def holder() -> None:
        pass

    params: list[click.Parameter] = common.decision_options(holder).__click_params__  # type: ignore[attr-defined]  # click keeps them there
    return {str(one.name): one for one in params if isinstance(one, click.Option)}


def _first(kind: type[Struct]) -> str:
    return cell(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0])


def _default(value: Any) -> str:
    return "none" if value in (None, (), {}, "") or value is msgspec.NODEFAULT else f"`{value}`"


def _takes(kind: Any) -> str:
    """Return a type in words."""
    if kind in WORDS:
        return WORDS[kind]
    if isinstance(kind, type) and issubclass(kind, Struct):
        return "keys, below"
    arguments = [one for one in get_args(kind) if one is not Ellipsis]
    if get_origin(kind) is Annotated:
        return _takes(arguments[0])
    if get_origin(kind) is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if get_origin(kind) is tuple:
        return f"list of {_takes(arguments[0])}".replace("list of keys", "list; keys")
    if get_origin(kind) is dict:
        return f"NAME: {_takes(arguments[1])}"
    return " or ".join(_takes(one) for one in arguments if one is not type(None) or len(arguments) == 1)


# --- services --------------------------------------------------------------------------------


def services() -> Iterator[str]:
    """Yield the addresses of the services.

    No machine configures them.
    """
    yield "## Services"
    yield ""
    yield "Addresses that no machine configures. `--service NAME=URL` names another for one, as a mirror or a copy;"
    yield '"unverified live" are those that could not be reached from the machines where this was tested.'
    yield from ("", "| name | address | what for | status |", "|---|---|---|---|")
    for name, service in read_services({}).items():
        yield f"| `{name}` | `{service.url}` | {cell(service.note)} | {cell(service.status)} |"


# --- variables -------------------------------------------------------------------------------


def variables() -> Iterator[str]:
    """Yield the variables that the code reads, with their meaning."""
    known = meanings()
    yield "## Variables of the environment"
    tables = [ROOT / "reprobuild_portable" / "launchers.py"]  # names that the program imports
    program = list(scan(sorted([*(ROOT / "reprobuild").rglob("*.py"), *tables])))
    runtime = list(scan(sorted((ROOT / "reprobuild_runtime").rglob("*.py"))))
    own = [name for name in dict.fromkeys((*program, *runtime)) if name.startswith("REPROBUILD_")]
    for title, names in (
        ("Reprobuild's own", own),
        ("Read by the program", [name for name in program if name not in own]),
        ("Read in an image, and by `capture`", [name for name in runtime if name not in own]),
        ("Read by libraries and programs that are used", others()),
    ):
        yield from ("", f"### {title}", "", "| variable | means |", "|---|---|")
        yield from _rows(names, known)


def _rows(names: Iterable[str], known: dict[str, str]) -> Iterator[str]:
    """Yield a row for each meaning.

    The order is that of dev/variables.toml.
    """
    groups: dict[str, list[str]] = {text: [] for text in known.values()}
    for name in names:
        groups.setdefault(known.get(name, UNKNOWN), []).append(name)
    for text, members in groups.items():
        if members:
            yield f"| {', '.join(f'`{name}`' for name in members)} | {cell(text)} |"


def meanings() -> dict[str, str]:
    """Return each variable's meaning from dev/variables.toml."""
    return {name: text for table in _tables().values() for name, text in _named(table)}


def others() -> Sequence[str]:
    """Return the variables that only libraries and programs read."""
    return [name for name, _ in _named(_tables()["others"])]


def _tables() -> dict[str, dict[str, str]]:
    return msgspec.toml.decode(MEANINGS.read_bytes(), type=dict[str, dict[str, str]])


def _named(table: dict[str, str]) -> Iterator[tuple[str, str]]:
    return ((name, text) for names, text in table.items() for name in names.split())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
