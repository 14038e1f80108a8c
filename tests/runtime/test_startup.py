"""The hook in every interpreter."""

import random
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from conftest import ROOT, Environment, run

SEVEN = {"REPROBUILD_SEED": "7", "REPROBUILD_SEED_EXPLICIT": "1", "PYTHONHASHSEED": "7"}
DRAWN = {**SEVEN, "REPROBUILD_SEED_EXPLICIT": "0"}
BELOW = {  # the entrypoint
    **SEVEN, "REPROBUILD_ENVIRON": "/opt/reprobuild", "REPROBUILD_SETTLED": "REPROBUILD_SEED=7 PYTHONHASHSEED=7",
}  # fmt: skip
FIRST = random.Random(7).random()
SHOW = (
    "import json, random, numpy.random, torch, tensorflow\n"
    "print(json.dumps([random.random(), numpy.random.calls, torch.seen(), tensorflow.calls]))"
)
ALL = [["torch", 7], ["cuda", 7], ["xpu", 7], ["npu", 7]]


@pytest.mark.parametrize(("env", "flags"), [(SEVEN, [True, False]), (DRAWN, [False, True])])
def test_each_library_is_seeded_after_its_import(
    hooked: Environment, env: Mapping[str, str], flags: list[bool]
) -> None:
    ran = hooked.run(SHOW, env=env)
    assert ran.json == [FIRST, [7], {"calls": ALL, "flags": flags}, [7]]
    assert ran.err == ""


@pytest.mark.parametrize("options", [[], ["-E"], ["-I"], ["-s"]])
def test_options_that_keep_the_hook(hooked: Environment, options: list[str]) -> None:
    assert hooked.run(SHOW, *options, env=SEVEN).json[0] == FIRST


def test_no_site_means_no_hook(hooked: Environment) -> None:
    code = "import sys, random; print('reprobuild_runtime' in sys.modules, random.random())"
    out = hooked.run(code, "-S", env=SEVEN).out.split()
    assert out[0] == "False"
    assert float(out[1]) != FIRST


@pytest.mark.parametrize("env", [{}, DRAWN, BELOW])
def test_nothing_is_imported_by_it(hooked: Environment, env: Mapping[str, str]) -> None:
    unwanted = "'random', 'numpy', 'torch', 'tensorflow', 'typing', 're', 'json', 'importlib.util'"
    code = f"import sys; print([m for m in ({unwanted}) if m in sys.modules])"
    assert hooked.run(code, env=env).out == "[]\n"


def test_a_child_of_a_settled_process_imports_next_to_nothing_of_ours(hooked: Environment) -> None:
    code = "import sys; print(sorted(m for m in sys.modules if m.startswith('reprobuild')))"
    ours = [
        "reprobuild_runtime",
        "reprobuild_runtime.fork_ids",
        "reprobuild_runtime.importhook",
        "reprobuild_runtime.startup",
    ]
    for env, options in (
        (BELOW, []),
        (BELOW, ["-I"]),
        (BELOW, ["-E"]),
        ({**BELOW, "PYTHONHASHSEED": "random"}, []),
    ):
        ran = hooked.run(code, *options, env=env)
        assert (ran.out, ran.err) == (f"{ours}\n", "")


def test_a_module_that_was_there_before_is_seeded_at_once(bare: Environment) -> None:
    (bare.site / "aaa.pth").write_text("import random\n")
    assert float(bare.run("import random; print(random.random())", env=SEVEN).out) == FIRST


def test_around_the_entrypoint_a_seed_is_drawn_logged_once_and_inherited(hooked: Environment) -> None:
    code = (
        "import os, subprocess, sys, random\n"
        "print(os.environ['REPROBUILD_SEED'], os.environ['REPROBUILD_SEED_EXPLICIT'], random.random(), flush=True)\n"
        "code = 'import os, random; print(os.environ[\"REPROBUILD_SEED\"], random.random())'\n"
        "subprocess.run([sys.executable, '-c', code])"
    )
    ran = hooked.run(code)
    parent, child = (line.split() for line in ran.out.splitlines())
    assert ran.err == f"Using seed: {parent[0]}\n"
    assert parent[1] == "0"
    assert child[0] == parent[0]
    assert child[1] == parent[2] == str(random.Random(int(parent[0])).random())


