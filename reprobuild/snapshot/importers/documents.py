"""Documents of an imported path: JSON and YAML, within bounds for a file and for all files of an import."""

from __future__ import annotations

import json
from typing import Any

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text
from reprobuild.infra.untrusted.yaml_documents import BoundedLoader, load_yaml
from reprobuild.snapshot import text
from reprobuild.snapshot.importers.source import ImportSource

_LARGEST_YAML = 8 << 20  # bytes: PyYAML needs up to five seconds for each MiB
_MOST_YAML = 16 << 20  # bytes of all files
_DAMAGED = "look at what wrote it; or export it again"


def load_document(
    source: ImportSource, file: str, *, is_json: bool = False, loader: type[BoundedLoader] = BoundedLoader
) -> dict[str, Any]:
    """Return a JSON or YAML document that is a mapping; see `load_value`.

    Raises:
        SnapshotError: as `load_value`, or it is not a mapping.
    """
    value = load_value(source, file, is_json=is_json, loader=loader)
    if not isinstance(value, dict):
        raise SnapshotError(f"{display_text(file)}: a mapping of fields is needed", hint=_DAMAGED)
    return {str(key): inner for key, inner in value.items()}


def load_value(
    source: ImportSource, file: str, *, is_json: bool = False, loader: type[BoundedLoader] = BoundedLoader
) -> Any:
    """Return the value of a JSON document, or of a YAML document if the file has another name.

    Args:
        source: the imported path.
        file: the relative name of the file.
        is_json: it is JSON under any name.
        loader: the reader of YAML.

    Raises:
        SnapshotError: it is not text, not such a document, or the YAML of this import is too large.
    """
    data = source.read(file)
    is_json = is_json or file.endswith((".json", ".ipynb"))
    if not is_json:
        _check_yaml(source, len(data), display_text(file))
    content = text.decode(data, file)
    text.check_values(content, file)
    try:
        return json.loads(content) if is_json else load_yaml(content, loader)
    except (ValueError, RecursionError) as err:
        raise SnapshotError(f"{display_text(file)}: {display_text(str(err))}", hint=_DAMAGED) from None


def _check_yaml(source: ImportSource, size: int, shown: str) -> None:
    if size > _LARGEST_YAML:
        raise SnapshotError(
            f"{shown}: {size} bytes are more than the {_LARGEST_YAML >> 20} MiB that YAML may have",
            hint=_DAMAGED,
        )
    if source.count_yaml(size) > _MOST_YAML:
        raise SnapshotError(
            f"{shown}: with it, the YAML of this import has more than {_MOST_YAML >> 20} MiB",
            hint="import a directory without those YAML files and `.dvc` files that the run does not need",
        )
