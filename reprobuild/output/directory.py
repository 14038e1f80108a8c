"""Names and contents of an output directory."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.errors import BuildError, UsageError
from reprobuild.image.engine_name import local_name
from reprobuild.image.model import Image
from reprobuild.image.oci.read import check_layers, layout_digest, read_layout
from reprobuild.infra.display import display_error
from reprobuild.infra.shell_words import quote_path
from reprobuild.infra.suggest import suggest_path
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.json_documents import refuse_repeated_keys
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.lock.file import read_lock
from reprobuild.lock.model import Lock, unseal
from reprobuild.lock.requirements import find_conflicts
from reprobuild.store.store import Store
from reprobuild.verify.determinism.summary import count_excused, upper_bound
from reprobuild.verify.verdict import Verdict
from reprobuild.verify.workload.conditions import RUNS

LOCK, IMAGE, VERDICT, REPORT = "reprobuild.lock", "image.json", "verdict.json", "report.html"
SNAPSHOT = "snapshot"  # of a path that was imported
BADGE = "badge.svg"
CLUSTER_RESULT = "cluster.json"  # the answers of many nodes
_LARGEST = 1 << 20  # of image.json, which has some 500 bytes
_BUILD = "build one with `reprobuild from-snapshot DIR -o OUT`"


def find_former_image(out: Path) -> Image | None:
    """Return the image that an output directory states, or None."""
    with contextlib.suppress(UsageError):
        return _read_record(out)
    return None


def _read_record(out: Path) -> Image:
    try:
        raw = read_plain(out / IMAGE, _LARGEST)
    except OSError as err:
        raise _record_error(out, err) from None
    try:
        image = decode_json(raw, Image)
        refuse_repeated_keys(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as err:
        raise UsageError(
            f"{out / IMAGE} is damaged, or of another version of reprobuild: {display_error(err)}",
            hint=f"make it again: `reprobuild build {quote_path(out / LOCK)} -o {quote_path(out)}`"
            if (out / LOCK).is_file()
            else _BUILD,
        ) from None
    return image


def _record_error(out: Path, err: OSError) -> UsageError:
    """Return the error for an unreadable image record."""
    if not isinstance(err, (FileNotFoundError, NotADirectoryError)):
        hint = "check its permissions" if isinstance(err, PermissionError) else _BUILD
        return UsageError(f"{out / IMAGE} cannot be read: {err.strerror}", hint=hint)
    if not out.exists():
        inside = f"name the output directory: `{quote_path(out.parent)}`" if _is_output(out.parent) else ""
        return UsageError(
            f"there is no directory {out}", hint=inside or suggest_path(out, _is_output) or _BUILD
        )
    if not out.is_dir():
        beside = (out.parent / IMAGE).is_file()
        return UsageError(
            f"{out} is a file, and no output directory",
            hint=f"name the directory that it is in: {out.parent}"
            if beside else "name the directory that -o named; `reprobuild unbundle FILE` makes one of a bundle",
        )  # fmt: skip
    if (out / LOCK).is_file():
        return UsageError(
            f"{out} has a lock and no image",
            hint=f"build it: `reprobuild build {quote_path(out / LOCK)} -o {quote_path(out)}`",
        )
    if _is_output(out.parent):
        return UsageError(
            f"{out} is a part of an output directory",
            hint=f"name the output directory: {quote_path(out.parent)}",
        )
    if (out / "capture.json").is_file():
        return UsageError(
            f"{out} is a snapshot, and no output directory",
            hint=f"build its image: `reprobuild from-snapshot {quote_path(out)} -o OUT`, and name OUT",
        )
    return UsageError(f"{out} holds no image", hint=_BUILD)


def _is_output(path: Path) -> bool:
    return (path / IMAGE).is_file()


def read_image(out: Path) -> tuple[Lock, Image]:
    """Return the lock and the image of an output directory.

    Raises:
        UsageError: there is no such directory, it holds no readable image, or its files do not belong together: a build
            into it was interrupted.
        LockError: see `read_lock`.
    """
    image = _read_record(out)
    lock, layout = read_lock(out / LOCK), out / image.layout
    whole = image.lock == lock.digest
    if whole and layout.exists():
        layout_image = read_layout(layout)
        whole = (layout_image.manifest, layout_image.reference) == (image.manifest, image.reference)
    if not whole:
        raise UsageError(
            f"the lock, the image and {IMAGE} of {out} do not belong together: a build into it was interrupted",
            hint=f"finish it: `reprobuild build {quote_path(out / LOCK)} -o {quote_path(out)}`",
        )
    return lock, image


def remember_tree(image: Image, store: Store) -> None:
    """Record the digests computed from an image's layers in a store.

    The key is the image's manifest.

    If the store cannot be written to, the next check computes them again.
    """
    key, value = _tree_key(image), [image.config, image.tree]
    if store.recall(key) != value:
        with contextlib.suppress(OSError):
            store.remember(key, value)


def read_config_digest(out: Path, image: Image) -> str:
    """Return the digest of the image's configuration, read from its layout; empty without a layout.

    Most engines compare one of an image's two digests. So both must be the stated ones.

    Raises:
        UsageError: image.json states another one.
        BuildError: the layout is damaged.
    """
    layout = out / image.layout
    if not layout.exists():
        return ""
    if (digest := read_layout(layout).config_digest) != image.config:
        raise _misstated_error(out)
    return digest


def refuse_misstated(image: Image, out: Path, store: Store, say: Callable[[str], None]) -> None:
    """Refuse an image that differs from its image.json, or has a damaged layer.

    The configuration and the tree are compared. They are computed from the layers, unless this store has them: for
    example for an image that was built here. Then each layer is compared with its digest.

    Args:
        image: the record in image.json; its manifest was compared.
        out: the output directory.
        store: of this machine.
        say: logs that the layers are read.

    Raises:
        UsageError: they differ, or there are no layers.
        BuildError: the layers are damaged.
    """
    stated = [image.config, image.tree]
    known = store.recall(_tree_key(image))
    layout = read_layout(out / image.layout) if (out / image.layout).exists() else None
    if layout and known is not None:  # an engine may have the image from before a layer was damaged
        try:
            check_layers(layout)
        except BuildError as err:
            raise BuildError(str(err), hint=_rebuild_hint(out)) from None
    elif layout:
        say(f"reading the layers of {out / image.layout}: its tree is computed, as it was not built here")
        known = [layout.config_digest, layout_digest(layout)]
        if known == stated:
            remember_tree(image, store)
    if known is None:
        raise UsageError(
            f"{out} holds no layers, so that the tree that {IMAGE} states cannot be computed",
            hint=_rebuild_hint(out),
        )
    if known != stated:
        raise _misstated_error(out)


def _misstated_error(out: Path) -> UsageError:
    return UsageError(f"{out} does not hold the image that its {IMAGE} states", hint=_rebuild_hint(out))


def _rebuild_hint(out: Path) -> str:
    return f"make it of the lock: `reprobuild build {quote_path(out / LOCK)} -o {quote_path(out)}`"


def _tree_key(image: Image) -> str:
    return hashlib.sha256(f"configuration and tree of an image, 1 {image.manifest}".encode()).hexdigest()


def remember_built(image: Image, out: Path, store: Store) -> None:
    """Record in a store that a directory's image was built there.

    The record includes the name of the image.

    If the store cannot be written to, the image counts as untrusted.
    """
    _remember_key(_directory_key(image, out), store)


def remember_pulled(image: Image, out: Path, store: Store) -> None:
    """Record in a store that a pull wrote a directory's image.

    Its name is not trusted.
    """
    _remember_key(_directory_key(image, out, "pulled into"), store)


def _remember_key(key: str, store: Store) -> None:
    if store.recall(key) is not True:
        with contextlib.suppress(OSError):
            store.remember(key, True)


def remember_document(kind: str, image: Image, document: bytes, store: Store) -> None:
    """Record that a document on an image was written here; `kind` is its file's name."""
    _remember_key(_document_key(kind, image, document), store)


