"""The runtime configuration of an image, computed from the lock.

It has variables, entrypoint, working directory and labels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime, timezone

from reprobuild.lock.model import Lock
from reprobuild.lock.system import FILES, PREFIX, EnvVar
from reprobuild.recipe.runtime_config import RuntimeConfig

PROFILE = "REPROBUILD_PROFILE"  # the entrypoint and the start-up hook put it in force for a chosen seed
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Control characters, and marks that make a line read as another one: https://www.unicode.org/reports/tr9/#Bidi_Control.
UNREADABLE = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
DEFAULTS = {"PATH": f"{PREFIX}/bin:{SYSTEM_PATH}", "LANG": "C.UTF-8"}


def split_environment(settings: Iterable[EnvVar]) -> tuple[dict[str, str], dict[str, str]]:
    """Split variables between the configuration and `environ.json`.

    Each part is sorted by name.

    A Dockerfile cannot contain a control character, and a bidirectional mark would make a person read another value. So
    values with one are stored in a file that the entrypoint and the start-up hook apply; every builder does the same,
    so that the images are the same.
    """
    static: dict[str, str] = {}
    special: dict[str, str] = {}
    for setting in sorted(settings, key=lambda setting: setting.name):
        (special if UNREADABLE.search(setting.value) else static)[setting.name] = setting.value
    return static, special


def environ_file(lock: Lock) -> dict[str, bytes]:
    """Return {path: content} of `environ.json`.

    It is empty if every variable is in the configuration.
    """
    _, special = split_environment(lock.environment)
    if not special:
        return {}
    content = json.dumps(special, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"
    return {f"{FILES[1:]}/environ.json": content}


def static_variables(lock: Lock) -> dict[str, str]:
    """Return the variables of the image's configuration.

    Ours override those of the base's image, and these the defaults.

    The environment's own programs come first in PATH, also before an image's. The profile is that of the lock, even if
    a base made by reprobuild has another.
    """
    image = lock.base.image.environment if lock.base.image else ()
    below = {setting.name: setting.value for setting in image}
    if "PATH" in below:
        below["PATH"] = f"{PREFIX}/bin:{below['PATH']}"
    return {**DEFAULTS, **below, PROFILE: lock.profile, **split_environment(lock.environment)[0]}


def image_config(lock: Lock) -> RuntimeConfig:
    """Return the runtime configuration of a lock's image.

    Labels are functions of the lock.
    """
    runtime = f"{FILES}/lib/reprobuild_runtime/entrypoint.py"
    return RuntimeConfig(
        env=tuple(f"{name}={value}" for name, value in sorted(static_variables(lock).items())),
        entrypoint=(lock.interpreter.executable, "-I", "-S", runtime),
        cmd=("/bin/bash",),
        working_dir=lock.workdir,
        labels={
            "org.opencontainers.image.created": creation_time(lock),
            "org.reprobuild.lock": f"sha256:{lock.digest}",
            "org.reprobuild.snapshot": f"sha256:{lock.snapshot}",
        },
    )


def creation_time(lock: Lock) -> str:
    """Return the epoch of the lock in the form of RFC 3339."""
    return format_time(lock.epoch)


def format_time(epoch: int) -> str:
    """Return a time in the form of RFC 3339, in UTC.

    The time is in seconds since 1970.
    """
    return datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
