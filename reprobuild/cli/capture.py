"""`reprobuild capture`."""

from __future__ import annotations

from pathlib import Path

import click

from reprobuild.capture import launch
from reprobuild.cli import common, documents


@click.command()
@click.option(
    "-o",
    "--output",
    "out",
    type=common.PATH,
    help="Directory to write. [default: snapshot, or snapshot-JOB in a job]",
)
@click.option(
    "--python",
    metavar="PATH",
    help="Interpreter of the environment, or the environment's directory. [default: that of the active one]",
)
@click.option("--print-recipe", is_flag=True, help="Print a capture recipe in Bash, which needs no Python.")
@click.option(
    "--accept", metavar="FILE", multiple=True,
    help="Capture this file of a repository (REPOSITORY/PATH), although it looks like a secret.",
)  # fmt: skip
@click.option(
    "--include", metavar="FILE", multiple=True,
    help="Capture this file, which is outside of all repositories or ignored by git; `interpreter` packs the Python "
    "itself.",
)  # fmt: skip
@common.json_option
def command(
    out: Path | None,
    python: str | None,
    print_recipe: bool,
    as_json: bool,
    accept: tuple[str, ...],
    include: tuple[str, ...],
) -> int:
    """Capture this environment as a snapshot: packages, variables, repositories, machine.

    \b
    Example:
      reprobuild capture -o repro/4242
    """
    if print_recipe:
        text = launch.read_capture_recipe()
        documents.print_json({"recipe": text}) if as_json else common.print_result(text, nl=False)
        return 0
    active, env = common.find_active_python()
    errors: list[bytes] = []

    def write(stream: int, data: bytes) -> None:
        common.write_output(stream, data)
        if stream != 1:
            errors.append(data)

    code = launch.capture(
        python or active,
        out,
        env=env,
        sink=write,
        as_json=as_json,
        accept=accept,
        include=include,
    )
    is_default = not python and not launch.find_interpreter(env, "")
    options = [*(["--python", python] if python else []), *(["--json"] if as_json else [])]
    options += [word for name in accept for word in ("--accept", name)]
    options += [word for name in include for word in ("--include", name)]
    notes = launch.closing_notes(
        b"".join(errors), python or active, out, env, default=is_default, options=options
    )
    for note in notes:
        common.print_note(note)
    return code
