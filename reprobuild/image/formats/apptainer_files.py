"""Apptainer's own files in an image, and its mount points.

They are the minimum of /.singularity.d. https://apptainer.org/docs/user/latest/environment_and_metadata.html.
Observed with Apptainer 1.4.5: `99-base.sh` is the file into which `--env` and `APPTAINERENV_*` are inserted,
and which finds the libraries of `--nv`; without `startscript` there is no `instance start`, without `test` no
`test`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from reprobuild.errors import BuildError
from reprobuild.image.layering.merge import Tree
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.recipe.runtime_config import RuntimeConfig, environment_lines, runscript_lines

FOLDER = ".singularity.d"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ENVIRONMENT, BASE = f"{FOLDER}/env/90-environment.sh", f"{FOLDER}/env/99-base.sh"
RUN, START, TEST = (f"{FOLDER}/{name}" for name in ("runscript", "startscript", "test"))

_SHEBANG = "#!/bin/sh\n"
_LIBRARIES = f"""{_SHEBANG}# Libraries that --nv, --rocm and APPTAINER_CONTAINLIBS bring in are found.
for _reprobuild_library in /{FOLDER}/libs/*; do
    if [ -e "$_reprobuild_library" ]; then
        LD_LIBRARY_PATH="${{LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}}/{FOLDER}/libs"
        export LD_LIBRARY_PATH
        break
    fi
done
unset _reprobuild_library
"""
# The modes are those of a build with Apptainer 1.4.5.
_MOUNT_POINTS = {
    "dev": 0o755, "etc": 0o755, "home": 0o755, "proc": 0o755, "root": 0o700, "sys": 0o755, "tmp": 0o1777,
    "var": 0o755, "var/tmp": 0o1777,
}  # fmt: skip
_MOUNT_FILES = ("etc/hosts", "etc/resolv.conf")

Own = list[tuple[TarEntry, bytes]]


def apptainer_files(tree: Tree, config: RuntimeConfig, definition: str) -> Own:
    """Return the files that an image lacks for Apptainer.

    Args:
        tree: of the image.
        config: the runtime part of the image configuration.
        definition: the text of the definition file.

    Raises:
        BuildError: the image has a /.singularity.d, or a variable that no shell can set.
    """
    if FOLDER in tree:
        raise BuildError(
            f"the image has a /{FOLDER} of its own, which would be mixed with that of this SIF",
            hint=f"build it without /{FOLDER}: a SIF is made of an image that was none before",
        )
    check_names(config)
    files: Own = [
        (_directory_entry(path, mode), b"") for path, mode in _MOUNT_POINTS.items() if path not in tree
    ]
    files += [_file_entry(path, b"", 0o644) for path in _MOUNT_FILES if path not in tree]
    files += [(_directory_entry(path), b"") for path in (FOLDER, f"{FOLDER}/env", f"{FOLDER}/libs")]
    files += [
        _file_entry(path, text.encode("utf-8", "surrogateescape"), 0o755)
        for path, text in scripts(config).items()
    ]
    files.append(_file_entry(f"{FOLDER}/labels.json", encode(labels(config)), 0o644))
    files.append(_file_entry(f"{FOLDER}/Singularity", definition.encode(), 0o644))
    return files


def check_names(config: RuntimeConfig) -> None:
    """Refuse variables that no shell can set.

    Raises:
        BuildError: with the name of the first one.
    """
    for pair in config.env:
        name, _, value = pair.partition("=")
        if not NAME.fullmatch(name) or "\0" in value:
            raise BuildError(
                f"the image sets the variable {name!r}, which a shell cannot set",
                hint="a SIF and a .sqsh set variables by shell: take this one out of the image's configuration",
            )


def scripts(config: RuntimeConfig) -> dict[str, str]:
    """Return {path: text} of the scripts for Apptainer."""
    return {
        ENVIRONMENT: _script(environment_lines(config)),
        BASE: _LIBRARIES,
        RUN: _script(runscript_lines(config)),
        START: _SHEBANG,
        TEST: _script([f"exec /{RUN} true"]),
    }


def labels(config: RuntimeConfig) -> dict[str, str]:
    """Return the labels of an image configuration."""
    return {str(name): str(value) for name, value in sorted(config.labels.items())}


def inspect_metadata(config: RuntimeConfig, definition: str) -> bytes:
    """Return `inspect-metadata.json` for `apptainer inspect`.

    With it the command answers without starting a container.
    """
    text = scripts(config)
    attributes = {
        "deffile": definition.rstrip("\n"),
        "environment": {f"/{path}": text[path].rstrip("\n") for path in (ENVIRONMENT, BASE)},
        "labels": labels(config),
        "runscript": text[RUN].rstrip("\n"),
        "startscript": text[START].rstrip("\n"),
        "test": text[TEST].rstrip("\n"),
    }
    return encode({"data": {"attributes": attributes}, "type": "container"})


def oci_config(config: RuntimeConfig) -> bytes:
    """Return `oci-config.json` of an image.

    It has the part of the image configuration in the tree digest, and labels. With it a SIF holds everything
    in its image. https://github.com/opencontainers/image-spec/blob/main/config.md
    """
    variables = {"Env": config.settings} if config.env else {}
    return encode({**config.document(), **variables, "WorkingDir": config.directory})


def encode(value: Any) -> bytes:
    """Return JSON in canonical form.

    Bytes of a variable that are not UTF-8 are escaped.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def _script(lines: Sequence[str]) -> str:
    return _SHEBANG + "".join(f"{line}\n" for line in lines)


def _directory_entry(path: str, mode: int = 0o755) -> TarEntry:
    return TarEntry(path=path, type="directory", mode=mode)


def _file_entry(path: str, content: bytes, mode: int) -> tuple[TarEntry, bytes]:
    return TarEntry(path=path, type="file", mode=mode, size=len(content)), content
