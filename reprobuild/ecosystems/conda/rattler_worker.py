"""The only use of rattler, in a separate process.

A panic of rattler ends the process without an exception.

    python -m reprobuild.ecosystems.conda.rattler_worker < JOB > ANSWER

Both are JSON. A job is {"link": {...}}, {"find": {...}}, {"match": {...}} or {"solve": {...}}; the answer is
{"done": ...} or {"error": text}.
This file imports only the standard library and rattler. API: https://conda.github.io/rattler/py-rattler/
"""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import sys
from typing import Any

# A package missing in the directory is unavailable: this name never has an address (RFC 2606).
NOWHERE = "https://channel.invalid/"


def main() -> None:
    """Run the job on standard input, and print its answer."""
    job = json.load(sys.stdin)
    try:
        answer: dict[str, Any] = {"done": None}
        if "link" in job:
            link(**job["link"])
        elif "match" in job:
            answer["done"] = match(**job["match"])
        elif "solve" in job:
            answer["done"] = solve(**job["solve"])
        else:
            answer["done"] = find(**job["find"])
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as err:  # a panic of Rust is no Exception
        answer = {"error": f"{type(err).__name__}: {err}"}
    json.dump(answer, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # its threads continue, and some processes crashed while Python was shut down around them


def link(packages: list[dict[str, Any]], prefix: str, target: str, cache: str, platform: str) -> None:
    """Link packages, unpacked in `cache`, into the directory `prefix`.

    Each package is in a directory named by its file's stem. Their files name `target` as the prefix.
    """
    import rattler

    records = []
    for package in packages:
        facts = {**package, "build": rattler.BuildString(package["build"])}
        filename = facts.pop("filename")
        record = rattler.PackageRecord(**facts)
        records.append(rattler.RepoDataRecord(record, filename, f"{NOWHERE}{filename}", NOWHERE))
    whole = rattler.PackageCacheLayer(cache).with_validation_mode(rattler.ValidationMode.skip())
    asyncio.run(
        rattler.install(
            records, target_prefix=prefix, package_cache=rattler.PackageCache.from_layers([whole]),
            installed_packages=[], platform=rattler.Subdir(platform), execute_link_scripts=False, show_progress=False,
            alternative_target_prefix=target,
        )
    )  # fmt: skip


def find(file: str, channel: str, subdir: str, names: list[str]) -> list[dict[str, Any]]:
    """Return the records of packages in a repodata.json.

    They are selected by name, and only these are parsed.
    """
    import rattler

    records = []
    with rattler.SparseRepoData(rattler.Channel(channel), subdir, file) as opened:
        both = rattler.PackageFormatSelection.BOTH
        for name in names:
            for record in opened.load_records(rattler.PackageName(name), both):
                records.append(
                    {
                        "filename": record.file_name, "version": str(record.version), "build": str(record.build),
                        "sha256": record.sha256.hex() if record.sha256 else "",
                        "md5": record.md5.hex() if record.md5 else "", "size": record.size or 0,
                    }
                )  # fmt: skip
    return records


def match(rows: list[tuple[str, str, str, str, int]]) -> list[bool]:
    """Return whether packages meet requirements.

    Each row has a requirement, and name, version, build and build number of a package. A requirement that is not valid
    is met by each package, and so is one at which rattler fails.
    """
    import rattler

    answers = []
    for spec, name, version, build, number in rows:
        try:
            record = rattler.PackageRecord(
                name=name, version=version, build=rattler.BuildString(build), build_number=number, subdir="noarch",
                arch=None, platform=None,
            )  # fmt: skip
            answers.append(rattler.MatchSpec(spec).matches(record))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # a panic of Rust is no Exception
            answers.append(True)
    return answers


def solve(
    lists: list[tuple[str, str, str]], specs: list[str], virtual: list[tuple[str, str, str]], moment: float
) -> dict[str, Any]:
    """Choose packages that fit together; return {"packages": [...]} or {"unsolvable": text}.

    Args:
        lists: file, name of the channel, and subdir of each repodata.json; the channels come by priority.
        specs: the requirements, in conda's form.
        virtual: name, version and build of each virtual package.
        moment: in seconds since 1970; packages that came later do not count.
    """
    import rattler
    from rattler.exceptions import InvalidMatchSpecError, SolverError

    opened = [
        rattler.SparseRepoData(rattler.Channel(channel), subdir, file) for file, channel, subdir in lists
    ]
    names = {rattler.Channel(channel).base_url: channel for _, channel, _ in lists}
    machine = [
        rattler.GenericVirtualPackage(
            rattler.PackageName(name), rattler.Version(version), rattler.BuildString(build)
        )
        for name, version, build in virtual
    ]
    end = datetime.datetime.fromtimestamp(moment, datetime.timezone.utc)
    try:
        records = asyncio.run(
            rattler.solve_with_sparse_repodata(
                [rattler.MatchSpec(spec) for spec in specs], opened, virtual_packages=machine, exclude_newer=end,
                package_format_selection=rattler.PackageFormatSelection.PREFER_CONDA,
                timestamp_policy="allow-missing", add_pip_as_python_dependency=True,
            )
        )  # fmt: skip
    except (InvalidMatchSpecError, SolverError) as err:
        return {"unsolvable": str(err)}
    return {
        "packages": [
            {
                "name": record.name.normalized, "version": str(record.version), "build": str(record.build),
                "filename": record.file_name, "channel": names.get(record.channel or "", ""),
                "subdir": str(record.subdir),
                "sha256": record.sha256.hex() if record.sha256 else "", "md5": record.md5.hex() if record.md5 else "",
            }
            for record in records
        ]
    }  # fmt: skip


if __name__ == "__main__":
    main()
