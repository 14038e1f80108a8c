"""Profiles: the data, the choice by release, what the entrypoint exports and what the hook still sets."""

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from conftest import ROOT, RUNTIME, Environment, Ran, run

sys.path.insert(0, str(ROOT))
from reprobuild_runtime import profiles
from reprobuild_runtime.profiles import apply, choose, kernels, nondeterministic_ops, versions

ENTRYPOINT = [sys.executable, "-I", "-S", str(RUNTIME / "entrypoint.py")]
DATA = json.loads((RUNTIME / "profiles" / "profiles.json").read_text())
ENTRIES = [
    pytest.param(name, entry, id=f"{name}:{entry['name']}:{entry.get('versions', '')}")
    for name, profile in DATA["profiles"].items()
    for entry in profile["settings"]
]


@pytest.mark.parametrize(("profile", "entry"), ENTRIES)
def test_each_entry_is_whole(profile: str, entry: Mapping[str, object]) -> None:
    assert set(entry) <= {
        "name", "value", "binds", "consumer", "versions", "why", "source", "seen",
        "valid", "list", "append", "installed", "call", "read", "reads", "weakened",
    }  # fmt: skip
    assert entry["binds"] in "PICA"
    assert entry["consumer"] in DATA["consumers"]
    assert str(entry["source"]).startswith("https://")
    assert entry["why"]
    assert entry["seen"]
    assert re.fullmatch(r"((>=|<)\d+(\.\d+)*(,(?!$)|$))*", str(entry.get("versions", "")))
    if "." in str(entry["name"]):
        assert entry["binds"] == "A"
        assert str(entry["name"]).startswith(DATA["consumers"][entry["consumer"]]["module"] + ".")
    elif entry["value"] is not None:
        assert choose.is_valid(entry, str(entry["value"]))


def test_what_is_included_is_there_and_what_is_watched_is_what_is_needed() -> None:
    consumers, watched = DATA["consumers"], set()
    for profile in DATA["profiles"].values():
        assert set(profile.get("includes", ())) <= DATA["profiles"].keys()
        for entry in [*profile["settings"], *profile.get("arguments", ())]:
            if "." in entry.get("name", "."):
                watched.add(consumers[entry["consumer"]]["module"])
    assert set(profiles.WATCHED) == watched


