"""The table of caches, the platform of choices, and their archives and records, without an engine."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from reprobuild.engines.model import Task
from reprobuild.errors import BuildError, UsageError
from reprobuild.image.choices import archive as archives
from reprobuild.image.choices import platform as platforms
from reprobuild.image.choices import record
from reprobuild.image.choices.archive import ChoiceArchive, hash_files, pack, unpack
from reprobuild.image.choices.caches import MOUNT, find_caches, matches, read_caches
from reprobuild.image.choices.platform import (
    ChoicePlatform,
    VisibleGpus,
    describe_platform,
    find_platform,
    hash_platform,
    list_differences,
)
from reprobuild.image.choices.record import read_choices
from reprobuild.image.layers.blobs import LayerWriter
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.lock.model import Lock
from reprobuild.run.choice_session import ChoiceSession, refuse_without_caches
from reprobuild.run.choices import ChoiceUse
from reprobuild.run.options import RunOptions
from reprobuild.store.keyring import StoreKeyring
from reprobuild_portable import secrets
from tests.choices.samples import IMAGE, PLATFORM, save_choices
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
        for pattern in (*cache.measured, *cache.compiled, *cache.generated, *cache.left_out):
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
    assert table["inductor"].variables("inductor") == {
        "TORCHINDUCTOR_CACHE_DIR": f"{MOUNT}/inductor", "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
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
        ("inductor", "rm/crmenkgraetik2tie2tg3qf6ocfewuuwbpuztd325yh3wdbrerbb.main.cpp", "generated"),
        ("inductor", "ba/cbamcvwar3chqqj3ayeqvuya2yqg5bvb4gkr7apixnfard23t5w4.py", "generated"),
        ("inductor", "locks/c3g2mqobe6g24e353lemr6cpzfcmocdsk5rbq3mousrlfxbh7zgy.lock", "left_out"),
        ("inductor", "fxgraph/6x/f6x/abc", "compiled"),
        ("inductor", "ab/cabc.best_config", "measured"),
        ("triton", "K4HSKAC/add_kernel.autotune.json", "measured"),
        ("triton", "K4HSKAC/add_kernel.cubin", "compiled"),
        ("triton", "K4HSKAC/add_kernel.json", "generated"),
        ("triton", "K4HSKAC/tmp.pid_1_x/add_kernel.cubin", "left_out"),
        ("jax", "jit_f-0f1e2d-cache", "compiled"),
        ("jax", "jit_f-0f1e2d-atime", "left_out"),
        ("tunableop", "tunableop_results0.csv", "measured"),
    ],
)
def test_files_of_a_cache_are_told_apart(consumer: str, path: str, group: str) -> None:
    cache = read_caches()[consumer]
    groups = {
        "left_out": cache.left_out, "measured": cache.measured, "compiled": cache.compiled,
        "generated": cache.generated,
    }  # fmt: skip
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


@pytest.mark.parametrize(
    ("changed", "is_other"),
    [
        ({"machine": "aarch64"}, True),
        ({"cpu": "two"}, True),
        ({"threads": 3}, True),
        ({"gpus": ("b", "a")}, True),
        ({"gpus": ("a, b",)}, False),
        ({"driver": "1"}, True),
        ({"flags": ("avx2",)}, True),
        ({"flags": ("sse4_2", "avx2", "avx2")}, False),
        ({"variables": {"MKL_CBWR": ""}}, True),
        ({"variables": {"OMP_NUM_THREADS": "1", "MKL_CBWR": "AVX2"}}, False),
        ({"packages": {"torch": "2.14"}}, True),
        ({"packages": {}}, True),
    ],
)
def test_the_hash_of_a_platform_has_what_decides(changed: dict[str, Any], is_other: bool) -> None:
    here = msgspec.structs.replace(
        PLATFORM,
        flags=("avx2", "sse4_2"),
        gpus=("a", "b"),
        variables={"MKL_CBWR": "AVX2", "OMP_NUM_THREADS": "1"},
    )
    other = msgspec.structs.replace(here, **changed)
    assert bool(list_differences(other, here)) is is_other
    assert (hash_platform(other) != hash_platform(here)) is is_other


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


@pytest.mark.parametrize("error", [IsADirectoryError, PermissionError])
def test_a_gpu_of_amd_that_cannot_be_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    """The driver answers EPERM for the GPUs of other containers."""
    for number in range(3):
        node = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{number}"
        node.mkdir(parents=True)
        if number == 1 and error is IsADirectoryError:
            (node / "properties").mkdir()
        else:
            (node / "properties").write_text(f"simd_count {number}\ngfx_target_version 90402\n")
    open_path = Path.open

    def refuse_one(path: Path, *words: Any, **named: Any) -> Any:
        if path.parent.name == "1" and error is PermissionError:
            raise PermissionError(1, "Operation not permitted")
        return open_path(path, *words, **named)

    monkeypatch.setattr(Path, "open", refuse_one)
    assert platform_of(tmp_path, gpus=VisibleGpus()).gpus == ("gfx 90402, 0 units", "gfx 90402, 2 units")


TOKEN = "ghp_" + "wJalrXUtnFEMIK7MDENGbPxRfiCYzz123456"


def test_secrets_are_neither_recorded_nor_shown(tmp_path: Path) -> None:
    """A record of another party may have them anywhere."""
    here = platform_of(tmp_path, variables={"MKL_CBWR": TOKEN})
    assert here.variables == {"MKL_CBWR": "(secret)"}
    foreign = msgspec.structs.replace(
        here, cpu=TOKEN, driver=TOKEN, gpus=(TOKEN,), flags=(TOKEN,),
        variables={"MKL_CBWR": TOKEN, "API_KEY": "hunter2x"}, packages={"torch": TOKEN},
    )  # fmt: skip
    shown = "\n".join((*list_differences(foreign, here), *list_differences(here, foreign)))
    shown += describe_platform(foreign)
    assert "MKL_CBWR" in shown
    assert "wJalrXUtn" not in shown
    assert "hunter2x" not in shown


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the texts in which secrets are searched."""
    texts: list[str] = []

    def redact(text: str) -> str:
        texts.append(text)
        return secrets.redact(text)

    monkeypatch.setattr(
        platforms, "secrets", SimpleNamespace(redact=redact, secret_variable=secrets.secret_variable)
    )
    return texts


