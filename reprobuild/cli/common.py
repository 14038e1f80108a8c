"""Options that several commands share, and their values."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from reprobuild.cli import console, progress
from reprobuild.errors import UsageError
from reprobuild.infra.escape import break_commands

# Small commands must start quickly: the functions that use these packages import them.
if TYPE_CHECKING:
    from reprobuild.context import RunContext
    from reprobuild.ecosystems.pypi.pip_config import Asking
    from reprobuild.image.formats.single_file import Kind
    from reprobuild.image.formats.squashfs_write import Compressor
    from reprobuild.pipeline.build import BuildOptions
    from reprobuild.store.store import Store

F = TypeVar("F", bound=Callable[..., Any])


class _Seed(click.IntRange):
    """A seed, with an error that names its range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a whole number from {self.min} to {self.max}.", param, ctx)


SEED = _Seed(0, 2**32 - 1)
# click would ask access(2), but that ignores capabilities and the rules of a file server: only an open is sure.
PATH = click.Path(path_type=Path, readable=False)
snapshot_argument = click.argument("directory", metavar="DIR", type=PATH)
lock_argument = click.argument("lock_path", metavar="LOCK", type=PATH)
out_option = click.option(
    "-o", "--output", "out", type=PATH, default=Path("frozen"), show_default=True, help="Output directory."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
engine_option = click.option(
    "--engine", type=click.Choice(["builtin", "docker", "podman", "apptainer"]),
    help="Engine that runs containers. [default: the first that answers]",
)  # fmt: skip
env_option = click.option(
    "-e", "--env", "variables", metavar="NAME[=VALUE]", multiple=True, help="Pass a variable to CMD."
)
secret_option = click.option(
    "--secret", "hidden", metavar="NAME", multiple=True,
    help="Pass a variable without its value on any command line.",
)  # fmt: skip
shm_option = click.option(
    "--shm-size", metavar="SIZE", help="Size of the shared memory, as 8g. [default: that of this machine]"
)
gpu_option = click.option(
    "--gpu", "gpus", metavar="auto|all|none|ID,...", default="auto", show_default=True,
    help="GPUs of the containers; `auto` is all, if there are any.",
)  # fmt: skip
cpu_only_option = click.option("--cpu-only", is_flag=True, help="Leave GPUs out of the checks.")
verbose_option = click.option(
    "--verbose", is_flag=True, expose_value=False, help="List every captured line of an error."
)
controls_option = click.option(
    "--no-controls", is_flag=True, help="Leave the controls out; the verdict is then inconclusive."
)
thorough_option = click.option(
    "--thorough",
    is_flag=True,
    help="Repeat each probe hundreds of times, which takes an hour.",
)
probe_option = click.option(
    "--probe", "probes", metavar="NAME", multiple=True,
    help="Run only this probe; the verdict is then inconclusive.",
)  # fmt: skip
probes_option = click.option(
    "--no-probes", is_flag=True, help="Leave the determinism test out, beside round trip and workload."
)
store_option = click.option(
    "--store",
    type=PATH,
    help="Directory of the store. [default: REPROBUILD_STORE, or in the user's cache directory]",
)
offline_option = click.option("--offline", is_flag=True, help="Use no network, but only the store.")
service_option = click.option(
    "--service", "services", metavar="NAME=URL", multiple=True, help="Use another address for a service."
)


def image_build_options(function: F) -> F:
    """Add the options for the build of an image."""
    for option in reversed(
        [
            click.option("--tag", metavar="REF", help="Name of the image. [default: derived from the lock]"),
            click.option(
                "--builder", type=click.Choice(["native", "docker", "podman", "apptainer"]), default="native",
                show_default=True, help="Builder of the image; all make the same tree.",
            ),
            click.option(
                "--format", "formats", type=click.Choice(["sif", "squashfs"]), multiple=True,
                help="Write OUT/image.sif for Apptainer, or OUT/image.sqsh for enroot, too.",
            ),
            click.option(
                "--compression", "compressor", type=click.Choice(["zstd", "gzip"]), default="zstd",
                show_default=True, help="Compression of these files; gzip is for kernels without zstd.",
            ),
        ]
    ):  # fmt: skip
        function = option(function)
    return function


def decision_options(function: F) -> F:
    """Add the options for overrides, put over `reprobuild.yaml`."""
    for option in reversed(
        [
            click.option(
                "--decisions",
                "decisions_path",
                type=PATH,
                help="Follow this reprobuild.yaml in full.",
            ),
            click.option("--python", metavar="X.Y[.Z]", help="Python of the environment."),
            click.option(
                "--base",
                metavar="DIST/RELEASE|IMAGE",
                help="Base image, as debian/bookworm or HOST/NAME:TAG.",
            ),
            click.option("--platform", metavar="OS/ARCH", help="Platform of the image, as linux/amd64."),
            click.option(
                "--system",
                type=click.Choice(["needed", "all"]),
                help="Install these captured system packages.",
            ),
            click.option(
                "--package",
                "packages",
                metavar="NAME",
                multiple=True,
                help="Install this system package, too.",
            ),
            click.option(
                "--build-image",
                "build_image",
                metavar="IMAGE",
                help="Image to compile in, as nvidia/cuda:12.4.1-devel-ubuntu22.04.",
            ),
            click.option(
                "--source",
                "sources",
                metavar="NAME=PATH|URL[@REV]",
                multiple=True,
                help="Place of a repository.",
            ),
            service_option,
            click.option(
                "--index",
                "indexes",
                metavar="NAME=URL",
                multiple=True,
                help="Take this distribution only from this index.",
            ),
            click.option(
                "--archive",
                "archives",
                metavar="URL|ppa:OWNER/NAME[=KEY]",
                multiple=True,
                help="Add an archive of system packages; KEY is the fingerprint that signs it.",
            ),
            click.option(
                "--deb", "debs", metavar="FILE|DIR", multiple=True, help="Add files of system packages."
            ),
            click.option(
                "--channel", "channels", metavar="URL|NAME", multiple=True, help="Add a channel of conda."
            ),
            click.option(
                "--bake", metavar="NAME[=VALUE]", multiple=True, help="Put a variable into the image."
            ),
            click.option(
                "--drop", metavar="NAME", multiple=True, help="Leave out a variable, package or line."
            ),
            click.option(
                "--as-of",
                "as_of",
                metavar="DATE",
                help="Choose versions of this day for requirements without one.",
            ),
            click.option("--accept", metavar="LINE|CLASS", multiple=True, help="Accept a deviation."),
            click.option(
                "--profile",
                metavar="NAME[,NAME]",
                help="Settings beside a chosen seed: torch, strict, ...",
            ),
            click.option("--seed", type=SEED, help="Seed of the checks."),
        ]
    ):
        function = option(function)
    return function


def print_note(text: str) -> None:
    """Print a line without a step on standard error."""
    progress.stop()
    console.print_report(progress.sanitise_text(text.replace("\n", "\\n")), sys.stderr)


_FOR_EXAMPLE = {
    "--service": "docker-hub=https://mirror.example.org",
    "--index": "mylib=https://index.example.org/simple",
}


def parse_pairs(option: str, items: Sequence[str]) -> dict[str, str]:
    """Return {NAME: VALUE} of an option's NAME=VALUE items.

    Raises:
        UsageError: one is not of that form.
    """
    values = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name or not value:
            raise UsageError(
                f"{option} {item}: not of the form NAME=...",
                hint=f"for example {option} {_FOR_EXAMPLE.get(option, 'mylib=/path')}",
            )
        values[name] = value
    return values


def make_build_options(
    *, tag: str | None, builder: str, formats: Sequence[str], compressor: str
) -> BuildOptions:
    """Return the build options of `image_build_options`."""
    from reprobuild.pipeline.build import BuildOptions

    kinds: dict[str, Kind] = {"sif": "sif", "squashfs": "sqsh"}
    return BuildOptions(
        tag=tag, builder=builder, singles=tuple(kind for name, kind in kinds.items() if name in formats),
        compressor=cast("Compressor", compressor),
    )  # fmt: skip


def make_context(
    store: Path | None,
    *,
    offline: bool = False,
    folder: Path = Path(),
    caches: bool = True,
    pip: Asking | None = None,
    sharing: bool = False,
    doubted: frozenset[str] = frozenset(),
) -> RunContext:
    """Return the context of a command, which reports to the terminal.

    Raises:
        UsageError: other users may write to the store. `sharing` skips this check, as its command can mend this.
    """
    from reprobuild.api.context import open_context

    steps = progress.Steps()
    return open_context(
        store, offline=offline, folder=folder, say=steps.say, progress=steps.progress, doubt=_print_key_note,
        caches=caches, pip=pip, sharing=sharing, doubted=doubted,
    )  # fmt: skip


def _print_key_note(store: Store) -> None:
    """Print once why results of a store do not count."""
    from reprobuild.store.sharing import key_note

    if line := key_note(store):
        print_note(line)


def start_pip_query() -> Asking:
    """Ask pip for its settings, in a process beside ours."""
    from reprobuild.ecosystems.pypi.pip_config import Asking

    return Asking(os.environ)


def find_active_python() -> tuple[str, dict[str, str]]:
    """Return the active environment's interpreter, and the environment variables.

    The variables are those that this process was given.
    """
    from reprobuild.capture import launch

    at_start = Path("/proc/self/environ")
    env = launch.drop_coerced_locale(os.environ, at_start.read_bytes() if at_start.exists() else b"")
    return launch.find_interpreter(env, sys.executable, print_note), env


def print_result(text: str, nl: bool = True) -> None:
    """Print a result for programs on standard output, as it is."""
    progress.stop()
    click.echo(break_commands(text), nl=nl)


def print_report(text: str) -> None:
    """Print a result for people on standard output."""
    progress.stop()
    console.print_report(text, sys.stdout)


def write_output(stream: int, data: bytes) -> None:
    """Write a container's output to our stream of that number.

    A terminal that is gone reads no more. SIGHUP informed the job, and it may still save its state.
    """
    progress.stop()
    target = sys.stdout.buffer if stream == 1 else sys.stderr.buffer
    try:
        target.write(data)
        target.flush()
    except OSError as err:
        if err.errno != errno.EIO or not stat.S_ISCHR(os.fstat(target.fileno()).st_mode):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), target.fileno())
