"""`reprobuild push`."""

from __future__ import annotations

from pathlib import Path

import click

from reprobuild.cli import common, documents
from reprobuild.distribute.push import push
from reprobuild.output import directory


@click.command()
@click.argument("out", metavar="OUT", type=common.PATH)
@click.argument("reference", metavar="REF")
@common.service_option
@common.store_option
@common.json_option
def command(out: Path, reference: str, services: tuple[str, ...], store: Path | None, as_json: bool) -> int:
    """Push the image in OUT to a registry, with lock, verdict file, bill of materials and provenance.

    Blobs that the registry has are not sent again. Logins are those of `docker login` and `podman login`.

    \b
    Example:
      reprobuild push frozen registry.example/team/train:1
    """
    lock, image = directory.read_image(out)
    pushed = push(
        lock, image, out, reference, common.make_context(store), common.parse_pairs("--service", services)
    )
    if as_json:
        documents.print_json(pushed.document)
    else:
        common.print_result(pushed.reference)
    return 0