def test_the_shown_differences_are_few(searched: list[str]) -> None:
    """Secrets in all texts of 100 records would be searched for a minute."""
    full = msgspec.structs.replace(
        PLATFORM, cpu="two", flags=tuple(f"f{number:04}" for number in range(2000)), gpus=("g" * 200,) * 100,
        variables={f"A{number:02}": "v" * 200 for number in range(100)},
        packages={f"p{number:03}": "x" * 200 for number in range(500)},
    )  # fmt: skip
    lines = list_differences(full, PLATFORM)
    assert lines[-1] == "581 more variables and packages"  # torch is missing there
    assert len(lines) == 24
    assert sum("and 95 more when they were saved, none here" in line for line in lines) == 1
    shown = describe_platform(full)
    assert shown.endswith(f", A19={'v' * 200}, 80 more variables")
    assert len(searched) < 100
    assert max(map(len, searched)) < 1100


def test_platforms_of_other_images_are_not_compared(tmp_path: Path, searched: list[str]) -> None:
    lock = make_lock()
    for number in range(3):
        save_choices(tmp_path / "out", platform=msgspec.structs.replace(PLATFORM, threads=number + 5))
        save_choices(
            tmp_path / "out", platform=msgspec.structs.replace(PLATFORM, threads=number + 8), lock=lock.digest
        )
    reasons: list[str] = []
    use = ChoiceUse(
        out=tmp_path / "out", lock=lock, image=f"sha256:{'3' * 64}", known=StoreKeyring(None), say=reasons.append,
        options=RunOptions(),
    )  # fmt: skip
    assert use.find_used(Task(arguments=("true",)), {}, {"PATH": ""}) is None
    assert sum("are of another image, with the lock 111111111111" in reason for reason in reasons) == 3
    assert sum("are of another image with the same lock" in reason for reason in reasons) == 3
    assert searched == []


@pytest.mark.parametrize(
    "changed",
    [
        {"flags": ("a1",) * 2001},
        {"gpus": ("x",) * 101},
        {"variables": {f"A{number}": "" for number in range(101)}},
        {"packages": {f"a{number}": "" for number in range(501)}},
    ],
)
def test_the_facts_of_a_platform_are_bounded(tmp_path: Path, changed: dict[str, Any]) -> None:
    platform = msgspec.structs.replace(PLATFORM, **changed)
    save_choices(tmp_path / "out", platform=platform)
    with pytest.raises(UsageError, match=r"is damaged, or of another version.*length <= "):
        read_choices(tmp_path / "out")


