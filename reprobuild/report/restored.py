"""Report on repositories that were restored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reprobuild.ecosystems.git.restore.restore import Restored
from reprobuild.report.difference import safe
from reprobuild.snapshot.capture_model import CaptureFacts
from reprobuild.snapshot.parsers.capture_json import unquoted

_MANY = 12


def render_restored(captured: CaptureFacts, made: Sequence[Restored]) -> str:
    """Return a few lines for each work tree.

    They have its path, its commit, and the files that are not in it.
    """
    known = {one.name: one for one in captured.repositories}
    lines = []
    for one in made:
        repository = known[one.name]
        branch = f", branch {safe(one.branch.removeprefix('refs/heads/'))}" if one.branch else ", no branch"
        lines.append(f"{one.name}: {safe(str(one.folder))}")
        lines.append(f"  commit        {one.head or 'none yet'}{branch}")
        if one.address:
            lines.append(f"  fetched from  {safe(one.address)}")
        lines += [
            f"  not captured  {safe(file.path)}: {safe(file.reason)}" for file in repository.left_out[:_MANY]
        ]
        more = max(repository.left_out_count, len(repository.left_out)) - min(len(repository.left_out), _MANY)
        if more:
            lines.append(f"  not captured  {more} more, which capture.json has")
        lines += [f"  LFS pointer   {safe(file.path)}: {file.size} bytes" for file in repository.lfs[:_MANY]]
    return "\n".join(lines)


def warnings(made: Sequence[Restored]) -> Iterator[str]:
    """Yield a warning for each nested bare repository.

    If a command starts in such a directory, git follows its configuration.
    """
    for one in made:
        for folder in one.bare[:_MANY]:
            place = safe(str(one.folder / folder))
            yield (
                f"{place} is itself a git repository: git follows its configuration, which may start programs, "
                "where a command runs in it; `git config --global safe.bareRepository explicit` prevents that"
            )
        if len(one.bare) > _MANY:
            yield f"{one.name}: {len(one.bare) - _MANY} more such directories; all with --json"


def restored_document(captured: CaptureFacts, made: Sequence[Restored]) -> dict[str, object]:
    """Return the JSON document of `restore`."""
    known = {one.name: one for one in captured.repositories}
    return {
        "repositories": [
            {
                "name": one.name, "directory": str(one.folder), "head": one.head, "branch": one.branch,
                "address": one.address, "bare": list(one.bare),
                "left_out": [
                    {"path": unquoted(file.path).decode("utf-8", "surrogateescape"), "reason": file.reason}
                    for file in known[one.name].left_out
                ],
                "left_out_count": max(known[one.name].left_out_count, len(known[one.name].left_out)),
            }
            for one in made
        ]
    }  # fmt: skip
