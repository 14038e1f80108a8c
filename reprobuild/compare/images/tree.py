"""Differences of two images from their trees and configurations.

No content is read, and no difference is left out. Files have a kind (`FileChange`), everything else is a
`compare.Change` whose kind is one of

* `runtime`: the settings of the process; they are part of the tree digest,
* `label`, `config`, `manifest`, `index`: the rest of the image's JSON files, value by value,
* `layers`, `times`, `order`, `owners`, `header`, `compression`: the packing of the files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from msgspec import Struct

from reprobuild.compare.images.leaves import compare_leaves, compare_mappings, format_value
from reprobuild.compare.images.scan import LayerMember, Scanned
from reprobuild.image.layering.merge import Tree
from reprobuild.image.oci.open import OciImage
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.lock.diff import Change
from reprobuild.recipe.runtime_config import RuntimeConfig, read_runtime_config
from reprobuild_portable import secrets

# In the order for people.
KINDS = ("content", "type", "added", "removed", "mode", "owner", "link", "attributes", "device")
LEVELS = ("different", "tree", "config", "manifest")
Level = Literal["different", "tree", "config", "manifest"]
RUNTIME = frozenset(RuntimeConfig().digest_part())
SECRET = "(secret)"


class FileChange(Struct, frozen=True, kw_only=True):
    """A difference at a path.

    A path with another mode and another content has two. `one` and `other` are the two values; of a content,
    its sha256. `detail` is the first difference of two contents, or the reason why it is not shown. `culprit` is the
    input that provided the file, as (kind, name) as in `compare`; both empty if unknown.
    """

    path: str
    kind: str
    one: str = ""
    other: str = ""
    detail: str = ""
    culprit: tuple[str, str] = ("", "")


def compare_trees(first: Tree, second: Tree) -> list[FileChange]:
    """Return every difference of two merged trees, by path."""
    changes: list[FileChange] = []
    for path in sorted({*first, *second}):
        first_entry, second_entry = first.get(path), second.get(path)
        if first_entry is None or second_entry is None:
            present = first_entry or second_entry
            assert present is not None
            kind, description = ("added" if first_entry is None else "removed"), describe_entry(present)
            sides = ("", description) if first_entry is None else (description, "")
            changes.append(FileChange(path=path, kind=kind, one=sides[0], other=sides[1]))
        elif first_entry.type != second_entry.type:
            changes.append(
                FileChange(
                    path=path,
                    kind="type",
                    one=describe_entry(first_entry),
                    other=describe_entry(second_entry),
                )
            )
        else:
            changes += _compare_fields(first_entry, second_entry)
    return changes


def _compare_fields(first: TarEntry, second: TarEntry) -> Iterator[FileChange]:
    values = (
        ("mode", f"{first.mode:04o}", f"{second.mode:04o}"),
        ("owner", f"{first.uid}:{first.gid}", f"{second.uid}:{second.gid}"),
        ("link", *((first.target, second.target) if first.type == "symlink" else ("", ""))),
        ("attributes", _describe_attributes(first), _describe_attributes(second)),
        (
            "device",
            *(
                _describe_device(entry) if entry.type in ("char", "block") else ""
                for entry in (first, second)
            ),
        ),
        ("content", first.sha256, second.sha256),
    )
    for kind, first_value, second_value in values:
        if first_value != second_value:
            yield FileChange(path=first.path, kind=kind, one=first_value, other=second_value)


def _describe_attributes(entry: TarEntry) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(entry.xattrs))


def _describe_device(entry: TarEntry) -> str:
    return f"{entry.device[0]}:{entry.device[1]}"


def describe_entry(entry: TarEntry) -> str:
    """Return an entry as text: type, mode, owner, and target."""
    more = {
        "file": f" of {entry.size} bytes sha256:{entry.sha256}",
        "symlink": f" to {entry.target}",
        "char": f" {_describe_device(entry)}",
        "block": f" {_describe_device(entry)}",
    }.get(entry.type, "")
    owner = f" of {entry.uid}:{entry.gid}" if (entry.uid, entry.gid) != (0, 0) else ""
    return f"{entry.type}{more}, {entry.mode:04o}{owner}{', ' + _describe_attributes(entry) if entry.xattrs else ''}"


def compare_runtime(first: RuntimeConfig, second: RuntimeConfig) -> list[Change]:
    """Return the runtime differences of two configurations.

    Variables are named, and secrets are left out.
    """
    first_part, second_part = first.digest_part(), second.digest_part()
    settings, others = first_part.pop("Env"), second_part.pop("Env")
    changes = list(compare_mappings("runtime", _variables(settings), _variables(others), _variable))
    changes += _compare_settings(settings, others, {change.name for change in changes})
    plain = [{key: format_value(value) for key, value in side.items()} for side in (first_part, second_part)]
    return [*changes, *compare_mappings("runtime", plain[0], plain[1])]


def _compare_settings(
    first: Sequence[str], second: Sequence[str], reported: Collection[str]
) -> Iterator[Change]:
    """Yield the differences of variables whose last values are equal; the reported ones are left out."""
    sides = [_group_settings(settings) for settings in (first, second)]
    for name in sorted((sides[0].keys() & sides[1].keys()) - set(reported)):
        lines, others = sides[0][name], sides[1][name]
        if ("=" in lines[-1]) != ("=" in others[-1]):
            texts = ["with = and no value" if "=" in side[-1] else "without =" for side in (lines, others)]
            yield Change(kind="runtime", name=name, one=texts[0], other=texts[1])
        elif lines != others:
            texts = [f"{len(side)} setting{'s' * (len(side) > 1)}" for side in (lines, others)]
            more = ": other values before the last one" if len(lines) == len(others) else ""
            yield Change(kind="runtime", name=f"{name}, repeated", one=texts[0], other=texts[1] + more)


def _group_settings(settings: Sequence[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for item in settings:
        groups.setdefault(f"Env {item.partition('=')[0]}", []).append(item)
    return groups


def _variables(settings: Sequence[str]) -> dict[str, str]:
    return {f"Env {name}": value for name, _, value in (str(item).partition("=") for item in settings)}


def _variable(name: str, value: str) -> str:
    hidden = secrets.secret_variable(name.removeprefix("Env "), value)
    return SECRET if hidden else secrets.redact(value)


def _label(name: str, value: str) -> str:
    return SECRET if secrets.secret_name(name.rpartition(".")[2]) else secrets.redact(value)


def compare_documents(first: Scanned, second: Scanned) -> list[Change]:
    """Return the differences of labels and other JSON values.

    The runtime part is left out.
    """
    first_image, second_image = first.image, second.image
    changes = [
        *compare_mappings("label", first_image.runtime.labels, second_image.runtime.labels, _label),
        *_compare_spelling(first_image, second_image),
    ]
    if bool(first_image.config_digest) == bool(second_image.config_digest):
        rests = [_without_named_parts(image.documents["config"]) for image in (first_image, second_image)]
        changes += compare_leaves("config", rests[0], rests[1])
    else:
        forms = [
            image.form if image.config_digest else f"{image.form}, without one"
            for image in (first_image, second_image)
        ]
        changes.append(Change(kind="config", name="form", one=forms[0], other=forms[1]))
    runs = compare_runtime(first_image.runtime, second_image.runtime)
    if not changes and not runs and first_image.config_digest != second_image.config_digest:
        words = ("one spelling", "another: spaces, the order of keys, or a value that says nothing")
        changes.append(Change(kind="config", name="bytes", one=words[0], other=words[1]))
    if ("manifest" in first_image.documents) != ("manifest" in second_image.documents):
        forms = [
            image.form if "manifest" in image.documents else f"{image.form}, without one"
            for image in (first_image, second_image)
        ]
        return [*changes, Change(kind="manifest", name="form", one=forms[0], other=forms[1])]
    for role in ("manifest", "index"):
        values = [image.documents.get(role) for image in (first_image, second_image)]
        changes += compare_leaves(role, values[0], values[1])
    return changes


def _compare_spelling(first: OciImage, second: OciImage) -> Iterator[Change]:
    """Yield runtime settings with equal meaning but another form.

    An example is variables in another order.
    """
    parts = [image.runtime.digest_part() for image in (first, second)]
    for key in sorted(RUNTIME):
        if parts[0][key] == parts[1][key] and first.config.get(key) != second.config.get(key):
            yield Change(
                kind="config", name=f"/config/{key}", one="the same", other="in another order or form"
            )


def _without_named_parts(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without the parts compared by name."""
    config = document.get("config") or {}
    named = {*read_runtime_config(config).digest_part(), "Labels"}
    remainder = {key: value for key, value in config.items() if key not in named}
    return {**document, "config": remainder}


