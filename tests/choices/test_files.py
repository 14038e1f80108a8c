"""The table of caches, the platform of choices, and their archives and records, without an engine."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.errors import BuildError, UsageError
from reprobuild.image.choices import archive as archives
from reprobuild.image.choices import measurements
from reprobuild.image.choices.archive import ChoiceArchive, hash_files, pack, unpack
from reprobuild.image.choices.caches import MOUNT, find_caches, matches, read_caches
from reprobuild.image.choices.measurements import list_all_measurements, list_measurements
from reprobuild.image.choices.platform import ChoicePlatform, VisibleGpus, find_platform, list_differences
from reprobuild.image.layers.blobs import LayerWriter
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.lock.model import Lock
from reprobuild.run.choice_session import Misses, refuse_without_caches
from tests.verify.samples import conda_package, make_lock, wheel

CPUINFO = "processor : 0\nmodel name\t: EPYC 9B14\nflags\t\t: sse4_2 avx2 avx512f\n\nprocessor : 1\n"
H100 = "NVIDIA H100 80GB HBM3 9.0"


def kept(path: str) -> bool:
    return True


# --- the table ----------------------------------------------------------------------------------------


def test_each_cache_has_its_facts() -> None:
    table = read_caches()
    assert set(table) == {"inductor", "triton", "jax", "tunableop", "vllm", "extensions"}
    for cache in table.values():
        assert cache.source.startswith("https://")
        assert cache.key
        for pattern in (*cache.measured, *cache.compiled, *cache.left_out):
            re.compile(pattern)
    assert len({cache.variable for cache in table.values()}) == len(table)


def test_a_cache_is_that_of_a_package_of_the_image_that_is_new_enough() -> None:
    lock = make_lock(wheels=(wheel("torch", "2.13.0+cpu"), wheel("triton", "3.4.0"), wheel("jax", "0.4.15")))
    assert set(find_caches(lock)) == {"inductor", "tunableop", "extensions", "triton"}
    assert set(find_caches(make_lock(wheels=(wheel("torch", "2.1.0"),)))) == {"extensions"}
    assert find_caches(make_lock(wheels=(wheel("numpy", "2.4.6"),))) == {}
    of_conda = make_lock(wheels=(), conda=(conda_package("jax", "0.5.0", "jax"),))
    assert set(find_caches(of_conda)) == {"jax"}


def test_variables_lead_below_the_mount() -> None:
    table = read_caches()
    assert table["triton"].variables("triton") == {
        "TRITON_CACHE_DIR": f"{MOUNT}/triton", "TRITON_CACHE_AUTOTUNING": "1",
    }  # fmt: skip
    variable = table["tunableop"].variables("tunableop")["PYTORCH_TUNABLEOP_FILENAME"]
    assert variable == f"{MOUNT}/tunableop/tunableop_results%d.csv"
    assert matches(table["tunableop"].measured, "tunableop_results0.csv")


@pytest.mark.parametrize(
    ("consumer", "path", "group"),
    [
        # Inductor's and JAX's are of real runs; Triton's and TunableOp's are of their sources.
        ("inductor", "cache/44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", "measured"),
        ("inductor", "3g/c3g2mqobe6g24e353lemr6cpzfcmocdsk5rbq3mousrlfxbh7zgy.so", "compiled"),
        ("inductor", "rm/crmenkgraetik2tie2tg3qf6ocfewuuwbpuztd325yh3wdbrerbb.main.cpp", ""),
        ("inductor", "locks/c3g2mqobe6g24e353lemr6cpzfcmocdsk5rbq3mousrlfxbh7zgy.lock", "left_out"),
        ("inductor", "fxgraph/6x/f6x/abc", "compiled"),
        ("inductor", "ab/cabc.best_config", "measured"),
        ("triton", "K4HSKAC/add_kernel.autotune.json", "measured"),
        ("triton", "K4HSKAC/add_kernel.cubin", "compiled"),
        ("triton", "K4HSKAC/tmp.pid_1_x/add_kernel.cubin", "left_out"),
        ("jax", "jit_f-0f1e2d-cache", "compiled"),
        ("jax", "jit_f-0f1e2d-atime", "left_out"),
        ("tunableop", "tunableop_results0.csv", "measured"),
    ],
)
def test_files_of_a_cache_are_told_apart(consumer: str, path: str, group: str) -> None:
    cache = read_caches()[consumer]
    groups = {"left_out": cache.left_out, "measured": cache.measured, "compiled": cache.compiled}
    assert next((name for name, patterns in groups.items() if matches(patterns, path)), "") == group


# --- the platform -------------------------------------------------------------------------------------


def platform_of(tmp_path: Path, **changed: Any) -> ChoicePlatform:
    (tmp_path / "proc").mkdir(exist_ok=True)
    (tmp_path / "proc/cpuinfo").write_text(changed.get("cpuinfo", CPUINFO))
    lock: Lock = changed.get("lock", make_lock(wheels=(wheel("torch", "2.13.0"), wheel("idna", "3.1"))))
    gpus = changed.get("gpus", VisibleGpus(driver="580.1", models=(H100, H100)))
    return find_platform(
        lock, gpus, changed.get("variables", {"OMP_NUM_THREADS": "2", "HOME": "/"}), tmp_path
    )


def test_a_platform_has_what_choices_depend_on(tmp_path: Path) -> None:
    found = platform_of(tmp_path)
    assert (found.cpu, found.flags) == ("EPYC 9B14", ("avx2", "avx512f", "sse4_2"))
    assert found.threads == len(os.sched_getaffinity(0))
    assert (found.gpus, found.driver) == (("NVIDIA H100 80GB HBM3 9.0",), "580.1")
    assert found.variables == {"OMP_NUM_THREADS": "2"}
    assert found.packages == {"torch": "2.13.0 aaaaaaaaaaaa"}
    assert list_differences(found, found) == ()
    none = platform_of(tmp_path, gpus=None)
    assert (none.gpus, none.driver) == ((), "")


def test_a_platform_with_a_gpu_of_amd(tmp_path: Path) -> None:
    for number, target in enumerate((0, 90402)):
        node = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{number}"
        node.mkdir(parents=True)
        (node / "properties").write_text(f"cpu_cores_count 0\nsimd_count 1216\ngfx_target_version {target}\n")
    assert platform_of(tmp_path, gpus=VisibleGpus()).gpus == ("gfx 90402, 1216 units",)
    assert platform_of(tmp_path, gpus=None).gpus == ()


def _wheel_of(version: str, sha256: str) -> Lock:
    torch = wheel("torch", version)
    return make_lock(
        wheels=(msgspec.structs.replace(torch, file=msgspec.structs.replace(torch.file, sha256=sha256)),)
    )


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"variables": {"OMP_NUM_THREADS": "4"}}, "OMP_NUM_THREADS: 2 when they were saved, 4 here"),
        ({"variables": {}}, "OMP_NUM_THREADS: 2 when they were saved, none here"),
        (
            {"variables": {"OMP_NUM_THREADS": "2", "ATEN_CPU_CAPABILITY": "avx2"}},
            "ATEN_CPU_CAPABILITY: none when they were saved, avx2 here",
        ),
        (
            {"variables": {"OMP_NUM_THREADS": "2", "MKL_CBWR": "AVX2"}},
            "MKL_CBWR: none when they were saved, AVX2 here",
        ),
        (
            {"lock": _wheel_of("2.12.0", "a" * 64)},
            "torch: 2.13.0 aaaaaaaaaaaa when they were saved, 2.12.0 aaaaaaaaaaaa here",
        ),
        (
            {"lock": _wheel_of("2.13.0", "b" * 64)},  # another build of the same version
            "torch: 2.13.0 aaaaaaaaaaaa when they were saved, 2.13.0 bbbbbbbbbbbb here",
        ),
        (
            {"lock": make_lock(wheels=(wheel("torch", "2.13.0"), wheel("triton", "3.4.0")))},
            "triton: none when they were saved, 3.4.0 aaaaaaaaaaaa here",
        ),
        (
            {"cpuinfo": CPUINFO.replace(" avx512f", "")},
            "instruction sets: missing here avx512f",
        ),
        (
            {"cpuinfo": CPUINFO.replace("9B14", "7763")},
            "processor: EPYC 9B14 when they were saved, EPYC 7763 here",
        ),
        (
            {"gpus": VisibleGpus(driver="590.2", models=(H100,))},
            "driver: 580.1 when they were saved, 590.2 here",
        ),
        ({"gpus": None}, "GPUs: NVIDIA H100 80GB HBM3 9.0 when they were saved, none here"),
    ],
)
def test_what_differs_is_named(tmp_path: Path, changed: dict[str, Any], named: str) -> None:
    assert named in list_differences(platform_of(tmp_path), platform_of(tmp_path, **changed))


def test_threads_are_of_the_platform(tmp_path: Path) -> None:
    here = platform_of(tmp_path)
    saved = msgspec.structs.replace(here, threads=here.threads + 1, machine="riscv64")
    assert list_differences(saved, here) == (
        f"architecture: riscv64 when they were saved, {here.machine} here",
        f"processors that the run may use: {here.threads + 1} when they were saved, {here.threads} here",
    )


def test_an_image_without_a_compiler_has_no_choices_to_save() -> None:
    with pytest.raises(UsageError, match="no package of this image keeps choices") as caught:
        refuse_without_caches({})
    assert caught.value.hint == "run without it; docs/choices.md lists the packages"
    refuse_without_caches(read_caches())


# --- archives -----------------------------------------------------------------------------------------


def packed(folder: Path, target: Path) -> ChoiceArchive:
    return pack(folder, hash_files(folder, kept), target, 1000)


def test_files_come_back_with_one_time(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/c.so").write_bytes(bytes(range(256)) * 5000)
    (folder / "z").write_bytes(b"")
    archive = packed(folder, tmp_path / "archive")
    assert (archive.files, archive.content) == (2, 1_280_000)
    (tmp_path / "again").mkdir()
    hashes = unpack((tmp_path / "archive").open, archive, tmp_path / "again", 1000, "x")
    assert hashes == hash_files(folder, kept) == hash_files(tmp_path / "again", kept)
    assert {path.stat().st_mtime for path in (tmp_path / "again").rglob("*") if path.is_file()} == {1000.0}
    assert packed(tmp_path / "again", tmp_path / "second") == archive
    assert (tmp_path / "second").read_bytes() == (tmp_path / "archive").read_bytes()


def hostile(tmp_path: Path, *entries: TarEntry) -> ChoiceArchive:
    """Write an archive whose record states one file of one byte."""
    with (tmp_path / "archive").open("wb") as stream, LayerWriter(stream) as sink:
        writer = TarWriter(sink, 0)
        for entry in entries:
            writer.add(entry, b"x" * entry.size)
        writer.close()
        tar, sha256, size = sink.finish()
    return ChoiceArchive(sha256=sha256, size=size, tar=tar, files=1, content=1)


FILE = TarEntry(path="a", type="file", mode=0o644, size=1)
HARM = (
    "the file is damaged or made to harm; get it from where it was published, or leave it out with `--drop`"
)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ((msgspec.structs.replace(FILE, path="../a"),), "unsafe path"),
        ((msgspec.structs.replace(FILE, path="x/../../a"),), "unsafe path"),
        ((TarEntry(path="a", type="symlink", mode=0o777, target="/etc"),), "which is no file"),
        ((FILE, TarEntry(path="b", type="hardlink", mode=0o644, target="a")), "which is no file"),
        ((TarEntry(path="a", type="fifo", mode=0o644),), "which is no file"),
        ((FILE, msgspec.structs.replace(FILE, path="b")), "more files than its record states"),
        ((msgspec.structs.replace(FILE, size=2),), "more files than its record states"),
        ((), "other files than its record states"),
    ],
)
def test_a_hostile_archive_is_refused(tmp_path: Path, entries: tuple[TarEntry, ...], message: str) -> None:
    archive = hostile(tmp_path, *entries)
    (tmp_path / "into").mkdir()
    with pytest.raises(BuildError, match=message) as caught:
        unpack((tmp_path / "archive").open, archive, tmp_path / "into", 0, "it")
    assert caught.value.hint == HARM
    assert not (tmp_path / "a").exists()


def test_a_name_twice_is_refused(tmp_path: Path) -> None:
    archive = msgspec.structs.replace(hostile(tmp_path, FILE, FILE), files=2, content=2)
    (tmp_path / "into").mkdir()
    with pytest.raises(BuildError, match="has 'a' twice"):
        unpack((tmp_path / "archive").open, archive, tmp_path / "into", 0, "it")


def test_a_cache_that_is_too_large_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_FILES", 2)
    for name in "abc":
        (tmp_path / name).touch()
    with pytest.raises(UsageError, match="more than 2 files or 8 GiB") as caught:
        hash_files(tmp_path, kept)
    assert (
        caught.value.hint == "run without --save-choices: the cache of such a run is not one of choices alone"
    )


def test_a_file_that_changes_while_it_is_saved(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "a").write_text("one")
    hashes = hash_files(folder, kept)
    (folder / "a").write_text("two")
    with pytest.raises(BuildError, match="changed while it was saved") as caught:
        pack(folder, hashes, tmp_path / "archive", 0)
    assert caught.value.hint == "run the command again"


def test_bytes_behind_the_end_of_an_archive_are_bounded(tmp_path: Path) -> None:
    with (tmp_path / "archive").open("wb") as stream, LayerWriter(stream) as sink:
        writer = TarWriter(sink, 0)
        writer.add(FILE, b"x")
        writer.close()
        for _ in range(64):
            sink.write(bytes(1 << 20))
        tar, sha256, size = sink.finish()
    archive = ChoiceArchive(sha256=sha256, size=size, tar=tar, files=1, content=1)
    (tmp_path / "into").mkdir()
    with pytest.raises(BuildError, match="more files than its record states"):
        unpack((tmp_path / "archive").open, archive, tmp_path / "into", 0, "it")


def test_names_in_a_cache_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_CHARACTERS", 100)
    (tmp_path / ("a" * 99)).touch()
    assert len(hash_files(tmp_path, kept)) == 1
    (tmp_path / "bb").touch()
    with pytest.raises(UsageError, match="the caches of this run have more than"):
        hash_files(tmp_path, kept)


# --- measurements -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("t", '{"c": {"mm": {"1x2": {"gemm": 0.5, "mkl": 1}}}}', {"t: c mm 1x2 gemm", "t: c mm 1x2 mkl"}),
        ("x.best_config", '{"XBLOCK": 64, "num_warps": 8}', {"x.best_config"}),
        ("r.csv", "Validator,PT,2.13\nGemm,nn_1_2,Default,0.5\n", {"r.csv: Gemm,nn_1_2,Default"}),
        ("broken", '{"c": {', {"broken"}),
        ("deep", "[" * 100_000, {"deep"}),
    ],
)
def test_measurements_of_a_file(tmp_path: Path, name: str, content: str, lines: set[str]) -> None:
    (tmp_path / name).write_text(content)
    assert list_measurements(tmp_path, name) == lines


def test_a_table_whose_keys_repeat_has_a_bound(tmp_path: Path) -> None:
    """A key of 400 kB above 30,000 numbers would need 12 GB."""
    inner = ", ".join(f'"{number}": 1' for number in range(30_000))
    (tmp_path / "t").write_text(f'{{"c": {{"{"k" * 400_000}": {{{inner}}}}}}}')
    assert list_measurements(tmp_path, "t") == {"t"}


def test_measurements_of_all_files_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "MOST_CHARACTERS", 20)
    for name in "ab":
        (tmp_path / name).write_text('{"c": {"mm": {"1x2": {"gemm": 1}}}}')
    assert len(list_all_measurements(tmp_path, ["a"])) == 1
    with pytest.raises(
        UsageError, match="the measurements in the caches of this run have more than"
    ) as caught:
        list_all_measurements(tmp_path, ["a", "b"])
    hint = "run without --save-choices: the cache of such a run is not one of choices alone"
    assert caught.value.hint == hint


def test_misses_name_a_few_and_count_the_rest() -> None:
    assert not Misses(measured=(), compiled=())
    text = str(Misses(measured=("a\x1b[2J", *"bcd"), compiled=("e.so", "f.so")))
    assert text == "4 new measurements, 2 newly compiled files; a\\x1b[2J; b; c; d; e.so; and 1 more"
