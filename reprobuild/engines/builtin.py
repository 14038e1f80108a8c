"""The built-in engine: containers from the layers of an image, without a daemon and without another program's store.

It needs user namespaces and overlayfs of Linux 5.11 or newer, for root and for any user alike. A container gets its own
namespaces, no new privileges, the capabilities of other engines at most, and the system calls of the sandbox. Where
the kernel refuses an overlay, a container gets a copy of the image's tree.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from reprobuild import __version__
from reprobuild.engines.builtin_discarded import describe_discarded_files
from reprobuild.engines.builtin_images import UnpackedImages
from reprobuild.engines.builtin_job import container_hostname, make_job
from reprobuild.engines.builtin_unpack import has_whiteouts
from reprobuild.engines.gpu import gpu_error
from reprobuild.engines.image_records import check_digests
from reprobuild.engines.limits import REFUSED
from reprobuild.engines.model import Finished, Sink, Streams, Task
from reprobuild.engines.output_files import keep_directory, read_directory
from reprobuild.errors import EngineError
from reprobuild.image.model import ImageDigests
from reprobuild.image.oci.read import read_layout
from reprobuild.infra.proc import interact, stream
from reprobuild.infra.proc import run as run_program
from reprobuild.infra.proc.errors import ProcessTimeoutError
from reprobuild.infra.proc.own_python import own_sealed_module
from reprobuild.infra.proc.signals import SignalForwarding
from reprobuild.infra.progress import Progress, ignore_progress
from reprobuild.infra.sandbox import namespaces
from reprobuild.infra.sandbox.namespaces import can_mount_overlay, can_mount_proc, check_namespaces
from reprobuild.infra.untrusted.regular_files import read_plain

NAME = "builtin"
_HINT = "choose another engine with --engine, or ask `reprobuild doctor`"
PIECE = 100_000  # characters
LARGEST_REPORT = 1 << 14
LIMITS_HINT = "this machine may not raise limits that far: ask for less with --ulimit, or leave it out"


def version(env: Mapping[str, str]) -> str | None:
    """Return reprobuild's version, or None if this machine cannot run the engine."""
    return None if find_obstacle() else __version__


def find_obstacle() -> str:
    """Return the reason why this machine cannot run the engine, or ""."""
    if sys.platform != "linux":
        return "it needs Linux"
    try:
        check_namespaces()
    except EngineError as err:
        return str(err)
    return "" if can_mount_proc() else "a part of this machine's /proc is covered, as in most containers"


def load(
    layout: Path, reference: str, digests: ImageDigests, env: Mapping[str, str], progress: Progress = ignore_progress
) -> bool:  # fmt: skip
    """Unpack the layers of an OCI layout that the cache lacks."""
    images, image = UnpackedImages.open_user_cache(env), read_layout(layout)
    check_digests(image, digests)
    return images.add(image, reference, progress)


def run(reference: str, task: Task, env: Mapping[str, str]) -> Finished:
    """Run a container to its end, and remove it."""
    streams = Streams()
    with _scratch_directory(env) as scratch:
        code = _follow(reference, task, env, scratch, streams.take)
        outputs = _collect_outputs(scratch / "outputs", task.kept) if task.outputs else {}
    return Finished(code=code, stdout=streams.read(1), stderr=streams.read(2), outputs=outputs)


def attach(reference: str, task: Task, env: Mapping[str, str], sink: Sink) -> int:
    """Run a container, and pass on its output.

    The output goes to `sink` as it arrives, and at the end a line on files that end with the container. The container
    is removed afterwards.
    """
    with _scratch_directory(env) as scratch:
        code = _follow(reference, task, env, scratch, sink, SignalForwarding())
        with contextlib.suppress(Exception):  # the command's result is the one to report
            if message := describe_discarded_files(scratch / "upper"):
                sink(2, message.encode())
        return code


@contextlib.contextmanager
def _scratch_directory(env: Mapping[str, str]) -> Iterator[Path]:
    """Yield a directory for a container's files, and remove it; those of killed processes are removed, too."""
    with UnpackedImages.open_user_cache(env).container() as scratch:
        for name in ("root", "outputs"):
            (scratch / name).mkdir()
        (scratch / "outputs").chmod(0o777)
        yield scratch