def compare_packing(first: Scanned, second: Scanned) -> list[Change]:
    """Return the differences in how two images pack their files.

    They concern layers, times, order and compression.
    """
    changes = [*_compare_times(first, second)]
    if len(first.layers) != len(second.layers):
        counts = [f"{len(side.layers)} layers" for side in (first, second)]
        changes.append(Change(kind="layers", name="number", one=counts[0], other=counts[1]))
    for index in range(min(len(first.layers), len(second.layers))):
        name = f"layer {index + 1}"
        first_layer, second_layer = first.image.layers[index], second.image.layers[index]
        if first_layer.diff_id != second_layer.diff_id:
            changes += _compare_layers(name, first.layers[index], second.layers[index])
        elif first_layer.digest != second_layer.digest and first_layer.digest and second_layer.digest:
            texts = [f"{p.method}, {p.size} bytes" for p in (first.packing[index], second.packing[index])]
            changes.append(Change(kind="compression", name=name, one=texts[0], other=texts[1]))
    return changes


def _compare_layers(
    name: str, first: Sequence[LayerMember], second: Sequence[LayerMember]
) -> Iterator[Change]:
    """Yield the differences of two layers at one position.

    They are detailed if the layers hold the same paths.
    """
    paths = [[member.entry.path for member in side] for side in (first, second)]
    if sorted(paths[0]) != sorted(paths[1]):
        sizes = [f"{len(side)} members" for side in paths]
        yield Change(kind="layers", name=f"{name}, other paths", one=sizes[0], other=sizes[1])
        return
    if paths[0] != paths[1]:
        position = next(index for index, pair in enumerate(zip(*paths, strict=True)) if pair[0] != pair[1])
        yield Change(
            kind="order",
            name=f"{name}, from member {position + 1}",
            one=paths[0][position],
            other=paths[1][position],
        )
    by_path = {member.entry.path: member for member in first}
    pairs = [(by_path[member.entry.path], member) for member in second]
    owners = [(a.owner, b.owner) for a, b in pairs if a.owner != b.owner]
    if owners:
        yield Change(
            kind="owners", name=f"{name}, names, {len(owners)} members", one=owners[0][0], other=owners[0][1]
        )
    same = all((a.entry, a.time, a.owner) == (b.entry, b.time, b.owner) for a, b in pairs)
    if same and paths[0] == paths[1]:
        yield Change(
            kind="header", name=name, one="the same members", other="in other bytes: the format of the tar"
        )
    elif any(a.entry != b.entry for a, b in pairs):
        count = sum(a.entry != b.entry for a, b in pairs)
        words = (f"{len(pairs)} members", f"{count} of them otherwise")
        yield Change(kind="layers", name=name, one=words[0], other=words[1])


