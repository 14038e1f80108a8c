"""Report of two images that differ.

It has the level, the causes with their files, and the packing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from reprobuild.compare.images.attribute import Cause
from reprobuild.compare.images.explain import ImageDiff, ImageSummary
from reprobuild.compare.images.tree import FileChange
from reprobuild.lock.diff import Change

# Most lines of one list, unless everything is asked for.
SHOWN = 12
LONGEST = 200
_LEVELS = {
    "manifest": "the same manifest: equal in every byte that an engine sees",
    "config": "the same configuration and layers, packed otherwise",
    "tree": "the same tree: equal in all that a program in the container sees, and packed otherwise",
    "different": "different trees",
}


def render_image_diff(diff: ImageDiff, *, everything: bool = False) -> str:
    """Return the report of `diff`.

    Names and values of images are escaped, and long ones shortened.

    Args:
        diff: the differences.
        everything: list all.
    """
    most = None if everything else SHOWN
    lines = [*_side_lines(diff.one), *_side_lines(diff.other), "", _LEVELS[diff.level]]
    if diff.files:
        lines += ["", *_summary_lines(diff)]
    by_culprit: dict[tuple[str, str], list[FileChange]] = {}
    for file in diff.files:
        by_culprit.setdefault(file.culprit, []).append(file)
    for culprit in diff.culprits:
        files = by_culprit[culprit.kind, culprit.name]
        lines += ["", _cause_headline(culprit), *_limit_lines([_format_file(file) for file in files], most)]
    for title, kinds in _SECTIONS:
        changes = [change for kind in kinds for change in diff.changes if change.kind == kind]
        if changes:
            lines += ["", title, *_limit_lines([_format_change(change) for change in changes], most)]
    for deeper in diff.diffoscope:
        lines += ["", f"diffoscope of /{safe_text(deeper.path)}:"]
        lines += [f"  {safe_text(line)}" for line in deeper.text.splitlines()]
    if diff.notes:
        lines += ["", *(safe_text(note, 4 * LONGEST) for note in diff.notes)]
    return "\n".join(lines)


_SECTIONS = (
    ("what runs (part of the tree digest):", ("runtime",)),
    ("labels:", ("label",)),
    (
        "packing (no part of the tree digest):",
        ("times", "layers", "order", "owners", "header", "compression", "config", "manifest", "index"),
    ),
)


def _side_lines(side: ImageSummary) -> Iterator[str]:
    digests = (("tree", side.tree), ("config", side.config), ("manifest", side.manifest or "none"))
    yield f"{safe_text(side.name)} ({side.form})"
    for name, digest in (*digests, *((("lock", side.lock),) if side.lock else ())):
        yield f"  {name:<8}  {digest}"


def _summary_lines(diff: ImageDiff) -> Iterator[str]:
    kinds = Counter(file.kind for file in diff.files)
    paths = len({file.path for file in diff.files})
    yield f"{_format_count(paths, 'path')} differ: " + ", ".join(
        f"{number} {kind}" for kind, number in kinds.items()
    )


def _cause_headline(culprit: Cause) -> str:
    files = _format_count(culprit.files, "path")
    if not culprit.name:
        return f"of no known input: {files}"
    name = safe_text(f"{culprit.kind} {culprit.name}")
    if culprit.explains == "unknown":
        return f"{name}: {files}; no lock names its two versions"
    if culprit.explains == "no":
        same = f" ({safe_text(culprit.one)})" if culprit.one else ""
        return f"{name} is the same in both{same}, and does not explain {files}"
    return f"{name}: {safe_text(culprit.one) or 'nothing'} -> {safe_text(culprit.other) or 'nothing'} explains {files}"


def _format_count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _format_file(file: FileChange) -> str:
    values = f"{safe_text(file.one) or 'nothing'} -> {safe_text(file.other) or 'nothing'}"
    detail = values if file.kind in _VALUED else safe_text(file.detail, 3 * LONGEST)
    return f"{file.kind:<10}  /{safe_text(file.path)}{f': {detail}' if detail else ''}"


_VALUED = ("type", "mode", "owner", "link", "attributes", "device", "added", "removed")


def _format_change(change: Change) -> str:
    first, second = ("nothing" if value is None else safe_text(value) for value in (change.one, change.other))
    return f"{change.kind}: {safe_text(change.name)}: {first} -> {second}"


def _limit_lines(lines: Sequence[str], most: int | None) -> list[str]:
    shown = [f"  {line}" for line in lines[:most]]
    rest = len(lines) - len(shown)
    return [*shown, f"  ... and {rest} more: -v or --json lists them"] if rest else shown


def safe_text(text: str, longest: int = LONGEST) -> str:
    """Escape and shorten text from an image for a terminal.

    Unprintable characters are escaped, and long text loses its middle.
    """
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    if len(escaped) <= longest:
        return escaped
    half = longest // 2
    return f"{escaped[:half]}...({len(escaped) - 2 * half} more)...{escaped[-half:]}"
