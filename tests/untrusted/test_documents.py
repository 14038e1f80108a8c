"""No document that others hand over has a string without a grammar: each reader of the program is found and walked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import inspect

from tests.untrusted.documents import Place, places
from tests.untrusted.types_walk import strings

# Files of this package: who can change them can change the program.
SHIPPED = {
    "ecosystems/apt/archives.py:_read_archives", "doctor/fixes.py:_read_table",
    "compare/environments/ranking.py:ranking_rules",
    "doctor/preflight/processor.py:check_processor", "config/profiles.py:_read_data",
    "resolve/builds/backends.py:read_backend_rules", "resolve/ages/back_ends.py:_releases",
    "resolve/builds/extensions.py:_read_extensions", "resolve/python/prebuilt.py:_read_projects",
    "resolve/cuda/rules.py:_read_table",
    "resolve/python/debian_names.py:_read_names", "resolve/environment/environment.py:read_environment_rules",
    "resolve/environment/modules.py:read_module_families", "resolve/system/release.py:known_releases",
    "resolve/system/sonames.py:_read_table", "resolve/system/system_rules.py:read_system_rules",
    "resolve/interpreter/proposal.py:read_python_releases",
    "resolve/system/needed.py:_read_table", "resolve/vendor/recognise.py:read_image_table",
    "run/site_env.py:read_rules", "image/choices/caches.py:read_caches",
    "infra/sandbox/filter.py:read_table", "config/services.py:read_services",
    "snapshot/parsers/conda_names.py:read_conda_names",
}  # fmt: skip
# The user's own configuration and choices. `decisions.py` has tests of its own (tests/test_decisions.py).
OWN = {
    "ecosystems/conda/conda_config.py:_read_toml", "ecosystems/pypi/uv_indexes.py:_read_layer",
    "config/overrides.py:read_decisions", "config/overrides.py:lock_document",
}  # fmt: skip
# Read without a type, and why.
UNTYPED = {
    "ecosystems/apt/launchpad.py:_ask": "the type is an argument: its callers are in the list",
    "ecosystems/apt/launchpad.py:_read": "the type is an argument: its callers are in the list",
    "ecosystems/oci_registry/manifest.py:_decode_document": "the type is an argument: its callers are in the list",
    "ecosystems/conda/package.py:decode_document": "the type is an argument: its callers are in the list",
    "builders/apptainer.py:read_config": "of the SIF that this run built; compared whole with what the lock says",
    "ecosystems/conda/linking.py:link": "what rattler, in this run, writes of packages whose facts were checked",
    "ecosystems/conda/linking.py:run_rattler": "the answer of a process of this program; its callers give it a type",
    "ecosystems/conda/rattler_worker.py:main": "the other end of that process",
    "compare/environments/image.py:object": "of an image: each value is tested for text, and only displayed",
    "image/choices/measurements.py:_read_table": "of a container: keys are taken for display, and values are compared",
    "bisect/metric.py:read_file": "of a container: one value is taken, and becomes a number or nothing",
    "infra/untrusted/decode.py:decode_json": "the type is an argument: its callers are in the list",
    "infra/untrusted/decode.py:decode_toml": "the type is an argument: its callers are in the list",
    "infra/untrusted/decode.py:decode_value": "the type is an argument: its callers are in the list",
    "infra/untrusted/decode.py:json_decoder": "the type is an argument: its callers are in the list",
    "infra/untrusted/decode.py:_prepare": "it reads nothing: it prepares a type",
    "infra/untrusted/json_documents.py:parse_image_json": "of an image: keys are checked; callers check the values",
    "infra/untrusted/json_documents.py:refuse_repeated_keys": "its values are not used: msgspec read the same bytes",
    "infra/untrusted/yaml_documents.py:load_yaml": "a bounded tree without aliases; its callers give it a type",
    "engines/image_records.py:_read": "the type is that of the cache, `UnpackedImage` or `CachedSif`",
    "infra/sandbox/container.py:": "what this program hands to its own launcher",
    "infra/sandbox/launch.py:": "what this program hands to its own launcher",
    "lock/recorded.py:as_dict": "what a type of the lock, already checked, says of itself",
    "infra/untrusted/strings.py:is_valid": "the type is an argument, of one string",
    "image/layers/layers.py:layer_items": "what this program wrote into the recipe of a layer",
    "store/tar_listing.py:decode_listing": "the value of a line that is not UTF-8, converted to `Entry` at once",
    "resolve/builds/projects.py:tables": "pyproject.toml of a source: each value is tested where it is taken",
    "snapshot/parsers/environment_yml_nodes.py:compose": "nodes of YAML; each scalar is read as a line of text",
    "snapshot/importers/documents.py:load_value": "each value is tested, and becomes a line that the parsers read",
    "snapshot/importers/toml_documents.py:load_toml": "the same",
    "resolve/ages/evidence.py:_recall": "what this store remembers; the type is an argument",
    "store/store.py:recall": "what this store remembers; its callers give it a type",
}
# What stands for a document of its own, and the type that reads it: one odd entry loses no other.
ENTRIES = {
    "lock/file.py:read_lock:decode_json $.interpreter": "only whether it is there",
    "lock/file.py:read_lock:decode_json $.realised": "only whether it is there",
    "ecosystems/apt/launchpad.py:published:_ask $.entries[...]": "_Publication",
    "ecosystems/apt/launchpad.py:published:_ask $[...]": "_File",
    "ecosystems/oci_registry/manifest.py:find_image:_decode_document $.manifests[...]": "_Descriptor",
    "ecosystems/oci_registry/manifest.py:kind:_decode_document $.manifests": "only whether it is there",
    "ecosystems/oci_registry/repository.py:_read:decode_json $.manifests[...]": "Descriptor",
    "ecosystems/pypi/json_page.py::json_decoder $.files[...]": "_File",
    "ecosystems/pypi/json_page.py::json_decoder $.core-metadata": "_METADATA",
    "ecosystems/pypi/json_page.py::json_decoder $.dist-info-metadata": "_METADATA",
    "snapshot/importers/source.py:_read_fields:decode_json $[...]": "only whether it is there",
    "verify/certificate/read.py:_read_version:decode_json $.determinism": "only whether it is there",
}

PLACES = places()
DOCUMENTS = [
    place
    for place in PLACES
    if place.type is not None and f"{place.file}:{place.function}" not in SHIPPED | OWN
]


def _where(place: Place) -> str:
    return f"{place.file}:{place.function}"


def loose(place: Place) -> list[str]:
    """Return the strings of a document that have neither a grammar nor a type that reads them later."""
    found = []
    for path, kind in strings(place.type):
        bound = isinstance(kind, inspect.StrType) and (kind.pattern or kind.max_length)
        if not bound and f"{place.name} {path}" not in ENTRIES:
            found.append(path)
    return found


@pytest.mark.parametrize("place", DOCUMENTS, ids=lambda place: f"{place.name} {place.written}")
def test_each_string_of_a_document_has_a_grammar(place: Place) -> None:
    assert loose(place) == []


def test_what_is_read_without_a_type_is_named_with_a_reason() -> None:
    without = {_where(place) for place in PLACES if place.type is None} - SHIPPED - OWN
    assert without == set(UNTYPED)


def test_one_module_gives_types_to_decoders() -> None:
    """msgspec prepares a type at its first use, and two threads that do so at once end the process."""
    typed = {place.file for place in PLACES if place.call.startswith("msgspec.") and place.written}
    assert typed == {"infra/untrusted/decode.py"}


def test_the_lists_name_what_is_there() -> None:
    there = {_where(place) for place in PLACES}
    assert there >= SHIPPED | OWN | set(UNTYPED)
    paths = {f"{place.name} {path}" for place in DOCUMENTS for path, _ in strings(place.type)}
    assert paths >= set(ENTRIES)


def test_shipped_documents_are_read_from_this_package() -> None:
    """Each is TOML or JSON beside a module: a foreign document could not hide among them."""
    calls = {place.call for place in PLACES if _where(place) in SHIPPED}
    assert calls <= {"decode_toml", "decode_json"}
    assert all(place.type is not None for place in PLACES if _where(place) in SHIPPED)


def test_there_are_many() -> None:
    """Figures of docs/hostile.md; a scanner that finds nothing would pass everything."""
    fields = {(str(place.type), path) for place in DOCUMENTS for path, _ in strings(place.type)}
    assert len(DOCUMENTS) >= 60
    assert len({str(place.type) for place in DOCUMENTS}) >= 50
    assert len(fields) >= 400


class _Loose(msgspec.Struct):
    name: str
    rest: dict[str, list[Any]] = {}


def test_a_document_without_a_grammar_is_seen() -> None:
    place = Place("x.py", "read", "decode_json", _Loose, "_Loose")
    assert loose(place) == ["$.name", "$.rest{key}", "$.rest[...][...]"]
