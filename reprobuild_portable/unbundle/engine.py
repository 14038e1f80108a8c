"""Import of a bundle's image into an engine."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from typing import Sequence

from reprobuild_portable.search_path import absolute_path, find_program
from reprobuild_portable.unbundle.format import RefusedError


def load(out: str, engine: str, reference: str, compared: bool) -> None:
    """Load the image into an engine.

    The README of the bundle describes the same steps.

    Args:
        out: the directory of the bundle.
        engine: docker, podman or apptainer.
        reference: the name of the image.
        compared: the bundle has an `image.sif`, and its bytes were compared; else Apptainer makes it of the
            layers.

    Raises:
        RefusedError: the engine is absent, or failed.
    """
    image = os.path.join(os.path.abspath(out), "image")
    if engine == "docker":
        _engine(["docker", "load", "--quiet"], out, image)
    elif engine == "podman":  # it takes the path of a layout for the name of the image
        name = "reprobuild-%d-%d" % (os.getpid(), time.time_ns())
        with tempfile.TemporaryDirectory(prefix="reprobuild-") as folder:
            os.symlink(image, os.path.join(folder, name))
            _engine(["podman", "load", "--quiet", "--input", name], folder)
        try:
            _engine(["podman", "tag", "localhost/%s" % name, reference], out)
        finally:
            _engine(["podman", "rmi", "localhost/%s" % name], out)
    elif not compared:  # an existing file may be from others
        name = ".image.%s.sif" % os.urandom(8).hex()
        try:
            _engine(["apptainer", "build", name, "oci:image"], out)
            os.replace(os.path.join(out, name), os.path.join(out, "image.sif"))
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(out, name))


def _engine(argv: Sequence[str], folder: str, layout: str = "") -> None:
    """Run a command in a directory.

    If a layout is given, a tar of it is the standard input.
    """
    stdin = subprocess.PIPE if layout else subprocess.DEVNULL
    env = absolute_path(os.environ)
    program = [find_program(argv[0], env) or "/" + argv[0], *argv[1:]]
    try:
        with subprocess.Popen(program, cwd=folder, stdin=stdin, stdout=sys.stderr, env=env) as process:
            if process.stdin:
                # If it reads no more, it prints the reason itself.
                quiet = contextlib.suppress(BrokenPipeError)
                with quiet, process.stdin as stream, tarfile.open(fileobj=stream, mode="w|") as tar:
                    tar.add(layout, arcname=".")
    except OSError as err:
        raise RefusedError(
            "%s cannot be run: %s" % (argv[0], err.strerror), "choose another with --load"
        ) from None
    if process.returncode:
        raise RefusedError("`%s` exited %d" % (" ".join(argv), process.returncode), "see what it says above")
