"""Removal of secret values from texts and errors."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence

from reprobuild_portable.capture.files import _bytes
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
    """Redact the values of secret variables in a text."""
    for value in secrets:
        text = text.replace(value, GONE.encode())
    return text


def _scrub_values(document: Any, secrets: Sequence[bytes]) -> Any:
    """Redact secret values in all strings of a JSON document.

    The strings can then be written as UTF-8. The keys are ours, and unchanged.
    """
    if isinstance(document, str):
        return _scrub(_bytes(document), secrets).decode("utf-8", "backslashreplace")
    if isinstance(document, dict):
        return {key: _scrub_values(value, secrets) for key, value in document.items()}
    if isinstance(document, (list, tuple)):
        return [_scrub_values(value, secrets) for value in document]
    return document
