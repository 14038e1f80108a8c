"""`reprobuild store`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from reprobuild.cli import common, documents
from reprobuild.errors import FetchError
from reprobuild.infra.shell_words import as_path
from reprobuild.report.store import render_gc_result, render_store_check
from reprobuild.store.check import check as check_store
from reprobuild.store.gc import collect
from reprobuild.store.sharing import join as join_with
from reprobuild.store.sharing import share as share_with


@click.group()
def command() -> None:
    """Clean, verify or share the store.

    \b
    Example:
      reprobuild store gc --dry-run
    """


@command.command()
@click.argument("locks", metavar="[LOCK]...", nargs=-1, type=common.PATH)
@click.option("--dry-run", is_flag=True, help="List the files, and remove none.")
@click.option("--all", "empty", is_flag=True, help="Remove everything if no lock is known.")
@common.store_option
@common.json_option
def gc(locks: tuple[Path, ...], dry_run: bool, empty: bool, store: Path | None, as_json: bool) -> None:
    """Remove files that no known lock and no LOCK needs.

    The store knows the locks that were made, fetched or built here.

    \b
    Example:
      reprobuild store gc frozen/reprobuild.lock --dry-run
    """
    context = common.make_context(store)
    context.say("looking which files some lock needs")
    result = collect(context.store, locks, dry_run=dry_run, empty=empty)
    if as_json:
        documents.print_json(msgspec.to_builtins(result))
    else:
        options = [*(["--all"] if empty else []), *(["--store", str(store)] if store else [])]
        command = ["reprobuild", "store", "gc", *map(as_path, locks), *options]
        common.print_report(render_gc_result(result, command))


@command.command()
@click.option("--group", required=True, help="Group whose members may read and write the store.")
@common.store_option
@common.json_option
def share(group: str, store: Path | None, as_json: bool) -> None:
    """Share the store with a group.

    Each member of the group can then decide what your builds make.

    \b
    Example:
      reprobuild store share --group lab --store /scratch/lab/store
    """
    context = common.make_context(store, sharing=True)
    share_with(context.store, group)
    if as_json:
        documents.print_json({"store": str(context.store.root), "group": group})
    else:
        common.print_report(f"{context.store.root} is shared with the group {group}")


@command.command()
@click.argument("folder", metavar="DIR", type=common.PATH)
@common.json_option
def join(folder: Path, as_json: bool) -> None:
    """Trust the results of the store in DIR.

    Each writer of that store can then decide what your builds make.

    \b
    Example:
      reprobuild store join /scratch/lab/store
    """
    context = common.make_context(folder, sharing=True)
    owner = join_with(context.store, context.say)
    if as_json:
        documents.print_json({"store": str(context.store.root), "owner": owner})
    else:
        common.print_report(
            f"{context.store.root} of {owner} is joined: each of its writers is trusted as you are"
        )


@command.command()
@common.store_option
@common.json_option
def check(store: Path | None, as_json: bool) -> int:
    """Verify every file of the store, and remove damaged ones.

    \b
    Example:
      reprobuild store check
    """
    context = common.make_context(store)
    context.say("reading every file of the store")
    result = check_store(context.store, context.progress)
    if as_json:
        documents.print_json(msgspec.to_builtins(result))
    else:
        common.print_report(render_store_check(result))
    return FetchError.exit_code if result.damaged or result.unreadable else 0
