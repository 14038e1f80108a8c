"""JSON of images, read as by every engine, or refused.

Engines read it by Go's `encoding/json`, which ignores the case of keys, and lets a repeated key extend the
first one: https://pkg.go.dev/encoding/json#Unmarshal.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

# Go compares by simple folding: two characters beyond ASCII fold to letters.
_FOLDS = str.maketrans({"\u017f": "s", "\u212a": "k"})
# Places in the document, as text: each leaf of a real image has some forty characters.
MOST_PLACES = 8 << 20

Fields = Mapping[str, Any]
_ANY: Fields = {}


def _fields(names: str, **inner: Fields) -> Fields:
    return {**dict.fromkeys(names.split(), _ANY), **inner}


RUNTIME = _fields(
    "Hostname Domainname User AttachStdin AttachStdout AttachStderr ExposedPorts Tty OpenStdin StdinOnce Env Cmd "
    "ArgsEscaped Image Volumes WorkingDir Entrypoint NetworkDisabled MacAddress OnBuild Labels StopSignal "
    "StopTimeout Shell Memory MemorySwap CpuShares",
    Healthcheck=_fields("Test Interval Timeout StartPeriod StartInterval Retries"),
)
CONFIG = _fields(
    "id parent comment created container docker_version author architecture variant os os.version os.features Size",
    config=RUNTIME, container_config=RUNTIME, rootfs=_fields("type diff_ids"),
    history=_fields("created created_by author comment empty_layer"),
)  # fmt: skip
_DESCRIPTOR = _fields(
    "mediaType digest size urls annotations data artifactType",
    platform=_fields("architecture os os.version os.features variant features"),
)
MANIFEST = _fields(
    "schemaVersion mediaType artifactType annotations",
    config=_DESCRIPTOR,
    layers=_DESCRIPTOR,
    subject=_DESCRIPTOR,
)
INDEX = _fields(
    "schemaVersion mediaType artifactType annotations", manifests=_DESCRIPTOR, subject=_DESCRIPTOR
)
# Each belongs to one kind of document, and makes it that kind.
_MARKS = {"rootfs", "layers", "manifests"}
SAVED = _fields("Config RepoTags Layers Parent LayerSources")


def parse_image_json(raw: bytes, fields: Fields) -> Any:
    """Return the value of an image's JSON document.

    Args:
        raw: its bytes, in UTF-8.
        fields: the fields of its objects, as one of the constants here; keys elsewhere are free.

    Raises:
        ValueError: it is not JSON, or readers would disagree; `RecursionError` if it is too deep.
    """
    value = json.loads(raw.decode("utf-8"), object_pairs_hook=_make_object, parse_constant=_refuse_constant)
    _check_places(value)
    _check_keys(value, fields)
    _check_kind(value, fields)
    return value


def refuse_repeated_keys(raw: bytes) -> None:
    """Refuse a document of which readers take different values.

    Args:
        raw: JSON whose structure was checked: this reads it once more, in memory.

    Raises:
        ValueError: an object has a key twice, in any spelling; `RecursionError` if it is too deep.
    """
    json.loads(raw, object_pairs_hook=_check_object)


def _check_object(pairs: list[tuple[str, Any]]) -> None:
    _make_object(pairs)


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"its JSON has the key {twice[:60]!r} twice")
    return members


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"its JSON has the value {text}")


def _check_places(value: Any) -> None:
    """Refuse long keys above many values.

    The place of each value repeats these keys.
    """
    stack, total = [(value, 0)], 0
    while stack:
        item, length = stack.pop()
        if isinstance(item, dict) and item:
            stack += [(inner, length + len(key) + 1) for key, inner in item.items()]
        elif isinstance(item, list) and item:
            stack += [(inner, length + 8) for inner in item]
        else:
            total += length
            if total > MOST_PLACES:
                raise ValueError(f"the places of values in its JSON have more than {MOST_PLACES} characters")


def _check_kind(value: Any, fields: Fields) -> None:
    """Refuse a document that is of two kinds: each kind could name other layers.

    https://github.com/advisories/GHSA-77vh-xpmg-72qh
    """
    if fields.keys().isdisjoint(_MARKS) or not isinstance(value, dict):
        return
    if other := sorted({_fold(key) for key in value} & _MARKS - fields.keys()):
        raise ValueError(f"its JSON has the key {other[0]!r} of another kind of document")


def _fold(key: str) -> str:
    return key.translate(_FOLDS).lower()


def _check_keys(value: Any, fields: Fields) -> None:
    if isinstance(value, list):
        for item in value:
            _check_keys(item, fields)
    if not fields or not isinstance(value, dict):
        return
    known = {_fold(key): key for key in fields}
    for key, item in value.items():
        field = known.setdefault(_fold(key), key)
        if field != key:
            raise ValueError(f"its JSON has the key {key[:60]!r}, which engines read as {field[:60]!r}")
        _check_keys(item, fields.get(key, _ANY))
