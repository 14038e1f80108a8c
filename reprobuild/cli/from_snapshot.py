"""`reprobuild from-snapshot`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from reprobuild.api.commands.from_snapshot import from_snapshot
from reprobuild.cli import common, documents
from reprobuild.cli.overrides import make_decisions, unconfirmed_sources
from reprobuild.pipeline.verify_options import VerifyOptions, select_parts


@click.command()
@common.snapshot_argument
@common.out_option
@click.option("--lock", "lock_path", type=common.PATH, help="Build from this lock.")
@common.decision_options
@common.store_option
@common.offline_option
@common.image_build_options
@common.engine_option
@common.gpu_option
@common.thorough_option
@common.cpu_only_option
@common.controls_option
@common.probes_option
@click.option("--no-verify", is_flag=True, help="Build without any check; the verdict is then not-run.")
@common.verbose_option
@common.json_option
def command(
    directory: Path, out: Path, lock_path: Path | None, decisions_path: Path | None, store: Path | None,
    offline: bool, tag: str | None, formats: tuple[str, ...], builder: str, compressor: str, engine: str | None,
    gpus: str, thorough: bool, cpu_only: bool, no_controls: bool, no_probes: bool, no_verify: bool,
    as_json: bool, **options: Any,
) -> int:  # fmt: skip
    """Build a verified image from the snapshot in DIR.

    \b
    Example:
      reprobuild from-snapshot repro/4242 -o frozen
    """
    decisions, folder = make_decisions(directory, decisions_path, **options)
    making = common.make_build_options(tag=tag, builder=builder, formats=formats, compressor=compressor)
    doubted = unconfirmed_sources(directory, decisions_path, **options)
    context = common.make_context(store, offline=offline, folder=folder, doubted=doubted)
    checks = VerifyOptions(
        engine=engine,
        controls=not no_controls,
        parts=select_parts((), no_probes=no_probes),
        cpu_only=cpu_only,
        gpus=gpus,
        thorough=thorough,
    )
    result = from_snapshot(
        directory, out, decisions, lock_path=lock_path, options=making, check=None if no_verify else checks,
        context=context,
    )  # fmt: skip
    documents.print_build_result(result, as_json)
    return result.exit_code
