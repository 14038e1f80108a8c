"""Hostile files of each format: a snapshot that is safe to read, or a SnapshotError with a hint."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from random import Random

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.snapshot import text
from reprobuild.snapshot.importers.formats import IMPORTERS, SUPPLEMENTS
from reprobuild.snapshot.importers.import_snapshot import import_into
from reprobuild.snapshot.importers.wandb_records import read_environment
from reprobuild.snapshot.read import read_snapshot
from tests.snapshot.importers.samples import PLAIN, SAMPLES

CASES = 12  # of each sample: more are the task of a long run
VALUES = {
    "line": "x\n-r /etc/passwd\nevil==6.6.6", "escape": "\x1b[2J\x1b]0;x\x07", "up": "../../../../etc/passwd",
    "nul": "a\0b", "half": "\ud800", "bidi": "a\u202eb", "option": "--index-url=https://evil.example/", "empty": "",
    "space": "a b ; c # d", "template": "${HOME}$(id)`id`{{ 7 }}", "number": "9" * 5000, "long": "x" * 1_000_000,
}  # fmt: skip
REFUSED = "refused: "
_TEXTS = (".txt", ".md", ".out", ".cfg")
_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]")


def outcome(files: dict[str, bytes], only: str = "") -> str:
    """Import files, and return the requirements of the result, or the message of the error.

    Args:
        files: content by name.
        only: the file that is imported; the directory of all if it is empty.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name) / "in", Path(name) / "out"
        for file, content in files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        try:
            import_into(folder / only, out)
        except SnapshotError as err:
            refused = err
        else:
            refused = None
        if refused:
            assert refused.hint
            assert sorted(path.name for path in Path(name).iterdir()) == ["in"]
            assert not _CONTROLS.search(str(refused))
            return REFUSED + str(refused)
        read_snapshot(out)
        texts = {path.name: path.read_bytes() for path in out.iterdir()}
    for file, content in texts.items():
        if not file.endswith((".diff", ".patch")) and file not in files:
            assert not _CONTROLS.search(content.decode()), file
    return texts.get("requirements.txt", b"").decode("utf-8", "replace")


def filled(sample: str, values: dict[str, str]) -> dict[str, bytes]:
    """Return the files of a sample with values in their places."""
    files = {}
    for file, content in SAMPLES[sample].items():
        for place, value in values.items():
            shown = value if file.endswith(_TEXTS) else json.dumps(value)[1:-1]
            content = content.replace(place, shown)
        files[file] = content.encode("utf-8", "surrogatepass")
    return files


def start(sample: str) -> str:
    """Return the file to import: the list itself, because its directory is a snapshot."""
    return "requirements.txt" if sample == "requirements" else ""


def test_each_format_has_a_sample() -> None:
    names = [entry.name for entry in (*IMPORTERS, *SUPPLEMENTS)]
    assert [name for name in names if not any(word in SAMPLES for word in (name, name.removeprefix("a ")))] == [
        "Guild run", "MLflow model or run"
    ]  # fmt: skip


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_is_imported(sample: str) -> None:
    assert not outcome(filled(sample, PLAIN), start(sample)).startswith(REFUSED)


UNKNOWN = {"{": '{"unknown-field": 1, ', "toml": "unknown-field = 1\n", "yaml": '"unknown-field": 1\n'}
# Lists, and a file of which each field is a hyperparameter.
WITHOUT_FIELDS = {
    "Guild freeze", "Guild variables", "Slurm variables", "Hugging Face model card", "requirements", "setup.cfg",
    "W&B configuration",
}  # fmt: skip


@pytest.mark.parametrize("sample", sorted(SAMPLES.keys() - WITHOUT_FIELDS))
def test_a_field_that_no_importer_knows_is_named(sample: str, tmp_path: Path) -> None:
    files = filled(sample, PLAIN)
    first = next(iter(files))
    way = "{" if files[first][:1] == b"{" else "toml" if b"[[" in files[first] else "yaml"
    files[first] = UNKNOWN[way].encode() + files[first].removeprefix(b"{" if way == "{" else b"")
    for file, content in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(content)
    facts = import_into(tmp_path / start(sample), tmp_path.parent / f"{tmp_path.name}-out")
    assert [entry.field for entry in facts.unused if entry.field.endswith("unknown-field")]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("sample", SAMPLES)
def test_hostile_values_do_no_harm(sample: str, value: str) -> None:
    for place in PLAIN if value != "long" else ["TEXT"]:
        rows = outcome(filled(sample, PLAIN | {place: VALUES[value]}), start(sample)).splitlines()
        # A list for pip may have such lines: its reader makes remarks of them.
        if sample not in ("ClearML task", "requirements"):
            assert not [row for row in rows if row.startswith(("evil", "-r "))]


