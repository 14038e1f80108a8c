"""What holds for any input: only SnapshotError, every line accounted for, no secret kept."""

# ruff: noqa: E501 (a row of a table stays on one line)

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from reprobuild.errors import SnapshotError
from reprobuild.snapshot import file_kinds
from tests.snapshot.hostile import ROWS, long_row, rows
from tests.snapshot.samples import SECRETS, covered, written


def _parsers() -> dict[str, Callable[[bytes], Any]]:
    """Return each parser of a captured file, by the first name of its kind."""
    names: dict[file_kinds.Parser, str] = {}
    for kind in file_kinds.KINDS:
        names.setdefault(kind.parse, kind.name)
    return {name: functools.partial(parse, file=name.replace("*", "x")) for parse, name in names.items()}


PARSERS = _parsers()
# Those that read headers alone, or one field of a document.
IN_PARTS = ("*.diff", "capture.json")
PIECES = [
    "", "a==1", "b @ file:///x", "-e /x", "# Editable install with no version control (e==1)", "-e", "== @ -e", "a; ((((",
    "x/stable,now 1.0 amd64 [installed]", "ii  x  1.0  all  y", "Listing...", "x/y z [", "Currently Loaded Modules:", "  1) a/1   2) b",
    "Where:", "Key:", "A=1", "A={", "}", "B=\"x", "BASH_FUNC_f%%=() {  x", "export A='x", "export A=$'\\xzz'", "declare -x B",
    "-----BEGIN RSA PRIVATE " + "KEY-----", "abc==", "diff --git a/x b/x", "index 012345a..012345b 100644", "--- a/x", "+++ b/x", "@@ -1 +1 @@", "@@ -1,9 +1 @@",
    "-a", "+b", " c", "\\ No newline", "GIT binary patch", "literal 1", "Binary files a and b differ", "rename from x", "\x1b[31m", "\r", "\0", "💩", "$ env",
    "https://u:p@[x/", "--index-url https://u:p@x", "@EXPLICIT", "a 1 py_0", "a=1=0", "a-1", "https://x/linux-64/a-1-0.conda#0", "# # Name",
    "dependencies:", "  - a=1=0", "  - pip:", "    - b==1", "name: x", "- [", "channels: [a", "variables:", "x: |", "...", "---",
    "PyTorch version: 2", "Python version: 3.1 [", "CPU:", "GPU models and configuration:", "GPU 0: X", "cuDNN version:", "/usr/x",
    "[pip3] torch==1", "ENV Variables:", "| NVIDIA-SMI 1 Driver Version: 1 CUDA Version: 1 |", "=NVSMI LOG=", "a : b", "a 1-1 x86_64",
    '{"capture": 1,', '"python": {"version": "3.1.1"}}',
]  # fmt: skip
LINES = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=30)), max_size=12).map(
    lambda rows: "\n".join(rows).encode("utf-8", "surrogatepass")
)


def attempt(kind: str, data: bytes) -> Any:
    try:
        return PARSERS[kind](data)
    except SnapshotError as err:
        return err


@pytest.mark.parametrize("kind", PARSERS)
@given(data=st.one_of(st.binary(max_size=200), LINES))
@settings(max_examples=300, deadline=None)
def test_parsers_raise_only_snapshot_errors_and_miss_no_line(kind: str, data: bytes) -> None:
    result = attempt(kind, data)
    if isinstance(result, SnapshotError):
        assert str(result).isprintable()
        assert result.hint
        return
    values, remarks = result
    assert msgspec.json.encode((values, remarks))
    assert all(remark.text.isprintable() for remark in remarks)
    if kind not in IN_PARTS:
        assert covered(values, remarks) >= written(data)


def test_each_parser_is_tried_with_hostile_lines() -> None:
    assert set(PARSERS) == set(ROWS)


LONELY = [
    rule
    for rule in SECRETS
    if rule not in ("assigned", "url-credential", "wandb", "aws-secret-key", "azure-key")
]
HOLDERS = [
    "A_TOKEN={}", "NOTE={}", "NOTE=x {} y", "export NOTE=\"{}\"", "# {}", "# export X={}", "$ run --token {}", "{}", "m @ https://u:{}@example.org/m-1.tar.gz",
    "--index-url https://u:{}@example.org/", "-e git+https://{}@example.org/o/r@0123456#egg=r", "WARNING: {}", "m @ https://example.org/m-1.tar.gz?token={}",
    "E: {}", "  1) {}", "ii  xx  1.0+{}  all  x", "xx/{},now 1.0 all [installed]", "xx/a,now 1.0 all [{}]", "+{}",
    "a 1 {}", "a=1={}", "https://x.example/t/{}/linux-64/a-1-0.conda#0", "dependencies: [{}=1=0]",
    "dependencies: [pip: [{}==1]]", "name: {}", "variables: [{}]", "OS: {}", "CPU: {}", "[pip3] {}==1", "GPU 0: {} (UUID: GPU-1)", "a : {}",
    "{} 1-1 x86_64",
]  # fmt: skip


