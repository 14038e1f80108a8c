"""The runtime configuration of an image, computed from the lock.

It has variables, entrypoint, working directory and labels.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from reprobuild.lock.model import Lock
from reprobuild.lock.system import FILES, PREFIX, EnvVar

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


def image_config(lock: Lock) -> dict[str, Any]:
    """Return the `config` object of the OCI image configuration.

    https://github.com/opencontainers/image-spec/blob/main/config.md. Labels are functions of the lock.
    """
    variables = static_variables(lock)
    runtime = f"{FILES}/lib/reprobuild_runtime/entrypoint.py"
    return {
        "Env": [f"{name}={value}" for name, value in sorted(variables.items())],
        "Entrypoint": [lock.interpreter.executable, "-I", "-S", runtime],
        "Cmd": ["/bin/bash"],
        "WorkingDir": lock.workdir,
        "Labels": {
            "org.opencontainers.image.created": created(lock),
            "org.reprobuild.lock": f"sha256:{lock.digest}",
            "org.reprobuild.snapshot": f"sha256:{lock.snapshot}",
        },
    }


def created(lock: Lock) -> str:
    """Return the epoch of the lock in the form of RFC 3339."""
    return instant(lock.epoch)


def instant(epoch: int) -> str:
    """Return a time in the form of RFC 3339, in UTC.

    The time is in seconds since 1970.
    """
    return datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def sorted_settings(settings: Iterable[str]) -> list[str]:
    """Return the variables of an image configuration, sorted.

    If a name occurs twice, engines differ in the value they use, so such lists are sorted by name alone and keep their
    order.
    """
    pairs = sorted(settings)
    names = [pair.partition("=")[0] for pair in pairs]
    return pairs if len({*names}) == len(names) else sorted(settings, key=lambda pair: pair.partition("=")[0])


def environment_lines(config: Mapping[str, Any]) -> list[str]:
    """Return the lines of `%environment` for an image configuration.

    They are sh commands that set its variables.
    """
    pairs = (pair.partition("=") for pair in sorted_settings(config.get("Env") or ()))
    return [f"export {name}={shlex.quote(value)}" for name, _, value in pairs]


def runscript_lines(config: Mapping[str, Any]) -> list[str]:
    """Return the lines of `%runscript` for an image configuration.

    They do what `docker run` does: change the directory, and run the entrypoint with the given or the default command.
    """
    entrypoint = list(config.get("Entrypoint") or ())
    command = list(config.get("Cmd") or ([] if entrypoint else ["/bin/sh"]))
    lines = [f"cd {shlex.quote(config.get('WorkingDir') or '/')} || exit 1"]
    if command:
        lines.append(f"[ $# -gt 0 ] || set -- {shlex.join(command)}")
    return [*lines, " ".join(["exec", *map(shlex.quote, entrypoint), '"$@"'])]
