"""A program that compares a command's output files of two runs.

It reads JSON options, and writes one JSON document to standard output.

    python -I compare.py OPTIONS.json

with {"one": FOLDER, "two": FOLDER, "files": [{"name": "out.ckpt", "one": "0", "two": "3"}], "ignore": [KEY...],
      "runs": [{"began", "ended", "host", "pid", "zone", "last"}, {...}]}

gives {"ran": true, "files": [{"name", "verdict", "format", "count", "details", "excused", "counts", "warnings",
"notes"}]}, or {"ran": false, "why"}. No content of the files is executed. If a file cannot be read in its apparent
format, its bytes decide. Files of equal bytes are read, too: equal NaN, and equal empty files, are not results.
"""

# ruff: noqa: B905  zip has no `strict` before Python 3.10

import gzip
import json
import os
import resource
import sys
import tempfile
import zlib

sys.dont_write_bytecode = True
_HERE = os.path.dirname(os.path.abspath(__file__))
if sys.path and os.path.abspath(sys.path[0]) == _HERE:  # run by its path: our file names must hide no module
    del sys.path[0]
sys.path.insert(0, os.path.dirname(os.path.dirname(_HERE)))

from reprobuild_runtime.artefacts import archives, events, pickles, text_formats  # noqa: E402  after the path
from reprobuild_runtime.artefacts.findings import Collector, UnreadableError  # noqa: E402  after the path
from reprobuild_runtime.artefacts.ignore_rules import ExcuseRules  # noqa: E402  after the path
from reprobuild_runtime.artefacts.moments import Run  # noqa: E402  after the path
from reprobuild_runtime.artefacts.nested import Walk  # noqa: E402  after the path
from reprobuild_runtime.artefacts.sections import Array, FileSection, compare_arrays  # noqa: E402  after the path
from reprobuild_runtime.artefacts.ulp import BLOCK  # noqa: E402  after the path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

LONGEST = 2000  # characters of a line of the answer
_MEMORY = 4 << 30  # bytes that are always allowed: NumPy's threads reserve much that they do not use


def same_bytes(first_path: str, second_path: str) -> bool:
    """Return whether two files have the same bytes."""
    if os.path.getsize(first_path) != os.path.getsize(second_path):
        return False
    with open(first_path, "rb") as first, open(second_path, "rb") as second:
        while True:
            piece = first.read(1 << 20)
            if piece != second.read(1 << 20):
                return False
            if not piece:
                return True


def format_of(name: str, path: str) -> str:
    """Return a file's apparent format.

    It follows from the first bytes, and from the name if they are not enough.
    """
    with open(path, "rb") as file:
        head = file.read(4096)
    lower = name.lower()
    for begin, kind in (
        (b"PK\3\4", "zip"), (pickles.LEGACY, "torch checkpoint of the format before 1.6"), (b"\x93NUMPY", "npy"),
        (b"\x1f\x8b", "gzip"),
    ):  # fmt: skip
        if head.startswith(begin):
            return kind
    if lower.endswith(".safetensors") or _begins_safetensors(head, os.path.getsize(path)):
        return "safetensors"
    if head[:1] == b"\x80" and head[1:2] in (b"\2", b"\3", b"\4", b"\5"):
        return "pickle"
    if b"\0" in head:
        return "event file of TensorBoard" if events.is_event_file(name, head) else "bytes"
    if lower.endswith((".jsonl", ".ndjson")):
        return "JSON lines"
    if lower.endswith((".csv", ".tsv")):
        return "csv"
    first, _, rest = head.lstrip().partition(b"\n")
    if lower.endswith(".json"):
        # Records that were added to a file one by one are not a document.
        several = first.startswith(b"{") and first.rstrip().endswith(b"}") and rest.lstrip()[:1] == b"{"
        return "JSON lines" if several else "JSON"
    return "JSON lines" if first.startswith(b"{") and first.rstrip().endswith(b"}") else "text"


def _begins_safetensors(head: bytes, size: int) -> bool:
    """Return whether a file begins with the length of its header.

    The first eight bytes of a text would be far too large.
    """
    length = int.from_bytes(head[:8], "little")
    return size > 8 and head[8:9] == b"{" and 2 <= length <= size - 8


def compare_format(kind: str, name: str, first_path: str, second_path: str, collector: "Collector") -> str:
    """Compare two files of one format; return its description.

    Unreadable is raised if they have another format.
    """
    if kind == "zip":
        return archives.compare_zip(first_path, second_path, collector)
    if kind == "gzip":
        return _compare_gzip(name, first_path, second_path, collector)
    if kind == "pickle":
        Walk(collector).compare("", None, pickles.read_pickle(first_path), pickles.read_pickle(second_path))
    elif kind == "torch checkpoint of the format before 1.6":
        Walk(collector).compare("", None, pickles.read_legacy(first_path), pickles.read_legacy(second_path))
    elif kind == "bytes":
        compare_bytes(first_path, second_path, collector)
    else:
        _COMPARE[kind](first_path, second_path, collector)
    if (
        kind in ("pickle", "torch checkpoint of the format before 1.6")
        and not collector.count
        and not collector.excused
    ):
        collector.note("the content is equal, and was written in another way")
    return kind


_COMPARE = {
    "npy": archives.compare_npy, "safetensors": archives.compare_safetensors,
    "JSON lines": text_formats.compare_json_lines, "JSON": text_formats.compare_json, "csv": text_formats.compare_csv,
    "text": text_formats.compare_text,
    "event file of TensorBoard": events.compare_events,
}  # fmt: skip


