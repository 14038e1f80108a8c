"""What other builders leave in an image although no recipe asked for it: the one place where it is removed.

Each line was seen (`python -m proof leftovers` counts them), and says why it is there. An entry is removed only where
it is exactly as described; one that is not stays, and the tree digest tells. The comparison of trees itself overlooks
nothing.

| builder | what | why it is there |
|---|---|---|
| podman | `/etc/hostname`, an empty file with mode 0755 | buildah mounts a name of the build over it while RUN \
runs, and the place that it made for the mount stays (buildah 1.28, https://github.com/containers/buildah) |
| apptainer | `/.singularity.d` and all in it; in `/` links to it | scripts, variables and labels, by which Apptainer \
runs an image; they say what the configuration says (`builders.apptainer` compares) |
| apptainer | `/etc/hosts`, `/etc/resolv.conf`, empty | places for the machine's own, which are mounted while `%post` \
runs and when the image runs |
| apptainer | labels `org.label-schema...` | when and by which version it was built |
| podman | label `io.buildah.version` | buildah names itself, whichever recipe it builds |
| docker | the field `ArgsEscaped` of the configuration | it says that CMD was given as words |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.infra.tar.entries import EntryType, TarEntry
from reprobuild.recipe.image_config import sorted_settings


class BuilderResidue(Struct, frozen=True, kw_only=True):
    """One path that a builder leaves; `below` takes all below a directory with it. None: whatever it is."""

    builder: str
    path: str
    type: EntryType | None = None
    mode: int | None = None
    size: int | None = None
    target: str | None = None
    below: bool = False

    def describes(self, entry: TarEntry) -> bool:
        """Tell whether an entry is this leftover."""
        if self.below and entry.path.startswith(f"{self.path}/"):
            return True
        stated = (self.path, self.type, self.mode, self.size, self.target)
        found = (entry.path, entry.type, entry.mode, entry.size, entry.target)
        return all(one is None or one == other for one, other in zip(stated, found, strict=True))


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

# What decides what runs and how, and is kept as it was built; see `tree.runtime_part`.
RUNTIME = ("Cmd", "Entrypoint", "Env", "ExposedPorts", "StopSignal", "User", "Volumes", "WorkingDir")
# Docker's builders say in it that CMD was given as words, which the recipe says, too
# (https://github.com/moby/docker-image-spec).
OF_THE_BUILD = ("ArgsEscaped",)


def is_left_over(entry: TarEntry, builder: str) -> bool:
    """Tell whether a builder leaves this entry in every image."""
    return any(line.builder == builder and line.describes(entry) for line in PATHS)


def cleaned_config(config: Mapping[str, Any], builder: str) -> dict[str, Any]:
    """Return the `config` object of an image in our own form: what runs and how, and the recipe's labels.

    Raises:
        BuildError: it holds another field with a value, so that it would run differently from what is said.
    """
    kept = {name: config[name] for name in RUNTIME if config.get(name)}
    if "Env" in kept:
        kept["Env"] = sorted_settings(kept["Env"])
    strange = sorted(
        name for name in config if config[name] and name not in (*RUNTIME, *OF_THE_BUILD, "Labels")
    )
    if strange:
        raise BuildError(
            f"the image of {builder} has {', '.join(strange)} in its configuration, which the recipe does not set",
            hint=f"does {builder} add something to every image? See its own configuration",
        )
    foreign = LABELS.get(builder, ())
    labels = {name: value for name, value in (config.get("Labels") or {}).items() if name not in foreign}
    return {**kept, "Labels": labels}
