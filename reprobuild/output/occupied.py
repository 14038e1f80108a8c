"""Files of the user in a directory that is to become an output directory.

An output directory is written again by each build. A file or directory of the user with the name of an output would be
lost, for example a Dockerfile where the option is `-o .`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from reprobuild.errors import UsageError
from reprobuild.infra.shell_words import quote_path
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.output.directory import BADGE, CLUSTER_RESULT, IMAGE, LOCK, REPORT, VERDICT

# The first line of each recipe, and a line of each lock of packages, that this program writes.
_RECIPE, _PACKAGES = b"written by reprobuild from a lock", b'created-by = "reprobuild"'
_REQUIREMENTS = (
    b"# Every distribution of the environment, for `pip install --no-index --no-deps --require-hashes`."
)
_LARGEST = 64 << 20
_DOCUMENTS = (VERDICT, REPORT, BADGE, CLUSTER_RESULT)
_SINGLES = ("image.sif", "image.sqsh")


def refuse_files_of_others(out: Path, *, requirements: bool = False) -> None:
    """Refuse a directory in which an output would replace a file that this program did not write.

    Args:
        out: the output directory.
        requirements: a `requirements.txt` is written, too.

    Raises:
        UsageError: there is one. The error names all, and nothing has been written.
    """
    if not out.is_dir():
        return
    names = sorted(_find_others(out, requirements=requirements))
    if names:
        raise UsageError(
            f"{out} has files that reprobuild did not write, and that its output would replace: {', '.join(names)}",
            hint=f"name a new directory: -o {quote_path(out / 'frozen')}; or move these files away",
        )


def _find_others(out: Path, *, requirements: bool) -> Iterator[str]:
    checks: Mapping[str, Callable[[Path], bool]] = {
        "Dockerfile": lambda path: _has_text(path, _RECIPE),
        "Apptainer.def": lambda path: _has_text(path, _RECIPE),
        "pylock.toml": lambda path: _has_text(path, _PACKAGES),
        "image": lambda path: (path / "oci-layout").is_file(),
        "context": lambda path: any(path.glob("lock-*")),
    }
    if requirements:
        checks = {**checks, "requirements.txt": lambda path: _has_text(path, _REQUIREMENTS)}
    for name, is_own in checks.items():
        path = out / name
        if os.path.lexists(path) and not is_own(path) and not _is_empty(path):
            yield name
    if not any(os.path.lexists(out / name) for name in (LOCK, IMAGE)):
        yield from (name for name in (*_DOCUMENTS, *_SINGLES) if os.path.lexists(out / name))


def _has_text(path: Path, text: bytes) -> bool:
    try:
        return text in read_plain(path, _LARGEST)
    except OSError:
        return False


def _is_empty(path: Path) -> bool:
    try:
        return path.is_dir() and not path.is_symlink() and not any(path.iterdir())
    except OSError:
        return False
