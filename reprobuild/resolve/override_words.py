"""The words of overrides, checked before any machine, engine or index is asked."""

from __future__ import annotations

import re

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.oci_registry.reference import is_image
from reprobuild.errors import UsageError

PYTHON = re.compile(r"3\.\d+(\.\d+)?t?")
RELEASE = re.compile(r"[a-z]+/[a-z]+")


def check_words(decisions: Decisions) -> None:
    """Check the forms of `python` and `base`.

    Raises:
        UsageError: one of them is not valid.
    """
    if decisions.python is not None and not PYTHON.fullmatch(decisions.python):
        raise UsageError(
            f"{decisions.python!r} is not a version of Python", hint="write it as 3.11 or 3.11.2"
        )
    base = decisions.base
    if base is not None and not is_image(base) and not RELEASE.fullmatch(base):
        raise UsageError(
            f"`base: {base}` is not a distribution and a release",
            hint="write it as debian/bookworm or ubuntu/jammy",
        )
