"""JSON that Go's `encoding/json` and Python would read as different documents is refused."""

from __future__ import annotations

import json

import pytest

from reprobuild.infra.untrusted.json_documents import CONFIG, INDEX, MANIFEST, SAVED, Fields, parse_image_json

EVIL = '{"Entrypoint": ["evil"]}'


@pytest.mark.parametrize(
    ("fields", "text", "words"),
    [
        (CONFIG, f'{{"config": {{}}, "Config": {EVIL}}}', "'Config', which engines read as 'config'"),
        (CONFIG, f'{{"Config": {EVIL}}}', "'Config', which"),
        (CONFIG, '{"config": {"entrypoint": ["evil"]}}', "'entrypoint', which engines read as 'Entrypoint'"),
        (CONFIG, '{"config": {"Tty": true, "\\u0054TY": false}}', "'TTY', which"),
        (CONFIG, f'{{"config": {{}}, "config": {EVIL}}}', "'config' twice"),
        (CONFIG, f'{{"config": {{}}, "\\u0063onfig": {EVIL}}}', "'config' twice"),
        (CONFIG, '{"rootf\u017f": {}}', "which engines read as 'rootfs'"),
        (CONFIG, '{"moby.x": 1, "Moby.x": 2}', "which engines read as 'moby.x'"),
        (CONFIG, '{"config": {"Labels": {"a": "1", "a": "2"}}}', "'a' twice"),
        (MANIFEST, '{"layers": [{"Digest": "x"}]}', "'Digest', which"),
        (MANIFEST, '{"layers": [], "LAYERS": []}', "'LAYERS', which"),
        (INDEX, '{"manifests": [{"platform": {"OS": "x"}}]}', "'OS', which"),
        (SAVED, '[{"config": "x"}]', "'config', which"),
        (CONFIG, '{"rootfs": {}, "layers": []}', "'layers' of another kind"),
        (CONFIG, '{"rootfs": {}, "\\u004cayers": []}', "'layers' of another kind"),
        (CONFIG, '{"rootfs": {}, "manifests": []}', "'manifests' of another kind"),
        (MANIFEST, '{"layers": [], "rootfs": {}}', "'rootfs' of another kind"),
        (MANIFEST, '{"layers": [], "manifests": []}', "'manifests' of another kind"),
        (INDEX, '{"manifests": [], "layers": []}', "'layers' of another kind"),
        (INDEX, '{"manifests": [], "rootf\u017f": {}}', "'rootfs' of another kind"),
        (CONFIG, '{"config": {"StopTimeout": NaN}}', "the value NaN"),
        (CONFIG, '{{"{}": [{}]}}'.format("k" * 60_000, ",".join("0" * 300)), "the places of values"),
        (CONFIG, '{{"{}": [{}]}}'.format("k" * 60_000, ",".join(["{}"] * 300)), "the places of values"),
    ],
)  # fmt: skip
def test_keys_that_engines_read_otherwise_are_refused(fields: Fields, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_image_json(text.encode(), fields)


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    for raw in (b'{"a": "\xed\xa0\x80"}', '{"config": {}}'.encode("utf-16")):
        with pytest.raises(ValueError):
            parse_image_json(raw, CONFIG)


def test_what_builders_write_is_read() -> None:
    """Names of labels, annotations and volumes are the user's own; other keys of engines are left as they are."""
    runtime = {
        "Env": ["A=1"], "Labels": {"a": "1", "A": "2", "config": "x", "ENV": "y"}, "Volumes": {"/A": {}, "/a": {}},
        "Healthcheck": {"Test": ["NONE"]}, "OnBuild": None, "ArgsEscaped": True,
    }  # fmt: skip
    config = {
        "architecture": "amd64", "os": "linux", "docker_version": "20", "config": runtime,
        "container_config": runtime, "moby.buildkit.cache.v0": "x", "history": [{"empty_layer": True}],
        "rootfs": {"type": "layers", "diff_ids": []},
    }  # fmt: skip
    assert parse_image_json(json.dumps(config).encode(), CONFIG) == config
    index = {
        "manifests": [{"platform": {"os": "linux", "os.version": "1"}, "annotations": {"os": "", "OS": ""}}]
    }
    assert parse_image_json(json.dumps(index).encode(), INDEX) == index
    repositories = {"layers": {"latest": "0"}, "rootfs": {"latest": "0"}}  # names of images
    assert parse_image_json(json.dumps(repositories).encode(), {}) == repositories
