"""`reprobuild restore`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from reprobuild.api.context import without_relative_directories
from reprobuild.cli import common, documents
from reprobuild.ecosystems.git.restore.folder import restore_folder
from reprobuild.errors import UsageError
from reprobuild.infra.git.addresses import read_origin
from reprobuild.report.restored import render_restored, restore_warnings, restored_document
from reprobuild.snapshot.importers.own_snapshot import describe_own_snapshot, find_own_snapshot


@click.command()
@click.argument("snapshot", metavar="SNAPSHOT", type=common.PATH)
@click.argument("name", metavar="NAME")
@click.option("-o", "--output", "out", type=common.PATH, required=True, help="New directory to write.")
@click.option(
    "--source", "sources", metavar="NAME=PATH|URL", multiple=True,
    help="Repository with the commits that the snapshot leaves to a remote.",
)  # fmt: skip
@click.option("--offline", is_flag=True, help="Ask only repositories that --source names.")
@common.json_option
def command(
    snapshot: Path, name: str, out: Path, sources: tuple[str, ...], offline: bool, as_json: bool
) -> None:
    """Restore a captured repository: commits, index, changed and untracked files.

    NAME is that of the repository, as `show` lists it, or of a distribution that was installed from it. No hook,
    filter or setting of the captured repository runs.

    \b
    Example:
      reprobuild restore repro/4242 mylib -o mylib-4242
    """
    origins = {
        name: _resolve_source(name, place) for name, place in common.parse_pairs("--source", sources).items()
    }
    if nested := find_own_snapshot(snapshot):
        common.print_note(describe_own_snapshot(nested))
    env = without_relative_directories(os.environ)
    captured, result = restore_folder(
        nested or snapshot, name, out.absolute(), env, origins, remotes=not offline
    )
    for line in restore_warnings(result):
        common.print_note(line)
    if as_json:
        documents.print_json(restored_document(captured, result))
    else:
        common.print_report(render_restored(captured, result))


def _resolve_source(name: str, text: str) -> str:
    """Return the path or address that the user names.

    git would read a relative path from elsewhere.
    """
    origin = read_origin(text, Path.cwd())
    if origin.revision:
        raise UsageError(
            f"--source {name}={text} names a revision",
            hint="leave the revision out: the captured commit is taken",
        )
    if origin.local is None:
        return origin.place
    if not origin.local.exists():
        raise UsageError(
            f"--source {name}: `{origin.local}` does not exist", hint="name a clone, a bundle or an address"
        )
    return str(origin.local.absolute())
