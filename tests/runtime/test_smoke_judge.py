"""From what processes said to verdicts; what torch documents; controls, collectives and the platform."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reprobuild_runtime import fingerprint
from reprobuild_runtime.probes import (
    child,
    collectives,
    controlled,
    expectations,
    gather,
    processes,
    ranks,
    start,
)
from reprobuild_runtime.probes.judge import judge

REFUSAL = "put_ does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'."


def told(*digests: str, **more: Any) -> dict[str, Any]:
    return {"digests": list(digests), "milliseconds": [2.0] * len(digests), "seconds": 0.5, **more}


def refusal(alert: str = "put_") -> dict[str, Any]:
    return {"error": f"RuntimeError: {REFUSAL}", "alert": alert}


@pytest.mark.parametrize(
    ("lines", "documented", "verdict", "why"),
    [
        ([told("a", "a"), told("a")], "none", "IDENTICAL", ""),
        ([told("a", "a"), told("b")], "none", "DRIFT", ""),
        ([told("a", "b")], "deterministic", "DRIFT", ""),
        ([refusal(), refusal()], "refused", "REFUSED",
         "torch has no deterministic put_, as its documentation says"),
        ([refusal("kthvalue CUDA")], "none", "REFUSED",
         "torch has no deterministic kthvalue CUDA, as its source says"),
        ([refusal()], "none", "ERROR",
         "torch refuses put_, and neither its documentation nor its source's list says so"),
        ([refusal()], "deterministic", "ERROR",
         "torch refuses put_, and neither its documentation nor its source's list says so"),
        ([refusal(), told("a")], "refused", "ERROR", "torch refused put_ in one run and not in another"),
        ([{**refusal(), "digests": ["a"]}], "refused", "ERROR", "torch refused put_ in one run and not in another"),
        ([told("a"), {"error": "OSError: no", "alert": ""}], "refused", "ERROR", "OSError: no"),
        ([{"skipped": "not applicable here: no"}] * 2, "none", "SKIPPED", "not applicable here: no"),
        ([{"skipped": "not applicable here: no"}, told("a")], "none", "ERROR",
         "it could be run in one process and not in another: not applicable here: no"),
        ([], "none", "ERROR", "no process answered"),
        ([told()], "none", "ERROR", "no result"),
        ([told("a"), {}], "none", "ERROR", "no result"),
        ([told("a"), told()], "none", "ERROR", "no result"),
    ],
)  # fmt: skip
def test_the_verdict(lines: list[dict[str, Any]], documented: str, verdict: str, why: str) -> None:
    found = judge(lines, documented, ["kthvalue CUDA"])
    assert (found["verdict"], found["why"]) == (verdict, why)
    assert (found["digest"] is None) is (verdict != "IDENTICAL")
    assert found["processes"] == len(lines)


def test_a_warning_is_told() -> None:
    found = judge([told("a", warned=["put_"])], "refused", [])
    assert (found["verdict"], found["why"]) == (
        "IDENTICAL",
        "torch warns: no deterministic implementation of put_",
    )


# The form of the documentation of torch 2.6 and of 2.14.
DOC = """Sets whether PyTorch operations must use "deterministic" algorithms.

    The following normally-nondeterministic operations will act
    deterministically when ``mode=True``:

        * :class:`torch.nn.Conv2d` when called on CUDA tensor
        * :func:`torch.Tensor.__getitem__` when attempting to differentiate a CPU tensor
          and the index is a list of tensors
        * :func:`torch.Tensor.index_copy` when called on a CPU or CUDA tensor

    The following normally-nondeterministic operations will throw a
    :class:`RuntimeError` when ``mode=True``:

        * :class:`torch.nn.MaxUnpool2d`
        * :func:`torch.nn.functional.interpolate` when attempting to differentiate a CUDA tensor
          and one of the following modes is used:

          - ``linear``
          - ``bicubic``

        * :func:`torch.Tensor.put_` when ``accumulate=False``
        * :func:`torch.Tensor.put_` when ``accumulate=True`` and called on a CUDA tensor

    In addition, several operations fill uninitialized memory.

        * :class:`torch.nn.Nothing` is no item of a list above
