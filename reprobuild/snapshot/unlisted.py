"""Distributions that `pip freeze` leaves out.

They are pip, and before Python 3.12 setuptools and wheel.

`reprobuild capture` writes all distributions into the `distributions` part of `capture.json`, with their directory and
their installer. Jobs import setuptools (`pkg_resources`, `torch.utils.cpp_extension`), so the image needs them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import PurePosixPath

from packaging.utils import canonicalize_name

from reprobuild.infra.untrusted.strings import ProjectName, is_valid
from reprobuild.snapshot.capture_document import CaptureDocument, InstalledDistribution
from reprobuild.snapshot.model import Requirement
from reprobuild.snapshot.parsers import pip_freeze

# https://pip.pypa.io/en/stable/cli/pip_freeze/#cmdoption-all
NAMES = frozenset({"pip", "setuptools", "wheel"})
# conda has records of its own packages, and Debian's belong to the base.
_OTHERS = frozenset({"", "conda", "debian", "rpm"})
# pip never lists them (pip, commands/freeze.py). This is about `find_unfrozen`; lines of a freeze are not filtered.
_NEVER = frozenset({"python", "wsgiref", "argparse", "distribute"})


def list_unlisted(
    document: CaptureDocument, freeze_names: Collection[str] = (), file: str = "capture.json"
) -> tuple[Requirement, ...]:
    """Return the lines that `pip freeze --all` adds to `pip freeze`.

    They are in the file's order.

    Args:
        document: the capture.
        freeze_names: names of the freeze.
        file: the name of the document in messages.
    """
    requirements: dict[str, Requirement] = {}
    for name, distribution in _environment_distributions(document):
        if name in NAMES and name not in _canonical_names(freeze_names):
            lines, _ = pip_freeze.parse(f"{name}=={distribution.version}\n".encode(), file)
            if len(lines) == 1 and lines[0].kind == "index":  # a version is hostile input, too
                requirements[name] = lines[0]
    return tuple(requirements.values())


def find_unfrozen(document: CaptureDocument, freeze_names: Collection[str] = ()) -> tuple[str, ...]:
    """Return the names of the distributions that the freeze of the same environment does not list, sorted."""
    known = _canonical_names(freeze_names) | NAMES | _NEVER
    names = {name for name, _ in _environment_distributions(document)} - known
    return tuple(sorted(name for name in names if is_valid(name, ProjectName)))


def _canonical_names(names: Collection[str]) -> set[str]:
    return {str(canonicalize_name(name)) for name in names}


def _environment_distributions(document: CaptureDocument) -> Iterator[tuple[str, InstalledDistribution]]:
    """Yield the distributions that a Python installer put into the environment, by canonical name."""
    if document.distributions is None or document.python is None:
        return
    prefix = PurePosixPath(document.python.prefix)
    for distribution in document.distributions.found:
        if (
            PurePosixPath(distribution.location).is_relative_to(prefix)
            and distribution.installer not in _OTHERS
        ):
            yield str(canonicalize_name(distribution.name)), distribution