def _compare_gzip(name: str, first_path: str, second_path: str, collector: "Collector") -> str:
    """Compare the contents of two gzip files."""
    with tempfile.TemporaryDirectory() as folder:
        targets = [os.path.join(folder, which) for which in ("one", "two")]
        for path, target in zip((first_path, second_path), targets):
            try:
                with gzip.open(path) as source, open(target, "wb") as copy:
                    space = archives.unpacking_limit(folder)
                    while True:
                        piece = source.read(BLOCK)
                        if not piece:
                            break
                        space -= len(piece)
                        if space < 0:
                            raise UnreadableError("there is no room to unpack it")
                        copy.write(piece)
            except (OSError, EOFError, zlib.error) as err:
                raise UnreadableError("it cannot be unpacked: %s" % type(err).__name__) from None
        if same_bytes(*targets):
            collector.note("the content is equal; the time or the name in the container is not")
            return "gzip"
        inner = name[:-3] if name.lower().endswith(".gz") else name
        return "gzip, " + compare_format(
            format_of(inner, targets[0]), inner, targets[0], targets[1], collector
        )


def compare_bytes(first_path: str, second_path: str, collector: "Collector") -> None:
    """Compare two files of unknown format."""
    sizes = [os.path.getsize(path) for path in (first_path, second_path)]
    if sizes[0] != sizes[1]:
        collector.differ("%d and %d bytes" % (sizes[0], sizes[1]))
    shorter = min(sizes)
    arrays = [Array("bytes", (shorter,), FileSection(path, 0, shorter)) for path in (first_path, second_path)]
    compare_arrays("content", arrays[0], arrays[1], collector)


def compare_files(name: str, first_path: str, second_path: str, rules: "ExcuseRules") -> "Dict[str, Any]":
    """Return the report on one artefact of two runs."""
    collector, how, same = Collector(rules), "bytes", same_bytes(first_path, second_path)
    kinds = format_of(name, first_path), format_of(name, second_path)
    try:
        if kinds[0] != kinds[1]:
            raise UnreadableError("it is %s in the first run and %s in the second" % kinds)
        if not same or kinds[0] != "bytes":
            how = compare_format(kinds[0], name, first_path, second_path, collector)
        if same:
            collector.notes.clear()
            collector.count = 0  # equal bytes are equal, even if a reader finds differences
            collector.differences.clear()
    except Exception as err:  # untrusted or damaged: its content can raise any error
        collector, how = Collector(rules), "bytes"
        why = err if isinstance(err, UnreadableError) else "%s: %s" % (type(err).__name__, ascii(str(err)))
        collector.note("not read as %s: %s" % (kinds[0], why))
        if not same and kinds[0] in ("JSON", "JSON lines", "csv"):
            how = _text_or_bytes(first_path, second_path, collector)
        elif not same:
            compare_bytes(first_path, second_path, collector)
    verdict = "drift" if collector.count else "identical"
    hollow = "" if collector.count else _find_no_evidence_reason(how, collector)
    return {
        "name": name, "verdict": "inconclusive" if hollow else verdict, "format": how, "count": collector.count,
        "details": shorten_lines([hollow] if hollow else collector.differences),
        "excused": shorten_lines(collector.excuses()), "notes": shorten_lines(collector.notes),
        "counts": collector.counts, "warnings": shorten_lines(collector.warnings()),
    }  # fmt: skip


def _find_no_evidence_reason(how: str, collector: "Collector") -> str:
    """Return why equal files are not evidence.

    Their arrays are NaN, or they are empty.
    """
    if collector.numbers and 2 * collector.nans >= collector.numbers:
        return "%d of %d numbers are NaN, which is equal whatever was computed" % (
            collector.nans,
            collector.numbers,
        )
    if not collector.values and how in _HOLDERS:
        return "it holds no value"
    return ""


_HOLDERS = frozenset(
    ["torch checkpoint", "torch checkpoint of the format before 1.6", "pickle", "safetensors", "npz", "npy"]
)


def shorten_lines(texts: "List[str]") -> "List[str]":
    """Return shortened lines: keys come from the files."""
    return [line if len(line) <= LONGEST else line[:LONGEST] + "..." for line in texts]


def _text_or_bytes(first_path: str, second_path: str, collector: "Collector") -> str:
    try:
        text_formats.compare_text(first_path, second_path, collector)
    except UnreadableError:
        compare_bytes(first_path, second_path, collector)
        return "bytes"
    return "text"


def answer(text: str) -> "Dict[str, Any]":
    """Return the document for these options."""
    try:
        ask = json.loads(text)
        runs = [
            Run(
                float(run["began"]),
                float(run["ended"]),
                str(run["host"]),
                int(run.get("pid", 0)),
                int(run.get("zone", 0)),
                int(run.get("last", 0)),
            )
            for run in ask["runs"]
        ]
        rules = ExcuseRules(runs, ask["ignore"])
        files = [
            compare_files(
                item["name"],
                os.path.join(ask["one"], item["one"]),
                os.path.join(ask["two"], item["two"]),
                rules,
            )
            for item in ask["files"]
        ]
    except Exception as err:  # any error becomes the answer
        return {"ran": False, "why": ascii("%s: %s" % (type(err).__name__, err))[1:-1][:500]}
    return {"ran": True, "files": files}


def limit_memory() -> None:
    """Limit this program's memory.

    A file that is built to fill the memory then fails here, and its bytes are compared.
    """
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = max(_MEMORY, whole // 2)
    resource.setrlimit(
        resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
    )


if __name__ == "__main__":
    limit_memory()
    with open(sys.argv[1], encoding="utf-8") as options:
        asked = options.read()
    print(json.dumps(answer(asked)))