def test_the_hook_waits_for_all_that_is_watched() -> None:
    """Asked of another interpreter: importing the hook would seed this one."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from reprobuild_runtime import profiles, record, startup; from reprobuild_runtime.seeding import libraries\n"
        "print({*profiles.WATCHED, *record.RECORDED, *libraries.SEEDERS} - set(startup.WATCHED))"
    )
    assert run(sys.executable, "-c", code, env={"REPROBUILD_SEED": "7"}).out == "set()\n"


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("2.14.1+cu130", ">=2.10", True), ("2.9.1", ">=2.10", False), ("2.10.0a0+gitabc", ">=2.10", True),
        ("0.19.0rc1", "<0.19", False), ("0.18.2", "<0.19", True), ("2.1", ">=2.1,<2.8", True),
        ("2.8.0", ">=2.1,<2.8", False), ("2", ">=2.0", True), ("nonsense", "<2.10", True), ("1.2", "", True),
    ],
)  # fmt: skip
def test_releases_are_compared_by_their_numbers(version: str, wanted: str, fits: bool) -> None:
    assert versions.matches(version, wanted) == fits


def site(folder: Path, *distributions: str) -> str:
    for name in distributions:
        (folder / name).mkdir(parents=True)
    return str(folder)


def chosen(names: str, path: Sequence[str] = ()) -> dict[str, object]:
    return {entry["name"]: entry["value"] for entry in choose.settings(choose.names(names), path)}


def test_what_replaced_inductors_deterministic_mode_before_it_was_there(tmp_path: Path) -> None:
    old = chosen("strict", [site(tmp_path / "old", "torch-2.9.1+cu128.dist-info")])
    new = chosen("strict", [site(tmp_path / "new", "torch-2.10.0.dist-info")])
    assert "TORCHINDUCTOR_DETERMINISTIC" not in old
    assert old["TORCHINDUCTOR_SHAPE_PADDING"] == old["TORCHINDUCTOR_COORDINATE_DESCENT_TUNING"] == "0"
    assert new["TORCHINDUCTOR_DETERMINISTIC"] == "1"
    assert "TORCHINDUCTOR_SHAPE_PADDING" not in new
    assert chosen("strict") == new  # a release that is not known counts as the newest


def test_the_first_folder_with_a_distribution_counts(tmp_path: Path) -> None:
    path = [site(tmp_path / "a", "torch-2.9.0.dist-info"), site(tmp_path / "b", "Torch-2.13.0.dist-info")]
    finder = versions.VersionFinder(DATA["consumers"], [str(tmp_path / "none"), *path])
    assert finder.version("torch") == "2.9.0"
    assert finder.version("jax") is None
    old = site(tmp_path / "c", "megatron.core-0.18.0-py3.11.egg-info", "torch.dist-info", "torch")
    finder = versions.VersionFinder(DATA["consumers"], [old])
    assert (finder.version("megatron"), finder.version("torch")) == ("0.18.0", None)


def test_where_the_commands_interpreter_will_look(tmp_path: Path) -> None:
    own = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    own.mkdir(parents=True)
    found = versions.search_path(
        {"PATH": f"{tmp_path}/env/bin/:/nonexistent/bin:", "PYTHONPATH": "/mine::/yours"}
    )
    assert found[:3] == ["/mine", "/yours", str(own)]


@pytest.mark.parametrize(
    ("version", "value", "valid"),
    [
        ("0.18.0", "Tree", True), ("0.18.0", "Ring", True), ("0.18.0", "Ring,Tree", False),
        ("0.18.0", "^NVLS", True), ("0.18.0", "NVLS", False), ("0.18.0", "ring", False),
        ("0.19.0", "Tree", False), ("0.19.0", "Ring,CollnetChain", True), ("0.19.0", "Ring, ^NVLS", True),
        ("0.19.0", "Ring,Tree", False), ("0.19.0", ",", False), ("0.20.1", "CollnetDirect", True),
    ],
)  # fmt: skip
def test_megatrons_words_for_nccl_before_and_since_0_19(
    tmp_path: Path, version: str, value: str, valid: bool
) -> None:
    path = [site(tmp_path / "site", f"megatron_core-{version}.dist-info")]
    (entry,) = [e for e in choose.settings(("megatron",), path) if e["name"] == "NCCL_ALGO"]
    assert choose.is_valid(entry, value) == valid
    env = {"NCCL_ALGO": value}
    said = apply.export(env, [entry])
    assert env == {"NCCL_ALGO": value}
    assert (said == []) == valid
    unset: dict[str, str] = {}
    noted = {"NCCL_ALGO": "Ring", "REPROBUILD_SETTLED": "NCCL_ALGO=Ring"}
    assert (apply.export(unset, [entry]), unset) == ([], noted)


@pytest.mark.parametrize(
    ("version", "words", "said"),
    [
        ("0.18.0", ["--deterministic-mode"], []),
        ("0.18.0", [], ["no --deterministic-mode"]),
        ("0.18.0", ["--deterministic-mode", "--use-flash-attn"], ["has --use-flash-attn"]),
        ("0.19.0", ["--deterministic-mode", "--use-flash-attn"], []),
        ("0.19.0", ["--deterministic-mode", "--tp-comm-overlap"], ["has --tp-comm-overlap"]),
        (
            "0.18.0",
            ["--deterministic-mode=x", "--cross-entropy-loss-fusion"],
            ["has --cross-entropy-loss-fusion"],
        ),
    ],
)
def test_megatrons_command_line(
    bare: Environment, tmp_path: Path, version: str, words: list[str], said: list[str]
) -> None:
    bare.install(megatron="", megatron__core="")
    site(bare.site, f"megatron_core-{version}.dist-info")
    program = tmp_path / "pretrain_gpt.py"
    program.write_text(
        "import megatron.core, subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import megatron.core'])\n"  # is not told once more
    )
    env = {"REPROBUILD_SEED": "7", "REPROBUILD_PROFILE": "megatron"}
    ran = run(*ENTRYPOINT, str(bare.python), str(program), *words, env=env)
    lines = ran.err.splitlines()[1:]
    assert len(lines) == len(said)
    assert all(word in line for word, line in zip(said, lines, strict=True)), ran.err
    # what another program does with such a file is not Megatron's
    assert run(*ENTRYPOINT, "cat", str(program), env=env).err == "Using seed: 7\n"


def test_the_hook_sees_the_command_line_that_a_script_hid(bare: Environment) -> None:
    bare.install(megatron="", megatron__core="")
    (bare.site / "megatron_core-0.18.0.dist-info").mkdir()
    env = {"REPROBUILD_SEED": "7", "REPROBUILD_PROFILE": "megatron", "PYTHONHASHSEED": "7"}
    program = bare.site / "job.py"
    program.write_text("import megatron.core\n")
    inner = f"exec {bare.python} {program} --use-flash-attn"
    said = run(*ENTRYPOINT, "sh", "-c", inner, env=env).err.splitlines()
    assert [line.split(": ")[2] for line in said[1:]] == [
        "the command line has no --deterministic-mode", "the command line has --use-flash-attn",
    ]  # fmt: skip
    seen = {**env, "RANK": "3"}
    assert run(*ENTRYPOINT, "sh", "-c", inner, env=seen).err == "Using seed: 7\n"


@pytest.mark.parametrize("profile", ["fastest", "torch,,fastest", "torch\nx"])
def test_an_unknown_profile_is_an_error_of_the_entrypoint(profile: str) -> None:
    for seed in ({}, {"REPROBUILD_SEED": "7"}):
        ran = run(*ENTRYPOINT, "echo", "ran", env={**seed, "REPROBUILD_PROFILE": profile})
        assert (ran.code, ran.out) == (125, "")
        first, second = ran.err.splitlines()
        assert first.startswith("reprobuild: error: there is no profile '")
        assert second.startswith(
            "reprobuild: hint: give REPROBUILD_PROFILE one of the names of docs/profiles.md"
        )
        assert "log-only, torch, strict" in second


def test_an_unknown_profile_is_one_line_of_the_hook_and_the_seed_counts(hooked: Environment) -> None:
    env = {"REPROBUILD_SEED": "7", "PYTHONHASHSEED": "7", "REPROBUILD_PROFILE": "fastest"}
    ran = hooked.run("import torch, json; print(json.dumps(torch.seen()))", env=env)
    assert ran.err.splitlines() == [
        "Using seed: 7", "reprobuild: no profile is in force: there is no profile 'fastest'",
    ]  # fmt: skip
    assert ran.json["calls"][0] == ["torch", 7]
    assert ran.json["flags"] == [False, True]


ASKED = """
import contextlib, functools
asked = []
float32, float64, no_grad = "float32", "float64", contextlib.nullcontext
def manual_seed(seed): pass
def full(shape, value, dtype, device): return dtype, device, *shape
def ask(name, numbers): asked.append([name, *numbers])
for one in NAMES:
    globals()[one] = functools.partial(ask, one)
