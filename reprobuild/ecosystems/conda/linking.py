"""Links of unpacked conda packages into a prefix, by rattler.

Conda's own records of them are made the same everywhere.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from reprobuild.ecosystems.conda.package import ENDINGS, IndexJson
from reprobuild.errors import BuildError, EngineError
from reprobuild.infra import proc
from reprobuild.infra.proc.own_python import is_ended_by_limit, own_limited_module
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.lock.python import CondaPackage

_WORKER = "reprobuild.ecosystems.conda.rattler_worker"
_HINT = "leave the package out with `--drop NAME`, or get it from where it was published"
# Fields of rattler's records about this machine, its cache and its way of linking.
_MACHINE = ("extracted_package_dir", "link", "requested_specs", "requested_spec", "package_tarball_full_path")


class Linked(Struct, frozen=True, kw_only=True):
    """A package to link: its lock entry, and its index."""

    package: CondaPackage
    index: IndexJson


_MOST_SECONDS = 900  # of processor time; a choice among 500,000 packages needs some 30
_LARGEST_RECORD = 64 << 20  # of a package with some hundred thousand files


def filename_stem(filename: str) -> str:
    """Return a file name without its ending.

    Rattler names the package's directory by it.
    """
    return next(filename.removesuffix(end) for end in ENDINGS if filename.endswith(end))


def link(
    packages: Sequence[Linked], cache: Path, prefix: Path, target: str, platform: str, scratch: Path
) -> None:
    """Link packages into an empty prefix, without running their scripts.

    Args:
        packages: in any order.
        cache: has each of them, checked, in the directory of its stem.
        prefix: the directory of the environment.
        target: the prefix that its files will name.
        platform: conda's name, `linux-64`.
        scratch: an empty directory of this run.

    Raises:
        BuildError: rattler fails.
    """
    ordered = sorted(packages, key=lambda item: item.package.file.filename)
    job = {
        "packages": [
            {
                "filename": item.package.file.filename, "name": item.index.name, "version": item.index.version,
                "build": item.index.build, "build_number": item.index.build_number, "subdir": item.package.subdir,
                "noarch": item.index.kind, "depends": list(item.index.depends),
            }
            for item in ordered
        ],
        "prefix": str(prefix), "target": target, "cache": str(cache), "platform": platform,
    }  # fmt: skip
    run_rattler({"link": job}, scratch, "link the packages of conda")
    (prefix / "CACHEDIR.TAG").unlink()  # for backup programs
    shutil.rmtree(prefix / "__clobbers__", ignore_errors=True)  # files that another package's files replaced
    records = {item.package.file.filename: item for item in ordered}
    for path in sorted((prefix / "conda-meta").glob("*.json")):
        written = json.loads(read_plain(path, _LARGEST_RECORD))
        path.unlink()
        path.write_bytes(conda_record(written, records[written["fn"]].package))


def check_rattler() -> None:
    """Check that rattler is installed: it is an extra of reprobuild, because it is large.

    Raises:
        EngineError: it is not.
    """
    if importlib.util.find_spec("rattler") is None:
        raise EngineError(
            "the packages of conda need rattler, which is not installed",
            hint="install reprobuild with its extra: `pip install 'reprobuild[conda]'`",
        )


def run_rattler(
    job: Mapping[str, Any], scratch: Path, purpose: str, timeout: float = 3600, memory: int = 4 << 30
) -> Any:
    """Run a job of rattler in its own process.

    Args:
        job: see `rattler_worker`.
        scratch: its working directory and its home.
        purpose: completes "could not ...".
        timeout: seconds until it is killed.
        memory: the maximum bytes of its data.

    Raises:
        EngineError: rattler is not installed.
        BuildError: it failed, ended without an answer, or ran past a limit.
    """
    check_rattler()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(scratch), "LC_ALL": "C.UTF-8"}
    try:
        out = proc.run(
            own_limited_module(_WORKER, memory=memory, seconds=_MOST_SECONDS),
            env=env, purpose=purpose, stdin=json.dumps(job).encode(), cwd=scratch, hint=_HINT,
            timeout=timeout, command=("rattler",),
        )  # fmt: skip
    except proc.ProcessTimeoutError as err:
        raise BuildError(str(err), hint=_HINT) from None
    except proc.ProcessFailedError as err:
        if is_ended_by_limit(err) or err.stderr.rstrip().endswith("MemoryError"):
            raise BuildError(
                f"could not {purpose}: rattler needs more than {memory >> 20} MiB of memory, or more than "
                f"{_MOST_SECONDS} s of processor time",
                hint=_HINT,
            ) from None
        proc.check_installed()
        raise BuildError(str(err), hint=_HINT) from None
    answer = json.loads(out)
    if "error" in answer:
        raise BuildError(f"could not {purpose}: {answer['error']}", hint=_HINT)
    return answer["done"]


def conda_record(written: dict[str, Any], package: CondaPackage) -> bytes:
    """Return conda's record of a package (`conda-meta/*.json`), machine-independent.

    Files that another package's file replaces are not among its files.
    """
    fields = {key: value for key, value in written.items() if key not in _MACHINE}
    fields |= {
        "url": package.file.url, "channel": package.channel, "fn": package.file.filename,
        "sha256": package.file.sha256, "size": package.file.size,
        "files": sorted(path for path in written["files"] if not path.startswith("__clobbers__/")),
        # conda requires the field; 1 means hard links, its own default.
        "link": {"source": "", "type": 1},
    }  # fmt: skip
    fields["paths_data"] = {
        "paths_version": 1,
        "paths": sorted(
            (row for row in written["paths_data"]["paths"] if not row["_path"].startswith("__clobbers__/")),
            key=lambda row: str(row["_path"]),
        ),
    }
    return json.dumps(fields, indent=2, sort_keys=True).encode() + b"\n"