def test_a_record_is_bounded(tmp_path: Path) -> None:
    folder = tmp_path / "out/choices"
    folder.mkdir(parents=True)
    (folder / f"{'0' * 64}.json").write_bytes(b" " * ((64 << 10) + 1))
    with pytest.raises(UsageError, match="it has more than 65536 bytes"):
        read_choices(tmp_path / "out")


def test_more_records_than_a_directory_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that used one of the first hundred, by their names, would hide the rest."""
    monkeypatch.setattr(record, "MOST_RECORDS", 2)
    for number in range(2):
        save_choices(tmp_path / "out", platform=msgspec.structs.replace(PLATFORM, threads=number))
    assert len(read_choices(tmp_path / "out")) == 2
    (tmp_path / "new/inductor").mkdir(parents=True)
    session = ChoiceSession(make_lock(), IMAGE, tmp_path / "new", {}, PLATFORM, None)
    assert session.save(tmp_path / "out", StoreKeyring(None)) is None  # it is empty
    save_choices(tmp_path / "out", platform=msgspec.structs.replace(PLATFORM, threads=2))
    with pytest.raises(UsageError, match="has choices of more than 2 platforms") as caught:
        read_choices(tmp_path / "out")
    hint = "remove the records (*.json) of those that are not needed, or run with --choices off"
    assert caught.value.hint == hint


def test_no_record_is_saved_that_could_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, out, known = make_lock(), tmp_path / "out", StoreKeyring(None)
    out.mkdir()
    monkeypatch.setattr(record, "MOST_RECORDS", 1)
    for threads in (1, 2):
        folder = tmp_path / str(threads)
        folder.mkdir()
        platform = msgspec.structs.replace(PLATFORM, threads=threads)
        session = ChoiceSession(lock, IMAGE, folder, {"inductor": read_caches()["inductor"]}, platform, None)
        (folder / "inductor/cache").mkdir()
        (folder / "inductor/cache/44").write_text("{}")
        if threads == 1:
            first = session.save(out, known)
        else:
            with pytest.raises(UsageError, match="has choices of more than 1 platforms"):
                session.save(out, known)
    assert first is not None
    assert [file.digest for file in read_choices(out)] == [first.digest]


# Of a lock, whose versions and names have up to 255 letters, and whose lists have any length.
LONG = "2.13.0+" + "a" * 195
NVIDIA = "nvidia-cublas-" + "c" * 200


@pytest.mark.parametrize(
    ("lock", "number"),
    [
        (make_lock(wheels=(wheel("torch", LONG),)), 1),
        (make_lock(wheels=(), conda=(conda_package("pytorch", "2" * 250, "torch"),)), 1),
        (make_lock(wheels=tuple(wheel(f"nvidia-cublas-cu{number}", "1") for number in range(600))), 500),
        (make_lock(wheels=tuple(wheel(f"{NVIDIA}{number}", LONG) for number in range(600))), 79),
    ],
)
def test_a_record_of_any_lock_can_be_read(tmp_path: Path, lock: Lock, number: int) -> None:
    for name in ("first", "out"):
        (tmp_path / name).mkdir()
    platform = platform_of(tmp_path, lock=lock)
    session = ChoiceSession(
        lock, IMAGE, tmp_path / "first", {"inductor": read_caches()["inductor"]}, platform, None
    )
    (tmp_path / "first/inductor/a.so").write_text("code")
    saved = session.save(tmp_path / "out", StoreKeyring(None))
    assert saved is not None
    assert read_choices(tmp_path / "out") == (saved,)
    assert saved.saved.platform == platform
    assert len(platform.packages) == number


def test_packages_that_are_cut_or_left_out_still_differ(tmp_path: Path) -> None:
    """Their hashes stand for them."""
    many = tuple(wheel(f"nvidia-cublas-cu{number}", "1") for number in range(600))
    for first, second, name in (
        (_wheel_of(LONG, "a" * 64), _wheel_of(LONG, "b" * 64), "torch"),
        (_wheel_of(f"{LONG}1", "a" * 64), _wheel_of(f"{LONG}2", "a" * 64), "torch"),
        (make_lock(wheels=many), make_lock(wheels=(*many[:-1], wheel(many[-1].name, "2"))), "_more"),
    ):
        old, new = (platform_of(tmp_path, lock=lock).packages for lock in (first, second))
        assert [key for key in old if old[key] != new[key]] == [name]


def test_no_record_is_saved_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "first").mkdir()
    platform = msgspec.structs.replace(PLATFORM, flags=tuple("f" * 40 + str(n) for n in range(1900)))
    session = ChoiceSession(
        make_lock(), IMAGE, tmp_path / "first", {"inductor": read_caches()["inductor"]}, platform, None
    )
    (tmp_path / "first/inductor/a.so").write_text("code")
    with pytest.raises(
        UsageError, match="no run could read the record of these choices: it has more than 65536"
    ) as caught:
        session.save(tmp_path / "out", StoreKeyring(None))
    hint = "run without --save-choices: the lock or this machine has facts that a record cannot hold"
    assert caught.value.hint == hint
    assert list((tmp_path / "out").iterdir()) == []


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


def many(tmp_path: Path, *paths: str) -> ChoiceArchive:
    """Write an archive of empty files, as its record states it."""
    entries = (msgspec.structs.replace(FILE, path=path, size=0) for path in paths)
    return msgspec.structs.replace(hostile(tmp_path, *entries), files=len(paths), content=0)


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ([f"inductor/{number}/{'d/' * 97}x" for number in range(200)], "has 1079 directories for 11 files"),
        (["x", f"inductor/{'d/' * 100}x"], "has a file in 101 nested directories"),
        ([f"inductor/{'d/' * 2000}x"], "has a file in 2001 nested directories"),
    ],
)
def test_directories_without_number_are_refused(tmp_path: Path, paths: list[str], message: str) -> None:
    """A few hundred bytes named 37,000 directories, and deeper ones than a run can read again."""
    archive = many(tmp_path, *paths)
    assert archive.size < 2000
    (tmp_path / "into").mkdir()
    with pytest.raises(BuildError, match=message) as caught:
        unpack((tmp_path / "archive").open, archive, tmp_path / "into", 0, "it")
    assert caught.value.hint == HARM
    assert sum(path.is_dir() for path in (tmp_path / "into").rglob("*")) < 1100


def test_directories_of_ordinary_caches_are_unpacked(tmp_path: Path) -> None:
    """The deepest that a run reads again, and several directories of its own for each of many files."""
    deepest = f"inductor/{'d/' * 99}x"
    archive = many(tmp_path, deepest, *(f"inductor/{number}/a/b/c/x" for number in range(300)))
    (tmp_path / "into").mkdir()
    hashes = unpack((tmp_path / "archive").open, archive, tmp_path / "into", 0, "it")
    assert deepest in hashes
    assert hashes == hash_files(tmp_path / "into", kept)


def test_names_in_an_archive_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = many(tmp_path, "a" * 99, "bb")
    monkeypatch.setattr(archives, "MOST_CHARACTERS", 100)
    (tmp_path / "into").mkdir()
    with pytest.raises(BuildError, match="has more than 100 characters of paths") as caught:
        unpack((tmp_path / "archive").open, archive, tmp_path / "into", 0, "it")
    assert caught.value.hint == HARM


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


def test_a_file_without_content_is_not_hashed_beyond_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux hashes a terabyte of holes in a quarter of an hour."""
    with (tmp_path / "a.so").open("wb") as stream:
        stream.truncate(8 << 40)
    monkeypatch.setattr(archives, "_hash", lambda *_: pytest.fail("it was read"))
    with pytest.raises(UsageError, match="more than 200000 files or 8 GiB"):
        hash_files(tmp_path, kept)


def test_a_file_that_grows_is_not_read_without_end(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100)
    with (tmp_path / "a").open("rb") as stream, pytest.raises(UsageError, match="more than 200000 files"):
        archives._hash(stream, 99)


def test_names_in_a_cache_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_CHARACTERS", 100)
    (tmp_path / ("a" * 99)).touch()
    assert len(hash_files(tmp_path, kept)) == 1
    (tmp_path / "bb").touch()
    with pytest.raises(UsageError, match="the caches of this run have more than"):
        hash_files(tmp_path, kept)
