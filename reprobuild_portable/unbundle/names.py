"""The names that a bundle gives its image."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Callable, Dict, Iterable

from reprobuild_portable.hashing import hash_file
from reprobuild_portable.unbundle.format import LARGEST_INDEX, NO_BUNDLE, RefusedError
from reprobuild_portable.unbundle.manifest import _WORD, escape_text

_LOCK, _INDEXES = "reprobuild.lock", ("image.json", "image/index.json")
_BLOB = re.compile("blobs/sha256/[0-9a-f]{64}")
# An OCI layout, and the files for a Docker with the classic image store.
_FOLDERS = ("blobs", "blobs/sha256")
_LAYOUT = re.compile("index\\.json|manifest\\.json|oci-layout|blobs/sha256/[0-9a-f]{64}")


def check_presence(paths: Iterable[str]) -> None:
    """Refuse a bundle whose manifest names no lock, or no index of its image.

    Raises:
        RefusedError: a file is missing. It is missing in each copy.
    """
    present = set(paths)
    if _LOCK not in present:
        raise RefusedError("the bundle holds no lock, so its image has no name", NO_BUNDLE)
    for path in _INDEXES:
        if path not in present:
            raise RefusedError("the bundle holds no %s, so it has no image" % path, NO_BUNDLE)


def check_names(document: Dict[str, Any], tree: str) -> str:
    """Return the name of a bundle's image after a check.

    The name can hide no other image. An engine takes each name that a layout gives its image. So index.json
    and manifest.json are compared whole with those that `reprobuild bundle` writes: programs differ in how
    they read a duplicate key.

    Args:
        document: the manifest of the bundle.
        tree: the directory of its files.

    Raises:
        RefusedError: it names another image, or the files are not those of one image of this name.
    """
    name, lock = str(document["image"]["reference"]), os.path.join(tree, _LOCK)
    if not os.path.isfile(lock):
        raise RefusedError("the bundle holds no lock, so its image has no name", NO_BUNDLE)
    lock_name = "reprobuild:%s" % hash_file(lock)[:12]
    if name != lock_name:
        raise RefusedError(
            "the image of the bundle names itself %s, which could hide another image" % escape_text(name),
            "ask for a bundle of this reprobuild: in it the image is %s" % lock_name,
        )
    try:
        folder = os.path.join(tree, "image")
        is_named = _names_image(folder, "index.json", _index, document["image"], name)
        if os.path.lexists(os.path.join(folder, "manifest.json")):
            is_named = is_named and _names_image(
                folder, "manifest.json", _make_legacy_manifest, document["image"], name
            )
        with open(os.path.join(tree, "image.json"), "rb") as stream:
            is_named = is_named and json.loads(stream.read(LARGEST_INDEX))["reference"] == name
    except (FileNotFoundError, ValueError, KeyError, TypeError, IndexError, RecursionError) as err:
        raise RefusedError(
            "the names of its image cannot be read: %s" % escape_text(str(err)), NO_BUNDLE
        ) from None
    if not is_named:
        raise RefusedError("its image has other names than %s" % name, "ask for another bundle")
    _check_layout(folder, document["image"]["manifest"])
    return name


def _check_layout(folder: str, manifest: str) -> None:
    """Refuse a layout with unknown files, or without its image.

    A Docker would look for the oldest form. That form has a file `repositories` with names, and a directory
    for each layer.
    """

    def fail(err: OSError) -> None:
        raise err

    for above, folders, names in os.walk(folder, onerror=fail):
        for path in (os.path.join(above, name) for name in names + folders):
            inner = os.path.relpath(path, folder).replace(os.sep, "/")
            known = _LAYOUT.fullmatch(inner) if os.path.isfile(path) else inner in _FOLDERS
            if not known or os.path.islink(path):  # before entry into a directory deeper than the stack
                raise RefusedError("image/%s is no file of an image" % escape_text(inner), NO_BUNDLE)
    for inner in ("oci-layout", "blobs/sha256/%s" % manifest.partition(":")[2]):
        if not os.path.isfile(os.path.join(folder, inner)):
            raise RefusedError("its image lacks %s" % inner, NO_BUNDLE)


def _names_image(
    folder: str, name: str, expected: Callable[..., bytes], image: Dict[str, Any], reference: str
) -> bool:
    """Return whether a layout file has the expected bytes.

    They follow from its own content and from the name of the image.
    """
    with open(os.path.join(folder, name), "rb") as stream:
        raw = stream.read(LARGEST_INDEX)
    return expected(json.loads(raw.decode()), image, reference) == raw


def _index(document: Any, image: Dict[str, Any], reference: str) -> bytes:
    """Return the index.json of an image of one name.

    Size and platform are copied if they are valid.
    """
    stated = document["manifests"][0]
    platform = {
        key: stated["platform"][key] for key in ("os", "architecture", "variant") if key in stated["platform"]
    }
    if type(stated["size"]) is not int or not all(
        isinstance(value, str) and _WORD.fullmatch(value) for value in platform.values()
    ):
        raise ValueError("its size or its platform is none")
    path, _, tag = (
        reference.rpartition(":") if ":" in reference.rpartition("/")[2] else (reference, "", "latest")
    )
    full = "%s:%s" % (path if "/" in path else "docker.io/library/%s" % path, tag)
    kind = "application/vnd.oci.image.%s.v1+json"
    entry = {
        "mediaType": kind % "manifest", "digest": image["manifest"], "size": stated["size"], "platform": platform,
        "annotations": {"org.opencontainers.image.ref.name": reference, "io.containerd.image.name": full},
    }  # fmt: skip
    whole = {"schemaVersion": 2, "mediaType": kind % "index", "manifests": [entry]}
    return json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _make_legacy_manifest(document: Any, image: Dict[str, Any], reference: str) -> bytes:
    """Return the manifest.json of an image of one name.

    It is for a Docker with the classic image store.
    """
    layers = document[0]["Layers"]
    if not all(isinstance(layer, str) and _BLOB.fullmatch(layer) for layer in layers):
        raise ValueError("a layer of it is none")
    config = "blobs/sha256/%s" % image["config"].partition(":")[2]
    return json.dumps(
        [{"Config": config, "RepoTags": [reference], "Layers": layers}], sort_keys=True
    ).encode()
