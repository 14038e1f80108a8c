"""Files that an import looks at before it knows what they are: few are opened, and of each only its head is read."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.importers import (
    draft,
    exports,
    formats,
    hf_card,
    import_snapshot,
    mlflow,
    notebooks,
    project_requirements,
    slurm,
    source,
    wandb,
)
from reprobuild.snapshot.importers.import_snapshot import can_import, import_into
from reprobuild.snapshot.importers.source import MOST_CANDIDATES, ImportSource

CARD = "### Framework versions\n\n- Transformers 4.57.1\n- Pytorch 2.9.0+cu128\n"
NUMBERS = range(3 * MOST_CANDIDATES)


class ReadCounter:
    """The files that were read whole, and the bytes of each head."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.whole: list[str] = []
        self.heads: list[tuple[str, int]] = []
        read, head = ImportSource.read, ImportSource.head

        def count_read(part: ImportSource, name: str) -> bytes:
            self.whole.append(name)
            return read(part, name)

        def count_head(part: ImportSource, name: str, size: int) -> bytes:
            self.heads.append((name, size))
            return head(part, name, size)

        monkeypatch.setattr(ImportSource, "read", count_read)
        monkeypatch.setattr(ImportSource, "head", count_head)


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> ReadCounter:
    return ReadCounter(monkeypatch)


