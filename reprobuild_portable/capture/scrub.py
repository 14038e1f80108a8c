"""Removal of secret values from texts and errors."""

from __future__ import annotations

import json
from typing import Any, Callable, List, Mapping, Sequence

from reprobuild_portable.capture.files import _bytes, quote
from reprobuild_portable.secrets.redact import cut_tokens, redact
from reprobuild_portable.secrets.search import find
from reprobuild_portable.secrets.variables import secret_variable
from reprobuild_portable.secrets.words import GONE


def _harmless(err: BaseException) -> str:
    """Describe an exception without its message.

    The message may hold a value of the environment.
    """
    if isinstance(err, OSError) and err.strerror:
        return f"{type(err).__name__}: {err.strerror}"
    line = ""
    trace = err.__traceback__
    while trace is not None:
        line = f" in {trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return type(err).__name__ + line


def _known_secrets(environ: Mapping[str, str]) -> List[bytes]:
    """Return the values of secret variables, the longest first.

    Values that could be ordinary words are left out.
    """
    values = {
        value for name, value in environ.items()
        if len(value) >= 8 and not value.isalpha() and not value.isdigit() and not value.startswith("/")
        and secret_variable(name, value)
    }  # fmt: skip
    return sorted(map(_bytes, values), key=len, reverse=True)


def _scrub(text: bytes, secrets: Sequence[bytes]) -> bytes:
    """Redact the values of secret variables, and tokens, in a text."""
    for value in secrets:
        text = text.replace(value, GONE.encode())
    if not find(text, 1):  # it is faster than the patterns
        return text
    return cut_tokens(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _show_paths(paths: Sequence[bytes], secrets: Sequence[bytes]) -> List[str]:
    """Return paths as text, with `***` for each secret in them."""
    content = b"\n".join(sorted(paths))
    if find(content, 1) or any(value in content for value in secrets):
        return [_show_path(path, secrets) for path in paths]
    return [quote(path) for path in paths]  # one search is ten times as fast as a search for each


def _show_path(path: bytes, secrets: Sequence[bytes]) -> str:
    """Return a path as text, with `***` for each secret in it, or for the path if a secret would stay."""
    for value in secrets:
        path = path.replace(value, GONE.encode())
    if find(path, 1):
        path = redact(path.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        if find(path, 1):
            return GONE
    return quote(path)


def _scrub_document(document: Any, secrets: Sequence[bytes]) -> Any:
    """Redact secret values and tokens in all strings of a JSON document.

    The strings can then be written as UTF-8. A token may be in a path, a branch or a version.
    """

    def clean(text: str) -> str:
        content = _bytes(text)
        for value in secrets:
            content = content.replace(value, GONE.encode())
        return content.decode("utf-8", "backslashreplace")

    document = _map_strings(document, clean)
    return _map_strings(document, cut_tokens) if find(json.dumps(document).encode(), 1) else document


def _map_strings(document: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON document with each string changed. The keys are ours, and unchanged."""
    if isinstance(document, str):
        return change(document)
    if isinstance(document, dict):
        return {key: _map_strings(value, change) for key, value in document.items()}
    if isinstance(document, (list, tuple)):
        return [_map_strings(value, change) for value in document]
    return document
