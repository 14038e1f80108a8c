"""A bounded, seeded fuzzer of all that reads captured text: `python -m tests.snapshot.fuzz --seconds 600`.

Case N of a seed is always the same: a realistic file of one kind, changed. Every outcome must be values and remarks
that can be printed and written, that account for every line, or a ReproError with a hint; in bounded time.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from reprobuild.errors import ReproError
from reprobuild.report.text import render_snapshot
from reprobuild.snapshot import file_kinds
from reprobuild.snapshot.read import read_snapshot
from tests.snapshot.hostile import ROWS
from tests.snapshot.oddities import YAML
from tests.snapshot.oddity_table import ODDITIES
from tests.snapshot.samples import covered, written
from tests.untrusted.mutations import any_bytes

SECONDS = 20
# File of a kind: the oddities that are of this kind.
FILES = {
    "requirements.txt": "pip_freeze", "apt-packages.txt": "apt_list", "dpkg.txt": "dpkg_l", "env.txt": "env_dump",
    "env.nul": "env_dump", "modules.txt": "module_list", "x.diff": "git_diff", "conda-list.txt": "conda",
    "environment.yml": "conda", "collect_env.txt": "collect_env", "nvidia-smi.txt": "nvidia_smi",
    "rpm-packages.txt": "dpkg_l", "capture.json": "",
}  # fmt: skip
# A kind without oddities is fuzzed from its hostile lines.
FILES |= {
    name: ""
    for name in ROWS
    if not any(file_kinds.kind_of(name) == file_kinds.kind_of(file) for file in FILES)
}
EXPORT = """name: e
channels:
  - defaults
dependencies:
  - python=3.11.5=h1_0
  - pip:
    - six==1.16.0
