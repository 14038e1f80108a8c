"""The contents of a bundle.

They are the files of an output directory, the inputs of its lock, and texts for people.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from reprobuild.distribute.attachments import OwnVerdict
from reprobuild.distribute.choices import list_choices
from reprobuild.distribute.context_files import context_files
from reprobuild.distribute.provenance import FILE as PROVENANCE
from reprobuild.distribute.provenance import provenance
from reprobuild.distribute.readme import render_readme
from reprobuild.distribute.sbom import FILE as SBOM
from reprobuild.distribute.sbom import cyclonedx
from reprobuild.distribute.secret_files import refuse_secret_files
from reprobuild.errors import BuildError, DistributionError, UsageError
from reprobuild.image.choices.record import CHOICES
from reprobuild.image.engine_name import encode_named_index, own_name
from reprobuild.image.formats.single_file import is_single_of_here, single_file_name
from reprobuild.image.model import LAYOUT, Image
from reprobuild.image.oci.layer_sizes import read_layer_sizes
from reprobuild.image.oci.read import Layout, read_layout
from reprobuild.infra.shell_words import quote_path
from reprobuild.infra.untrusted.regular_files import has_content, read_plain
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.lock.sealed import require_sealed
from reprobuild.lock.system import Artefact, Base
from reprobuild.output.directory import IMAGE, LOCK, REPORT, VERDICT
from reprobuild.recipe.render import render_recipe
from reprobuild.report.html.build import BuildFacts
from reprobuild.report.html.page import render_html
from reprobuild.store.salvage import take_runtime
from reprobuild.store.store import Store
from reprobuild.verify.verdict import Verdict
from reprobuild_portable import secrets

Part = Literal["wheels", "debs", "context", "choices", "sif", "reprobuild"]
PARTS: tuple[Part, ...] = get_args(Part)
LISTED = tuple(part for part in PARTS if part != "sif")  # those that `all` means
PROGRAM = "unbundle.py"
_RECIPE = ("Dockerfile", "Apptainer.def", "pylock.toml")
# A recipe with thousands of packages has 2 MB. Archives are compressed, or were searched when they were made.
_LARGEST_TEXT, _ARCHIVES = 16 << 20, (".whl", ".tar", ".tar.zst")
# Layers and inputs were searched on arrival, and the lock when it was made: its digest fixes it.
_LOOKED_INTO = (f"{LAYOUT}/blobs/", "store/blobs/", "sources/")
_AGAIN = "build it again with `reprobuild build OUT/reprobuild.lock -o OUT`"


class BundleFile(Struct, frozen=True, kw_only=True):
    """A file of a bundle: its path and content.

    `content` is its bytes or their path. `sha256` is empty if it is not known yet; otherwise the bytes are
    checked against it.
    """

    path: str
    content: bytes | Path
    sha256: str = ""


def read_unbundle_program() -> bytes:
    """Return the program that unpacks bundles with only Python."""
    return files("reprobuild.distribute.standalone").joinpath(PROGRAM).read_bytes()


def parse_parts(text: str) -> frozenset[Part]:
    """Return the parts in a comma-separated list.

    `all` means all parts except the SIF.

    Raises:
        UsageError: a part is unknown.
    """
    parts: set[Part] = set()
    for word in filter(None, text.split(",")):
        named = LISTED if word == "all" else [part for part in PARTS if part == word]
        if not named:
            raise UsageError(
                f"--include {text}: {word!r} is no part of a bundle",
                hint=f"there are: {', '.join(PARTS)}, all",
            )
        parts |= set(named)
    return frozenset(parts)


def python_inputs(lock: Lock) -> list[Artefact]:
    """Return the Python inputs of a lock.

    They are interpreter, wheels, source distributions and conda packages.
    """
    files = (
        [wheel.file for wheel in lock.wheels]
        + [sdist.file for sdist in lock.sdists]
        + [package.file for package in lock.conda]
    )
    return ([lock.interpreter.file] if lock.interpreter.file else []) + files


def system_inputs(lock: Lock) -> list[Artefact]:
    """Return the system inputs of a lock.

    They are packages, and layers of an image below them.
    """
    inputs: list[Artefact] = []
    for base in (lock.base, lock.build_base):
        inputs += _system_files(base) if base else []
    return inputs


def _system_files(base: Base) -> list[Artefact]:
    layers = [base.image.config, *(layer.file for layer in base.image.layers)] if base.image else []
    return [*(deb.file for deb in (*base.packages, *base.tools)), *layers]


def list_contents(
    out: Path,
    lock: Lock,
    image: Image,
    store: Store,
    parts: frozenset[Part],
    own_verdict: OwnVerdict | None = None,
) -> list[BundleFile]:
    """Return every file of an output directory's bundle, in order.

    Args:
        out: the output directory, whose lock and image were read.
        store: has the inputs.
        parts: the parts beside the image, the recipe, the sources and their facts.
        own_verdict: the verdict file of a check here; None without one.

    Raises:
        DistributionError: a part is missing or damaged, or a file other than a blob, an input or the lock seems to
            hold a secret.
        FetchError: an input is not in the store.
    """
    layout = _read_layout(out, image)
    image = with_own_name(lock, image)
    known = "sif" in parts and is_single_of_here(image, "sif", image.sif, store)
    sif = image.sif.removeprefix("sha256:") if known else ""
    image = msgspec.structs.replace(
        image, sif=f"sha256:{sif}" if sif else "", sqsh=""
    )  # only the single files in the bundle
    papers = {
        "README.md": render_readme(lock, image, parts, certified=own_verdict is not None).encode(),
        PROGRAM: read_unbundle_program(),
        IMAGE: msgspec.json.format(msgspec.json.encode(image)) + b"\n",
        SBOM: cyclonedx(lock),
        PROVENANCE: provenance(lock, image),
    }
    bundle_files = [
        *(BundleFile(path=name, content=content) for name, content in papers.items()),
        BundleFile(path=LOCK, content=out / LOCK, sha256=image.lock),
        *(_verdict_files(out, lock, image, own_verdict) if own_verdict else ()),
        *_recipe_files(out, lock),
        *_layout_files(layout, image, lock.platform),
    ]
    inputs = [(source.file, f"sources/{source.file.filename}") for source in lock.sources]
    inputs += [(artefact, "") for artefact in python_inputs(lock)] if "wheels" in parts else []
    inputs += [(artefact, "") for artefact in system_inputs(lock)] if "debs" in parts else []
    bundle_files += _list_inputs(inputs, store)
    if {"wheels", "debs"} <= parts:
        bundle_files += _runtime_files(out, lock, store)
    if "context" in parts:
        bundle_files += [
            BundleFile(path=path, content=content, sha256=sha256)
            for path, content, sha256 in context_files(out, lock, store)
        ]
    if "choices" in parts:
        bundle_files += _choice_files(out, store)
    if "sif" in parts:
        bundle_files.append(
            BundleFile(path=single_file_name("sif"), content=_require_sif(out, sif), sha256=sif)
        )
    _refuse_secrets(bundle_files)
    refuse_secret_files(lock, lambda file: store.verified(file.sha256, file.filename))
    return bundle_files


def with_own_name(lock: Lock, image: Image) -> Image:
    """Return an image under its own name, for other machines.

    The user's name for it could be that of another image there.
    """
    return msgspec.structs.replace(image, reference=own_name(lock.digest))


def _refuse_secrets(bundle_files: Sequence[BundleFile]) -> None:
    """Refuse files that look like secrets, as the last check.

    Blobs, inputs and the lock are exempt.
    """
    for file in bundle_files:
        if secrets.secret_file(file.path, content := _read_searchable(file)):
            raise DistributionError(
                f"{file.path}: files of this name hold secrets, and are not handed to others",
                hint="take the file away, or leave what it comes from out, with --drop NAME, and build again",
            )
        for line, rule in secrets.find(content):
            raise DistributionError(
                f"{file.path}:{line}: this looks like a secret ({rule}), and is not handed to others",
                hint="take the file away, or leave what it comes from out, with --drop NAME, and build again",
            )


def _read_searchable(file: BundleFile) -> bytes:
    """Return the bytes of a file to search, or b""."""
    content = file.content
    if isinstance(content, bytes):
        return b"" if file.path.endswith(_ARCHIVES) else content
    known = file.path in (LOCK, single_file_name("sif")) or file.path.startswith(_LOOKED_INTO)
    packed = file.path.endswith(_ARCHIVES) or content.stat().st_size > _LARGEST_TEXT
    return b"" if known or packed else read_plain(content, _LARGEST_TEXT)


def _read_layout(out: Path, image: Image) -> Layout:
    try:
        return read_layout(out / image.layout)
    except BuildError as err:
        raise DistributionError(str(err), hint=_AGAIN) from None


def _require_file(path: Path) -> Path:
    if path.is_symlink() or not path.is_file():
        raise DistributionError(f"{path} is missing, or no plain file", hint=_AGAIN)
    return path


def _verdict_files(out: Path, lock: Lock, image: Image, own_verdict: OwnVerdict) -> Iterator[BundleFile]:
    yield BundleFile(path=VERDICT, content=own_verdict.content)
    yield BundleFile(path=REPORT, content=render_bundle_page(out, lock, image, own_verdict.verdict))


def render_bundle_page(out: Path, lock: Lock, image: Image, verdict: Verdict) -> bytes:
    """Return the page of a bundle, which follows from its lock, image and verdict.

    The page in OUT also describes this machine's store and its day, of no use to others. The recipient cannot compare
    single files with the layers, so they are not on the page.
    """
    shown = msgspec.structs.replace(image, sif="", sqsh="")
    build = BuildFacts(layers=read_layer_sizes(out / image.layout))
    return render_html(lock, shown, verdict, build=build).encode()


def _recipe_files(out: Path, lock: Lock) -> Iterator[BundleFile]:
    """Yield the recipe of a lock, and refuse another one in its place.

    Who gets the bundle follows the recipe, and a signature would cover it.
    """
    texts = render_recipe(require_sealed(lock))
    for name in _RECIPE:
        content = texts[name].encode()
        if not has_content(_require_file(out / name), content):
            raise DistributionError(
                f"{out / name} is not the recipe of the lock: it was changed, or another reprobuild wrote it",
                hint="write it again with `reprobuild render OUT/reprobuild.lock -o OUT`",
            )
        yield BundleFile(path=name, content=content)


def legacy_manifest(layout: Layout, image: Image) -> bytes:
    """Return a layout's index for Docker's classic image store."""
    digests = [layout.config_digest, *(digest for _, digest, _ in layout.layers)]
    blobs = [f"blobs/sha256/{digest.removeprefix('sha256:')}" for digest in digests]
    legacy = [{"Config": blobs[0], "RepoTags": [image.reference], "Layers": blobs[1:]}]
    return json.dumps(legacy, sort_keys=True).encode()


def _layout_files(layout: Layout, image: Image, platform: str) -> Iterator[BundleFile]:
    """Yield the files of a layout, including Docker's classic index."""
    index = layout.folder / "index.json"
    named = layout.reference == image.reference
    yield BundleFile(
        path=f"{image.layout}/index.json",
        content=_require_file(index) if named else encode_named_index(layout, image.reference, platform),
    )
    yield BundleFile(path=f"{image.layout}/oci-layout", content=_require_file(layout.folder / "oci-layout"))
    yield BundleFile(path=f"{image.layout}/manifest.json", content=legacy_manifest(layout, image))
    digests = (image.manifest, layout.config_digest, *(digest for _, digest, _ in layout.layers))
    for digest in sorted({digest.removeprefix("sha256:") for digest in digests}):
        yield BundleFile(
            path=f"{image.layout}/blobs/sha256/{digest}",
            content=_require_file(layout.blob(digest)),
            sha256=digest,
        )