def is_document_of_here(kind: str, image: Image, document: bytes, store: Store) -> bool:
    """Return whether a document on an image was written here; the directory may have moved since."""
    return store.recall(_document_key(kind, image, document)) is True


def _document_key(kind: str, image: Image, document: bytes) -> str:
    digest = hashlib.sha256(document).hexdigest()
    return hashlib.sha256("\0".join(("document, 1", kind, image.manifest, digest)).encode()).hexdigest()


def is_built_here(image: Image, out: Path, store: Store) -> bool:
    """Return whether an image was built here under its stated name and by its stated builder.

    The record is signed and of a build that succeeded. An untrusted store or directory cannot supply it.
    """
    return store.recall(_directory_key(image, out)) is True


def is_pulled_here(image: Image, out: Path, store: Store) -> bool:
    """Return whether a pull wrote the image of a directory."""
    return store.recall(_directory_key(image, out, "pulled into")) is True


def _directory_key(image: Image, out: Path, relation: str = "made in") -> str:
    facts = (image.lock, image.manifest, image.tree, image.reference, image.builder)
    content = (
        "\0".join((f"image {relation} a directory, 2", *facts)).encode() + b"\0" + os.fsencode(out.absolute())
    )
    return hashlib.sha256(content).hexdigest()


def engine_name(lock: Lock, image: Image, out: Path, store: Store, say: Callable[[str], None]) -> str:
    """Return the name of an image for loading into an engine.

    A name that the user gave (`--tag`) counts only if this store recorded that the image was built here.

    Args:
        lock, image: of the directory.
        out: the directory.
        store: of this machine.
        say: logs the name if it is not the image's own.
    """
    if image.lock == lock.digest and is_built_here(image, out, store):
        return image.reference
    return local_name(image.reference, lock.digest, image.manifest, say)


