"""`reprobuild doctor`."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from reprobuild.cli import common, console, documents
from reprobuild.config.services import change_addresses
from reprobuild.doctor.code import cuda_code
from reprobuild.doctor.compatibility import judge_fit
from reprobuild.doctor.diagnose import diagnose, probe_network, read_subject
from reprobuild.doctor.disks import default_directories
from reprobuild.doctor.host import inspect_host
from reprobuild.doctor.text import render_diagnosis, without_logins
from reprobuild_portable import secrets


@click.command()
@click.argument("image", metavar="[OUT|LOCK]", type=common.PATH, required=False)
@common.out_option
@common.service_option
@common.store_option
@click.option("--offline", is_flag=True, help="Do not ask indexes and services.")
@common.json_option
def command(
    image: Path | None, out: Path, services: tuple[str, ...], store: Path | None, offline: bool, as_json: bool
) -> int:
    """Check this machine, and print what it lacks and the commands that mend it.

    With OUT or LOCK, the check is for this image. A copied reprobuild.lock, and verdict.json beside it, are enough.

    Exit code 0: it lacks nothing; 6: it lacks something; 9: a check has no answer.

    \b
    Example:
      reprobuild doctor frozen
      reprobuild doctor
    """
    context = common.make_context(store, offline=offline, caches=False)
    subject = read_subject(image) if image else None
    probed = change_addresses(context.services, common.parse_pairs("--service", services))
    asking = "" if image or offline else f", and asking its indexes and {len(probed)} services"
    context.say(f"looking at this machine{asking}")
    host = inspect_host(context.env, default_directories(context.env, context.store.root, Path.cwd() / out))
    if subject:
        diagnosis = judge_fit(*subject, host, cuda_code(*subject, context.store))
    else:
        answers = probe_network(
            probed, context.env, offline=offline, netrc=context.net.netrc, authorities=context.net.authorities
        )
        diagnosis = diagnose(host, answers)
    diagnosis = without_logins(diagnosis)
    subject_name = f"this machine for {image}" if image else "this machine"
    if as_json:
        findings = msgspec.to_builtins(diagnosis.findings)
        documents.print_json(
            {"state": diagnosis.state, "findings": findings, "host": msgspec.to_builtins(host)}
        )
    else:
        common.print_report(
            render_diagnosis(
                diagnosis, secrets.without_logins(subject_name), console.terminal_width(sys.stdout)
            )
        )
    return diagnosis.exit_code
