"""A program that takes a snapshot of this environment.

    reprobuild capture [-o DIR]
    python3 capture.py [-o DIR] [--json] [--seconds N]      # this file alone, copied anywhere
    python3 capture.py --include interpreter                # and pack the Python that runs it
    from capture import capture; capture("snapshot")        # from a training script

The snapshot describes the environment of a training job, in files that a person can read.

One file, the standard library only, Python 3.8 or newer. It changes only the directory that it writes, uses
no network, does not start pip or conda and never imports torch. The directory appears whole or not at all.
If many ranks start it for one directory, one captures and the others return at once. Each part has a time
budget. Each part that failed or was given up, and each item left out, is in `capture.json` under a reason
from `REASONS`. The names of secrets are written, their values are not (see the rules in the sections of
`secrets` below).

Codes: 0, also if parts failed or another rank of the job captures; 2 for a wrong command line; 3 if the
directory cannot be written, or has a snapshot and this is no rank of a job; 130 and 143 if it was interrupted.
The call in a script raises no exception.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]  # the directory of this file may hold another `random.py`

import contextlib
import json
import os
import re
import signal
import time
from typing import Any, Dict, List, Mapping, Optional

from reprobuild_portable.capture.files import _path
from reprobuild_portable.capture.interpreter import take_interpreter
from reprobuild_portable.capture.limits import SAID, SECONDS
from reprobuild_portable.capture.model import PROGRAM, REPORT_VERSION, Context, GaveUpError, UnwritableError
from reprobuild_portable.capture.processes import _WATCHER
from reprobuild_portable.capture.scrub import _harmless
from reprobuild_portable.capture.snapshot import _capture, _report
from reprobuild_portable.secrets.redact import without_logins

_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")
_RANKS = (*_JOBS, "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "RANK")  # set by schedulers and launchers


def default_folder(environ: Mapping[str, str]) -> str:
    """Return the default directory, the same for all ranks."""
    for name in _JOBS:
        if re.fullmatch(r"[\w.\[\]-]+", environ.get(name, "")):
            return f"snapshot-{environ[name]}"
    return "snapshot"


def main(words: Optional[List[str]] = None) -> int:
    """Run the command line and return the exit code."""
    import argparse  # the library call does not need it

    parser = argparse.ArgumentParser(prog=PROGRAM, description="Take a snapshot of this environment.")
    parser.add_argument(
        "-o",
        "--output",
        dest="out",
        metavar="DIR",
        help="the directory to write (default: snapshot, or snapshot-JOB)",
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="budget of the whole (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument(
        "--accept", metavar="FILE", action="append", default=[],
        help="capture this file of a repository (REPOSITORY/PATH) though it looks like a secret; again for more",
    )  # fmt: skip
    parser.add_argument(
        "--include", metavar="FILE", action="append", default=[],
        help="capture this file, which is in no repository or which git ignores, or `interpreter`; again for more",
    )  # fmt: skip
    parser.add_argument(
        "--pack-interpreter",
        metavar="DIR",
        help="pack this Python into DIR, print its facts, and capture nothing else",
    )
    options = parser.parse_args(words)
    if options.pack_interpreter:
        return _pack(options.pack_interpreter, options.seconds)
    try:
        out = options.out or default_folder(os.environ)
        report = _capture(out, options.seconds, True, options.accept, options.include)
    except UnwritableError as err:
        return _finish(_report(options.out or "", note=str(err)), options.json, 3)
    except Exception as err:
        return _finish(
            _report(options.out or "", note=f"the capture failed: {_harmless(err)}"), options.json, 0
        )
    return _finish(report, options.json, 0 if report["captured"] or _is_rank(os.environ) else 3)


def _is_rank(environ: Mapping[str, str]) -> bool:
    """Return whether this may be one of several processes of a job, of which another captures."""
    return any(environ.get(name) for name in _RANKS)


def _pack(folder: str, seconds: float) -> int:
    """Pack the interpreter alone, and print its facts.

    capture.json would have the same facts.
    """
    context = Context({}, time.monotonic() + seconds, folder, program=True)
    try:
        facts = take_interpreter(context).facts
    except GaveUpError as err:
        print(err.why or err.reason, file=sys.stderr)
        return 1
    print(json.dumps(facts))
    return 0


def _describe_place(place: Mapping[str, Any]) -> str:
    """Return the file and line of a secret, the path that is one, or the part of a commit."""
    if "part" in place:
        return f"the {place['part']} {place['file']}".rstrip()
    return f"{place['file']}:{place['line']}"


def _describe_commit(place: Mapping[str, Any]) -> str:
    """Return the commit of a secret, and the consequence."""
    if not place.get("commit"):
        return ": a build will refuse it"
    return f" of commit {place['commit'][:12]}, which no remote has: it is in the bundle of this snapshot"


def _finish(report: Dict[str, Any], as_json: bool, code: int) -> int:
    """Print the report, and return `code`.

    The reader of the output may be gone.
    """
    lines = [f"{report['folder']}: captured" if report["captured"] else report["note"]]
    lines += [
        f"{name}: {outcome}"
        for name, outcome in sorted(report["parts"].items())
        if outcome not in ("done", "not-there")
    ]
    lines += [f"withheld: {value['name']} ({value['what']})" for value in report["withheld"]]
    lines += report["notes"]
    lines += [
        f"a secret ({warning['rule']}) in {warning['repository']}, {_describe_place(warning)}"
        f"{_describe_commit(warning)}"
        for warning in report["warnings"][:SAID]
    ]
    if len(report["warnings"]) > SAID:
        lines.append(f"and {len(report['warnings']) - SAID} more: capture.json lists them under `warnings`")
    with contextlib.suppress(OSError):
        for line in map(without_logins, lines):
            print(f"{PROGRAM}: {_path(line) if not line.isprintable() else line}", file=sys.stderr)
        if as_json:
            print(json.dumps({"version": REPORT_VERSION, **report}, indent=1))
        sys.stdout.flush()
    return code


def _raise_stopped(number: int, frame: object) -> None:
    raise SystemExit(128 + number)  # so that half-written files are removed


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _raise_stopped)
    try:
        _code = main()
    except KeyboardInterrupt:
        _code = 130
    except SystemExit as _err:
        _code = _err.code if isinstance(_err.code, int) else 0
    _WATCHER.end_all()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(_code)  # a part that hangs on a dead file server must not keep the job