def summary_document(lock: Lock, image: Image, verdict: Verdict | None, out: Path) -> dict[str, Any]:
    """Return the document of `build`, `from-snapshot` and `verify`.

    `unsealed` is the digest that `lock` printed.
    """
    nothing = {"cpu": "not-run", "gpu": "not-run", "collectives": "not-run"}
    return {
        "out": str(out),
        "lock": f"sha256:{lock.digest}",
        "unsealed": f"sha256:{unseal(lock).digest}",
        "image": {
            "reference": image.reference, "tree": image.tree, "config": image.config, "manifest": image.manifest,
            "builder": image.builder,
            **{kind: digest for kind, digest in (("sif", image.sif), ("sqsh", image.sqsh)) if digest},
        },
        "verdict": {
            "determinism": msgspec.to_builtins(verdict.determinism) if verdict else nothing,
            "round_trip": verdict.round_trip if verdict else "not-run",
            **({"work": _workload_summary(verdict)} if verdict and verdict.comparisons else {}),
            **({"against": verdict.against.verdict} if verdict and verdict.against else {}),
        },
        "deviations": [msgspec.to_builtins(ruling) for ruling in lock.deviations],
        "conflicts": list(find_conflicts(lock)),
    }  # fmt: skip


def _workload_summary(verdict: Verdict) -> dict[str, Any]:
    """Return the workload's part of the summary."""
    runs = verdict.work.runs if verdict.work else RUNS
    return {
        "runs": runs,
        "upper": upper_bound(runs),
        "comparisons": len(verdict.comparisons),
        "identical": sum(comparison.verdict == "identical" for comparison in verdict.comparisons),
        "excused": dict(count_excused(verdict.comparisons)),
        "warnings": [line for comparison in verdict.comparisons for line in comparison.warnings],
        "artefacts": [
            {
                "name": comparison.name,
                "verdict": comparison.verdict,
                "detail": comparison.detail,
                "excused": comparison.excused,
            }
            for comparison in verdict.comparisons
        ],
        **({"trace": msgspec.to_builtins(verdict.trace)} if verdict.trace else {}),
        **({"mounts": list(msgspec.to_builtins(verdict.work.mounts))} if verdict.work else {}),
    }
