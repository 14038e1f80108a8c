"""The determinism test with real torch: in full, in short, with planted faults, on one processor, with no network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reprobuild_runtime.probes import child, ranks
from reprobuild_runtime.probes import run as program

RUN = Path(program.__file__)
PLANTED = Path(__file__).parent / "planted_child.py"
# What is not applicable in an environment with torch for the CPU and without the packages of the last group.
LONG = {name for name, probe in child.register().items() if probe.thorough}
ALWAYS = set(child.register()) - LONG
NEEDS_A_GPU = {name for name in ALWAYS if "cpu" not in child.register()[name].devices}
# What torch adds with atomics on the CPU: it may drift, and no more in strict mode.
RACING = {"index_put_accumulate", "put_accumulate", "getitem_backward"}
CALM = {"stress": False, "controls": False, "collectives": False}


def smoke(python: Path, options: dict[str, Any], env: dict[str, str] | None = None) -> dict[str, Any]:
    full = {"PATH": os.environ["PATH"], "REPROBUILD_SEED": "7", "PYTHONHASHSEED": "7", **(env or {})}
    done = subprocess.run(
        [python, RUN, json.dumps(options)], env=full, capture_output=True, text=True, timeout=900, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["ran"] is True, found["why"]
    return found


def seen(found: dict[str, Any], mode: str, key: str = "verdict") -> dict[str, Any]:
    return {probe["name"]: probe["modes"][mode][key] for probe in found["probes"]}


@pytest.fixture(scope="module")
def full(torch_python: Path) -> dict[str, Any]:
    """The document of one run as `verify` asks for it."""
    return smoke(torch_python, {"device": "cpu", "seed": 7})


def test_every_probe_in_every_mode(full: dict[str, Any]) -> None:
    assert {probe["name"] for probe in full["probes"]} == ALWAYS | LONG
    for mode in ("default", "profile", "strict", "warn"):
        verdicts = seen(full, mode)
        assert "ERROR" not in verdicts.values(), seen(full, mode, "why")
        skipped = {name for name, verdict in verdicts.items() if verdict == "SKIPPED"}
        if mode == "warn":
            assert set(verdicts) - skipped == {"put", "max_unpool2d"}
        else:
            assert skipped == NEEDS_A_GPU | LONG | {"torchvision_roi_align"}
        assert all(seen(full, mode, "why")[name].startswith("not applicable here: ") for name in skipped)
    for mode in ("default", "profile"):
        assert {name for name, verdict in seen(full, mode).items() if verdict == "DRIFT"} <= RACING
    strict = seen(full, "strict")
    assert {name for name, verdict in strict.items() if verdict == "REFUSED"} == {"put", "max_unpool2d"}
    assert set(strict.values()) == {"IDENTICAL", "REFUSED", "SKIPPED"}
    assert "put_" in seen(full, "warn", "why")["put"]


def test_runs_are_counted(full: dict[str, Any]) -> None:
    assert set(seen(full, "strict", "repeats").values()) == {0, 6, 10, 12}
    assert full["bound"]["runs"] == 6
    documented = {probe["name"]: probe["documented"] for probe in full["probes"]}
    assert documented["put"] == documented["max_unpool2d"] == "refused"
    assert documented["index_put_accumulate"] == documented["getitem_backward"] == "deterministic"
    assert documented["layer_norm"] == "none"
    assert len(full["expectations"]["refused"]) > 15 < len(full["expectations"]["deterministic"])


def test_the_controls_show_that_a_drift_is_seen(full: dict[str, Any]) -> None:
    assert {control["name"]: control["verdict"] for control in full["controls"]} == dict.fromkeys(
        ("index_put", "put", "getitem_backward", "empty_memory", "completion_order", "set_order", "unseeded"),
        "effective",
    )
    assert set(full["comparator"].values()) == {True}
    assert len(full["comparator"]) == 10
    assert full["stress"] == {"ran": True, "why": ""}


def test_collectives_between_four_processes(full: dict[str, Any]) -> None:
    found = full["collectives"]
    assert (found["verdict"], found["backend"], found["world"]) == ("IDENTICAL", "gloo", 4), found["why"]
    assert [probe["name"] for probe in found["probes"]] == ranks.names("cpu")
    assert all(probe["modes"]["strict"]["repeats"] == 12 for probe in found["probes"])
    (control,) = found["controls"]
    assert (control["name"], control["verdict"]) == ("arrival_order", "effective"), control
    assert control["modes"]["default"]["distinct"] > 1 == control["modes"]["cured"]["distinct"]


def test_another_run_in_short_gives_the_same(full: dict[str, Any], torch_python: Path) -> None:
    """Also where the interpreter is told to strip documentation, which the expectations are read from."""
    found = smoke(torch_python, {"device": "cpu", "seed": 7, "quick": True}, {"PYTHONOPTIMIZE": "2"})
    for mode, may_differ in (("profile", RACING), ("strict", set[str]())):
        one, two = seen(full, mode, "digest"), seen(found, mode, "digest")
        assert {name for name in one if one[name] != two[name] and one[name] is not None} <= may_differ
    assert found["start"] == full["start"]
    assert found["expectations"] == full["expectations"]
    assert (found["controls"], found["collectives"]) == ([], None)


def test_what_depends_on_the_seed(full: dict[str, Any], torch_python: Path) -> None:
    names = ["draw_normal", "draw_python", "draw_order", "layer_norm", "train_resnet"]
    found = smoke(
        torch_python, {"device": "cpu", "seed": 8, "quick": True, "only": names, "modes": ["profile"]}
    )
    one, two = seen(full, "profile", "digest"), seen(found, "profile", "digest")
    assert [name for name in names if one[name] == two[name]] == ["layer_norm"]


def test_an_order_of_threads_can_show_also_where_the_image_has_one(torch_python: Path) -> None:
    ask = {
        "device": "cpu",
        "seed": 8,
        "quick": True,
        "only": ["layer_norm"],
        "modes": ["default", "profile", "strict"],
    }
    found = smoke(torch_python, ask, {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
    most = min(2, len(os.sched_getaffinity(0)))
    assert found["threads"] == {"default": most, "profile": 1, "strict": most}
    assert found["fingerprint"]["threads"] == 1


def test_the_probes_of_a_gpu_cost_little(torch_python: Path) -> None:
    """Numbers are drawn on the device itself, and no more of them, nor bytes to be compared, than fit the minute."""
    done = subprocess.run(
        [torch_python, Path(__file__).parent / "meter_probes.py"], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    total = {key: sum(each[key] for each in found.values()) for key in ("drawn", "elsewhere", "bytes")}
    assert len(found) > 80
    assert 400e6 < total["drawn"] < 600e6
    assert total["elsewhere"] < 20e6
    assert 300e6 < total["bytes"] < 500e6
    assert max(each["bytes"] for each in found.values()) < 32e6


OLDER = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from reprobuild_runtime.probes import attention, bench, child
class Older:
    def __getattr__(self, name):
        return getattr(torch.nn.functional, name)
    def scaled_dot_product_attention(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False):
        raise AssertionError
table = bench.Bench(torch, "cpu", 0)
table.functional = Older()
table.begin("x")
try:
    attention._sdpa(table, "MATH", (1, 4, 8, 8), heads=2)
except bench.NotHereError as err:
    print(err)
class Alive:
    count = 0
    def __call__(self):
        self.count += 1
alive = Alive()
child.run(child.register()["layer_norm"], bench.Bench(torch, "cpu", 0), 4, alive=alive)
print(alive.count)
"""