prefix: /e
"""
CAPTURE = """{
 "capture": 1,
 "python": {"version": "3.11.5", "implementation": "CPython", "libc": "glibc 2.36"},
 "dpkg": {"lists": [{"file": "x_InRelease", "date": "Sat, 11 Jul 2026 10:16:37 UTC"}]}
}
"""
RPM = "bash 5.1-2.el9 x86_64\nzlib 1.2-3.el9 x86_64\ngpg-pubkey 1-2 (none)\n"
# Lists that hold one name in two versions are an error, so the table's oddities are told apart by their names.
_NAMED = ("tool", "Tool", "TOOL", "six", "torch")
# fmt: off
_ODD = (
    "\0", "\x1b[31m", "\x85", "\u2028", "\u202e", "\ufeff", "\r", "\t", "'\"", "$'\\x", "((((", "[[[[", "{{{{", "💩",
    "=", "#", "://u:p@", "\\", "%00", "&a *a", ": - ? ", "-----BEGIN X-----",
)
# fmt: on


class FoundError(Exception):
    """An outcome that must not be."""


def sample(random: Random, file: str) -> bytes:
    """Return a realistic file: some oddities of its kind, one after the other."""
    if file == "environment.yml":
        return EXPORT.encode()
    if file == "capture.json":
        return CAPTURE.encode()
    if file == "rpm-packages.txt":
        return RPM.encode()
    if not FILES[file]:
        return "\n".join(random.choices(ROWS[file], k=random.choice([1, 3, 10]))).format(7).encode()
    texts = [text for text, _ in ODDITIES[FILES[file]].values() if not text.startswith(YAML)]
    chosen = random.sample(texts, min(len(texts), random.choice([1, 3, 10, 40])))
    for number, text in enumerate(chosen):
        for name in _NAMED if file in ("requirements.txt", "apt-packages.txt", "dpkg.txt") else ():
            text = text.replace(name, f"{name}{number}")
        chosen[number] = text
    data = "\n".join([*chosen, ""]).encode()
    return data.replace(b"\n", b"\0") if file == "env.nul" else data


def changed(random: Random, data: bytes) -> bytes:
    """Return the file after some changes that storms, editors and attackers make."""
    for _ in range(random.choice([0, 1, 1, 2, 5])):
        data = random.choice(_CHANGES)(random, data)
    return data[: 1 << 20]


def _spliced(random: Random, data: bytes) -> bytes:
    """Put lines of any kind between, move some, repeat some."""
    rows = data.split(b"\n")
    for _ in range(random.randint(1, 8)):
        at, other = random.randrange(len(rows)), random.choice(list(ROWS.values()))
        foreign = random.choice(other).format(random.randrange(99)).encode()
        rows[at:at] = random.choice(
            [[foreign], [rows[at]], [rows[-1] + foreign], [b""] * random.randrange(9)]
        )
    if random.random() < 0.2:
        rows.sort()
    return b"\n".join(rows)


def _sprinkled(random: Random, data: bytes) -> bytes:
    for _ in range(random.randint(1, 6)):
        at = random.randrange(len(data) + 1)
        data = data[:at] + random.choice(_ODD).encode() * random.choice([1, 1, 3, 50]) + data[at:]
    return data


def _stretched(random: Random, data: bytes) -> bytes:
    """Make one line very long, or one line very many."""
    rows = data.split(b"\n")
    at = random.randrange(len(rows))
    times = random.choice([10, 1000, 20_000])
    rows[at] = (rows[at] + random.choice([b"", b" ", b"\n"]))[:40] * times
    return b"\n".join(rows)


def _encoded(random: Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    way = random.randrange(5)
    if way == 0:
        return b"\xef\xbb\xbf" + data
    if way == 1:
        return text.replace("\n", "\r\n").encode()
    if way == 2:
        return "".join(f"    {row}\n" for row in text.split("\n")).encode()
    return text.encode(random.choice(["utf-16", "utf-16-le", "utf-16-be", "latin-1", "utf-32"]), "replace")


def _cut(random: Random, data: bytes) -> bytes:
    return (
        data[: random.randrange(len(data) + 1)]
        if random.random() < 0.5
        else data[random.randrange(len(data) + 1) :]
    )


_CHANGES: Sequence[Callable[[Random, bytes], bytes]] = (
    any_bytes, _spliced, _spliced, _sprinkled, _stretched, _encoded, _cut,
)  # fmt: skip


def one(target: str, seed: int, number: int) -> str:
    """Do one case, and return `accepted` or `refused`.

    Raises:
        FoundError: its outcome must not be.
    """
    random = Random(f"{seed}/{target}/{number}")
    try:
        signal.alarm(SECONDS)
        try:
            _folder(random) if target == "folder" else _file(random, target)
        except ReproError as err:
            if not err.hint or not f"{err}{err.hint}".isprintable():
                raise FoundError(f"the error has no hint, or cannot be printed: {err!r}") from err
            return "refused"
        return "accepted"
    except FoundError:
        raise
    except Exception as err:
        raise FoundError("".join(traceback.format_exception(err)[-4:])) from err
    finally:
        signal.alarm(0)


def _file(random: Random, file: str) -> None:
    data = changed(random, sample(random, file))
    kind = file_kinds.kind_of(file)
    assert kind is not None
    check(kind.parse(data, file), data, file)


def check(read: tuple[Sequence[Any], Sequence[Any]], data: bytes, file: str) -> None:
    """Check what a reader gave.

    Raises:
        FoundError: it cannot be written or printed, or misses a line.
    """
    values, remarks = read
    msgspec.json.encode((values, remarks))
    if not all(remark.text.isprintable() and remark.reason.isprintable() for remark in remarks):
        raise FoundError("a remark cannot be printed")
    if file not in ("x.diff", "capture.json"):  # of which headers alone, and one field, are read
        missed = written(data) - covered(values, remarks)
        if missed:
            raise FoundError(f"no value and no remark for lines {sorted(missed)[:5]}")


def _folder(random: Random) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        for file in random.sample(list(FILES), random.randint(1, 6)):
            content = sample(random, file)
            (Path(scratch) / file).write_bytes(changed(random, content) if random.random() < 0.4 else content)
        snapshot = read_snapshot(Path(scratch))
    again = msgspec.json.decode(msgspec.json.encode(snapshot), type=type(snapshot))
    if again != snapshot:
        raise FoundError("the snapshot reads back differently")
    if not render_snapshot(snapshot).replace("\n", "").isprintable():
        raise FoundError("the snapshot cannot be shown")


TARGETS = (*FILES, "folder")


def hang(signum: int, frame: object) -> None:
    raise FoundError(f"not done after {SECONDS} s:\n{''.join(traceback.format_stack()[-6:])}")


def fuzz(seed: int, *, seconds: float = 1e9, cases: int = 1 << 60) -> dict[str, Any]:
    """Do cases of all targets in turn until the time or the number is reached; return counts and what was found."""
    handler = signal.signal(signal.SIGALRM, hang)
    began, done, outcomes = time.monotonic(), Counter[str](), Counter[str]()
    found: list[dict[str, object]] = []
    try:
        for number in range(cases):
            target = TARGETS[number % len(TARGETS)]
            try:
                outcomes[one(target, seed, number)] += 1
            except FoundError as err:
                found.append({"target": target, "number": number, "what": str(err)})
            done[target] += 1
            if time.monotonic() - began > seconds:
                break
    finally:
        signal.signal(signal.SIGALRM, handler)
    spent = time.monotonic() - began
    return {
        "seed": seed, "seconds": round(spent, 1), "cases": dict(done), "cases/s": round(sum(done.values()) / spent, 1),
        "refused": outcomes["refused"], "accepted": outcomes["accepted"], "found": found,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--cases", type=int, default=1 << 60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", metavar="TARGET:N", help="do one case")
    given = parser.parse_args()
    if given.only:
        target, number = given.only.split(":")
        signal.signal(signal.SIGALRM, hang)
        sys.stdout.write(one(target, given.seed, int(number)) + "\n")
        return 0
    told = fuzz(given.seed, seconds=given.seconds, cases=given.cases)
    sys.stdout.write(json.dumps(told, indent=1) + "\n")
    return 1 if told["found"] else 0


if __name__ == "__main__":
    sys.exit(main())
