"""Report on repositories that were restored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reprobuild.ecosystems.git.restore.restore import Restored
from reprobuild.report.difference import safe_text
from reprobuild.snapshot.capture_model import CaptureFacts
from reprobuild.snapshot.parsers.capture_json import unquote_path

_MANY = 12


def render_restored(captured: CaptureFacts, trees: Sequence[Restored]) -> str:
    """Return a few lines for each work tree.

    They have its path, its commit, and the files that are not in it.
    """
    known = {repository.name: repository for repository in captured.repositories}
    lines = []
    for tree in trees:
        repository = known[tree.name]
        branch = (
            f", branch {safe_text(tree.branch.removeprefix('refs/heads/'))}" if tree.branch else ", no branch"
        )
        lines.append(f"{tree.name}: {safe_text(str(tree.folder))}")
        lines.append(f"  commit        {tree.head or 'none yet'}{branch}")
        if tree.address:
            lines.append(f"  fetched from  {safe_text(tree.address)}")
        lines += [
            f"  not captured  {safe_text(file.path)}: {safe_text(file.reason)}"
            for file in repository.left_out[:_MANY]
        ]
        more = max(repository.left_out_count, len(repository.left_out)) - min(len(repository.left_out), _MANY)
        if more:
            lines.append(f"  not captured  {more} more, which capture.json has")
        lines += [
            f"  LFS pointer   {safe_text(file.path)}: {file.size} bytes" for file in repository.lfs[:_MANY]
        ]
    return "\n".join(lines)


def restore_warnings(trees: Sequence[Restored]) -> Iterator[str]:
    """Yield a warning for each nested bare repository.

    If a command starts in such a directory, git follows its configuration.
    """
    for tree in trees:
        for folder in tree.bare[:_MANY]:
            place = safe_text(str(tree.folder / folder))
            yield (
                f"{place} is itself a git repository: git follows its configuration, which may start programs, "
                "where a command runs in it; `git config --global safe.bareRepository explicit` prevents that"
            )
        if len(tree.bare) > _MANY:
            yield f"{tree.name}: {len(tree.bare) - _MANY} more such directories; all with --json"


def restored_document(captured: CaptureFacts, trees: Sequence[Restored]) -> dict[str, object]:
    """Return the JSON document of `restore`."""
    known = {repository.name: repository for repository in captured.repositories}
    return {
        "repositories": [
            {
                "name": tree.name, "directory": str(tree.folder), "head": tree.head, "branch": tree.branch,
                "address": tree.address, "bare": list(tree.bare),
                "left_out": [
                    {"path": unquote_path(file.path).decode("utf-8", "surrogateescape"), "reason": file.reason}
                    for file in known[tree.name].left_out
                ],
                "left_out_count": max(known[tree.name].left_out_count, len(known[tree.name].left_out)),
            }
            for tree in trees
        ]
    }  # fmt: skip
