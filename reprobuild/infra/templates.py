"""Files from Jinja2 templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup


class Templates:
    """The templates of one directory."""

    def __init__(self, environment: jinja2.Environment) -> None:
        self._environment = environment

    def render(self, name: str, facts: Mapping[str, Any]) -> str:
        """Return the text of a template with its facts; a missing fact is an error."""
        return self._environment.get_template(name).render(facts)


def text_templates(folder: Path, filters: Mapping[str, Callable[..., Any]]) -> Templates:
    """Return templates of text files, in which each value goes through a quoting filter."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701  # text files; each value goes through a quoting filter
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters.update(filters)
    return Templates(environment)


def html_templates(
    folder: Path, text: Callable[[str], str], filters: Mapping[str, Callable[[str], str]], facts: Mapping[str, Any]
) -> Templates:  # fmt: skip
    """Return templates of HTML pages.

    Args:
        folder: the directory of the templates.
        text: returns the markup of a value; each value goes through it.
        filters: return the markup of a value at a place with other rules.
        facts: those of every template.
    """

    def finalize(value: object) -> Markup:
        return value if isinstance(value, Markup) else Markup(text(str(value)))  # noqa: S704  # `text` escapes it

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), undefined=jinja2.StrictUndefined, autoescape=True,
        finalize=finalize, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    for name, function in filters.items():
        environment.filters[name] = _as_markup(function)
    environment.globals.update(facts)
    return Templates(environment)


def _as_markup(function: Callable[[str], str]) -> Callable[[object], Markup]:
    return lambda value: Markup(function(str(value)))  # noqa: S704  # each filter escapes its value
