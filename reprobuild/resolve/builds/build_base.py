"""The base for compiling projects, which is never in the image."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from reprobuild.errors import LockError
from reprobuild.lock.python import Interpreter
from reprobuild.lock.system import Base
from reprobuild.resolve.base_and_python import BaseProvider, ResolveRequest
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.system.image import ImageBase, ImageDecision
from reprobuild.resolve.system.sonames import glibc_of


def choose_build_base(
    subject: ResolveRequest, system: BaseProvider, base: Base, interpreter: Interpreter, packages: Mapping[str, str],
    context: ResolveContext,
) -> Base | None:  # fmt: skip
    """Return the base for compiling; None if no project compiles.

    It has the image's own packages with compilers from the same archives, or is the image that `build_image` names,
    with the packages that it lacks.

    Args:
        subject: the input of the resolution.
        system: the source of the base.
        base: the image's own.
        interpreter: the image's; its headers are needed if it is the system's.
        packages: the packages for compiling, each with the asking project.
        context: the context of the resolution.

    Raises:
        LockError: a package is unavailable, or the image has a newer glibc than the base.
    """
    if not packages:
        return None
    context.say(f"system: compilers, for {'; '.join(dict.fromkeys(packages.values()))}")
    needs = dict(packages)
    if interpreter.kind == "system":
        python = interpreter.executable.rpartition("/")[2]
        needs |= dict.fromkeys((python, f"{python}-dev"), "what is compiled against Python")
    if subject.decisions.build_image is None:
        return system.pin(dict.fromkeys(base.installed, "the base") | needs)[0]
    decisions = replace(subject.decisions, base=subject.decisions.build_image)
    image = ImageDecision(platform=subject.platform, architecture=subject.architecture, roots=())
    # Captured packages matter only for the base.
    bare = replace(subject.snapshot, packages=())
    build_base = ImageBase(bare, image, subject.triage.settings, decisions, context).pin(needs)[0]
    check_glibc(build_base, base)
    return build_base


def check_glibc(build_base: Base, base: Base) -> None:
    """Check that files compiled in one base run on another.

    The other one lacks the symbols of a newer glibc.

    Raises:
        LockError: the first has a newer glibc, or the version of one is unknown.
    """
    build_glibc, base_glibc = (glibc_of(side.installed.get("libc6", "")) for side in (build_base, base))
    if build_glibc is None or base_glibc is None or build_glibc > base_glibc:
        versions = [
            f"{version[0]}.{version[1]}" if version else "none" for version in (build_glibc, base_glibc)
        ]
        raise LockError(
            f"the image to compile in has glibc {versions[0]}, and the base {versions[1]}: what is compiled there may "
            "not run here",
            hint="name an image of the same release as the base, or of an older one, with `--build-image`",
        )