def test_attention_before_torch_2_5_and_a_word_after_each_run(torch_python: Path) -> None:
    command = [torch_python, "-c", OLDER, str(RUN.parents[2])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["this torch has no enable_gqa (2.5 and newer have it)", "4"]


def test_planted_faults_are_caught(torch_python: Path) -> None:
    names = ["layer_norm", "group_norm", "rms_norm", "conv2d", "lstm", "gru"]
    ask = {"only": names, "modes": ["profile", "strict"], "processes": 1, **CALM}
    found = program.answer(json.dumps(ask), child=[str(torch_python), str(PLANTED)])
    profile, strict, why = seen(found, "profile"), seen(found, "strict"), seen(found, "strict", "why")
    assert (profile["layer_norm"], strict["layer_norm"]) == ("DRIFT", "IDENTICAL")
    assert (profile["group_norm"], strict["group_norm"]) == ("DRIFT", "IDENTICAL")
    assert (profile["rms_norm"], strict["rms_norm"]) == ("DRIFT", "DRIFT")
    assert (profile["conv2d"], strict["conv2d"]) == ("IDENTICAL", "ERROR")
    assert why["conv2d"] == "torch refuses put_, and neither its documentation nor its source's list says so"
    assert why["lstm"] == "the process: it died by SIGSEGV"
    assert (profile["gru"], strict["gru"]) == ("IDENTICAL", "IDENTICAL")


def controls_of(python: Path, prefix: list[str], env: dict[str, str]) -> dict[str, dict[str, Any]]:
    ask = {"only": ["index_put_accumulate"], "modes": ["default"], "quick": True, "controls": True}
    full = {"PATH": os.environ["PATH"], **env}
    done = subprocess.run([*prefix, python, "-c", ONLY_CONTROLS, str(RUN.parents[2]), json.dumps(ask)],
                          env=full, capture_output=True, text=True, timeout=900, check=True)  # fmt: skip
    return {control["name"]: control for control in json.loads(done.stdout.splitlines()[-1])}


ONLY_CONTROLS = """
import json, sys
sys.path.insert(0, sys.argv[1])
from reprobuild_runtime.probes import controlled, options, processes
print(json.dumps(controlled.run(options.read(sys.argv[2]), processes.CHILD)))
"""


PINNED = """
import os, sys
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
os.execvp(sys.argv[1], sys.argv[1:])
"""


def test_controls_have_threads_of_their_own(torch_python: Path) -> None:
    found = controls_of(torch_python, [], {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
    assert {name: control["verdict"] for name, control in found.items()} == dict.fromkeys(found, "effective")


def test_on_one_processor_races_are_no_controls(torch_python: Path) -> None:
    found = controls_of(torch_python, [sys.executable, "-c", PINNED], {})
    for name in ("index_put", "put", "getitem_backward"):
        assert found[name]["verdict"] == "CONTROL-INEFFECTIVE"
        assert (
            found[name]["why"]
            == "there is one processor: threads take turns, and a drift cannot be relied on"
        )
    assert {found[name]["verdict"] for name in ("empty_memory", "set_order", "unseeded")} == {"effective"}


# A network of its own with nothing but `lo`, as a container without network has.
ALONE = """
import ctypes, fcntl, os, socket, struct, sys
if ctypes.CDLL(None, use_errno=True).unshare(0x40000000):  # CLONE_NEWNET
    sys.exit(os.strerror(ctypes.get_errno()))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
    fcntl.ioctl(probe, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS: up and running
os.execvp(sys.argv[1], sys.argv[1:])
"""


def test_collectives_where_there_is_no_network(torch_python: Path) -> None:
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\n"
        "from reprobuild_runtime.probes import collectives, options, processes\n"
        "print(json.dumps(collectives.run(options.read('{}'), processes.CHILD, 0)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", ALONE, torch_python, "-c", code, str(RUN.parents[2])],
        env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["verdict"], len(found["probes"])) == ("IDENTICAL", len(ranks.names("cpu"))), found["why"]


def test_the_comparison_is_seen_failing(torch_python: Path) -> None:
    """With a digest that looks at shapes alone, or not at strides, or takes the bytes of views that stand for others,
    the comparator says what it does not see.
    """
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\n"
        "import torch\nfrom reprobuild_runtime.probes import comparator as c\n"
        "whole = c.digest\nanswers = [c.comparator(torch)]\n"
        "c.digest = lambda values: str([v.shape for v in values])\nanswers.append(c.comparator(torch))\n"
        "c.digest = lambda values: whole([v.contiguous() for v in values])\nanswers.append(c.comparator(torch))\n"
        "bare = lambda v: v.conj() if v.is_conj() else v._neg_view() if v.is_neg() else v\n"
        "c.digest = lambda values: whole(map(bare, values))\n"
        "answers.append(c.comparator(torch))\n"
        "print(json.dumps(answers))"
    )
    done = subprocess.run(
        [torch_python, "-c", code, str(RUN.parents[2])], capture_output=True, text=True, check=True
    )
    missed = [
        [name for name, told in each.items() if not told] for each in json.loads(done.stdout.splitlines()[-1])
    ]
    assert missed[0] == []
    views = ["conjugate view", "negative view"]
    assert missed[1] == ["lowest bit", "sign of zero", "payload of NaN", "order", "type", "stride", *views]
    assert missed[2] == ["stride"]
    assert missed[3] == views
