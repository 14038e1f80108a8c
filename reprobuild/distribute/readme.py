"""The README of a bundle, with commands for its recipient."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator

from reprobuild.image.model import Image
from reprobuild.lock.model import Lock

_HEAD = """\
# {reference}

A frozen environment, with what is needed to check it, run it and, where the inputs came along, make it again. Nothing
here needs a network. Every command is typed in this directory.

    lock      sha256:{lock}
    tree      {tree}
    config    {config}
    manifest  {manifest}
    platform  {platform}

## Run

With Docker:

    tar -C image -c . | docker load
    docker run --rm --network none {name} python -V

With podman:

    podman run --rm --network none oci:image python -V

With Apptainer (`image.sif` runs at once; without it the image is converted first, which takes minutes):

    apptainer run --containall {apptainer} python -V

Each run logs the seed that it uses; `-e REPROBUILD_SEED=N`, and `--env REPROBUILD_SEED=N` of Apptainer, choose one.

## Check

`python3 unbundle.py FILE --check` compares every byte of the bundle with `bundle.json`. `sha256sum` tells by hand
whether a file below `image/blobs/sha256` is what its name says.
"""
_CERTIFICATE = """
`verdict.json` is the verdict, with the digests of the results where this was made. With reprobuild,
`reprobuild verify . --against verdict.json` computes them again here, and compares.

`report.html` shows it to people. `unbundle.py` leaves it as it was sent, and a browser does whatever stands in a page:
open it if you trust the sender, or have it written anew, by `reprobuild unbundle` or `reprobuild verify .`.
"""
_NO_CERTIFICATE = """
There is no certificate: nobody checked the image before it was bundled. With reprobuild, `reprobuild verify .` does.
"""
_REBUILD = """
## Make it again

Every input is in `store/`, by its sha256. Where `unbundle.py` unpacked this, with reprobuild:

    reprobuild build reprobuild.lock -o again --store store --offline

It ends with the digests above. (`reprobuild unbundle` moves the inputs into your store; then leave `--store` out.)
"""
_NO_REBUILD = """
## Make it again

Of the inputs only the sources are here; `reprobuild.lock` names all others with address, size and sha256, and
`reprobuild build reprobuild.lock -o again` fetches them.
"""
_CONTEXT = """
Without reprobuild, with Docker 23 or newer or podman:

    docker build --network=none --file Dockerfile --tag again context
"""
_PROGRAM = """
## reprobuild itself

`reprobuild/` has it with all that it needs, as wheels for the Python and the machine that this was made with:

    python3 -m venv tools
    tools/bin/pip install --no-index --find-links reprobuild reprobuild
"""


def render_readme(lock: Lock, image: Image, parts: Collection[str], *, certified: bool) -> str:
    """Return the text, determined by its arguments.

    Args:
        lock, image: those of the bundle.
        parts: of `bundle_contents.Part`, those in the bundle.
        certified: whether a verdict file is included.
    """
    head = _HEAD.format(
        reference=image.reference, lock=lock.digest, tree=image.tree, config=image.config, manifest=image.manifest,
        platform=lock.platform, name=shlex.quote(image.reference),
        apptainer="image.sif" if "sif" in parts else "oci:image",
    )  # fmt: skip
    return head + "".join(_readme_sections(parts, certified))


def _readme_sections(parts: Collection[str], certified: bool) -> Iterator[str]:
    yield _CERTIFICATE if certified else _NO_CERTIFICATE
    yield _REBUILD if {"wheels", "debs"} <= set(parts) else _NO_REBUILD
    if "context" in parts:
        yield _CONTEXT
    if "reprobuild" in parts:
        yield _PROGRAM
