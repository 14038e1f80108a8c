"""The probes answer where torch cannot be imported; with torch they are run in an image."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, RUNTIME, Environment, Ran, run

sys.path.insert(0, str(ROOT))

from reprobuild_runtime.digest import digest

PROBES = str(RUNTIME / "probes.py")


def ask(environment: Environment, *options: str, stdin: str = "") -> Ran:
    return run(
        str(environment.python),
        PROBES,
        *options,
        env={"REPROBUILD_SEED": "7", "PYTHONHASHSEED": "7"},
        stdin=stdin,
    )


def test_without_torch(bare: Environment) -> None:
    rans = [ask(bare, '{"seed": 1}'), ask(bare, stdin='{"control": true}')]
    for ran in rans:
        assert ran.code == 0
        assert ran.json["ran"] is False
        assert ran.json["why"] == "torch does not import: ModuleNotFoundError: No module named 'torch'"
        assert ran.json["fingerprint"]["cpus"] >= 1
    assert rans[0].json["start"] == rans[1].json["start"]
    assert rans[0].json["start"]["hook"] == {"seed": "7", "explicit": "1", "hash_seed": "7"}


def test_without_the_hook_the_first_draws_differ() -> None:
    first, second = (run(sys.executable, PROBES, "{}").json["start"] for _ in range(2))
    assert first["hook"] is None
    assert first["random"] != second["random"]
    assert first["hash"] != second["hash"]


def test_a_library_that_prints_and_fails(bare: Environment) -> None:
    bare.install(
        torch="print('welcome', flush=True)\nimport os\nos.write(1, b'noise')\nraise OSError('libgomp.so.1')\n"
    )
    ran = ask(bare, "{}")
    assert ran.json["why"] == "torch does not import: OSError: libgomp.so.1"
    assert "welcome\nnoise" in ran.err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("", "options: "),
        ("[]", "options: the options are an object"),
        ('{"sed": 1}', "options: the options are an object with some of device, seed"),
        ('{"device": "tpu"}', "options: device is cpu or cuda, not 'tpu'"),
        ('{"seed": -1}', "options: a seed lies between 0"),
        ('{"seed": true}', "options: a seed is an integer"),
        ('{"repeats": 0}', "options: repeats is a positive integer"),
    ],
)
def test_bad_options(bare: Environment, options: str, why: str) -> None:
    ran = ask(bare, options)
    assert ran.code == 0
    assert ran.json["ran"] is False
    assert ran.json["why"].startswith(why)


def test_our_file_names_hide_no_module(bare: Environment) -> None:
    bare.install(
        torch="import launch, digest\nraise OSError(launch.mark + digest.mark)",
        launch="mark = 'a'",
        digest="mark = 'b'",
    )
    assert ask(bare, "{}").json["why"].endswith("OSError: ab")


def test_digest_of_bytes_keeps_borders() -> None:
    assert digest([b"ab", b"c"]) != digest([b"a", b"bc"]) != digest([b"abc"])
    assert digest([b"ab", b"c"]) == digest([b"ab", b"c"])


def test_every_probe_is_told_apart_by_its_kind() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    code += "from reprobuild_runtime import probeops; print(*probeops.PROBES)"
    names = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(names) == 15
    assert {name.split("_")[0] for name in names} == {"op", "rng", "train"}
    assert Path(PROBES).is_file()
