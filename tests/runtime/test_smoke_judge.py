"""From what processes said to verdicts; what torch documents; controls, collectives and the platform."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reprobuild_runtime import fingerprint
from reprobuild_runtime.probes import collectives, controlled, expectations, gather
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
    assert [expectations.documented(table, [line], device) for device in ("cpu", "cuda")] == [cpu, cuda]


@pytest.mark.parametrize("text", [None, ""])
def test_no_documentation_expects_nothing(text: str | None) -> None:
    table = expectations.read(text)
    assert table == {"source": "", "deterministic": [], "refused": []}
    assert expectations.documented(table, [("torch.nn.MaxUnpool2d",)], "cpu") == "none"


def test_alerts() -> None:
    assert expectations.alert(REFUSAL) == "put_"
    assert expectations.alert("cuDNN SDPA is not deterministic.") == "cuDNN SDPA"
    assert expectations.alert("CUDA error: an illegal memory access") == ""
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