"""


@pytest.mark.parametrize(
    ("line", "cpu", "cuda"),
    [
        (("torch.nn.Conv2d",), "none", "deterministic"),
        (("torch.Tensor.__getitem__",), "deterministic", "none"),
        (("torch.Tensor.index_copy",), "deterministic", "deterministic"),
        (("torch.nn.MaxUnpool2d",), "refused", "refused"),
        (("torch.nn.functional.interpolate", " bicubic"), "none", "refused"),
        (("torch.nn.functional.interpolate", " trilinear"), "none", "none"),
        (("torch.Tensor.put_", "accumulate=False"), "refused", "refused"),
        (("torch.Tensor.put_", "accumulate=True"), "none", "refused"),
        (("torch.nn.Nothing",), "none", "none"),
    ],
)
def test_what_torch_documents(line: tuple[str, ...], cpu: str, cuda: str) -> None:
    table = expectations.read(DOC)
    assert (len(table["deterministic"]), len(table["refused"])) == (3, 4)
    assert [expectations.find_documentation(table, [line], device) for device in ("cpu", "cuda")] == [
        cpu,
        cuda,
    ]


@pytest.mark.parametrize("text", [None, ""])
def test_no_documentation_expects_nothing(text: str | None) -> None:
    table = expectations.read(text)
    assert table == {"source": "", "deterministic": [], "refused": []}
    assert expectations.find_documentation(table, [("torch.nn.MaxUnpool2d",)], "cpu") == "none"


def test_alerts() -> None:
    assert expectations.find_alert_operation(REFUSAL) == "put_"
    assert expectations.find_alert_operation("cuDNN SDPA is not deterministic.") == "cuDNN SDPA"
    assert expectations.find_alert_operation("CUDA error: an illegal memory access") == ""
    assert "kthvalue CUDA" in expectations.undocumented()["alerts"]


def mode(verdict: str, why: str = "") -> dict[str, Any]:
    return {"verdict": verdict, "why": why, "repeats": 10}


@pytest.mark.parametrize(
    ("modes", "why"),
    [
        ({"default": mode("DRIFT"), "strict": mode("IDENTICAL"), "ones": mode("IDENTICAL")}, None),
        ({"default": mode("DRIFT"), "strict cannot help": mode("DRIFT"), "cured": mode("IDENTICAL")}, None),
        ({"default": mode("IDENTICAL"), "strict": mode("IDENTICAL")}, "it did not drift by default in 10 runs"),
        ({"default": mode("DRIFT"), "strict": mode("DRIFT")}, "it did not stop drifting when it was cured in 10 runs"),
        ({"default": mode("ERROR", "no"), "strict": mode("ERROR", "no")}, "it did not drift by default: no"),
        ({"default": mode("DRIFT"), "strict": mode("IDENTICAL"), "ones": mode("DRIFT")},
         "adding ones drifts as well: the harness is at fault"),
    ],
)  # fmt: skip
def test_a_control(modes: dict[str, Any], why: str | None) -> None:
    found = controlled.entry("race", "cpu", modes)
    assert found["verdict"] == ("effective" if why is None else "CONTROL-INEFFECTIVE")
    assert found["why"] == (why or "")


def test_the_bound_is_that_of_the_least_repeated_probe() -> None:
    def probe(name: str, verdict: str, runs: int) -> dict[str, Any]:
        return {
            "name": name,
            "modes": {"strict": {"verdict": verdict, "repeats": runs}, "warn": {**mode("IDENTICAL")}},
        }

    probes = [
        probe("a", "IDENTICAL", 20),
        probe("b", "IDENTICAL", 6),
        probe("c", "DRIFT", 2),
        probe("d", "REFUSED", 0),
    ]
    found = gather.bound(probes)
    assert found == {"runs": 6, "upper": 0.5, "probe": "b", "typical": {"runs": 20, "upper": 0.15}}
    assert gather.bound([])["upper"] == 1.0


NCCL = """
host:1:1 [0] NCCL INFO AllReduce: 1024 Bytes -> Algo 1 proto 0 time 7.2
host:1:1 [0] NCCL INFO AllReduce: 4194304 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}
host:1:1 [0] NCCL INFO ReduceScatter: 4194304 Bytes -> Algo 99 proto SIMPLE channel{Lo..Hi}={0..1}
"""


def test_what_nccl_says_that_it_used(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "nccl-17").write_text(NCCL)
    (tmp_path / "0" / "other").write_text(NCCL.replace("RING", "NVLS"))
    assert collectives.algorithms(str(tmp_path)) == [
        "AllReduce RING LL", "AllReduce RING SIMPLE", "ReduceScatter 99 SIMPLE",
    ]  # fmt: skip


def rank(*lines: dict[str, Any]) -> processes.ChildOutput:
    answer = processes.ChildOutput()
    answer.lines = [{"probe": "p", **line} for line in lines]
    return answer


GOOD, SKIP = {"digests": ["a", "a"]}, {"skipped": "not applicable here: no"}


@pytest.mark.parametrize(
    ("ranks", "verdict", "why"),
    [
        ([rank(GOOD, GOOD), rank(GOOD, GOOD)], "IDENTICAL", ""),
        ([rank(GOOD, {"digests": ["a", "b"]}), rank(GOOD, GOOD)], "DRIFT", ""),
        ([rank(GOOD, {"error": "RuntimeError: boom"}), rank(GOOD, GOOD)], "ERROR", "RuntimeError: boom"),
        ([rank(GOOD, GOOD), rank(GOOD, {"error": "RuntimeError: boom"})], "ERROR", "RuntimeError: boom"),
        ([rank(SKIP, {"error": "RuntimeError: boom"}), rank(SKIP, SKIP)], "ERROR", "RuntimeError: boom"),
        ([rank(GOOD), rank(GOOD, {"digests": ["x", "y"]})], "ERROR", "the ranks told unequal numbers of results"),
        ([rank(SKIP, SKIP), rank(SKIP, SKIP)], "SKIPPED", "not applicable here: no"),
        ([rank(GOOD, SKIP), rank(GOOD, SKIP)], "ERROR", "it could be run by one rank or in one round, and not in "
         "another: not applicable here: no"),
        ([rank(GOOD), rank()], "ERROR", "rank 1 said nothing of it"),
        ([rank(), rank(GOOD)], "ERROR", "rank 0 said nothing of it"),
    ],
)  # fmt: skip
def test_what_ranks_told_is_kept(ranks: list[processes.ChildOutput], verdict: str, why: str) -> None:
    found = judge([collectives._of_all(ranks, "probe")["p"]] * 2, "none", ())
    assert (found["verdict"], found["why"]) == (verdict, why)


GLOO_SCATTER = "Backend gloo does not support _reduce_scatter_base"
ABSENT = "module 'torch.distributed' has no attribute 'reduce_scatter_tensor'"


@pytest.mark.parametrize(
    ("name", "backend", "error", "skipped"),
    [
        ("reduce_scatter float32 1 MiB", "gloo", RuntimeError(GLOO_SCATTER), True),
        (
            "reduce_scatter float32 1 MiB",
            "gloo",
            RuntimeError("ProcessGroupGloo does not support reduce_scatter"),
            True,
        ),
        ("reduce_scatter float32 1 MiB", "gloo", AttributeError(ABSENT), True),
        ("all_reduce bfloat16 1 KiB", "gloo", RuntimeError("Invalid scalar type"), True),
        ("all_reduce float32 1 KiB", "gloo", RuntimeError("Invalid scalar type"), False),
        ("all_reduce float32 1 KiB", "gloo", RuntimeError(GLOO_SCATTER), False),
        ("all_reduce that cancels", "gloo", RuntimeError("this is not supported"), False),
        ("reduce_scatter float32 1 MiB", "gloo", RuntimeError("operation not supported"), False),
        ("reduce_scatter float32 1 MiB", "nccl", RuntimeError(GLOO_SCATTER), False),
        ("all_reduce bfloat16 1 KiB", "nccl", RuntimeError("Invalid scalar type"), False),
    ],
)
def test_only_what_gloo_says_that_it_lacks_is_skipped(
    name: str, backend: str, error: Exception, skipped: bool
) -> None:
    def compute() -> None:
        raise error

    assert list(ranks._run_repeatedly(name, compute, 2, backend)) == ["skipped" if skipped else "error"]


def test_what_may_be_skipped() -> None:
    assert ranks.optional("cuda") == []
    assert set(ranks.names("cpu")) - set(ranks.optional("cpu")) == {
        "all_reduce float32 1 KiB", "all_reduce float32 1 MiB", "all_reduce that cancels",
    }  # fmt: skip


# Ranks that agree, without torch.
RANK = """
import json, sys
for line in ({"probe": "p", "digests": ["a"]}, {"control": "default", "digests": ["a"]}, {"done": True}):
    print(json.dumps(line))
