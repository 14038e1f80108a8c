"""PATH without relative directories."""

from __future__ import annotations

import os
from typing import Dict, Mapping


def absolute_path(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return an environment with only absolute entries of PATH.

    So a program of the current directory is never run.
    """
    places = [place for place in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(place)]
    return {**environ, "PATH": os.pathsep.join(places) or os.defpath}
