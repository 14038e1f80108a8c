"""Environment variables."""

from __future__ import annotations

import os
import re
from typing import Dict, Optional

from reprobuild_portable.capture.files import _bytes, _path, _read
from reprobuild_portable.capture.model import Context, Taken
from reprobuild_portable.secrets.redact import cut_tokens
from reprobuild_portable.secrets.variables import secret_variable
from reprobuild_portable.secrets.words import GONE, secret_name


def _environment(program: bool) -> Dict[str, str]:
    """Return the environment that the process was given.

    The program removes the LC_CTYPE that Python itself sets in the C locale (PEP 538).
    """
    environ = dict(os.environ)
    if program and environ.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):
        content = _read("/proc/self/environ", 1 << 24)
        if content and not any(entry.startswith(b"LC_CTYPE=") for entry in content.split(b"\0")):
            del environ["LC_CTYPE"]
    return environ


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def take_environment(context: Context) -> Taken:
    """Capture the environment variables.

    `env.nul` is exact, in the order of the process, and without secrets. `env.txt` is for people and for the
    reader.
    """
    exact, rows, withheld = [], [], []
    for name, value in context.environ.items():
        if cut_tokens(name) != name:
            withheld.append({"what": "a variable", "name": GONE, "reason": "secret", "rule": "its name"})
            continue
        rule = secret_variable(name, value)
        if rule is None and any(secret in _bytes(value) for secret in context.secrets):
            rule = "repeated"  # it has the value of another variable, a secret
        if rule is None:
            exact.append(_bytes(name) + b"=" + _bytes(value) + b"\0")
        else:
            withheld.append({"what": "a variable", "name": _path(name), "reason": "secret", "rule": rule})
        rows.append((name, _format_row(name, value, rule)))
    # In descending order: an ascending dump reads like `printenv | sort`, with values that may be torn.
    text = "".join(row + "\n" for _, row in sorted(rows, reverse=True))
    facts = {"variables": len(rows), "only_in_env_nul": [_path(n) for n, _ in rows if not _NAME.fullmatch(n)]}
    return Taken(
        facts, {"env.nul": b"".join(exact), "env.txt": text.encode("utf-8", "replace")}, withheld=withheld
    )


def _format_row(name: str, value: str, rule: Optional[str]) -> str:
    """Return the line of a variable in env.txt.

    It is `NAME=value`, or `export NAME=$'...'` as bash writes it if that is not one line. A value redacted
    for its name is `***`, so that a reader still knows it; a secret with an innocent name gives a comment.
    """
    if not _NAME.fullmatch(name):
        return f"# withheld: {_path(name)} ({rule})" if rule else f"# only in env.nul: {_path(name)}"
    if rule:
        return f"{name}={GONE}" if secret_name(name) else f"# withheld: {name} ({rule})"
    plain = value.isprintable() and value == value.strip() and not re.match(r"[({\[]|-----", value)
    if plain and value and not re.fullmatch(r"=+", value):
        return f"{name}={value}"
    named = {10: "\\n", 9: "\\t", 13: "\\r", 39: "\\'", 92: "\\\\"}
    body = "".join(
        named.get(c, chr(c)) if 32 <= c < 127 or c in named else f"\\{c:03o}" for c in _bytes(value)
    )
    return f"export {name}=$'{body}'"
