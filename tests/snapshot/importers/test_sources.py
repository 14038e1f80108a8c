"""The table of sources of the samples has each sample once, and its tests exist."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.snapshot.importers.samples import SAMPLES
from tests.snapshot.importers.sources import SOURCES, SampleSource
from tests.snapshot.importers.typical import TYPICAL


def test_each_sample_has_one_source() -> None:
    names = Counter(name for source in SOURCES for name in source.samples)
    assert set(names) == SAMPLES.keys() | TYPICAL.keys()
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.samples[0])
def test_a_source_is_published_and_its_test_exists(source: SampleSource) -> None:
    assert source.published.startswith("https://")
    if source.writer:
        file, _, name = source.writer.partition(":")
        tree = ast.parse((Path(__file__).parent / file).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
