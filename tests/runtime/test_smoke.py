"""The determinism test answers with one document whatever happens to torch, to a child process, or to the options."""

from __future__ import annotations

import pytest
from conftest import RUNTIME, Environment, Ran, run

RUN = str(RUNTIME / "probes" / "run.py")


def ask(environment: Environment, *options: str, stdin: str = "") -> Ran:
    env = {"REPROBUILD_SEED": "7", "PYTHONHASHSEED": "7"}
    return run(str(environment.python), RUN, *options, env=env, stdin=stdin)


def test_without_torch(bare: Environment) -> None:
    rans = [ask(bare, '{"seed": 1}'), ask(bare, stdin='{"seed": 1, "quick": true}')]
    for ran in rans:
        assert ran.code == 0
        assert (ran.json["format"], ran.json["ran"]) == (2, False)
        assert ran.json["why"] == "torch does not import: ModuleNotFoundError: No module named 'torch'"
        assert ran.json["fingerprint"]["cpus"] >= 1
    assert rans[0].json["start"] == rans[1].json["start"]
    assert rans[0].json["start"]["hook"] == {"seed": "7", "explicit": "1", "hash_seed": "7"}


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
        ('{"modes": []}', "options: modes is a list of some of default, profile, strict, warn, not []"),
        ('{"modes": ["fast"]}', "options: modes is a list of some of"),
        ('{"modes": ["strict", "strict"]}', "options: modes is a list of some of"),
        ('{"stress": 1}', "options: stress is true or false, not 1"),
        ("[" * 100000, "options: "),
    ],
)
def test_bad_options(bare: Environment, options: str, why: str) -> None:
    ran = ask(bare, stdin=options)
    assert ran.code == 0
    assert ran.json["ran"] is False
    assert ran.json["why"].startswith(why)


@pytest.mark.parametrize(
    ("torch", "why"),
    [
        ("import os\nos.kill(os.getpid(), 11)", "the process that imports torch: it died by SIGSEGV"),
        ("import os\nos._exit(3)", "the process that imports torch: it ended with exit code 3"),
        ("raise OSError('libgomp.so.1')", "torch does not import: OSError: libgomp.so.1"),
        (
            "import time\ntime.sleep(60)",
            "the process that imports torch: it was silent for 5 s and was killed",
        ),
    ],
)
def test_a_torch_that_ends_or_hangs_its_process(bare: Environment, torch: str, why: str) -> None:
    bare.install(torch=f"print('welcome', flush=True)\n{torch}\n")
    ran = ask(bare, '{"limit": 1}' if "sleep" in torch else "{}")
    assert (ran.code, ran.json["ran"]) == (0, False)
    assert ran.json["why"] == why
    assert "welcome" in ran.err
    assert ran.json["start"]["random"]
    assert ran.json["fingerprint"]["python"]


def test_an_import_of_torch_may_take_longer_than_silence_later(bare: Environment) -> None:
    bare.install(torch="import time\ntime.sleep(2)\nraise OSError('a cold disk')\n")
    assert ask(bare, '{"limit": 1}').json["why"] == "torch does not import: OSError: a cold disk"


def test_our_file_names_hide_no_module(bare: Environment) -> None:
    bare.install(torch="import start, options\nraise OSError(start.mark + options.mark)", start="mark = 'a'",
                 options="mark = 'b'")  # fmt: skip
    assert ask(bare, "{}").json["why"].endswith("OSError: ab")


def test_without_numpy(bare: Environment) -> None:
    ran = ask(bare, '{"subject": "arrays"}')
    assert (ran.code, ran.json["ran"]) == (0, False)
    assert ran.json["why"] == "numpy does not import: ModuleNotFoundError: No module named 'numpy'"


@pytest.mark.parametrize(
    ("numpy", "why"),
    [
        ("import os\nos.kill(os.getpid(), 11)", "the process that imports numpy: it died by SIGSEGV"),
        ("raise OSError('libopenblas.so')", "numpy does not import: OSError: libopenblas.so"),
    ],
)
def test_a_numpy_that_ends_its_process(bare: Environment, numpy: str, why: str) -> None:
    bare.install(numpy=f"{numpy}\n")
    ran = ask(bare, '{"subject": "arrays"}')
    assert (ran.code, ran.json["ran"], ran.json["why"]) == (0, False, why)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ('{"subject": "jax"}', "options: subject is torch or arrays, not 'jax'"),
        (
            '{"subject": "arrays", "device": "cuda"}',
            "options: the subject arrays is probed on the device cpu",
        ),
        (
            '{"subject": "arrays", "modes": ["warn"]}',
            "options: the subject arrays has the modes profile and strict",
        ),
    ],
)
def test_bad_options_without_torch(bare: Environment, options: str, why: str) -> None:
    assert ask(bare, stdin=options).json["why"] == why
