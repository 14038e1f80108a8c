"""Names of files with digits that look like a time."""

from __future__ import annotations

import pytest

from reprobuild.verify.workload.file_names import mask_run_parts


@pytest.mark.parametrize(
    "name",
    [
        "a-2024-13-45_12-30-00.txt",
        "a-2024-00-01_12-30-00.txt",
        "a-2024-02-31_12-30-00.txt",
        "a-0000-01-01_12-30-00.txt",
        "a-00000101000000",
        "a-9999-12-31_99-99-99",
    ],
)
def test_digits_that_are_no_date_stay(name: str) -> None:
    assert mask_run_parts(name, 1e9, 1e9 + 1, "host") == name


def test_a_date_within_the_run_is_marked() -> None:
    assert mask_run_parts("a-1970-01-01_00-00-05.txt", 4.0, 6.0, "host") == "a-<time>.txt"
