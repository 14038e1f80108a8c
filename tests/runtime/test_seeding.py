"""The function that a user calls."""

import re
import sys

import pytest
from conftest import ROOT, Environment, run

START = "import json, os, sys; from reprobuild_runtime import enforce_reproducibility as enforce\n"
SEEN = """
import random, numpy.random, torch
print(json.dumps({"seed": seed, "random": random.random(), "numpy": numpy.random.calls, **torch.seen(),
                  "env": {k: v for k, v in os.environ.items() if k.startswith(("REPRO", "PYTHON", "CUBLAS"))}}))
"""


@pytest.mark.parametrize("given", [0, 7, 2**32 - 1])
def test_explicit_seed_seeds_everything_and_sets_flags(hooked: Environment, given: int) -> None:
    import random

    ran = hooked.run(START + f"seed = enforce({given})" + SEEN)
    assert ran.json["seed"] == given
    assert ran.json["random"] == random.Random(given).random()
    assert ran.json["numpy"][-1] == given
    assert ran.json["calls"][-4:] == [["torch", given], ["cuda", given], ["xpu", given], ["npu", given]]
    assert ran.json["flags"] == [True, False]
    assert f"Using seed: {given}\n" in ran.err
    assert ran.json["env"]["REPROBUILD_SEED"] == str(given)
    assert ran.json["env"]["REPROBUILD_SEED_EXPLICIT"] == "1"
    assert ran.json["env"]["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_drawn_seed_is_logged_and_sets_no_flag(hooked: Environment) -> None:
    rans = [
        hooked.run("import sys; sys.meta_path.pop(0)\n" + START + "seed = enforce()" + SEEN) for _ in range(2)
    ]
    for ran in rans:
        seed = ran.json["seed"]
        assert 1 <= seed < 2**31
        assert ran.err.splitlines()[-1] == f"Using seed: {seed}"
        assert ran.json["flags"] == [False, True]
        assert ran.json["numpy"] == [seed]
        assert "CUBLAS_WORKSPACE_CONFIG" not in ran.json["env"]
    assert rans[0].json["seed"] != rans[1].json["seed"]


def test_each_drawing_is_new_also_after_an_explicit_seed(hooked: Environment) -> None:
    code = START + "print(json.dumps([enforce(), enforce(42), enforce(), enforce()]))"
    drawn = hooked.run(code).json
    assert drawn[1] == 42
    assert len(set(drawn)) == 4


def test_no_seed_uses_the_one_that_the_launch_chose(hooked: Environment) -> None:
    ran = hooked.run(START + "seed = enforce()" + SEEN, env={"REPROBUILD_SEED": "7"})
    assert ran.json["seed"] == 7
    assert ran.json["flags"] == [True, False]


@pytest.mark.parametrize("bad", ["-1", "2**32", "1.0", "'7'", "True", "False", "[1]", "float('nan')"])
def test_bad_seed_is_a_clear_value_error(hooked: Environment, bad: str) -> None:
    code = START + f"try: enforce({bad})\nexcept ValueError as err: print(err)\nelse: print('accepted')"
    out = hooked.run(code).out
    assert re.match(r"a seed (is an integer from 0 to 4294967295, not|lies between 0 and 4294967295,)", out)


def test_an_integer_type_of_another_library_is_an_integer(hooked: Environment) -> None:
    code = "class Int64:\n def __index__(self): return 5\n"
    assert hooked.run(START + code + "print(enforce(Int64()))").out == "5\n"


def test_tensorflow_only_where_it_is_loaded(hooked: Environment) -> None:
    code = (
        START
        + "enforce(3); print('tensorflow' in sys.modules)\nimport tensorflow; enforce(4); print(tensorflow.calls)"
    )
    assert hooked.run(code).out == "False\n[3, 4]\n"  # 3 by the start-up hook, which knows the seed in force


def test_without_the_libraries(bare: Environment) -> None:
    ran = bare.run(START + "print(enforce(3))")
    late = "reprobuild: too late for this process: PYTHONHASHSEED: "
    late += "the order of sets was drawn when this interpreter started"
    assert (ran.out, ran.err.splitlines()[1:]) == ("3\n", ["Using seed: 3", late])


def test_a_broken_library_is_said_and_does_not_end_the_job(bare: Environment) -> None:
    bare.install(torch="raise OSError('libcudart.so.12: cannot open shared object file')")
    ran = bare.run(START + "print(enforce(3))")
    assert ran.out == "3\n"
    assert "reprobuild: torch is not seeded: OSError: libcudart.so.12" in ran.err


def test_worker_and_generator(hooked: Environment) -> None:
    import random

    code = (
        "import random, numpy.random, json; from reprobuild_runtime import seed_worker, generator\n"
        "seed_worker(1); print(json.dumps([random.random(), numpy.random.calls[-1], generator(9).seed]))"
    )
    assert hooked.run(code).json == [random.Random(5).random(), 5, 9]


def test_workers_of_other_ranks_draw_other_numbers_from_each_library(hooked: Environment) -> None:
    code = (
        "import random, numpy.random, torch, json; from reprobuild_runtime import seed_worker\n"
        "del torch.calls[:]; seed_worker(1)\n"
        "print(json.dumps([random.random(), numpy.random.calls[-1], torch.calls]))"
    )
    first, second, third = (
        hooked.run(code, env={"RANK": rank, "WORLD_SIZE": "3", "REPROBUILD_SEED": "7"}).json
        for rank in ("0", "1", "2")
    )
    assert first[2] == []  # torch's own seed of this worker stays
    assert (second[2], third[2]) == ([["torch", second[1]]], [["torch", third[1]]])
    assert len({first[1], second[1], third[1]}) == len({first[0], second[0], third[0]}) == 3


def test_what_numba_knows_stays(bare: Environment) -> None:
    """It knows functions that it compiles calls of as they were when it was imported: without the hook, too early."""
    numba = """
import random, types
known = {random.seed: "compiled"}
_helperlib = types.SimpleNamespace(
    rnd_get_py_state_ptr=int, rnd_get_np_state_ptr=int, rnd_seed=lambda pointer, seed: None
)
"""
    bare.install(numba=numba)
    code = "import numba, random; enforce(3); print(numba.known[random.seed])"
    path = f"{bare.site}:{ROOT}"
    assert run(sys.executable, "-S", "-c", START + code, env={"PYTHONPATH": path}).out == "compiled\n"


@pytest.mark.parametrize("call", ["seed_worker(0)", "generator(1)"])
def test_torch_helpers_say_that_torch_is_missing(bare: Environment, call: str) -> None:
    ran = bare.run(f"from reprobuild_runtime import seed_worker, generator; {call}")
    assert ran.code == 1
    assert "torch does not import" in ran.err


def test_the_chapters_keyword_names_the_seed(hooked: Environment) -> None:
    positional = hooked.run(START + "seed = enforce(7)" + SEEN)
    keyword = hooked.run(START + "seed = enforce(use_seed=7)" + SEEN)
    assert keyword.json == positional.json
    zero = hooked.run(START + "print(enforce(use_seed=0))")
    assert zero.out == "0\n"
    both = hooked.run(START + "enforce(7, use_seed=7)")
    assert "TypeError: give either seed or use_seed" in both.err
