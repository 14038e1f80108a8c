"""The start-up hook in virtual environments made by `venv`."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Such an environment may be used without our directory: on a mount, in another image. It must not fail there.
LINE = (
    "import os, sys; p = {ours}; os.path.isdir(p + '/reprobuild_runtime') and "
    "(p in sys.path or sys.path.append(p), __import__('reprobuild_runtime.startup'))\n"
)
START = "reprobuild_hook:start\n"  # from Python 3.15 on; the function that it names must exist
MODULE = '''"""The seeding hook of reprobuild, where its folder is there."""

import os
import sys


def start():
    """Seed this interpreter."""
    p = {ours}
    if os.path.isdir(p + "/reprobuild_runtime"):
        p in sys.path or sys.path.append(p)
        from reprobuild_runtime import startup

        startup.start()
'''


def hook_into(venv: "Any") -> None:
    """Add the hook to each environment that `venv.EnvBuilder` makes.

    An unwritable one has no hook.
    """
    original = venv.EnvBuilder.create_configuration

    def create_configuration(self: "Any", context: "Any") -> "Any":
        result = original(self, context)
        _write(str(context.env_dir))
        return result

    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(create_configuration, name, getattr(original, name))
    venv.EnvBuilder.create_configuration = create_configuration


def _write(folder: str) -> None:
    directory = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
    site = os.path.join(folder, "lib", version, "site-packages")
    try:
        for name, text in (
            ("reprobuild.pth", LINE),
            ("reprobuild.start", START),
            ("reprobuild_hook.py", MODULE),
        ):
            with open(os.path.join(site, name), "w", encoding="ascii") as file:
                file.write(text.format(ours=ascii(directory)))
    except OSError as err:
        from reprobuild_runtime.settings import print_line

        print_line(f"reprobuild: the environment at {folder} has no seeding hook: {err}")
