"""The rules of the experiment on old releases: its candidates, requirements, outcomes and figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from proof.sdists import cases, needs, outcome, tables
from proof.sdists.experiment import run_limited
from reprobuild.ecosystems.pypi.page_cache import ListedFile


def file_of(name: str, uploaded: str, **more: Any) -> ListedFile:
    return ListedFile(filename=name, url=f"https://index.example/{name}", uploaded=uploaded, **more)


def test_the_highest_final_release_of_the_year_is_the_case() -> None:
    files = [
        file_of("tool-1.0.tar.gz", "2023-02-01T00:00:00Z"),
        file_of("tool-1.10.tar.gz", "2023-05-01T00:00:00Z"),
        file_of("tool-1.9.tar.gz", "2023-06-01T00:00:00Z"),  # a repair of an old branch
        file_of("tool-1.11.tar.gz", "2023-06-02T00:00:00Z", yanked=""),
        file_of("tool-2.0rc1.tar.gz", "2023-07-01T00:00:00Z"),
        file_of("tool-3.0.tar.gz", "2024-01-01T00:00:00Z"),
        file_of("tool-1.12-py3-none-any.whl", "2023-07-01T00:00:00Z"),
    ]
    chosen = cases.choose_release(files)
    assert chosen is not None
    assert chosen.filename == "tool-1.10.tar.gz"
    assert cases.choose_release(files[-2:]) is None


def test_the_python_is_the_newest_that_the_classifiers_name() -> None:
    text = "".join(
        f"Classifier: Programming Language :: Python :: {minor}\n" for minor in ("3", "3.8", "3.9")
    )
    assert cases.choose_python(text, ">=3.7") == "3.9"
    assert cases.choose_python("", ">=3.7") == "3.11"
    assert cases.choose_python(text, ">=3.10") == "3.11"
    assert cases.choose_python(text, "<3.9", ["3.8"]) == "3.8"
    assert cases.choose_python("", ">=3.12") is None
    assert cases.choose_python("", "no version") is None


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_only_archives_with_plain_tests_are_cases(tmp_path: Path) -> None:
    assert cases.find_reason_to_skip(write(tmp_path / "a", src__tool_DOT_py="")) == "no tests"
    plain = write(tmp_path / "b", tests__test_a_DOT_py="", src__tool__tests__test_b_DOT_py="")
    assert cases.find_test_folder(plain) == plain / "tests"
    assert cases.find_reason_to_skip(plain) == ""
    assert cases.find_reason_to_skip(write(tmp_path / "b", src__fast_DOT_pyx="")) == "compiled code"
    assert cases.find_reason_to_skip(write(tmp_path / "c", test__data_DOT_c="", test__test_a_DOT_py="")) == ""
    service = write(tmp_path / "d", tests__test_a_DOT_py="get('https://httpbin.example')")
    assert cases.find_reason_to_skip(service) == "tests need a service"
    assert cases.list_test_paths(plain, plain / "tests") == ["tests"]
    alone = write(tmp_path / "e", tests_DOT_py="", test_tool_DOT_py="", tool_DOT_py="")
    assert cases.find_test_folder(alone) == alone
    assert cases.list_test_paths(alone, alone) == ["test_tool.py", "tests.py"]


def test_extras_for_tests_and_what_they_name_are_needed(tmp_path: Path) -> None:
    requires = (
        "click", "pytest>=6; extra == 'test'", "tool[more]; extra == 'test'", "lxml; extra == 'more'",
        "tomli; extra == 'test' and python_version < '3.11'", "mypy; extra == 'test'", "sphinx; extra == 'docs'",
    )  # fmt: skip
    folder = write(tmp_path, tests__test_a_DOT_py="import pytest_mock\nimport click\n    import numpy\n")
    assert needs.find_needs("tool", folder, folder / "tests", requires, "3.11.7") == [
        "lxml", "pytest>=6", "pytest-mock",
    ]  # fmt: skip
    assert "tomli" in needs.find_needs("tool", folder, folder / "tests", requires, "3.10.13")


def test_files_and_tables_are_read_if_no_extra_is_for_tests(tmp_path: Path) -> None:
    def found(folder: Path, *requires: str) -> list[str]:
        return needs.find_needs("tool", folder, folder, requires, "3.11.7")

    files = {
        "requirements__tests_DOT_txt": "pytest==7.4.0\ncffi==1.0\n",
        "requirements__tests_DOT_in": "-r more.in\npytest # comment\nhttps://host.example/x.zip\n--option\n",
        "requirements__more_DOT_in": "pytz<2024; python_version < '4'\nold; python_version < '3'\n",
    }
    assert found(write(tmp_path / "a", **files)) == ["pytest", "pytz<2024"]
    tox = "[testenv]\ndeps =\n  pytest<8\n  py37: older\n  -r{toxinidir}/more.txt\n"
    assert found(write(tmp_path / "b", tox_DOT_ini=tox, more_DOT_txt="mock\n")) == ["mock", "pytest<8"]
    table = "[tool.poetry.group.test.dependencies]\npytest = '^7'\nfaker = '*'\n"
    assert found(write(tmp_path / "c", pyproject_DOT_toml=table)) == ["faker", "pytest"]
    lesser = ("pytest<9; extra == 'dev'", "Sphinx; extra == 'dev'")
    assert found(write(tmp_path / "d", setup_DOT_cfg="[tool:pytest]\naddopts = --cov tool"), *lesser) == [
        "pytest<9", "pytest-cov",
    ]  # fmt: skip


def test_two_lines_for_one_distribution_are_joined() -> None:
    rows = [row for text in ("A_b[x]>=1", "a-b[y]<3") if (row := needs.parse_requirement(text))]
    merged = needs.merge(rows, needs.environment_of("3.11.7"))
    assert [str(row) for row in merged.values()] == ["a-b[x,y]<3,>=1"]


@pytest.mark.parametrize(
    ("code", "text", "name", "passed", "cause"),
    [
        (0, "12 passed, 1 skipped in 1s\nleft over", "passed", 12, ""),
        (0, "\x1b[32m\x1b[1m36 passed\x1b[0m in 1s", "passed", 36, ""),
        (0, "3 skipped in 1s", "no tests run", 0, "all skipped"),
        (5, "no tests ran", "no tests run", 0, "none found"),
        (None, "....", "timeout", 0, ""),
        (1, "E   AssertionError: x\n=== 1 failed, 4 passed in 1s ===", "failed", 4, "other result"),
        (
            2, "ERROR collecting a.py\nE   ImportError: cannot import name 'soft' from 'lib' (/x)\n1 error",
            "collection error", 0, "name removed: soft",
        ),
        (4, "ImportError while loading conftest 'c'.\nE   ModuleNotFoundError: No module named 'x.y'",
         "collection error", 0, "module missing: x.y"),
        (4, "x: error: unrecognized arguments: --no a", "collection error", 0, "option of pytest missing: --no"),
        (1, "E   pkg.OldDeprecationWarning: gone", "failed", 0, "warning as error: OldDeprecationWarning"),
        (1, "E   Failed: DID NOT WARN. None of <class 'OldWarning'>", "failed", 0, "no error or warning"),
        (1, "E       fixture 'bench' not found", "failed", 0, "fixture missing: bench"),
        (3, "INTERNALERROR> \nnothing known", "collection error", 0, "another reason"),
    ],
)  # fmt: skip
def test_outcomes_have_a_class_and_a_reason(
    code: int | None, text: str, name: str, passed: int, cause: str
) -> None:
    assert outcome.classify(code, text) == outcome.Outcome(name=name, passed=passed, cause=cause)


def test_reasons_of_installations_name_no_address() -> None:
    text = "Failed to build `x` from https://index.example/x\nModuleNotFoundError: No module named 'pkg_resources'"
    assert outcome.describe_install(text) == "build: module missing: pkg_resources"
    assert outcome.describe_install("x No solution found when resolving") == "no versions fit"
    assert outcome.describe_install("?") == "another reason"


def test_a_program_is_ended_when_its_time_is_over(tmp_path: Path) -> None:
    log = tmp_path / "log"
    waits = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)"]
    assert run_limited(waits, {}, log, 1) == (None, "begun\n")
    assert run_limited([sys.executable, "-c", "raise SystemExit(3)"], {}, log, 20) == (3, "")


def row_of(project: str, newest: str, ours: str) -> dict[str, Any]:
    return {
        "project": project, "version": "1", "day": "2023-01-02", "python": "3.11.7",
        "newest": {"outcome": newest, "passed": 1, "reason": "why"}, "as of": {"outcome": ours, "passed": 1},
    }  # fmt: skip


def test_figures_count_the_cases() -> None:
    found = [
        row_of("a", "passed", "passed"), row_of("b", "failed", "passed"), {"project": "c", "skipped": "large"},
        row_of("d", "timeout", "not installable"),
    ]  # fmt: skip
    assert tables.describe(found).startswith(
        "Of 3 releases, 1 (33%) pass with today's newest versions, and 2 (67%)"
    )
    assert f"Of the first 4 of {len(cases.NAMES)} candidates, 1 are no case: large 1." in tables.describe(
        found
    )
    assert ["passed", "1", "2"] in tables.count_classes(found)
    assert [row[0] for row in tables.list_failures(found)] == ["b 1", "d 1"]
    assert tables.list_failures(found)[0][3:] == ["failed", "why", "passed", ""]


def test_the_claim_needs_a_hundred_cases_and_more_that_pass() -> None:
    better = [row_of("b", "failed", "passed")]
    assert not tables.held(better)
    assert tables.held(better * 100)
    assert not tables.held(better * 50 + [row_of("b", "passed", "failed")] * 50)