def _list_inputs(inputs: Sequence[tuple[Artefact, str]], store: Store) -> Iterator[BundleFile]:
    """Yield inputs by their paths in store/ and sources/.

    Each path is yielded once.
    """
    paths: set[str] = set()
    for artefact, name in inputs:
        sha256 = artefact.sha256
        for path in filter(None, (name, _blob_path(sha256))):
            if path not in paths:
                paths.add(path)
                yield BundleFile(path=path, content=store.verified(sha256, artefact.filename), sha256=sha256)


def _runtime_files(out: Path, lock: Lock, store: Store) -> Iterator[BundleFile]:
    """Yield the runtime files of the image, if available.

    Another version of this program has other files.
    """
    if isinstance(lock, SealedLock) and take_runtime(out, lock, store):
        sha256 = lock.realised.runtime
        yield BundleFile(
            path=_blob_path(sha256), content=store.verified(sha256, "the runtime package"), sha256=sha256
        )


def _choice_files(out: Path, store: Store) -> Iterator[BundleFile]:
    for file in list_choices(out, store.known):
        sha256 = file.saved.archive.sha256
        yield BundleFile(path=f"{CHOICES}/{file.record.name}", content=file.document, sha256=file.digest)
        yield BundleFile(path=f"{CHOICES}/{file.archive.name}", content=file.archive, sha256=sha256)


def _blob_path(sha256: str) -> str:
    return f"store/blobs/{sha256[:2]}/{sha256}"


def _require_sif(out: Path, sha256: str) -> Path:
    path = out / single_file_name("sif")
    if not sha256 or path.is_symlink() or not path.is_file():
        raise DistributionError(
            f"{out} holds no SIF that is known to be of this image",
            hint=f"write it: `reprobuild build {quote_path(out / LOCK)} -o {quote_path(out)} --format sif`",
        )
    return path
