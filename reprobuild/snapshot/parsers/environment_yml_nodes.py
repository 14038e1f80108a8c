"""The tree of nodes of an `environment.yml`."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from reprobuild.infra.display import display_text
from reprobuild.infra.untrusted.yaml_documents import StrictLoader
from reprobuild.snapshot import text
from reprobuild.snapshot.model import SourceLocation
from reprobuild.snapshot.parsers.environment_yml_channels import HINT

_LIMIT = 1 << 18  # an export has some kilobytes, and YAML is slow to read
_DEPTH = 8
_MERGE = "tag:yaml.org,2002:merge"  # conda reads `<<`: https://yaml.org/type/merge.html


class _Loader(StrictLoader):
    """A composer of shallow trees of nodes without cycles."""

    deepest = _DEPTH
    tags = True  # nodes are read, and no objects are constructed


def compose(data: bytes, file: str) -> yaml.Node | None:
    """Return the tree of an environment; None if the file is empty.

    Raises:
        SnapshotError: it is not text or not YAML, or is larger or deeper than conda writes.
    """
    if len(data) > _LIMIT:
        raise text.parse_error(file, f"{len(data)} bytes are too many for an environment", HINT)
    whole = text.decode(data, file)
    try:
        root: yaml.Node | None = yaml.compose(whole, Loader=_Loader) if whole.strip() else None
    except yaml.MarkedYAMLError as err:
        line = err.problem_mark.line + 1 if err.problem_mark else 1
        raise text.parse_error(
            SourceLocation(file, line), f"not an environment: {display_text(err.problem or '')}", HINT
        ) from None
    except (yaml.YAMLError, ValueError) as err:  # ValueError: an invalid date or number
        raise text.parse_error(file, f"not YAML: {display_text(str(err))}", HINT) from None
    return root


def mapping_items(node: yaml.Node | None) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Yield the keys and values of a mapping; another node has none."""
    if isinstance(node, yaml.MappingNode):
        yield from node.value


def list_channels(root: yaml.Node | None) -> dict[str, list[str]]:
    """Return the whole channels of conda's packages, by their names; those of the environment have the name "".

    They may hold logins: they may be compared, and neither shown nor kept.
    """
    channels: dict[str, list[str]] = {}
    for key, value in mapping_items(root):
        for node in value.value if isinstance(value, yaml.SequenceNode) else ():
            if isinstance(node, yaml.ScalarNode) and key.value == "channels":
                channels.setdefault("", []).append(node.value)
            elif isinstance(node, yaml.ScalarNode) and key.value == "dependencies":
                channel, _, package = node.value.rpartition("::")
                channels.setdefault(package.partition("=")[0], []).append(channel)
    return channels


def merged_mappings(node: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    """Yield a mapping, and those whose keys `<<` adds to it."""
    if isinstance(node, yaml.MappingNode):
        yield node
        for key, value in node.value:
            if key.value == "<<" or key.tag == _MERGE:
                for inner in value.value if isinstance(value, yaml.SequenceNode) else (value,):
                    yield from merged_mappings(inner)


def scalar_nodes(root: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    """Yield the scalars of a tree, its keys included."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.ScalarNode):
            yield node
        elif isinstance(node, yaml.SequenceNode):
            waiting += reversed(node.value)
        elif isinstance(node, yaml.MappingNode):
            waiting += [inner for pair in reversed(node.value) for inner in reversed(pair)]
