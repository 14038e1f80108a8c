"""Differences of two images from their trees and configurations.

No content is read, and no difference is left out. Files have a kind (`FileChange`), everything else is a
`compare.Change` whose kind is one of

* `runtime`: the settings of the process; they are part of the tree digest,
* `label`, `config`, `manifest`, `index`: the rest of the image's JSON files, value by value,
* `layers`, `times`, `order`, `owners`, `header`, `compression`: the packing of the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from msgspec import Struct

from reprobuild.compare.images.scan import LayerMember, Scanned
from reprobuild.image.layering.merge import Tree
from reprobuild.image.oci.open import OciImage
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.lock.diff import Change
from reprobuild.recipe.runtime_config import RuntimeConfig, read_runtime_config
from reprobuild_portable import secrets

# In the order for people: the least explained kinds come first.
KINDS = (
    "content", "type", "added", "removed", "mode", "owner", "link", "attributes", "device", "identity", "order",
    "time", "bytecode", "build-id", "log", "cache",
)  # fmt: skip
LEVELS = ("different", "tree", "config", "manifest")
Level = Literal["different", "tree", "config", "manifest"]
RUNTIME = frozenset(RuntimeConfig().digest_part())
SECRET = "(secret)"


class FileChange(Struct, frozen=True, kw_only=True):
    """A difference at a path.

    A path with another mode and another content has two. `one` and `other` are the two values; of a content,
    its sha256. `detail` is the evidence for `kind`, or the position of the first difference. `culprit` is the
    input that provided the file, as (kind, name) as in `compare`; both empty if unknown.
    """

    path: str
    kind: str
    one: str = ""
    other: str = ""
    detail: str = ""
    culprit: tuple[str, str] = ("", "")


def compare_trees(one: Tree, other: Tree) -> list[FileChange]:
    """Return every difference of two merged trees, by path.

    Contents have the kind "content" for now.
    """
    found: list[FileChange] = []
    for path in sorted({*one, *other}):
        here, there = one.get(path), other.get(path)
        if here is None or there is None:
            present = here or there
            assert present is not None
            kind, said = ("added" if here is None else "removed"), describe(present)
            sides = ("", said) if here is None else (said, "")
            found.append(FileChange(path=path, kind=kind, one=sides[0], other=sides[1]))
        elif here.type != there.type:
            found.append(FileChange(path=path, kind="type", one=describe(here), other=describe(there)))
        else:
            found += _fields(here, there)
    return found


def _fields(one: TarEntry, other: TarEntry) -> Iterator[FileChange]:
    values = (
        ("mode", f"{one.mode:04o}", f"{other.mode:04o}"),
        ("owner", f"{one.uid}:{one.gid}", f"{other.uid}:{other.gid}"),
        ("link", *((one.target, other.target) if one.type == "symlink" else ("", ""))),
        ("attributes", _attributes(one), _attributes(other)),
        ("device", *(_device(entry) if entry.type in ("char", "block") else "" for entry in (one, other))),
        ("content", one.sha256, other.sha256),
    )
    for kind, here, there in values:
        if here != there:
            yield FileChange(path=one.path, kind=kind, one=here, other=there)


def _attributes(entry: TarEntry) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(entry.xattrs))


def _device(entry: TarEntry) -> str:
    return f"{entry.device[0]}:{entry.device[1]}"


def describe(entry: TarEntry) -> str:
    """Return an entry as text: type, mode, owner, and target."""
    more = {
        "file": f" of {entry.size} bytes sha256:{entry.sha256}",
        "symlink": f" to {entry.target}",
        "char": f" {_device(entry)}",
        "block": f" {_device(entry)}",
    }.get(entry.type, "")
    owner = f" of {entry.uid}:{entry.gid}" if (entry.uid, entry.gid) != (0, 0) else ""
    return f"{entry.type}{more}, {entry.mode:04o}{owner}{', ' + _attributes(entry) if entry.xattrs else ''}"


def compare_runtime(one: RuntimeConfig, other: RuntimeConfig) -> list[Change]:
    """Return the runtime differences of two configurations.

    Variables are named, and secrets are left out.
    """
    here, there = one.digest_part(), other.digest_part()
    settings, others = here.pop("Env"), there.pop("Env")
    found = list(_changes("runtime", _variables(settings), _variables(others), _variable))
    if settings != others and not found:  # the same names and last values, so one has a name twice
        counts = [f"{len(side)} settings" for side in (settings, others)]
        found.append(Change(kind="runtime", name="Env, repeated names", one=counts[0], other=counts[1]))
    plain = ({key: _text(value) for key, value in side.items()} for side in (here, there))
    return [*found, *_changes("runtime", *plain)]


def _variables(settings: Sequence[str]) -> dict[str, str]:
    return {f"Env {name}": value for name, _, value in (str(item).partition("=") for item in settings)}


def _variable(name: str, value: str) -> str:
    hidden = secrets.secret_variable(name.removeprefix("Env "), value)
    return SECRET if hidden else secrets.redact(value)


def _label(name: str, value: str) -> str:
    return SECRET if secrets.secret_name(name.rpartition(".")[2]) else secrets.redact(value)


def _quoted(name: str, value: str) -> str:
    return secrets.redact(value)


def _changes(
    kind: str, one: Mapping[str, str], other: Mapping[str, str], say: Any = _quoted
) -> Iterator[Change]:
    for name in sorted({*one, *other}):
        here, there = one.get(name), other.get(name)
        if here != there:
            said = [None if value is None else say(name, value) for value in (here, there)]
            yield Change(kind=kind, name=name, one=said[0], other=said[1])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def compare_documents(one: Scanned, other: Scanned) -> list[Change]:
    """Return the differences of labels and other JSON values.

    The runtime part is left out.
    """
    here, there = one.image, other.image
    found = [*_changes("label", here.runtime.labels, there.runtime.labels, _label), *_spelled(here, there)]
    if bool(here.config_digest) == bool(there.config_digest):
        rests = [dict(_leaves(_rest(image.documents["config"]))) for image in (here, there)]
        found += _changes("config", rests[0], rests[1])
    else:
        forms = [
            image.form if image.config_digest else f"{image.form}, without one" for image in (here, there)
        ]
        found.append(Change(kind="config", name="form", one=forms[0], other=forms[1]))
    runs = compare_runtime(here.runtime, there.runtime)
    if not found and not runs and here.config_digest != there.config_digest:
        words = ("one spelling", "another: spaces, the order of keys, or a value that says nothing")
        found.append(Change(kind="config", name="bytes", one=words[0], other=words[1]))
    if ("manifest" in here.documents) != ("manifest" in there.documents):
        forms = [
            image.form if "manifest" in image.documents else f"{image.form}, without one"
            for image in (here, there)
        ]
        return [*found, Change(kind="manifest", name="form", one=forms[0], other=forms[1])]
    for role in ("manifest", "index"):
        values = [dict(_leaves(image.documents.get(role))) for image in (here, there)]
        found += _changes(role, values[0], values[1])
    return found


def _spelled(one: OciImage, other: OciImage) -> Iterator[Change]:
    """Yield runtime settings with equal meaning but another form.

    An example is variables in another order.
    """
    parts = [image.runtime.digest_part() for image in (one, other)]
    for key in sorted(RUNTIME):
        if parts[0][key] == parts[1][key] and one.config.get(key) != other.config.get(key):
            yield Change(
                kind="config", name=f"/config/{key}", one="the same", other="in another order or form"
            )


def _rest(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without the parts compared by name."""
    config = document.get("config") or {}
    named = {*read_runtime_config(config).digest_part(), "Labels"}
    left = {key: value for key, value in config.items() if key not in named}
    return {**document, "config": left}


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield (place, text) of every value of a JSON document.

    The place is written as in RFC 6901.
    """
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{place}/{key}")
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, f"{place}/{index}")
    else:
        yield place, _text(value)


def compare_packing(one: Scanned, other: Scanned) -> list[Change]:
    """Return the differences in how two images pack their files.

    They concern layers, times, order and compression.
    """
    found = [*_times(one, other)]
    if len(one.layers) != len(other.layers):
        counts = [f"{len(side.layers)} layers" for side in (one, other)]
        found.append(Change(kind="layers", name="number", one=counts[0], other=counts[1]))
    for index in range(min(len(one.layers), len(other.layers))):
        name = f"layer {index + 1}"
        here, there = one.image.layers[index], other.image.layers[index]
        if here.diff_id != there.diff_id:
            found += _layer(name, one.layers[index], other.layers[index])
        elif here.digest != there.digest and here.digest and there.digest:
            ways = [f"{p.method}, {p.size} bytes" for p in (one.packing[index], other.packing[index])]
            found.append(Change(kind="compression", name=name, one=ways[0], other=ways[1]))
    return found


def _layer(name: str, one: Sequence[LayerMember], other: Sequence[LayerMember]) -> Iterator[Change]:
    """Yield the differences of two layers at one position.

    They are detailed if the layers hold the same paths.
    """
    paths = [[member.entry.path for member in side] for side in (one, other)]
    if sorted(paths[0]) != sorted(paths[1]):
        sizes = [f"{len(side)} members" for side in paths]
        yield Change(kind="layers", name=f"{name}, other paths", one=sizes[0], other=sizes[1])
        return
    if paths[0] != paths[1]:
        first = next(index for index, pair in enumerate(zip(*paths, strict=True)) if pair[0] != pair[1])
        yield Change(
            kind="order",
            name=f"{name}, from member {first + 1}",
            one=paths[0][first],
            other=paths[1][first],
        )
    here = {member.entry.path: member for member in one}
    pairs = [(here[member.entry.path], member) for member in other]
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


def _times(one: Scanned, other: Scanned) -> Iterator[Change]:
    paths = [path for path in one.times if one.times[path] != other.times.get(path, one.times[path])]
    if paths:
        said = [moment(side.times[paths[0]]) for side in (one, other)]
        name = f"{len(paths)} paths, the first /{paths[0]}"
        yield Change(kind="times", name=name, one=said[0], other=said[1])


def moment(time: int) -> str:
    """Return a time in ns since 1970 as in RFC 3339.

    It is a number of seconds if RFC 3339 cannot express it.
    """
    try:
        whole = datetime.fromtimestamp(0, timezone.utc) + timedelta(seconds=time // 1_000_000_000)
    except OverflowError:
        return f"{time // 1_000_000_000} s"
    part = f"{time % 1_000_000_000:09}".rstrip("0")
    return whole.strftime("%Y-%m-%dT%H:%M:%S") + (f".{part}" if part else "") + "Z"


def level(one: Scanned, other: Scanned) -> Level:
    """Return the highest level at which two images are equal."""
    if one.image.manifest and one.image.manifest == other.image.manifest:
        return "manifest"
    if one.image.config_digest and one.image.config_digest == other.image.config_digest:
        return "config"
    return "tree" if one.digest == other.digest else "different"