POOL = """
import multiprocessing, random, sys
def draw(_):
    import torch
    return random.random(), torch.calls[:1]
if __name__ == "__main__":
    for _ in range(2):
        with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
            print(pool.map(draw, [0])[0])
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_children_of_multiprocessing_agree(hooked: Environment, tmp_path: Path, method: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(POOL)
    rans = [run(str(hooked.python), str(program), method, env={**SEVEN, "REPROBUILD_SEED": s}) for s in "778"]
    assert [ran.code for ran in rans] == [0, 0, 0], rans
    assert rans[0].out == rans[1].out != rans[2].out
    first, second = rans[0].out.splitlines()
    assert "[['torch', 7]]" in first
    assert first != second  # each worker has its own stream of random


def test_forked_children_of_enforce_reproducibility_draw_the_same_each_time(hooked: Environment) -> None:
    code = (
        "import os, random; from reprobuild_runtime import enforce_reproducibility as enforce; enforce(5)\n"
        "def fork(depth):\n"
        "    for _ in range(2):\n"
        "        if os.fork() == 0: print(random.random(), flush=True); depth and fork(depth - 1); os._exit(0)\n"
        "        os.wait()\n"
        "fork(1)"
    )
    first, second = hooked.run(code).out.split(), hooked.run(code).out.split()
    assert first == second
    assert len(set(first)) == 6


def test_hash_order_is_said_once_for_an_explicit_seed(hooked: Environment) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import random'])"
    said = "reprobuild: PYTHONHASHSEED was not set before this interpreter started; hash order is not seeded"
    assert hooked.run(code, env={"REPROBUILD_SEED": "7"}).err.splitlines() == ["Using seed: 7", said]
    assert hooked.run(code, env=SEVEN).err == ""
    assert hooked.run(code, env={"REPROBUILD_SEED": "7", "REPROBUILD_SEED_EXPLICIT": "0"}).err == ""
    assert "is ignored under -E and -I" in hooked.run("pass", "-I", env=SEVEN).err


@pytest.mark.parametrize("bad", ["x", "-1", str(2**32), "1.5", "٧", "1" * 5000])
def test_a_bad_seed_is_one_line_and_the_interpreter_runs(hooked: Environment, bad: str) -> None:
    for more in ({}, {"REPROBUILD_SEED_EXPLICIT": "1", "PYTHONHASHSEED": "1", "REPROBUILD_ENVIRON": "x"}):
        ran = hooked.run("import random; print('ran')", env={"REPROBUILD_SEED": bad, **more})
        assert (ran.code, ran.out) == (0, "ran\n")
        assert len(ran.err.splitlines()) == 1
        assert ran.err.startswith("reprobuild: seeding hook failed: ")


def test_a_seeder_that_fails_is_one_line(bare: Environment) -> None:
    bare.install(torch="")
    ran = bare.run("import torch, random; print(random.random())", env=SEVEN)
    assert float(ran.out) == FIRST
    assert ran.err.startswith("reprobuild: seeding hook failed: torch: AttributeError")
    assert len(ran.err.splitlines()) == 1


def test_no_standard_error(hooked: Environment) -> None:
    assert run("/bin/sh", "-c", f"{hooked.python} -c 'print(1)' 2>&-").out == "1\n"


def test_an_import_that_raises_raises_and_is_seeded_when_it_succeeds(bare: Environment) -> None:
    bare.install(torch="import os\nif 'NOW' not in os.environ: raise OSError('no driver')\n", numpy="")
    code = (
        "import os\ntry: import torch\nexcept OSError as err: print(err)\n"
        "os.environ['NOW'] = '1'\n"
        "import builtins, sys\n"
        "sys.path.insert(0, os.environ['FAKES'])\n"
        "import torch; print('torch' in sys.modules)"
    )
    ran = bare.run(code, env={**SEVEN, "FAKES": "/nonexistent"})
    assert ran.out == "no driver\nTrue\n"
    assert ran.err.startswith(
        "reprobuild: seeding hook failed: torch: AttributeError"
    )  # it was watched again


@pytest.mark.parametrize("name", ["nonexistent", "numpy.nonexistent", "torch.nonexistent"])
def test_what_is_not_there_is_not_found(hooked: Environment, name: str) -> None:
    code = f"import importlib.util; print(importlib.util.find_spec({name!r}))"
    assert hooked.run(code, env=SEVEN).out == "None\n"


def test_find_spec_finds_without_import_and_its_loader_is_the_usual_one(hooked: Environment) -> None:
    code = (
        "import importlib.util as u, importlib.machinery as m, sys\n"
        "spec = u.find_spec('torch'); print(type(spec.loader) is m.SourceFileLoader, 'torch' in sys.modules)\n"
        "import torch; loader = torch.__loader__; print(torch.calls[:1], sorted(vars(loader)))\n"
        "import inspect; print('manual_seed' in inspect.getsource(torch))\n"
    )
    assert hooked.run(code, env=SEVEN).out == "True False\n[['torch', 7]] ['name', 'path']\nTrue\n"


def test_reload_and_second_import(hooked: Environment) -> None:
    code = (
        "import importlib, random, torch; random.random(); import random as again; print(random.random())\n"
        "importlib.reload(torch); print(torch.calls); importlib.reload(random); print(random.random())\n"
        "import sys; del sys.modules['random']; import random; print(random.random(), random.Random().random() < 1)\n"
        "del sys.modules['torch']; import torch; print(torch.calls[0], flush=True)\n"
        "import os; os.fork() or (print(random.random(), flush=True), os._exit(0)); os.wait()"
    )
    ran = hooked.run(code, env=SEVEN)
    expected = random.Random(7)
    expected.random()
    child = random.Random("7/fork 1").random()
    assert ran.out == f"{expected.random()}\n[]\n{FIRST}\n{FIRST} True\n['torch', 7]\n{child}\n"
    assert (ran.code, ran.err) == (0, "")


def test_a_lazy_module_is_seeded_when_it_loads(hooked: Environment) -> None:
    code = (
        "import importlib.util as u, sys\n"
        "spec = u.find_spec('torch'); spec.loader = u.LazyLoader(spec.loader)\n"
        "torch = u.module_from_spec(spec); sys.modules['torch'] = torch; spec.loader.exec_module(torch)\n"
        "print(torch.calls)"
    )
    assert hooked.run(code, env=SEVEN).out == f"{ALL}\n"


def test_a_private_copy_does_not_use_up_the_seeding(hooked: Environment) -> None:
    code = (
        "import importlib.util as u\nspec = u.find_spec('torch'); copy = u.module_from_spec(spec)\n"
        "spec.loader.exec_module(copy)\nimport torch; print(copy is torch, torch.calls == copy.calls)"
    )
    assert hooked.run(code, env=SEVEN).out == "False True\n"


def test_loaders_of_other_kinds(bare: Environment) -> None:
    """create_module with slots, an old loader, a namespace package, an archive: all import as without the hook."""
    with zipfile.ZipFile(bare.site / "archive.zip", "w") as archive:
        archive.writestr("numpy/__init__.py", "")
        archive.writestr("numpy/random.py", "calls = []\nseed = calls.append\n")
    (bare.site / "archive.pth").write_text("archive.zip\n")
    (bare.site / "tensorflow").mkdir()
    (bare.site / "slotted.py").write_text(
        "import importlib.machinery as m, sys, types\n"
        "class Loader:\n    __slots__ = ()\n"
        "    def create_module(self, spec): return types.ModuleType('made')\n"
        "    def exec_module(self, module): module.calls = []\n"
        "class Finder:\n    def find_spec(self, name, path=None, target=None):\n"
        "        return m.ModuleSpec(name, Loader()) if name == 'torch' else None\n"
        "sys.meta_path.append(Finder())\n"
    )
    ran = bare.run(
        "import numpy.random as n, slotted, torch, tensorflow; print(n.calls, torch.calls)", env=SEVEN
    )
    assert ran.out == "[7] []\n"


def test_another_hook_that_asks_again_makes_no_circle(hooked: Environment) -> None:
    code = (
        "import importlib.util as u, sys\n"
        "class Again:\n    busy = False\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if self.busy or name != 'torch': return None\n"
        "        self.busy = True\n"
        "        try: return u.find_spec(name)\n"
        "        finally: self.busy = False\n"
        "sys.meta_path.insert(int(sys.argv[1]), Again())\n"
        "import torch; print(torch.calls)"
    )
    for place in ("0", "1", "9"):
        assert run(str(hooked.python), "-c", code, place, env=SEVEN).out == f"{ALL}\n"


def test_many_threads_import_at_once(hooked: Environment) -> None:
    code = (
        "import threading\n"
        "def go(): import torch, numpy.random, random, json, csv, decimal\n"
        "threads = [threading.Thread(target=go) for _ in range(16)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n" + SHOW
    )
    ran = hooked.run(code, env=SEVEN)
    assert ran.json[:2] == [FIRST, [7]]
    assert ran.err == ""


def test_starting_twice_is_starting_once(hooked: Environment) -> None:
    code = (
        "import sys; from reprobuild_runtime import startup\n"
        "n = len(sys.meta_path); startup.start(); print(len(sys.meta_path) - n)"
    )
    assert hooked.run(code, env=SEVEN).out == "0\n"


def test_a_changed_seed_in_force_reaches_what_is_imported_later(hooked: Environment) -> None:
    code = (
        "import os, torch; os.environ['REPROBUILD_SEED'] = '8'\n"
        "import random; print(torch.calls[0][1], random.random())"
    )
    assert hooked.run(code, env=SEVEN).out == f"7 {random.Random(8).random()}\n"


def test_environ_json_where_the_entrypoint_was_skipped(
    hooked: Environment, files: Callable[..., dict[str, str]]
) -> None:
    env = {**SEVEN, **files({"NEW": "1\n2", "OLD": "from the file"}), "OLD": ""}
    code = (
        "import os, subprocess, sys; print(ascii([os.environ.get(n) for n in ('NEW', 'OLD')]), flush=True)\n"
    )
    again = "del os.environ['NEW']; subprocess.run([sys.executable, '-c', \"import os; print('NEW' in os.environ)\"])"
    assert hooked.run(code + again, env=env).out == "['1\\n2', '']\nFalse\n"


def test_without_the_package_the_interpreter_runs(bare: Environment) -> None:
    text = (bare.site / "reprobuild.pth").read_text()
    (bare.site / "reprobuild.pth").write_text(text.replace(str(ROOT), "/nonexistent"))
    assert bare.run("print(1)").out == "1\n"


def test_start_entry_point(hooked: Environment) -> None:
    assert "reprobuild_runtime.startup" not in sys.modules  # the tests' own interpreter stays as it was
    code = "import pkgutil; print(pkgutil.resolve_name('reprobuild_runtime.startup:start')())"
    assert hooked.run(code, env=SEVEN).out == "None\n"