def _compare_times(first: Scanned, second: Scanned) -> Iterator[Change]:
    paths = [path for path in first.times if first.times[path] != second.times.get(path, first.times[path])]
    if paths:
        moments = [format_time(side.times[paths[0]]) for side in (first, second)]
        name = f"{len(paths)} paths, the first /{paths[0]}"
        yield Change(kind="times", name=name, one=moments[0], other=moments[1])


def format_time(time: int) -> str:
    """Return a time in ns since 1970 as in RFC 3339.

    It is a number of seconds if RFC 3339 cannot express it.
    """
    try:
        whole = datetime.fromtimestamp(0, timezone.utc) + timedelta(seconds=time // 1_000_000_000)
    except OverflowError:
        return f"{time // 1_000_000_000} s"
    part = f"{time % 1_000_000_000:09}".rstrip("0")
    return whole.strftime("%Y-%m-%dT%H:%M:%S") + (f".{part}" if part else "") + "Z"


def find_level(first: Scanned, second: Scanned) -> Level:
    """Return the highest level at which two images are equal."""
    if first.image.manifest and first.image.manifest == second.image.manifest:
        return "manifest"
    if first.image.config_digest and first.image.config_digest == second.image.config_digest:
        return "config"
    return "tree" if first.digest == second.digest else "different"