def _follow(
    reference: str, task: Task, env: Mapping[str, str], scratch: Path, sink: Sink,
    handing: SignalForwarding | None = None,
) -> int:  # fmt: skip
    images = UnpackedImages.open_user_cache(env)
    image = images.find(reference)
    write_name_files(scratch, task)
    (scratch / "config.json").write_text(
        json.dumps({"ociVersion": "1.0.2", "root": {"path": str(scratch / "root")}})
    )
    layers = images.directories(image)
    job = make_job(image, layers, task, scratch, env)
    if not can_mount_overlay():
        _copy_tree(layers, scratch / "root")
        job |= {"layers": []}
    argv = own_sealed_module("reprobuild.infra.sandbox.container")
    variables = {"PATH": namespaces.PATH, "LC_ALL": "C.UTF-8", **_in_pieces(json.dumps(job))}
    purpose = "run a container"
    try:
        if task.stdin and handing:
            code = interact(
                argv, sink=sink, env=variables, purpose=purpose, terminal=task.terminal, handing=handing
            )
        else:
            code = stream(
                argv, sink=sink, env=variables, purpose=purpose, timeout=task.timeout, handing=handing,
                watch=task.check,
            )  # fmt: skip
    except ProcessTimeoutError:
        raise EngineError(
            f"a container did not end within {task.timeout} s: {' '.join(task.arguments)}",
            hint="is the command waiting for input or for the network? There is none in a check",
        ) from None
    _check_report(scratch / "report")
    return code if code >= 0 else 128 - code


def _in_pieces(text: str) -> dict[str, str]:
    """Return variables that hold a text; the kernel bounds each at 128 KiB (execve(2))."""
    pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
    return {"JOB": str(len(pieces)), **{f"JOB_{number}": piece for number, piece in enumerate(pieces)}}


def write_name_files(scratch: Path, task: Task) -> None:
    """Write the files in /etc that name hosts: for this container, or those of the machine with its network."""
    if task.network != "none":
        for name in ("hosts", "resolv.conf"):
            with contextlib.suppress(OSError):
                shutil.copyfile(f"/etc/{name}", scratch / name)
        (scratch / "hostname").write_text(f"{os.uname().nodename}\n")
        return
    name = container_hostname(scratch)
    (scratch / "hostname").write_text(f"{name}\n")
    (scratch / "hosts").write_text(
        f"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.0.1\t{name}\n"
    )


def _copy_tree(layers: Sequence[Path], root: Path) -> None:
    """Copy the tree of an image, for one container.

    Raises:
        EngineError: a layer deletes files of a lower one, which only an overlay shows.
    """
    for layer in layers:
        if has_whiteouts(layer):
            raise EngineError(
                "this machine mounts no overlay, and a layer of the image deletes files of a lower one",
                hint=_HINT,
            )
        run_program(
            [
                "cp", "--archive", "--remove-destination", "--reflink=auto", "--no-target-directory", str(layer),
                str(root),
            ],
            env={"PATH": namespaces.PATH, "LC_ALL": "C"}, purpose="copy the tree of the image",
        )  # fmt: skip
    root.chmod(0o755)


def _check_report(path: Path) -> None:
    """Raise the error of a launcher that could not start the command.

    Raises:
        EngineError: there is one.
    """
    complaint = read_plain(path, LARGEST_REPORT).decode(errors="replace").strip()
    if complaint:
        hint = LIMITS_HINT if REFUSED in complaint else _HINT
        raise gpu_error(f"the built-in engine cannot run a container: {complaint}", complaint, hint=hint)


def _collect_outputs(folder: Path, destination: Path | None = None) -> dict[str, bytes]:
    """Return or keep the container's output files.

    The result is {relative path: content}. With `destination` the files are moved there, and the result is empty. No
    link is followed.
    """
    if destination:
        keep_directory(folder, destination)
        return {}
    return read_directory(folder)