def make_source(folder: Path, files: dict[str, str]) -> ImportSource:
    """Return the source of a directory with these files."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return ImportSource(folder, {name: folder / name for name in files}, folder)


def test_few_configurations_are_looked_at(tmp_path: Path, counter: ReadCounter) -> None:
    files = {f"{number:02}/config.yaml": "lr: 1\n" for number in NUMBERS}
    assert not wandb.recognises(make_source(tmp_path, files))
    assert counter.whole == []
    assert counter.heads == [
        (name, 200_000) for name in sorted(files)[:MOST_CANDIDATES]
    ]  # the first of those that are equally near
    assert wandb.recognises(make_source(tmp_path, files | {"config.yaml": "_wandb:\n  value: {}\n"}))


def test_few_cards_are_looked_at(tmp_path: Path, counter: ReadCounter) -> None:
    files = {f"{number:02}-readme.md": "text\n" for number in NUMBERS}
    assert not hf_card.recognises(make_source(tmp_path, files))
    assert counter.whole == []
    assert counter.heads == [(name, 1 << 20) for name in sorted(files)[:MOST_CANDIDATES]]
    card = make_source(tmp_path, files | {"README.md": CARD})
    assert hf_card.recognises(card)
    assert hf_card.read(card).finish().files["requirements.txt"] == (
        b"transformers==4.57.1\ntorch==2.9.0+cu128\n"
    )


def test_a_card_is_cut_behind_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf_card, "_HEAD", len(CARD) + 3)  # within a character
    card = make_source(tmp_path, {"README.md": f"{CARD}- \u00e9\u00e9\u00e9 1.0\n"})
    assert hf_card.recognises(card)
    files = hf_card.read(card).finish().files
    assert files["requirements.txt"] == b"transformers==4.57.1\ntorch==2.9.0+cu128\n"


def test_a_card_that_is_no_text_is_none(tmp_path: Path) -> None:
    card = make_source(tmp_path, {"README.md": ""})
    (tmp_path / "README.md").write_bytes(CARD.encode() + b"\xff")
    assert not hf_card.recognises(card)


def test_few_locks_are_looked_at(tmp_path: Path, counter: ReadCounter) -> None:
    files = {f"{number:02}.lock": "a\n" for number in NUMBERS}
    assert not project_requirements.has_captured_list(make_source(tmp_path, files))
    assert [name for name, _ in counter.heads] == sorted(files)[:MOST_CANDIDATES]
    assert counter.whole == []
    assert project_requirements.has_captured_list(make_source(tmp_path, {"0.lock": "@EXPLICIT\n"}))


def test_json_is_searched_within_a_bound(
    tmp_path: Path, counter: ReadCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_MOST_SEARCHED", 100)
    files = {name: json.dumps({"x": "x" * 60}) for name in ("a.json", "b.json")}
    run = make_source(tmp_path, files | {"run.json": '{"host": 1}'})
    assert exports.find_export(run, "host") == "run.json"
    assert exports.find_export(run, "command") is None
    assert counter.whole == ["a.json", "run.json"]


def test_the_mark_of_a_run_of_mlflow_is_in_the_head(tmp_path: Path, counter: ReadCounter) -> None:
    assert mlflow.recognises(make_source(tmp_path, {"meta.yaml": "run_id: a\n"}))
    assert not mlflow.recognises(make_source(tmp_path, {"meta.yaml": "#" * (64 << 10) + "\nrun_id: a\n"}))
    assert counter.whole == []


def test_a_directory_of_no_format_is_not_read_whole(tmp_path: Path, counter: ReadCounter) -> None:
    names = ("config.yaml", "a-readme.md", "meta.yaml", "a.lock", "b.txt", "MLproject")
    make_source(tmp_path, dict.fromkeys(names, "text\n"))
    assert not can_import(tmp_path)
    assert counter.whole == []


def test_outputs_of_a_job_of_slurm_are_not_read_whole(tmp_path: Path, counter: ReadCounter) -> None:
    files = {f"slurm-{number}.out": "Environment of the job\n" for number in range(3)}
    files |= {"job.json": '{"jobs": [{"time": {}}], "meta": {}}', "requirements.txt": "click==8.1.7\n"}
    slurm.read(make_source(tmp_path, files))
    assert sorted(set(counter.whole)) == ["job.json", "requirements.txt"]


def test_files_of_no_kind_are_not_read(tmp_path: Path, counter: ReadCounter) -> None:
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        for name in ("requirements.txt", "weights.bin", "b.lock"):
            archive.writestr(name, "click==8.1.7\n")
    facts = import_into(tmp_path / "s.zip", tmp_path / "out")
    assert counter.whole == ["requirements.txt"]
    assert [(entry.source, entry.reason) for entry in facts.unused] == [
        ("b.lock", "a file of no known kind"),
        ("weights.bin", "a file of no known kind"),
    ]


def test_bundles_are_refused_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "_MOST_PACKED", 1 << 20)
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        archive.writestr("requirements.txt", "click==8.1.7\n")
        for name in ("a.bundle", "b.bundle"):
            archive.writestr(name, "x" * 600_000)
    with pytest.raises(SnapshotError, match=r"s\.zip: its bundles have more than 1 MiB") as err:
        import_into(tmp_path / "s.zip", tmp_path / "out")
    assert err.value.hint == (
        "an import copies them: unpack it, and name the directory in the command that reads the snapshot"
    )


class Unread(list[Any]):
    """A list that nobody may go through."""

    def __iter__(self) -> Iterator[Any]:
        pytest.fail("it was searched")


def test_the_sources_of_lines_are_not_collected_for_each_file(monkeypatch: pytest.MonkeyPatch) -> None:
    import_draft = draft.Draft("a lock", "Pipfile.lock")
    import_draft.add("requirements.txt", "click==8.1.7", "default.click")
    import_draft.source = "a.txt"
    import_draft.leave("the file", "a reason")
    import_draft.put("b.diff", b"")
    monkeypatch.setattr(import_draft, "_origins", Unread())
    monkeypatch.setattr(import_draft, "_unused", Unread())
    names = ("Pipfile.lock", "a.txt", "b.diff", "c.diff")
    assert [import_draft.has_read(name) for name in names] == [True, True, True, False]


def test_a_long_line_of_a_notebook_is_not_searched() -> None:
    long = "from " + "a" * (1 << 20)
    assert notebooks._find_imports([f"{long}\nimport torch\nimport {'a, ' * 500}b"]) == {"torch"}
    # One way for each text: the name of a module ends before its first dot.
    assert notebooks._IMPORT.match(long) is None
    assert notebooks._IMPORT.match("from " + "a." * (1 << 19)) is None
    for line in ("from a import b", "from a.b.c import d", "  from a. import b"):
        match = notebooks._IMPORT.match(line)
        assert match is not None
        assert match["module"] == "a"


def make_notebook(*cells: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells], "metadata": {}})


def test_the_code_of_all_notebooks_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebooks, "_MOST_CODE", 40)
    files = {
        "requirements.txt": "click==8.1.7\n",
        "a.ipynb": make_notebook("import numpy"),
        "b.ipynb": make_notebook("import torch", "import scipy  # of a long cell"),
        "c.ipynb": make_notebook("import click"),
    }
    make_source(tmp_path / "in", files)
    facts = import_into(tmp_path / "in", tmp_path / "out")
    own = "the program itself, and its outputs"
    assert [entry.reason for entry in facts.unused if entry.field == "cells"] == [
        f"{own}; they import numpy, which the requirements must provide",
        f"{own}; they import torch, which the requirements must provide{notebooks._REST}",
        f"{own}{notebooks._REST}",
    ]


def test_the_bytes_of_all_notebooks_have_a_bound(
    tmp_path: Path, counter: ReadCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebooks, "_MOST", 100)
    files = {f"{name}.ipynb": make_notebook("x" * 50) for name in "abc"}
    make_source(tmp_path / "in", files | {"requirements.txt": "click==8.1.7\n"})
    facts = import_into(tmp_path / "in", tmp_path / "out")
    assert [name for name in counter.whole if name.endswith(".ipynb")] == ["a.ipynb"]
    assert [(entry.source, entry.reason) for entry in facts.unused if entry.field == "the file"] == [
        ("b.ipynb", notebooks._TOO_MANY),
        ("c.ipynb", notebooks._TOO_MANY),
    ]


def test_each_importer_is_asked_without_a_read_of_many_files(tmp_path: Path, counter: ReadCounter) -> None:
    """A file of each name that an importer may look at, many times over."""
    names = (
        "config.yaml",
        "meta.yaml",
        "readme.md",
        "x.json",
        "x.lock",
        "x.wandb",
        "MLmodel",
        "x.ipynb",
        "x.dvc",
    )
    files = {f"{number:02}-{name}": "x\n" for number in NUMBERS for name in names}
    many = make_source(tmp_path, files | {f"{number}/{name}": "x\n" for number in NUMBERS for name in names})
    for importer in formats.IMPORTERS:
        before = len(counter.whole), len(counter.heads)
        importer.recognises(many)
        assert len(counter.whole) - before[0] <= MOST_CANDIDATES, importer.name
        assert len(counter.heads) - before[1] <= 2 * MOST_CANDIDATES, importer.name
    assert len(counter.whole) <= MOST_CANDIDATES  # each JSON file once
    assert import_snapshot.find_supplements(many)