def mutated(random: Random, data: bytes) -> bytes:
    for _ in range(random.choice([1, 1, 2, 8])):
        at, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
        piece = random.choice([
            b"", random.randbytes(random.randrange(1, 9)), data[at:end] * 2, b'"', b"\n", b"[" * 99, b"null", b"-1e999",
        ])  # fmt: skip
        data = data[:at] + piece + data[random.choice([at, at + 1, end]) :]
    return data


@pytest.mark.parametrize("sample", SAMPLES)
def test_changed_bytes_do_no_harm(sample: str) -> None:
    random = Random(sample)
    files = filled(sample, PLAIN)
    first = next(iter(files))
    for _ in range(CASES):
        outcome(files | {first: mutated(random, files[first])}, start(sample))


def log_of(*fragments: tuple[int, bytes]) -> bytes:
    """Return the log of an offline run of W&B with fragments of records: kind and content."""
    return b":W&B\xe1\xbe\x00" + b"".join(
        bytes(4) + len(content).to_bytes(2, "little") + bytes([kind]) + content for kind, content in fragments
    )


ENVIRONMENT = b"\x0a\x05Linux\x12\x0eCPython 3.11.7"  # fields 1 and 2 of the record of the environment
RECORD = b"\xd2\x01" + bytes([len(ENVIRONMENT)]) + ENVIRONMENT  # field 26 of a record


def test_a_log_of_wandb_is_read_in_its_fragments() -> None:
    stated = {"os": "Linux", "python": "CPython 3.11.7", "startedAt": "", "git": {"remote": "", "commit": ""}}
    assert read_environment(log_of((1, b"\x08\x01"), (1, RECORD))) == stated
    assert read_environment(log_of((2, RECORD[:5]), (3, RECORD[5:9]), (4, RECORD[9:]))) == stated
    assert read_environment(log_of((1, b"\x08\x01"))) == {}
    assert read_environment(b"x" + log_of((1, RECORD))) == {}


def test_changed_bytes_of_a_log_of_wandb_do_no_harm() -> None:
    random = Random(7)
    log = log_of((2, RECORD[:9]), (4, RECORD[9:]), (1, b"\x08\x01"))
    for _ in range(2000):
        read_environment(mutated(random, log))
    # Each record is read once, however small its fragments are.
    parts = [(2, bytes([8, 1]) * 32_000), *[(3, b"x")] * 50_000, *[(4, b"x")] * 50_000]
    assert read_environment(log_of(*parts)) == {}


DEEP = 100_000


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("way", ["brackets", "braces", "aliases"])
def test_deep_documents_do_no_harm(sample: str, way: str) -> None:
    files = filled(sample, PLAIN)
    first = next(iter(files))
    key = (
        '"a": ' if files[first].startswith(b"{") else "a = " if first.endswith((".lock", ".toml")) else "a: "
    )
    start_of = "{" if files[first].startswith(b"{") else ""
    bombs = ["b0: &b0 [x]\n", *(f"b{n}: &b{n} [{f'*b{n - 1}, ' * 9}]\n" for n in range(1, 12))]
    extra = {"brackets": "[" * DEEP, "braces": '{"a":' * DEEP, "aliases": "".join(bombs)}[way]
    deep = extra if way == "aliases" else key + extra
    outcome(files | {first: (start_of + deep).encode() + b"\n" + files[first].lstrip(b"{")}, start(sample))


MANY = 600


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("run.json", '{"packages": {%s}, "env_variables": {}, "git_info": {}, "executable": ""}'),
        ("run.json", '{"packages": {}, "env_variables": {%s}, "git_info": {}, "executable": ""}'),
        ("task.json", '{"script": {"requirements": {%s}}, "type": 1, "hyperparams": 1}'),
        ("task.json", '{"script": {}, "type": 1, "hyperparams": 1, %s}'),
        ("requirements.txt", None),
    ],
)
def test_a_huge_number_of_packages_is_refused(
    file: str, content: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "LINES", 500)  # for the time that 50,000 lines take
    names = [f"p{number}" for number in range(MANY)]
    entries = ", ".join(f'"{name}": "1"' for name in names)
    data = content.replace("%s", entries) if content else "\n".join(f"{name}==1" for name in names)
    assert "lines are more than the 500 that a captured list may have" in outcome({file: data.encode()}, file)


@pytest.mark.parametrize("started", ["9" * 400, "-" + "9" * 399, "1", "1700000000000000"])
def test_a_run_of_guild_may_have_begun_at_any_integer(started: str) -> None:
    files = {".guild/attrs/started": started.encode(), ".guild/attrs/pip_freeze": b"- numpy==1.26.4\n"}
    assert "numpy==1.26.4" in outcome(files)


@pytest.mark.parametrize("name", ["run.zip", "run.tar.gz", "run.tgz"])
def test_an_archive_that_is_a_pipe_is_refused(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(SnapshotError):
        import_into(tmp_path / name, tmp_path / "out")
