"""Files of enroot in an image.

They are /etc/rc, /etc/environment and /etc/fstab:
https://github.com/NVIDIA/enroot/blob/main/doc/image-format.md. They replace those of the image, as `enroot
import` does. enroot reads all three when a container starts.
"""

from __future__ import annotations

import re
import shlex

from reprobuild.image.formats.apptainer_files import Own, check_names
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.recipe.runtime_config import RuntimeConfig, runscript_lines

# Variables that enroot changes: it replaces `${NAME}` by the host's value, removes a pair of quotes, reads
# line by line, and keeps ENROOT_* for itself.
_CHANGED = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}|^[\"'].*[\"']\s*$|[\n\r]", re.DOTALL)


def enroot_files(config: RuntimeConfig) -> Own:
    """Return the three files for an image configuration.

    A variable that /etc/environment cannot hold is set by /etc/rc, the starter of the entrypoint.

    Raises:
        BuildError: a variable cannot be set by a shell.
    """
    check_names(config)
    plain: list[tuple[str, str]] = []
    changed: list[tuple[str, str]] = []
    for pair in config.settings:
        name, _, value = pair.partition("=")
        (changed if _CHANGED.search(value) or name.startswith("ENROOT_") else plain).append((name, value))
    exports = [f"export {name}={shlex.quote(value)}" for name, value in changed]
    rc = [*exports, *runscript_lines(config)]
    texts = {
        "etc/environment": "".join(f"{name}={value}\n" for name, value in plain),
        "etc/fstab": "",
        "etc/rc": "".join(f"{line}\n" for line in rc),
    }
    files: Own = []
    for path, text in texts.items():
        content = text.encode("utf-8", "surrogateescape")
        files.append((TarEntry(path=path, type="file", mode=0o644, size=len(content)), content))
    return files
