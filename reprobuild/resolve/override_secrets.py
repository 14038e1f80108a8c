"""Refusal of overrides with secrets.

The lock keeps decisions, and people hand locks on.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from reprobuild.config.overrides import Decisions
from reprobuild.errors import UsageError
from reprobuild_portable import secrets

_AT_RUNTIME = (
    "let the command read it from a variable, and pass that when the image runs: `reprobuild run --secret NAME` or "
    "`reprobuild verify --secret NAME`"
)
_TAKE_OUT = (
    "take it out of the decision; a login belongs into ~/.netrc, and a program of the image gets a secret by "
    "`reprobuild run --secret NAME` or `reprobuild verify --secret NAME`"
)


def refuse_secrets(decisions: Decisions) -> None:
    """Refuse a secret in a decision before a lock keeps it.

    Raises:
        UsageError: a secret was found. The message has the decision and the rule, but not the value.
    """
    for name, rule in secret_decisions(decisions).items():
        raise UsageError(
            f"the decision {name} holds a secret ({rule}), and a lock keeps its decisions for ever",
            hint=_AT_RUNTIME if name == "workload.command" else _TAKE_OUT,
        )


def secret_decisions(decisions: Decisions) -> dict[str, str]:
    """Return {name: rule} of the decisions with a secret."""
    texts = _decision_texts("", decisions.lock_document())
    rules = {}
    for name, text in texts:
        if name not in rules and (rule := _find_secret_rule(name, text)):
            rules[name] = rule
    return rules


def _find_secret_rule(name: str, text: str) -> str | None:
    findings = secrets.find(text.encode("utf-8", "surrogateescape"), most=1)
    if findings:
        return findings[0][1]
    parent, _, variable = name.rpartition(".")
    if parent == "bake" or parent.endswith(".variables"):
        return secrets.secret_variable(variable, text)
    return None


def _decision_texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the name of each decision with its text.

    For a list, each item is yielded, and all as one command line.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield name or str(key), str(key)
            yield from _decision_texts(f"{name}.{key}" if name else str(key), item)
    elif isinstance(value, list):
        for item in value:
            yield from _decision_texts(name, item)
        if all(isinstance(item, str) for item in value):
            yield name, " ".join(value)
            yield name, shlex.join(value)
    elif isinstance(value, str):
        yield name, value