@pytest.mark.parametrize("kind", [kind for kind in PARSERS if kind not in IN_PARTS])
@given(
    rule=st.sampled_from(LONELY),
    holders=st.lists(st.sampled_from(HOLDERS), min_size=1, max_size=4),
    around=st.lists(st.sampled_from(PIECES[:20]), max_size=6),
    order=st.sampled_from([sorted, list]),
)
@settings(max_examples=300, deadline=None)
def test_no_secret_survives_reading(
    kind: str, rule: str, holders: list[str], around: list[str], order: Callable[[list[str]], list[str]]
) -> None:
    secret = SECRETS[rule]
    rows = order([*(holder.format(secret) for holder in holders), *around])
    with contextlib.suppress(SnapshotError):
        kept = msgspec.json.encode(PARSERS[kind]("\n".join(rows).encode()))
        assert secret.encode() not in kept


@pytest.mark.parametrize("kind", PARSERS)
@pytest.mark.parametrize(
    "row",
    [
        "a",
        " ",
        "a@",
        "[",
        "1)",
        "(",
        "#",
        "=",
        "-",
        "a=",
        "a b ",
        '"',
        "://a:",
        "wandb",
        "key=",
        "password",
        "1) a ",
    ],
)
def test_long_lines_take_no_time(kind: str, row: str) -> None:
    for length in (400, 3900, 19_000, 300_000):
        with contextlib.suppress(SnapshotError):
            PARSERS[kind]((row * (length // len(row))).encode() + b"\n!")


def seconds(kind: str, data: bytes) -> float:
    """Return the processor time that a reader takes, whatever it makes of it."""
    began = time.process_time()
    with contextlib.suppress(SnapshotError):
        PARSERS[kind](data)
    return time.process_time() - began


@pytest.mark.parametrize("kind", PARSERS)
@pytest.mark.parametrize("make", [rows, long_row])
def test_four_times_the_text_takes_about_four_times_as_long(
    kind: str, make: Callable[[str, int], bytes]
) -> None:
    """A step for each pair of lines, or of characters, would take sixteen times as long."""
    for row in ROWS[kind]:
        ratio = 99.0
        for _ in range(3):  # the first look may be disturbed
            ratio = seconds(kind, make(row, 40_000)) / max(0.02, seconds(kind, make(row, 10_000)))
            if ratio < 8:
                break
        assert ratio < 8, row


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("requirements.txt", "a==1 " + "\r" * 3900 + "!"),
        ("requirements.txt", "a@" + "a" * 490 + "!"),  # noise is looked for in rows of up to 500 characters
        ("conda-explicit.txt", "-" * 3900 + "!"),
    ],
)
def test_the_longest_row_takes_linear_time(kind: str, row: str) -> None:
    """Found by an attacker: a tenth of a second for each row, so half an hour for a file of 64 MiB."""
    assert min(seconds(kind, f"{row}\n".encode() * 20) for _ in range(3)) < 0.6


def test_a_slow_reader_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(data: bytes) -> None:
        for at in range(0, len(data), 40):
            data.count(b"x", at)

    monkeypatch.setitem(PARSERS, "rpm-packages.txt", slow)
    assert (
        seconds("rpm-packages.txt", rows("ab", 400_000))
        / max(0.02, seconds("rpm-packages.txt", rows("ab", 100_000)))
        > 8
    )


def test_five_megabytes_of_any_kind_are_read_or_refused_soon() -> None:
    """Every reader but those of diffs and JSON, which go by larger pieces, takes a bounded number of lines."""
    for kind in PARSERS.keys() - {*IN_PARTS}:
        with pytest.raises(SnapshotError) as err:
            PARSERS[kind](b"x\n" * 2_500_000)
        assert "are more than the" in str(err.value) or "are too many for" in str(err.value)
    with pytest.raises(SnapshotError) as err:
        PARSERS["env.nul"](b"A=1\0" * 1_000_000)
    assert err.value.hint == "write them again where the job runs: `env -0 > env.nul`"
