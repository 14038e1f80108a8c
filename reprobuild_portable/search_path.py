"""PATH without relative directories."""

from __future__ import annotations

import os
import shutil
from typing import Dict, Mapping, Optional


def absolute_path(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return an environment with only absolute entries of PATH.

    So a program of the current directory is never run.
    """
    places = [place for place in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(place)]
    return {**environ, "PATH": os.pathsep.join(places) or os.defpath}


def find_program(name: str, environ: Mapping[str, str]) -> Optional[str]:
    """Return the file of a program in the absolute entries of PATH, or None."""
    path = shutil.which(name, path=absolute_path(environ)["PATH"])
    return path if path and os.path.isabs(path) else None  # Windows searches the current directory, too
