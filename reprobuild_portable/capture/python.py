"""The interpreter that runs this program."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig

from reprobuild_portable.capture.files import _path
from reprobuild_portable.capture.model import Context, Taken


def take_python(context: Context) -> Taken:
    """Capture facts about the running interpreter."""
    libc = " ".join(part for part in platform.libc_ver() if part)
    return Taken(
        {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "build": list(platform.python_build()),
            "compiler": platform.python_compiler(),
            "executable": _path(sys.executable or ""),
            "real_executable": _path(os.path.realpath(sys.executable or "")),
            "prefix": _path(sys.prefix),
            "base_prefix": _path(sys.base_prefix),
            "soabi": sysconfig.get_config_var("SOABI"),
            "abiflags": getattr(sys, "abiflags", ""),
            "platform": sysconfig.get_platform(),
            "libc": libc,
            "path": [_path(place) for place in sys.path],
            "flags": {
                name: getattr(sys.flags, name)
                for name in ("optimize", "no_site", "isolated", "hash_randomization")
            },
            "externally_managed": os.path.exists(
                os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
            ),
        }
    )
