"""The coverage table of docs/seeds.md: each cell is drawn for real, and the document says what came out."""

from pathlib import Path
from typing import Any

import pytest

from proof import seed_table


@pytest.fixture(scope="session")
def drawn(torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[seed_table.Draws]]:
    """What every generator gave in every child under every launcher."""
    folder = tmp_path_factory.mktemp("draws")
    return seed_table.draw_all(seed_table.make_environment(torch_python, folder / "environment"), folder)


@pytest.mark.long
def test_the_document_has_the_tables(drawn: dict[str, list[seed_table.Draws]]) -> None:
    text = seed_table.DOCUMENT.read_text()
    written = text.partition(seed_table.BEGIN)[2].partition(seed_table.END)[0]
    assert written.strip() == seed_table.tables(drawn).strip(), (
        "python -m proof.seed_table PYTHON --write renews it"
    )


CELL = ("around the entrypoint, with REPROBUILD_SEED", "fork", "`random`")
FIRST = "the entrypoint"


def made(
    first: list[Any], here: list[Any], main: Any = 1, other: Any = 9
) -> dict[str, list[seed_table.Draws]]:
    """Return draws of one generator: of a fork under the first launcher and under another, of main, of another seed."""
    generator = CELL[2]

    def ranks(values: list[Any], of_main: Any) -> list[seed_table.Draws]:
        return [{"main": [{generator: of_main}], "fork": [{generator: value} for value in values]}]

    return {FIRST: ranks(first, main), CELL[0]: ranks(here, main), "another seed": ranks([], other)}


@pytest.mark.parametrize(
    ("first", "here", "word"),
    [([2, 3], [2, 3], "distinct"), ([2, 2], [2, 2], "reproducible"), ([1, 2], [1, 2], "reproducible"),
     ([2, 3], [2, 4], "uncovered")],
)  # fmt: skip
def test_each_word_is_reached(first: list[Any], here: list[Any], word: str) -> None:
    assert seed_table.cell(made(first, here), *CELL) == word


def test_a_value_of_every_seed_is_told() -> None:
    assert seed_table.cell(made([5, 5], [5, 5], main=5, other=5), *CELL) == "ignores the seed"


def test_what_is_left_alone_must_differ() -> None:
    generator = seed_table.LEFT_ALONE[0]
    draws = {
        name: [{"main": [{generator: value}], "fork": [{generator: value}]}]
        for name, value in ((FIRST, "a"), (CELL[0], "b"), ("another seed", "c"))
    }
    assert seed_table.cell(draws, CELL[0], "fork", generator) == "left alone"
    draws[CELL[0]] = draws[FIRST]
    assert seed_table.cell(draws, CELL[0], "fork", generator) != "left alone"
