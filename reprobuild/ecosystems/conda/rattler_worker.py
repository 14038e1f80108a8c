"""The only use of rattler, in a separate process.

A panic of rattler ends the process without an exception.

    python -c "from reprobuild.ecosystems.conda.rattler_worker import main; main()" < JOB > ANSWER

Both are JSON. A job is {"link": {...}}, {"find": {...}} or {"match": {...}}; the answer is {"done": ...} or
{"error": text}.
This file imports only the standard library and rattler. API: https://conda.github.io/rattler/py-rattler/
"""

from __future__ import annotations

import asyncio
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
        else:
            answer["done"] = find(**job["find"])
    except (KeyboardInterrupt, SystemExit):
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
