"""What an image must answer is known from the program in it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from reprobuild.infra.tar.writing import TarWriter
from reprobuild.lock.model import RealisedOutputs
from reprobuild.lock.system import EPOCH
from reprobuild.recipe.payload import pack_runtime
from reprobuild.store.store import Store
from reprobuild.verify.determinism.expected import ARRAYS, PLACE, read_expected
from tests.conftest import ROOT
from tests.verify.samples import EXPECTED, make_lock, wheel


def test_the_file_is_what_the_program_has() -> None:
    program = ROOT / "dev" / "list_probes.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    file = ROOT / "reprobuild_runtime" / PLACE
    assert json.loads(done.stdout) == json.loads(file.read_text()), f"python {program} > {file}"


def test_the_file_of_arrays_is_what_the_program_has() -> None:
    program = ROOT / "dev" / "list_probes.py"
    done = subprocess.run(
        [sys.executable, str(program), "arrays"], capture_output=True, text=True, check=True
    )
    file = ROOT / "reprobuild_runtime" / ARRAYS
    assert json.loads(done.stdout) == json.loads(file.read_text()), f"python {program} arrays > {file}"


def test_no_probe_may_be_absent_everywhere() -> None:
    for device, wanted in EXPECTED.items():
        assert set(wanted.optional) < {*wanted.probes, *wanted.thorough}
        assert set(wanted.informational) < set(wanted.probes)
        assert set(wanted.alerting) < set(wanted.probes)
        assert wanted.races
        assert set(wanted.races) < set(wanted.controls)
        assert all(name.startswith(f"{device} ") for name in wanted.races)
    always = [set(wanted.probes) - set(wanted.optional) for wanted in EXPECTED.values()]
    assert len(always[0] & always[1]) > 5


def realised(runtime: str) -> RealisedOutputs:
    return RealisedOutputs(base="b" * 64, runtime=runtime, wheels=(), bytecode=())


def sealed(tmp_path: Path, files: dict[str, bytes]) -> tuple[Store, str]:
    store = Store(tmp_path / "store")
    with (tmp_path / "runtime.tar").open("wb") as stream:
        writer = TarWriter(stream, EPOCH)
        for name, content in files.items():
            writer.file(name, content)
        writer.close()
    return store, store.add((tmp_path / "runtime.tar").read_bytes())


def test_an_image_is_asked_what_its_own_program_knows(tmp_path: Path) -> None:
    other = {**json.loads(msgspec.json.encode(EXPECTED))}
    other["cpu"]["probes"] = ["one"]
    store, runtime = sealed(tmp_path, {PLACE: json.dumps(other).encode()})
    said: list[str] = []
    found = read_expected(make_lock(realised=realised(runtime)), store, said.append)
    assert found is not None
    assert found["cpu"].probes == ("one",)
    assert said == []


@pytest.mark.parametrize("files", [{"probes.py": b""}, {PLACE: b'{"cpu": {"probes": []}}'}, {PLACE: b"[]"}])
def test_the_image_of_another_reprobuild(files: dict[str, bytes], tmp_path: Path) -> None:
    store, runtime = sealed(tmp_path, files)
    assert read_expected(make_lock(realised=realised(runtime)), store, print) is None


def test_a_store_without_the_program(tmp_path: Path) -> None:
    said: list[str] = []
    found = read_expected(make_lock(realised=realised("e" * 64)), Store(tmp_path / "store"), said.append)
    assert found == EXPECTED
    assert said == [
        "the store does not have the program that is in the image: the probes of this reprobuild are expected"
    ]


@pytest.mark.parametrize(
    ("wheels", "probe"),
    [(("torch", "numpy"), "index_add"), (("numpy",), "numpy_sums"), (("six",), "index_add")],
)
def test_an_image_without_torch_is_asked_about_numpy(
    wheels: tuple[str, ...], probe: str, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    lock = make_lock(wheels=tuple(map(wheel, wheels)), realised=realised(pack_runtime(store)))
    found = read_expected(lock, store, print)
    assert found is not None
    assert probe in found["cpu"].probes


def test_an_older_image_without_torch_cannot_be_asked(tmp_path: Path) -> None:
    store, runtime = sealed(tmp_path, {PLACE: msgspec.json.encode(EXPECTED)})
    lock = make_lock(wheels=(wheel("numpy"),), realised=realised(runtime))
    assert read_expected(lock, store, print) is None
