"""Libraries that no test machine has (CuPy, accelerators), as stand-ins of what is called of them."""

import json

from conftest import TORCH, Environment

SEVEN = {"REPROBUILD_SEED": "7", "REPROBUILD_SEED_EXPLICIT": "1", "PYTHONHASHSEED": "7", "RANK": "3"}
CUPY = "import sys, types\ngenerator = types.ModuleType('g'); sys.modules['cupy.random._generator'] = generator\n"
MORE = """
class Named:
    def __init__(self, name):
        self.manual_seed_all = lambda seed: calls.append([name, seed])
mlu, musa = Named("mlu"), Named("musa")
hpu = types.SimpleNamespace(random=Named("hpu"))
"""


def test_cupy_is_told_by_its_variable_and_no_device_is_asked(bare: Environment) -> None:
    bare.install(cupy=CUPY + "generator._random_states = {}")
    code = "import os, cupy; print(os.environ['CUPY_SEED'], 'numpy' in __import__('sys').modules)"
    assert bare.run(code, env=SEVEN).out == "7 False\n"


def test_a_cupy_seed_of_the_user_stays_and_is_said(bare: Environment) -> None:
    bare.install(cupy=CUPY + "class S:\n    seed = print\ngenerator._random_states = {}")
    code = (
        "import os, cupy; cupy.generator._random_states[0] = cupy.S\n"
        "from reprobuild_runtime import enforce_reproducibility as f; f(8); print(os.environ['CUPY_SEED'])"
    )
    for explicit in "01":
        ran = bare.run(code, env={**SEVEN, "REPROBUILD_SEED_EXPLICIT": explicit, "CUPY_SEED": "5\n"})
        assert ran.out == "5\n\n"
        assert ran.err.splitlines()[0] == "reprobuild: CuPy is not seeded: CUPY_SEED='5\\n' was set before"
    ours = bare.run(code, env={**SEVEN, "CUPY_SEED": "7"})
    assert (ours.out, "CuPy" in ours.err) == ("8\n8\n", False)


def test_devices_that_cupy_uses_already_are_seeded_again(bare: Environment) -> None:
    bare.install(
        cupy=CUPY + "class S:\n    seed = print\ngenerator._random_states = {0: S, 1: S}\nS.seed = print"
    )
    code = "import cupy; from reprobuild_runtime import enforce_reproducibility as f; f(8)"
    assert bare.run(code, env=SEVEN).out == "7\n7\n8\n8\n"


def test_every_accelerator_that_torch_has(bare: Environment) -> None:
    bare.install(torch=TORCH + MORE)
    found = bare.run("import json, torch; print(json.dumps(torch.calls))", env=SEVEN).json
    assert sorted(found) == sorted(
        [name, 7] for name in ("torch", "cuda", "xpu", "npu", "hpu", "mlu", "musa")
    )


def test_an_accelerator_that_comes_after_torch(bare: Environment) -> None:
    bare.install(torch=TORCH + "del npu", torch_npu="import torch\ntorch.npu = torch.xpu")
    code = "import torch; before = len(torch.calls); import torch_npu, json; print(json.dumps(torch.calls[before:]))"
    assert json.loads(bare.run(code, env=SEVEN).out) == [["cuda", 7], ["xpu", 7], ["xpu", 7]]


def test_jax_is_left_as_it_is(bare: Environment) -> None:
    bare.install(jax="")
    ran = bare.run("import jax; print(sorted(n for n in vars(jax) if n[0] != '_'))", env=SEVEN)
    assert (ran.out, ran.err) == ("[]\n", "")
