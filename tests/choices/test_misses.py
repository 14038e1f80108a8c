"""The measurements in the files of a cache, and what a run measured or compiled itself, without an engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from reprobuild.errors import UsageError
from reprobuild.image.choices import measurements
from reprobuild.image.choices.caches import read_caches
from reprobuild.image.choices.measurements import read_measured_file, read_measured_files
from reprobuild.image.choices.record import ChoiceFile
from reprobuild.run.choice_session import ChoiceSession, Misses
from reprobuild.store.keyring import StoreKeyring
from tests.choices.samples import IMAGE, PLATFORM
from tests.verify.samples import make_lock

HASH = "0" * 64


@pytest.mark.parametrize(
    ("name", "content", "values"),
    [
        (
            "t",
            '{"c": {"mm": {"1x2": {"gemm": 0.5, "mkl": 1}}}, "system": {"hash": "a"}}',
            {"t: c mm 1x2 gemm": "0.5", "t: c mm 1x2 mkl": "1"},
        ),
        ("x.best_config", '{"XBLOCK": 64, "num_warps": 8}', {"x.best_config": HASH}),
        ("r.csv", "Validator,PT,2.13\nGemm,nn_1_2,Default,0.5\n", {"r.csv: Gemm,nn_1_2,Default": "0.5"}),
        ("rows.csv", "\n" * 200_001, {"rows.csv": HASH}),
        ("broken", '{"c": {', {"broken": HASH}),
        ("deep", "[" * 100_000, {"deep": HASH}),
        ("word", '{"a": {"b": {"c": {"\\ud800": 1}}}}', {"word": HASH}),
    ],
)
def test_measurements_of_a_file(tmp_path: Path, name: str, content: str, values: dict[str, str]) -> None:
    (tmp_path / name).write_text(content)
    assert read_measured_file(tmp_path, name, HASH).values == values


def test_a_table_whose_keys_repeat_has_a_bound(tmp_path: Path) -> None:
    """A key of 400 kB above 30,000 numbers would need 12 GB."""
    inner = ", ".join(f'"{number}": 1' for number in range(30_000))
    (tmp_path / "t").write_text(f'{{"c": {{"{"k" * 400_000}": {{{inner}}}}}}}')
    assert read_measured_file(tmp_path, "t", HASH).values == {"t": HASH}


def test_a_large_table_is_not_parsed(tmp_path: Path) -> None:
    """Empty objects need more than 20 times their text."""
    (tmp_path / "t").write_text("[" + "{}," * 3_000_000 + "1]")
    assert read_measured_file(tmp_path, "t", HASH).values == {"t": HASH}


def test_a_table_of_many_numbers_counts_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t").write_text('{"c": {"mm": {"1x2": {"a": 1, "b": 2}}}}')
    assert len(read_measured_file(tmp_path, "t", HASH).values) == 2
    monkeypatch.setattr(measurements, "_MOST_ROWS", 1)
    assert read_measured_file(tmp_path, "t", HASH).values == {"t": HASH}


@pytest.mark.parametrize(
    ("bound", "most", "text"), [("MOST_CHARACTERS", 20, "0 MiB of text"), ("MOST_LINES", 1, "1 lines")]
)
def test_measurements_of_all_files_have_a_bound(
    bound: str, most: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurements, bound, most)
    for name in "ab":
        (tmp_path / name).write_text('{"c": {"mm": {"1x2": {"gemm": 1}}}}')
    assert len(read_measured_files(tmp_path, {"a": HASH})) == 1
    with pytest.raises(
        UsageError, match=f"the measurements in the caches of this run have more than {text}"
    ) as caught:
        read_measured_files(tmp_path, {"a": HASH, "b": HASH})
    hint = "run without --save-choices: the cache of such a run is not one of choices alone"
    assert caught.value.hint == hint


def test_a_long_value_is_kept_by_its_hash(tmp_path: Path) -> None:
    """A container can write millions of digits, which its archive holds in a few bytes."""
    for name, digits in (("a.csv", "1" * 1_000_000), ("b.csv", "2" * 1_000_000)):
        (tmp_path / name).write_text(f"x,{digits}\n")
    first, second = read_measured_files(tmp_path, {"a.csv": HASH, "b.csv": HASH}).values()
    values = [next(iter(each.values.values())) for each in (first, second)]
    assert values[0] != values[1]
    assert {len(value) for value in values} == {64}


TABLE = '{"system": {"hash": "a"}, "cache": {"mm": {"1x2": {"gemm": 0.5, "mkl": 1}}}}'
# Of real Inductor (torch 2.13): the address of a frozen parameter ends the line.
WRAPPER = (
    "{} = None  # device(type='cpu') torch.float32 (768,) (1,) {}\nbuf0 = empty_strided_cpu((96,), (1,))\n"
)
RESTORED = {
    "cache/44": TABLE, "ab/c1.best_config": '{"XBLOCK": 64}',
    "ab/c2.py": WRAPPER.format("_frozen_param1", "7fd2214514a0"),
    "ab/c3.so": "code", "ab/c4.cpp": "int x;", "ab/c5.txt": "a note",
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "content", "misses"),
    [
        # The same content, in another order or with another address, is no choice of the run.
        ("cache/44", '{"cache": {"mm": {"1x2": {"mkl": 1, "gemm": 0.5}}}, "system": {"hash": "a"}}', ()),
        ("ab/c2.py", RESTORED["ab/c2.py"], ()),
        ("ab/c2.py", WRAPPER.format("_frozen_param1", "55d000000010"), ()),
        ("cd/c6.py", WRAPPER.format("_frozen_param1", "55d000000010"), ()),
        ("locks/c6.lock", "1", ()),
        # Everything else is one.
        ("cache/44", TABLE.replace("0.5", "0.25"), ("cache/44: cache mm 1x2 gemm",)),
        ("cache/44", TABLE.replace('"a"', '"b"'), ("cache/44",)),
        ("cache/44", TABLE.replace(', "mkl": 1', ""), ("cache/44",)),
        ("cache/44", "broken", ("cache/44",)),
        ("ab/c1.best_config", '{"XBLOCK": 32}', ("ab/c1.best_config",)),
        ("ab/c6.best_config", '{"XBLOCK": 64}', ("ab/c6.best_config",)),
        ("ab/c2.py", WRAPPER.format("_frozen_param2", "7fd2214514a0"), ("ab/c2.py",)),
        ("cd/c6.py", WRAPPER.format("_frozen_param2", "7fd2214514a0"), ("cd/c6.py",)),
        ("cd/c6.py", "import torch\n", ("cd/c6.py",)),
        ("ab/c4.cpp", "int y;", ("ab/c4.cpp",)),
        ("ab/c3.so", "other", ("ab/c3.so",)),
    ],
)
def test_what_a_run_measured_or_compiled_itself(
    tmp_path: Path, path: str, content: str, misses: tuple[str, ...]
) -> None:
    def write(folder: Path, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (folder / "inductor" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "inductor" / name).write_text(text)

    for name in ("first", "second", "out"):
        (tmp_path / name).mkdir()
    caches = {"inductor": read_caches()["inductor"]}
    first = ChoiceSession(make_lock(), IMAGE, tmp_path / "first", caches, PLATFORM, None)
    write(tmp_path / "first", RESTORED)
    saved = first.save(tmp_path / "out", StoreKeyring(None))
    second = ChoiceSession(make_lock(), IMAGE, tmp_path / "second", caches, PLATFORM, saved)
    assert not second.find_misses()
    write(tmp_path / "second", {path: content})
    found = second.find_misses()
    assert (*found.measured, *found.compiled) == tuple(f"inductor/{line}" for line in misses)
    assert bool(found.measured) == bool(misses and not misses[0].endswith((".py", ".cpp", ".so")))


def test_misses_name_a_few_and_count_the_rest() -> None:
    assert not Misses(measured=(), compiled=())
    text = str(Misses(measured=("a\x1b[2J", *"bcd"), compiled=("e.so", "f.so")))
    assert text == "4 new measurements, 2 newly compiled files; a\\x1b[2J; b; c; d; e.so; and 1 more"


def saved_by(tmp_path: Path, change: Callable[[Path], None]) -> ChoiceFile | None:
    """Return the choices of a run whose command changed its caches so; a second run must be able to use them."""
    (tmp_path / "out").mkdir()
    caches = {name: read_caches()[name] for name in ("inductor", "extensions")}
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first = ChoiceSession(make_lock(), IMAGE, tmp_path / "first", caches, PLATFORM, None)
    change(tmp_path / "first")
    saved = first.save(tmp_path / "out", StoreKeyring(None))
    second = ChoiceSession(make_lock(), IMAGE, tmp_path / "second", caches, PLATFORM, saved)
    assert not second.find_misses()
    return saved


def test_a_file_in_the_place_of_a_cache_is_not_saved(tmp_path: Path) -> None:
    """An archive with it would break each later run, which makes the directory."""

    def replace(folder: Path) -> None:
        (folder / "extensions").rmdir()
        (folder / "extensions").write_text("x")

    def replace_and_add(folder: Path) -> None:
        replace(folder)
        (folder / "inductor/a.so").write_text("code")

    for number, change in enumerate((replace, replace_and_add)):
        (tmp_path / str(number)).mkdir()
        saved = saved_by(tmp_path / str(number), change)
        assert (saved.saved.archive.files if saved else 0) == number


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("inductor/.wh.x/a.so", "its archive holds 'inductor/.wh.x/a.so', which engines take for different"),
        ("inductor/.wh..wh.plnk", "its archive holds"),
        (f"inductor/{'/'.join(f'd{number}' * 2 for number in range(99))}/a.so", ""),
    ],
)
def test_no_archive_is_saved_that_a_run_would_refuse(tmp_path: Path, path: str, message: str) -> None:
    def add(folder: Path) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")

    if not message:
        assert saved_by(tmp_path, add) is not None
        return
    with pytest.raises(
        UsageError, match=re.escape(f"no run could use the caches of this one: {message}")
    ) as caught:
        saved_by(tmp_path, add)
    hint = "run without --save-choices, or let the command make no such files in its caches"
    assert caught.value.hint == hint
    assert list((tmp_path / "out").iterdir()) == []


def test_directories_without_number_are_not_saved(tmp_path: Path) -> None:
    def add(folder: Path) -> None:
        for number in range(12):
            deep = folder / "inductor" / str(number) / "/".join("d" * 97)
            deep.mkdir(parents=True)
            (deep / "a.so").touch()

    with pytest.raises(UsageError, match="its archive has 1079 directories for 11 files"):
        saved_by(tmp_path, add)
    assert list((tmp_path / "out").iterdir()) == []
