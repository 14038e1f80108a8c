"""The start-up hook in virtual environments that a program makes with Python's own `venv`."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LINE = "import reprobuild_runtime.startup\n"
START = "reprobuild_runtime.startup:start\n"


def hook_into(venv: "Any") -> None:
    """Let each environment that `venv.EnvBuilder` makes have the hook; one that cannot be written to goes without."""
    original = venv.EnvBuilder.create_configuration

    def create_configuration(self: "Any", context: "Any") -> "Any":
        made = original(self, context)
        _write(str(context.env_dir))
        return made

    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(create_configuration, name, getattr(original, name))
    venv.EnvBuilder.create_configuration = create_configuration


def _write(folder: str) -> None:
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
    site = os.path.join(folder, "lib", version, "site-packages")
    try:
        for ending, text in ((".pth", f"{ours}\n{LINE}"), (".start", START)):
            with open(os.path.join(site, "reprobuild" + ending), "w", encoding="utf-8") as file:
                file.write(text)
    except OSError as err:
        from reprobuild_runtime.launch import say

        say(f"reprobuild: the environment at {folder} has no seeding hook: {err}")