"""
THERE = [name for name in kernels.FUNCTIONS if name != "tanh"]  # which another release may not have


@pytest.mark.parametrize("chosen", [True, False])
def test_kernels_are_chosen_by_one_thread_before_the_program_computes(
    bare: Environment, chosen: bool
) -> None:
    bare.install(torch=ASKED.replace("NAMES", repr(THERE)))
    env = {"REPROBUILD_SEED": "7", "PYTHONHASHSEED": "7"} if chosen else {}
    asked = bare.run("import torch, json; print(json.dumps(torch.asked))", env=env).json
    for name in ("float32", "float64"):
        found = [one for one, *numbers in asked if numbers == [name, "cpu", 16]]
        assert found == (THERE if chosen else [])


def test_a_torch_that_cannot_compute_is_said_and_ends_nothing(bare: Environment) -> None:
    broken = "def manual_seed(seed): pass\ndef full(*_, **__): pass\ndef no_grad(): raise OSError('no MKL')\n"
    bare.install(torch=broken)
    env = {"REPROBUILD_SEED": "7", "PYTHONHASHSEED": "7", "REPROBUILD_PROFILE": "torch"}
    ran = bare.run("import torch; print('goes on')", env=env)
    assert ran.out == "goes on\n"
    assert "reprobuild: MKL's kernels are not chosen yet: OSError: no MKL\n" in ran.err


def exported(ran: Ran) -> dict[str, str]:
    ours = ("REPROBUILD_", "PYTHONHASHSEED", "PATH", "PYTHONPATH", "XLA_", "TF_")
    pairs = dict(entry.split("=", 1) for entry in ran.out.split("\0") if entry)
    return {name: value for name, value in pairs.items() if not name.startswith(ours[:4])}


def launched(profile: str, **env: str) -> Ran:
    return run(
        *ENTRYPOINT,
        "cat",
        "/proc/self/environ",
        env={"REPROBUILD_SEED": "7", "REPROBUILD_PROFILE": profile, **env},
    )


def test_without_a_chosen_seed_nothing_is_set() -> None:
    every = ",".join(DATA["profiles"])
    assert exported(launched(every, REPROBUILD_SEED="")) == {}
    assert exported(launched(every, REPROBUILD_SEED_EXPLICIT="0")) == {}
    assert exported(launched("log-only")) == {}
    assert exported(launched("strict")) != {}


def test_a_value_that_somebody_chose_stays_and_what_breaks_the_profile_is_said() -> None:
    ran = launched("strict", NCCL_ALGO="Tree", CUBLAS_WORKSPACE_CONFIG=":16:8", HCCL_DETERMINISTIC="1\x1b[2J")
    found = exported(ran)
    assert (found["NCCL_ALGO"], found["CUBLAS_WORKSPACE_CONFIG"]) == ("Tree", ":16:8")
    assert sorted(ran.err.splitlines()[1:]) == [
        "reprobuild: profile npu wants HCCL_DETERMINISTIC true; it is 1?[2J, and stays so",
        "reprobuild: profile strict wants NCCL_ALGO Ring; it is Tree, and stays so",
    ]


def test_a_later_profile_goes_over_an_earlier_one() -> None:
    assert exported(launched("torch,vllm"))["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
    assert exported(launched("vllm,torch"))["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"  # vllm includes torch
    assert exported(launched("strict"))["CUBLASLT_WORKSPACE_SIZE"] == "32768"
    assert exported(launched("strict,vllm"))["NCCL_ALGO"] == "allreduce:tree"


def test_flags_of_xla_are_added_only_where_a_jaxlib_is_that_knows_them(tmp_path: Path) -> None:
    old = site(tmp_path / "old", "jaxlib-0.4.1.dist-info")
    new = site(tmp_path / "new", "jaxlib-0.4.13.dist-info")
    both = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
    assert exported(launched("jax")) == exported(launched("jax", PYTHONPATH=old)) == {}
    assert exported(launched("jax", PYTHONPATH=new)) == {"XLA_FLAGS": both}
    mine = "--xla_gpu_autotune_level=4 --xla_dump_to=x"
    ran = launched("jax", PYTHONPATH=new, XLA_FLAGS=mine)
    assert exported(ran) == {"XLA_FLAGS": f"{mine} --xla_gpu_deterministic_ops=true"}
    assert len(ran.err.splitlines()) == 2
    assert "wants XLA_FLAGS --xla_gpu_autotune_level=0; it is --xla_gpu_autotune_level=4" in ran.err
    once = exported(launched("jax", PYTHONPATH=new, XLA_FLAGS=both))
    assert once == {"XLA_FLAGS": both}


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("1.15.5", {"TF_CUDNN_DETERMINISTIC"}), ("2.3.0", {"TF_DETERMINISTIC_OPS"}),
        ("2.6.0", {"TF_DETERMINISTIC_OPS", "TF_CUDNN_USE_FRONTEND"}), ("2.16.1", set()),
    ],
)  # fmt: skip
def test_tensorflow_by_release(tmp_path: Path, version: str, names: set[str]) -> None:
    folder = site(tmp_path / "site", f"tensorflow_cpu-{version}.dist-info")
    assert exported(launched("tensorflow", PYTHONPATH=folder)).keys() == names
    ran = launched("tensorflow", PYTHONPATH=folder, TF_USE_CUDNN_AUTOTUNE="0")
    assert "profile tensorflow wants TF_USE_CUDNN_AUTOTUNE unset; it is 0, and stays so" in ran.err


TENSORFLOW = """
import types
calls = []
random = types.SimpleNamespace(set_seed=lambda seed: calls.append(["seed", seed]))
config = types.SimpleNamespace(
    experimental=types.SimpleNamespace(enable_op_determinism=lambda: calls.append("deterministic")))
