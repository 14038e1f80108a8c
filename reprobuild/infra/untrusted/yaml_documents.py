"""Untrusted YAML, read in bounded time and memory.

An alias repeats the contents of its anchor, so some hundred bytes stand for billions of items
(https://en.wikipedia.org/wiki/Billion_laughs_attack). An explicit tag makes PyYAML's constructors fail in
ways of their own.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from reprobuild.infra.display import display_text

# People write files of some hundred items; PyYAML reads some ten thousand of them in a second.
MOST_REPEATED = 8 << 20  # characters
MOST_NODES = 50_000
DEEPEST = 32
_LONGEST_NUMBER = 400  # PyYAML reads `1:1:1` as a number of base 60, in quadratic time
_HALF = re.compile(
    "[\ud800-\udfff]"
)  # an escape can name a surrogate, which no encoded text can ever contain
_REFUSALS = (
    yaml.YAMLError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
)


class StrictLoader(yaml.SafeLoader):
    """A loader that refuses risky YAML.

    It refuses aliases, explicit tags, deep nesting, too many nodes, and repeated keys.
    """

    deepest = DEEPEST
    tags = False
    repeats = False  # whether a key may be repeated
    nodes = 0
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # types-PyYAML leaves it out
        self.nodes += 1
        self.depth += 1
        if reason := self.refusal(event):
            raise yaml.composer.ComposerError(None, None, reason, event.start_mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        names: set[str] = set()
        for key in () if self.repeats else keys:
            # PyYAML silently takes the last one; in YAML 1.2.2 (3.2.1.1) all keys differ.
            if key.value in names:
                raise yaml.composer.ComposerError(None, None, f"a second {key.value[:60]!r}", key.start_mark)
            names.add(key.value)
        return node

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        return int(super().construct_yaml_int(_check_number_length(node)))

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        return float(super().construct_yaml_float(_check_number_length(node)))

    def refusal(self, event: Any) -> str:
        """Return why an event's node is refused, or ""."""
        if isinstance(event, yaml.AliasEvent):
            return "an alias"
        if not self.tags and getattr(event, "tag", None) not in (None, "!"):
            return "an explicit tag"
        return self._excess(event)

    def _excess(self, event: Any) -> str:
        if self.depth > self.deepest:
            return "nested too deep"
        if _HALF.search(getattr(event, "value", None) or ""):
            return "half a character"
        return f"more than {MOST_NODES} items" if self.nodes > MOST_NODES else ""


class BoundedLoader(StrictLoader):
    """A loader for the user's own files.

    It allows aliases within the bound, and repeated keys.
    """

    repeats = True

    def __init__(self, stream: str | bytes) -> None:
        super().__init__(stream)
        self._sizes: dict[str, int] = {}
        self._lengths: dict[str, int] = {}  # of the text of each anchor, with that of the aliases in it
        self._repeated = self._text = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # as above
        before, text = self.nodes, self._text
        if isinstance(event, yaml.AliasEvent):
            # An anchor that is not complete repeats itself.
            self.nodes += self._sizes.get(str(event.anchor), MOST_NODES)
            self._repeated += self._lengths.get(str(event.anchor), 0)
            self._text += self._lengths.get(str(event.anchor), 0)
        self._text += len(getattr(event, "value", None) or "")
        node = super().compose_node(parent, index)
        if event.anchor and not isinstance(event, yaml.AliasEvent):
            self._sizes[event.anchor] = self.nodes - before
            self._lengths[event.anchor] = self._text - text
        return node

    def refusal(self, event: Any) -> str:
        if self._repeated > MOST_REPEATED:  # a reader that writes a value out writes its aliases out, too
            return f"aliases of more than {MOST_REPEATED >> 20} MiB of text"
        return self._excess(event)


class TextLoader(BoundedLoader):
    """A loader that keeps each plain value as the text that it is, such as a hash of digits alone."""

    yaml_implicit_resolvers = {}  # noqa: RUF012  # as PyYAML declares it


def _check_number_length(node: yaml.ScalarNode) -> yaml.ScalarNode:
    if len(node.value) > _LONGEST_NUMBER:
        raise yaml.constructor.ConstructorError(None, None, "a number is too long", node.start_mark)
    return node


for _kind in ("int", "float"):  # the table of constructors holds functions, and not names of methods
    StrictLoader.add_constructor(
        f"tag:yaml.org,2002:{_kind}", getattr(StrictLoader, f"construct_yaml_{_kind}")
    )


def load_yaml(text: str, loader: type[StrictLoader] = StrictLoader) -> Any:
    """Return the value of a YAML document.

    Args:
        text: the document; the caller bounds its size.
        loader: its permitted features: see the two classes.

    Raises:
        ValueError: it is not YAML, or the loader refuses it; the message names the position. It quotes no line: a part
            of a line can show a secret without the name by which secrets are found.
    """
    try:
        return yaml.load(text, Loader=loader)  # noqa: S506  # a SafeLoader, see above
    except yaml.MarkedYAMLError as err:
        mark = err.problem_mark or err.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ValueError(display_text(err.problem or err.context or "broken") + place) from None
    except _REFUSALS as err:
        raise ValueError(display_text(str(err)) or type(err).__name__) from None
