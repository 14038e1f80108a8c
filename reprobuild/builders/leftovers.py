"""Leftovers of other builders, and their removal from images.

The recipe does not ask for these entries, and this is the only module that removes them. Each line was
observed (`python -m proof leftovers` counts them), and gives its reason. An entry is removed only if it is
exactly as described; any other stays, and the tree digest shows it. The comparison of trees itself ignores no
entry.

| builder | what | why it is there |
|---|---|---|
| podman | `/etc/hostname`, an empty file with mode 0755 | buildah mounts a name of the build over it while RUN \
runs, and the mount point remains (buildah 1.28, https://github.com/containers/buildah) |
| apptainer | `/.singularity.d` and all in it; in `/` links to it | scripts, variables and labels, by which Apptainer \
runs an image; they repeat the configuration (`builders.apptainer` compares) |
| apptainer | `/etc/hosts`, `/etc/resolv.conf`, empty | mount points for the machine's own files, while `%post` \
runs and when the image runs |
| apptainer | labels `org.label-schema...` | time and version of the build |
| podman | label `io.buildah.version` | buildah names itself, whichever recipe it builds |
| docker | the field `ArgsEscaped` of the configuration | it states that CMD was given as words |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.image.oci.foreign import AGAIN
from reprobuild.infra.tar.entries import EntryType, TarEntry
from reprobuild.recipe.runtime_config import RuntimeConfig, read_runtime_config


class BuilderResidue(Struct, frozen=True, kw_only=True):
    """A path that a builder leaves; None matches any value.

    `below` includes everything below a directory.
    """

    builder: str
    path: str
    type: EntryType | None = None
    mode: int | None = None
    size: int | None = None
    target: str | None = None
    below: bool = False

    def describes(self, entry: TarEntry) -> bool:
        """Return whether an entry is this leftover."""
        if self.below and entry.path.startswith(f"{self.path}/"):
            return True
        stated = (self.path, self.type, self.mode, self.size, self.target)
        values = (entry.path, entry.type, entry.mode, entry.size, entry.target)
        return all(
            stated_value is None or stated_value == value
            for stated_value, value in zip(stated, values, strict=True)
        )


PATHS: tuple[BuilderResidue, ...] = (
    BuilderResidue(builder="podman", path="etc/hostname", type="file", mode=0o755, size=0),
    BuilderResidue(builder="apptainer", path=".singularity.d", type="directory", below=True),
    *(
        BuilderResidue(
            builder="apptainer", path=f".{name}", type="symlink", target=f".singularity.d/actions/{name}"
        )
        for name in ("exec", "run", "shell", "test")
    ),
    BuilderResidue(
        builder="apptainer", path="singularity", type="symlink", target=".singularity.d/runscript"
    ),
    BuilderResidue(
        builder="apptainer", path="environment", type="symlink", target=".singularity.d/env/90-environment.sh"
    ),
    BuilderResidue(builder="apptainer", path="etc/hosts", type="file", mode=0o644, size=0),
    BuilderResidue(builder="apptainer", path="etc/resolv.conf", type="file", mode=0o644, size=0),
)
# {builder: labels}
LABELS: Mapping[str, tuple[str, ...]] = {
    "podman": ("io.buildah.version",),
    "apptainer": tuple(
        f"org.label-schema.{name}"
        for name in (
            "build-arch", "build-date", "schema-version", "usage.apptainer.version",
            "usage.singularity.deffile.bootstrap",
        )
    ),
}  # fmt: skip

# These decide the command and its environment, and stay as they were built; see `RuntimeConfig.digest_part`.
RUNTIME = ("Cmd", "Entrypoint", "Env", "ExposedPorts", "StopSignal", "User", "Volumes", "WorkingDir")
# Docker's builders state in it that CMD was given as words, as the recipe also does
# (https://github.com/moby/docker-image-spec).
OF_THE_BUILD = ("ArgsEscaped",)


def is_left_over(entry: TarEntry, builder: str) -> bool:
    """Return whether a builder leaves this entry in every image."""
    return any(line.builder == builder and line.describes(entry) for line in PATHS)


def read_clean_config(config: Mapping[str, Any], builder: str) -> RuntimeConfig:
    """Return the runtime part of an image's `config` object.

    It has only the recipe's labels.

    Raises:
        BuildError: it holds another field with a value, so the image would run differently from the recipe.
    """
    strange = sorted(
        name for name in config if config[name] and name not in (*RUNTIME, *OF_THE_BUILD, "Labels")
    )
    if strange:
        raise BuildError(
            f"the image of {builder} has {', '.join(strange)} in its configuration, which the recipe does not set",
            hint=f"does {builder} add something to every image? See its own configuration",
        )
    try:
        runtime = read_runtime_config(config)
    except ValueError as err:
        raise BuildError(f"the image of {builder} has a damaged configuration: {err}", hint=AGAIN) from None
    foreign = LABELS.get(builder, ())
    labels = {name: value for name, value in runtime.labels.items() if name not in foreign}
    return msgspec.structs.replace(runtime, labels=labels)