"""


def test_tensorflow_is_made_deterministic_after_its_seed(bare: Environment) -> None:
    bare.install(tensorflow=TENSORFLOW)
    (bare.site / "tensorflow-2.16.1.dist-info").mkdir()
    env = {"REPROBUILD_SEED": "7", "PYTHONHASHSEED": "7", "REPROBUILD_PROFILE": "tensorflow"}
    ran = bare.run("import tensorflow, json; print(json.dumps(tensorflow.calls))", env=env)
    assert ran.json == [["seed", 7], "deterministic"]


def test_a_flag_that_a_release_lacks_or_refuses_is_said_and_the_others_are_set(hooked: Environment) -> None:
    env = {"REPROBUILD_SEED": "7", "PYTHONHASHSEED": "7", "REPROBUILD_PROFILE": "strict"}
    ran = hooked.run("import torch, json; print(json.dumps(torch.seen()))", env=env)
    assert ran.json["flags"] == [True, False]
    assert (
        "reprobuild: profile strict: torch.use_deterministic_algorithms is not set: AttributeError" in ran.err
    )
    assert "reprobuild: profile strict: this release has no torch.utils.deterministic.fill_uninit" in ran.err


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ("put_", "put_ has an alternative: index_put_ "),
        ("max_unpooling2d_forward_out", "max_unpooling2d_forward_out has an alternative: scatter "),
        ("no_such_op", "no alternative to no_such_op is known; "),
    ],
)
def test_the_hint_names_operation_alternative_and_profile(operation: str, words: str) -> None:
    said = nondeterministic_ops.hint(f"{operation} {nondeterministic_ops.TEXT}, but you set", ("strict",))
    assert said.startswith(words)
    assert said.endswith(". Profile strict switched it on; the profile `torch` refuses nothing")
    said = nondeterministic_ops.hint(f"{operation} {nondeterministic_ops.TEXT}, but you set", ("megatron",))
    assert said.endswith(". The program switched it on, not the profile (megatron)")


def test_nothing_is_imported_for_a_profile(hooked: Environment) -> None:
    env = {"REPROBUILD_SEED": "7", "REPROBUILD_PROFILE": ",".join(DATA["profiles"]), "PYTHONHASHSEED": "7"}
    code = "import sys; print([m for m in ('torch', 'numpy', 'tensorflow', 'jax', 'megatron') if m in sys.modules])"
    assert hooked.run(code, env=env).out == "[]\n"
    assert os.environ.get("REPROBUILD_PROFILE") is None


def test_data_that_cannot_be_read_costs_the_profile_and_not_the_job(tmp_path: Path) -> None:
    copy = tmp_path / "lib" / "reprobuild_runtime"
    shutil.copytree(RUNTIME, copy, ignore=shutil.ignore_patterns("__pycache__", "profiles.json"))
    start = [sys.executable, "-I", "-S", str(copy / "entrypoint.py")]
    said = "reprobuild: no profile is in force: [Errno 2] No such file or directory"
    for env in ({"REPROBUILD_SEED": "7"}, {"REPROBUILD_PROFILE": "strict"}):
        ran = run(*start, "echo", "ran", env=env)
        assert (ran.code, ran.out) == (0, "ran\n")
        assert ran.err.splitlines()[1].startswith(said)
    hook = f"import sys; sys.path.insert(0, {str(copy.parent)!r}); import reprobuild_runtime.startup; print('ran')"
    ran = run(sys.executable, "-S", "-c", hook, env={"REPROBUILD_SEED": "7", "PYTHONHASHSEED": "7"})
    assert (ran.code, ran.out) == (0, "ran\n")
    assert ran.err.splitlines()[1].startswith(said)


def test_only_folders_of_distributions_are_listed(bare: Environment, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    code = (
        f"import sys; sys.path[:0] = ['', {str(tmp_path / 'data')!r}]\n"
        "from reprobuild_runtime.profiles import versions; print(versions.list_own_directories())"
    )
    mine = str(tmp_path / "mine")
    ran = bare.run(code, env={"PYTHONPATH": mine})
    assert ran.out == f"{[mine, str(bare.site)]}\n"
