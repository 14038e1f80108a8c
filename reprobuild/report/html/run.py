"""The section on running the image.

Its commands work unchanged in the directory of this page.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from msgspec import Struct

from reprobuild.image.model import Image
from reprobuild.lock.distributions import distributions
from reprobuild.lock.model import Lock
from reprobuild.report.html.components import Section
from reprobuild.verify.verdict import Verdict

SEED = 7
# The options that each engine needs so that a container gets the GPUs (docs/gpus.md).
_GPUS = {"docker": ("--gpus", "all"), "podman": ("--device", "nvidia.com/gpu=all"), "apptainer": ("--nv",)}


class CommandBlock(Struct, frozen=True, kw_only=True):
    """The commands of one engine, one a line."""

    title: str
    note: str
    commands: str


class CommandsView(Struct, frozen=True, kw_only=True):
    """The commands of each engine."""

    blocks: Sequence[CommandBlock]


def view_commands(lock: Lock, image: Image, verdict: Verdict) -> Section:
    """Return commands for each engine.

    They have this image's name and the captured job's own command.
    """
    with_gpu = verdict.determinism.gpu != "not-applicable"
    blocks = [
        CommandBlock(title=title, note=note, commands=commands)
        for title, note, commands in (
            ("reprobuild", "Whichever engine there is; the image is loaded into it where it is not there yet.",
             reprobuild_command(lock)),
            ("Docker", "From version 25 on, with containerd's image store; the command above does for all others.",
             docker_commands(lock, image, gpu=with_gpu)),
            ("podman", "The image is pulled from the layout in this directory.",
             podman_commands(lock, image, gpu=with_gpu)),
            ("Apptainer", _describe_sif(image), apptainer_commands(lock, image, gpu=with_gpu)),
        )
    ]  # fmt: skip
    lead = (
        "In the directory of this page. Every run logs its seed, and has no network. Dockerfile and Apptainer.def make "
        "the same tree without reprobuild; their first lines say how."
    )
    return Section(id="running", title="How to run it", lead=lead, view=CommandsView(blocks=blocks))


def reprobuild_command(lock: Lock) -> str:
    """Return the command of reprobuild itself."""
    return f"reprobuild run . --seed {SEED} -- {shlex.join(job_command(lock))}"


def docker_commands(lock: Lock, image: Image, *, gpu: bool = False) -> str:
    """Return commands that load and run the image with Docker."""
    words = ["docker", "run", "--rm", "--network", "none", *(_GPUS["docker"] if gpu else ())]
    words += ["--env", f"REPROBUILD_SEED={SEED}", image.reference, *job_command(lock)]
    return f"tar -C {shlex.quote(image.layout)} -cf - . | docker load\n{shlex.join(words)}"


def podman_commands(lock: Lock, image: Image, *, gpu: bool = False) -> str:
    """Return commands that load and run the image with podman.

    podman knows the image by its id until it has a name.
    """
    words = ["podman", "run", "--rm", "--network", "none", *(_GPUS["podman"] if gpu else ())]
    words += ["--env", f"REPROBUILD_SEED={SEED}", image.reference, *job_command(lock)]
    pull = f'podman tag "$(podman pull --quiet {shlex.quote("oci:" + image.layout)})"'
    return f"{pull} {shlex.quote(image.reference)}\n{shlex.join(words)}"


def apptainer_commands(lock: Lock, image: Image, *, gpu: bool = False) -> str:
    """Return commands that run the image with Apptainer.

    They use the SIF if there is one.
    """
    words = ["apptainer", "run", "--containall", "--net", "--network", "none"]
    words += [
        *(_GPUS["apptainer"] if gpu else ()),
        "--env",
        f"REPROBUILD_SEED={SEED}",
        "image.sif",
        *job_command(lock),
    ]
    make = "" if image.sif else "reprobuild build reprobuild.lock -o . --format sif\n"
    return make + shlex.join(words)


def job_command(lock: Lock) -> tuple[str, ...]:
    """Return the captured job's own command, or an example.

    The example shows the image's contents.
    """
    if lock.workload:
        return tuple(word.replace("{out}", "/tmp") for word in lock.workload.command)
    torch = "torch" in distributions(lock)
    return ("python", "-c", "import torch; print(torch.rand(3))") if torch else ("python", "--version")


def _describe_sif(image: Image) -> str:
    if image.sif:
        return "The SIF in this directory is the same image."
    return "Apptainer runs a SIF, which is made of the same lock first; mksquashfs is needed."
