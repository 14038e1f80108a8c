"""The JSON Schemas of the documents of `bisect --json` and `trace --json`, docs/NAME.schema.json.

    python dev/write_schema.py

tests/bisecting/test_document.py and tests/tracing/test_document.py make the schemas again, compare, and validate
documents.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

import msgspec  # noqa: E402  after the path

from reprobuild.bisect.result import BisectionResult  # noqa: E402  after the path
from reprobuild.trace.command import TraceResult  # noqa: E402  after the path

FILE = ROOT / "docs" / "bisect.schema.json"
TRACE = ROOT / "docs" / "trace.schema.json"


def schema(kind: type = BisectionResult) -> str:
    """Return the schema: a printed document has all fields, so that no default is needed."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **msgspec.json.schema(kind),
    }
    for part in document["$defs"].values():
        part["description"] = inspect.cleandoc(part["description"])
        part["required"] = list(part["properties"])
        for field in part["properties"].values():
            field.pop("default", None)
    return json.dumps(document, indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(schema(), encoding="utf-8")
    TRACE.write_text(schema(TraceResult), encoding="utf-8")