"""


def test_the_sum_of_two_covers_no_order(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(RANK)
    ask = {"device": "cuda", "seed": 7, "limit": 60, "thorough": False}
    command = [sys.executable, str(tmp_path / "child.py")]
    two, three = (collectives.run(ask, command, gpus) for gpus in (2, 3))
    assert (two["verdict"], two["why"]) == ("SKIPPED", "the order of a sum of two cannot show: not covered")
    assert (two["probes"][0]["modes"]["strict"]["verdict"], two["controls"]) == ("IDENTICAL", [])
    assert (three["verdict"], three["why"]) == ("IDENTICAL", "")
    assert [(each["name"], each["verdict"]) for each in three["controls"]] == [
        ("arrival_order", "CONTROL-INEFFECTIVE")
    ]


def test_a_torch_without_collectives(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(
        'print(\'{"absent": "not applicable here: no gloo"}\\n{"done": true}\')'
    )
    ask = {"device": "cpu", "seed": 7, "limit": 60, "thorough": False}
    found = collectives.run(ask, [sys.executable, str(tmp_path / "child.py")], 0)
    assert (found["verdict"], found["why"], found["world"]) == ("SKIPPED", "not applicable here: no gloo", 4)


def test_ranks_take_no_network_of_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "NCCL_SOCKET_IFNAME",
        "GLOO_SOCKET_IFNAME",
        "NCCL_IB_HCA",
        "NCCL_NET",
        "NCCL_NET_PLUGIN",
        "NCCL_NETS_X",
    ):
        monkeypatch.setenv(name, "ib0")
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    found = collectives.environ_for_ranks(7)
    assert {name: value for name, value in found.items() if value in ("ib0", "lo", "Ring")} == {
        "NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo", "NCCL_ALGO": "Ring",
    }  # fmt: skip


@pytest.mark.parametrize(("set_", "strict"), [(None, ":4096:8"), ("", ":4096:8"), (":16:8", ":16:8")])
def test_strict_mode_has_what_products_on_a_gpu_need(
    monkeypatch: pytest.MonkeyPatch, set_: str | None, strict: str
) -> None:
    monkeypatch.setenv("REPROBUILD_PROFILE", "log-only")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    if set_ is not None:
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", set_)
    assert gather.environ_of("strict", 1)["CUBLAS_WORKSPACE_CONFIG"] == strict
    assert gather.environ_of("profile", 1).get("CUBLAS_WORKSPACE_CONFIG") == set_
    assert "CUBLAS_WORKSPACE_CONFIG" not in gather.environ_of("default", 1)


def test_what_nobody_promises_on_a_gpu_is_only_told() -> None:
    known = child.register()
    names = {"sparse_mm_backward", "sparse_csr_mm"}
    assert {name for name, probe in known.items() if "cuda" in probe.informational} - names == {
        name for name, probe in known.items() if "cpu" in probe.informational
    }
    told_ = {"strict": [{name: told("a") for name in names}]}
    for device in ("cpu", "cuda"):
        table = expectations.read(None)
        assert [gather._probe(known[name], told_, table, device)["informational"] for name in names] == [
            device == "cuda"
        ] * 2


@pytest.mark.parametrize("gpus", [0, 1])
def test_one_gpu_covers_no_collective(gpus: int) -> None:
    found = collectives.run({"device": "cuda"}, ["/none"], gpus)
    assert (found["verdict"], found["why"], found["probes"]) == ("SKIPPED", "one GPU: not covered", [])


def test_the_platform_has_no_identity_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    set_ = {"NCCL_ALGO": "Ring", "NCCL_HOSTID": "a", "OMP_NUM_THREADS": "3", "TORCH_HOME": "/home/somebody",
            "NCCL_AUTH_KEY": "secret", "HF_TOKEN": "secret", "HOSTNAME": "node17", "CUDA_VISIBLE_DEVICES": "GPU-uuid",
            "REPROBUILD_SEED": "7"}  # fmt: skip
    for name, value in set_.items():
        monkeypatch.setenv(name, value)
    found = fingerprint.fingerprint()
    kept = {name: value for name, value in found["environment"].items() if name in set_}
    assert kept == {"NCCL_ALGO": "Ring", "OMP_NUM_THREADS": "3", "TORCH_HOME": "a path"}
    assert found["libc"].startswith("glibc 2.")
    assert found["cpus"] >= 1


class Draws:
    """Stands for a torch with a GPU: its draws on each device are of that device."""

    class cuda:
        @staticmethod
        def is_available() -> bool:
            return True

    @staticmethod
    def rand(count: int, device: str = "cpu") -> Any:
        return SimpleNamespace(tolist=lambda: [device] * count)


def test_the_start_has_a_draw_of_the_gpu_where_it_is_asked_for() -> None:
    asked, other = start.start(Draws, "cuda"), start.start(Draws, "cpu")
    assert asked["cuda"] not in (None, asked["torch"])
    assert "cuda" not in other


def test_a_word_is_said_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 10.5, 11.2, 11.2, 11.9, 12.3, 12.3])
    monkeypatch.setattr(child.time, "monotonic", lambda: next(clock))
    said: list[dict[str, Any]] = []
    alive = child.Alive(said.append)
    for _ in range(4):
        alive()
    assert said == [{"alive": True}] * 2
