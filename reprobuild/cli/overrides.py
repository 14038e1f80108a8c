"""The overrides of a command, from a file and options."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from reprobuild.cli import common
from reprobuild.config.override_text import describe_decisions, list_unconfirmed, shorten_decision
from reprobuild.config.overrides import (
    Decisions,
    find_decisions,
    find_inner_decisions,
    merge_decisions,
    parse_archive,
    parse_bake,
    read_decisions,
)
from reprobuild.config.profiles import check_profile
from reprobuild.errors import UsageError
from reprobuild.infra.git.addresses import read_origin
from reprobuild.infra.shell_words import as_path
from reprobuild.resolve.as_of_moment import parse_past_moment
from reprobuild.resolve.override_secrets import refuse_secrets, secret_decisions
from reprobuild.resolve.override_words import check_words
from reprobuild_portable import secrets


def make_decisions(
    directory: Path, decisions_path: Path | None, *, follow: bool = True, **options: Any
) -> tuple[Decisions, Path]:
    """Return all overrides, and the directory of relative sources: that of the file, or else the working directory.

    Options are put over those of a file.

    Args:
        directory: the snapshot.
        decisions_path: the file that the user names.
        follow: the overrides are applied; without it, they are only shown, and need no confirmation.
        options: those of `common.decision_options`.

    Raises:
        UsageError: an option or the file is wrong; or a file that only lies beside the snapshot has
            overrides that the user must confirm.
    """
    option_decisions = Decisions(
        python=options["python"],
        base=options["base"],
        platform=options["platform"],
        build_image=options["build_image"],
        system=options["system"],
        packages=tuple(options["packages"]),
        sources=common.parse_pairs("--source", options["sources"]),
        services=common.parse_pairs("--service", options["services"]),
        indexes=common.parse_pairs("--index", options["indexes"]),
        archives=tuple(parse_archive(item) for item in options["archives"]),
        debs=tuple(str(Path(item).absolute()) for item in options["debs"]),
        channels=tuple(options["channels"]),
        bake=dict(parse_bake(item) for item in options["bake"]),
        drop=tuple(options["drop"]),
        accept=tuple(options["accept"]),
        profile=None if options["profile"] is None else check_profile(options["profile"], "--profile: "),
        seed=options["seed"],
        as_of=None if options["as_of"] is None else parse_past_moment(options["as_of"]),
    )
    base, folder = _read_decisions(directory, decisions_path, follow=follow)
    sources = {name: _from_folder(place, folder) for name, place in option_decisions.sources.items()}
    option_decisions = msgspec.structs.replace(option_decisions, sources=sources)
    decisions = merge_decisions(base, option_decisions)
    check_words(decisions)
    return decisions, folder


def _from_folder(place: str, folder: Path) -> str:
    """Return a repository of the command line, whose relative path starts in the working directory, for another start.

    An absolute path would put names of this machine into the lock.
    """
    local = read_origin(place, Path()).local
    if local is None or local.is_absolute() or folder == Path.cwd():
        return place
    return f"{os.path.relpath(os.path.realpath(Path.cwd()), os.path.realpath(folder))}/{place}"


def unconfirmed_sources(
    directory: Path, decisions_path: Path | None, *, sources: tuple[str, ...], **_: Any
) -> frozenset[str]:
    """Return the sources that only a found file names.

    The file lies beside the snapshot. Its sources get no login of the user.
    """
    path = None if decisions_path else find_decisions(directory)
    return frozenset(read_decisions(path).sources if path else ()) - set(
        common.parse_pairs("--source", sources)
    )


def confirming_options(directory: Path, decisions_path: Path | None) -> list[str]:
    """Return the option that confirms a file beside a snapshot, or an empty list if it needs no confirmation."""
    path = None if decisions_path else find_decisions(directory)
    if path is None or not list_unconfirmed(read_decisions(path)):
        return []
    return ["--decisions", os.path.relpath(path)]


def typed_options(context: click.Context | None) -> list[str]:
    """Return the options of the command line, to be typed again."""
    words: list[str] = []
    for option in context.command.params if context else ():
        name = option.name or ""
        typed = context and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not context or not typed or not isinstance(option, click.Option):
            continue
        if name not in context.params:  # an option that the commands share
            continue
        value = context.params[name]
        if option.is_flag:
            words.append(option.opts[0] if value else option.secondary_opts[0])
        else:
            for text in value if option.multiple else (value,):
                words += [option.opts[0], str(text)]
    return words


def _read_decisions(directory: Path, named: Path | None, *, follow: bool) -> tuple[Decisions, Path]:
    """Return the overrides of a file, and its directory; without a file, the working directory.

    Each override is printed on standard error. Relative paths begin at the directory.
    """
    ignored = None if named else find_inner_decisions(directory)
    if ignored:
        common.print_note(
            f"{ignored} is not read, because a snapshot may come from others; {_confirmation_hint(directory, ignored)}"
        )
    path = named or find_decisions(directory)
    if path is None:
        return Decisions(), Path.cwd()
    decisions, folder = read_decisions(path), path.absolute().parent
    if follow:
        refuse_secrets(decisions)  # before they are printed, because a log keeps them
    hidden = () if follow else secret_decisions(decisions)
    for line in describe_decisions(decisions):
        name = line.partition(" = ")[0]
        secret = any(
            f"{hidden_name}.".startswith(f"{name}.") or f"{name}.".startswith(f"{hidden_name}.")
            for hidden_name in hidden
        )
        common.print_note(
            f"decisions of {path}: {_redact_override_name(name)} = ***"
            if secret
            else f"decisions of {path}: {shorten_decision(line)}"
        )
    if follow and not named and (refused := list_unconfirmed(decisions)):
        raise UsageError(
            f"{path} lies beside the snapshot, and decides what only you can: {'; '.join(refused)}",
            hint=_confirmation_hint(directory, path),
        )
    return decisions, folder


def _redact_override_name(name: str) -> str:
    """Return the name of an override for a hidden value.

    The rest of a name may hold the secret itself.
    """
    return name.partition(".")[0]


def _confirmation_hint(directory: Path, path: Path) -> str:
    """Return the way to confirm a file of overrides."""
    context = click.get_current_context(silent=True)
    verb = context.info_name if context else "lock"
    words = [
        "reprobuild",
        str(verb),
        as_path(directory),
        "--decisions",
        as_path(path),
        *typed_options(context),
    ]
    command = shlex.join(map(secrets.without_logins, words))
    return f"read it, and to follow it run: {command}"
