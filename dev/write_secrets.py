"""The files made of the rules of secrets.

They are `reprobuild/infra/secrets/tokens.py`, and the copy of the rules in `capture.py`.

    python dev/write_secrets.py

`capture.py` is one file that stands alone, so it contains all of `reprobuild/infra/secrets/`.
tests/capture/test_secrets.py makes both again and compares.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "reprobuild" / "infra" / "secrets"
DATA = PACKAGE / "tokens.toml"
TOKENS = PACKAGE / "tokens.py"
PROGRAM = ROOT / "reprobuild_runtime" / "capture.py"
# Each after those that it imports.
MODULES = (
    "templates",
    "words",
    "commands",
    "pairs",
    "tokens",
    "rules",
    "search",
    "redact",
    "variables",
    "files",
)
START = "# --- Secrets, written by dev/write_secrets.py: do not edit ---\n"
END = "# --- End of the secrets ---"
HEAD = '''\
"""Tokens by their looks: name, marks and pattern. Written by `dev/write_secrets.py` of `tokens.toml`: do not edit."""

from __future__ import annotations

'''


def tokens() -> str:
    """Return the text of the module of tokens."""
    data = msgspec.toml.decode(DATA.read_bytes())
    rows = []
    for token in data["token"]:
        marks = _lines((f'"{mark}",' for mark in token["marks"]), "         ", " ")
        pieces = re.findall(r"(?s)(?:\\.|[^\\]){1,80}", token["pattern"])
        pattern = "\n        ".join(f'r"{piece}"' for piece in pieces)
        rows.append(f'    (\n        "{token["name"]}",\n        ({marks}),\n        {pattern},\n    ),\n')
    table = "TOKENS: tuple[tuple[str, tuple[str, ...], str], ...] = (\n" + "".join(rows) + ")\n"
    return f"{HEAD}# fmt: off\n{table}# fmt: on\n"


def _lines(words: Iterable[str], indent: str, between: str) -> str:
    """Return words in lines of 100 characters at most."""
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > 90:
            lines.append(indent)
        lines[-1] += (between if lines[-1].strip() else "") + word
    return "\n".join(lines)


def section(module_of_tokens: str) -> str:
    """Return the modules as one text, without docstrings and imports."""
    texts = []
    for name in MODULES:
        text = module_of_tokens if name == "tokens" else (PACKAGE / f"{name}.py").read_text()
        body = text.partition("from __future__ import annotations\n")[2]
        body = re.sub(r"(?m)^from reprobuild[\w.]* import (?:\([^)]*\)(?:  # .*)?|.*)\n", "", body)
        body = re.sub(
            r"(?m)^(?:import \w+|from (?:collections|collections\.abc|typing|urllib\.parse) import .*)\n",
            "",
            body,
        )
        texts.append(body.strip("\n") + "\n")
    return START + "\n" + "\n\n".join(texts) + "\n\n"


def program(text: str, module_of_tokens: str) -> str:
    """Return `capture.py` with the present rules."""
    before, _, rest = text.partition(START)
    return before + section(module_of_tokens) + END + rest.partition(END)[2]


def main() -> None:
    """Write both files."""
    made = tokens()
    TOKENS.write_text(made)
    PROGRAM.write_text(program(PROGRAM.read_text(), made))
    sys.stdout.write(f"{TOKENS.relative_to(ROOT)}, {PROGRAM.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
